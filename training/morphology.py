"""Regular English inflection, with the irregular forms written out.

The grammar needs every noun in two numbers and every verb in five forms; rules make the regular
ones so that a word list holds lemmas only, and one table per paradigm holds the exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass

VOWELS = "aeiou"


def listed(text: str) -> list[str]:
    """The words of a list written as running text."""
    return text.split()


IRREGULAR_PLURALS: dict[str, str] = dict(
    pair.split(":")
    for pair in listed("""
    man:men woman:women child:children person:people mouse:mice louse:lice goose:geese tooth:teeth
    foot:feet ox:oxen wife:wives knife:knives life:lives leaf:leaves thief:thieves half:halves
    shelf:shelves calf:calves wolf:wolves loaf:loaves elf:elves scarf:scarves hoof:hooves
    self:selves hero:heroes potato:potatoes tomato:tomatoes echo:echoes mosquito:mosquitoes
    volcano:volcanoes veto:vetoes torpedo:torpedoes cactus:cacti fungus:fungi nucleus:nuclei
    radius:radii stimulus:stimuli alumnus:alumni bacterium:bacteria criterion:criteria
    phenomenon:phenomena analysis:analyses crisis:crises thesis:theses basis:bases oasis:oases
    hypothesis:hypotheses diagnosis:diagnoses axis:axes quiz:quizzes bus:buses gas:gases
    larva:larvae vertebra:vertebrae index:indices matrix:matrices medium:media spectrum:spectra
    passerby:passersby grandchild:grandchildren stepchild:stepchildren schoolchild:schoolchildren
    policeman:policemen policewoman:policewomen fireman:firemen fisherman:fishermen
    businessman:businessmen businesswoman:businesswomen salesman:salesmen saleswoman:saleswomen
    mailman:mailmen postman:postmen gentleman:gentlemen nobleman:noblemen craftsman:craftsmen
    sportsman:sportsmen statesman:statesmen spokesman:spokesmen spokeswoman:spokeswomen
    congressman:congressmen congresswoman:congresswomen chairman:chairmen chairwoman:chairwomen
    workman:workmen snowman:snowmen cameraman:cameramen anchorman:anchormen frenchman:frenchmen
    englishman:englishmen housewife:housewives midwife:midwives bookshelf:bookshelves
    penknife:penknives werewolf:werewolves layman:laymen watchman:watchmen
    """)
)

# lemma: past, past participle
IRREGULAR_PASTS: dict[str, tuple[str, str]] = {
    lemma: (past, participle)
    for lemma, past, participle in (
        entry.split(":")
        for entry in listed("""
    be:was:been have:had:had do:did:done go:went:gone see:saw:seen find:found:found hear:heard:heard
    know:knew:known buy:bought:bought sell:sold:sold break:broke:broken bring:brought:brought
    hide:hid:hidden hurt:hurt:hurt upset:upset:upset take:took:taken give:gave:given make:made:made
    get:got:got say:said:said tell:told:told think:thought:thought come:came:come
    become:became:become leave:left:left feel:felt:felt keep:kept:kept begin:began:begun
    show:showed:shown stand:stood:stood lose:lost:lost pay:paid:paid meet:met:met sit:sat:sat
    run:ran:run speak:spoke:spoken write:wrote:written read:read:read lead:led:led grow:grew:grown
    draw:drew:drawn fall:fell:fallen cut:cut:cut build:built:built send:sent:sent spend:spent:spent
    win:won:won catch:caught:caught teach:taught:taught fight:fought:fought eat:ate:eaten
    drink:drank:drunk drive:drove:driven ride:rode:ridden rise:rose:risen arise:arose:arisen
    sing:sang:sung swim:swam:swum sleep:slept:slept wake:woke:woken wear:wore:worn
    throw:threw:thrown fly:flew:flown forget:forgot:forgotten forgive:forgave:forgiven
    choose:chose:chosen steal:stole:stolen shake:shook:shaken bite:bit:bitten hold:held:held
    put:put:put set:set:set shut:shut:shut hit:hit:hit let:let:let cost:cost:cost hang:hung:hung
    swing:swung:swung sink:sank:sunk shrink:shrank:shrunk stick:stuck:stuck strike:struck:struck
    shine:shone:shone shoot:shot:shot feed:fed:fed lie:lay:lain lay:laid:laid lend:lent:lent
    bend:bent:bent seek:sought:sought sweep:swept:swept weep:wept:wept tear:tore:torn
    bear:bore:borne blow:blew:blown freeze:froze:frozen spread:spread:spread split:split:split
    quit:quit:quit bet:bet:bet burst:burst:burst mean:meant:meant deal:dealt:dealt
    understand:understood:understood overcome:overcame:overcome undergo:underwent:undergone
    withdraw:withdrew:withdrawn undertake:undertook:undertaken overtake:overtook:overtaken
    dig:dug:dug bind:bound:bound wind:wound:wound grind:ground:ground cling:clung:clung
    sting:stung:stung spin:spun:spun slide:slid:slid light:lit:lit ring:rang:rung sew:sewed:sewn
    creep:crept:crept kneel:knelt:knelt flee:fled:fled swear:swore:sworn forbid:forbade:forbidden
    beat:beat:beaten bleed:bled:bled breed:bred:bred cast:cast:cast broadcast:broadcast:broadcast
    shed:shed:shed thrust:thrust:thrust foresee:foresaw:foreseen oversee:oversaw:overseen
    rebuild:rebuilt:rebuilt rewrite:rewrote:rewritten misunderstand:misunderstood:misunderstood
    outrun:outran:outrun
    """)
    )
}

# verbs of more than one syllable whose last consonant doubles before -ed and -ing
DOUBLING = set(
    listed(
        "admit commit permit refer prefer occur regret forget begin upset control equip patrol"
        " expel rebel submit transfer compel propel omit quit transmit recur deter outrun"
    )
)


@dataclass(frozen=True)
class Verb:
    """The five forms of one verb."""

    base: str
    third: str
    past: str
    participle: str
    ing: str


def _ends_consonant_y(word: str) -> bool:
    return len(word) > 1 and word[-1] == "y" and word[-2] not in VOWELS


def _s_form(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if _ends_consonant_y(word):
        return word[:-1] + "ies"
    return word + "s"


def plural(noun: str) -> str:
    """The plural of a noun; of a compound, that of its last word."""
    head, space, last = noun.rpartition(" ")
    return head + space + (IRREGULAR_PLURALS.get(last) or _s_form(last))


def _syllables(word: str) -> int:
    groups = 0
    for i, letter in enumerate(word):
        if letter in VOWELS + "y" and (i == 0 or word[i - 1] not in VOWELS + "y"):
            groups += 1
    return groups - (word.endswith("e") and groups > 1)


def _doubles(verb: str) -> bool:
    if verb in DOUBLING:
        return True
    if len(verb) < 3 or _syllables(verb) != 1 or verb[-1] in VOWELS + "wxy":
        return False
    qu = verb[-3] == "u" and verb[-4:-3] == "q"
    return verb[-2] in VOWELS and (verb[-3] not in VOWELS or qu)


def third_person(verb: str) -> str:
    """“watches” from “watch”."""
    special = {
        "be": "is",
        "have": "has",
        "do": "does",
        "go": "goes",
        "undergo": "undergoes",
        "quiz": "quizzes",
    }
    return special.get(verb) or (
        verb + "es" if verb in ("veto", "echo", "torpedo") else _s_form(verb)
    )


def past_tense(verb: str) -> tuple[str, str]:
    """Past tense and past participle."""
    if verb in IRREGULAR_PASTS:
        return IRREGULAR_PASTS[verb]
    if verb.endswith("e"):
        form = verb + "d"
    elif _ends_consonant_y(verb):
        form = verb[:-1] + "ied"
    else:
        form = verb + (verb[-1] if _doubles(verb) else "") + "ed"
    return form, form


def gerund(verb: str) -> str:
    """“running” from “run”."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return verb + (verb[-1] if _doubles(verb) else "") + "ing"


def conjugate(verb: str) -> Verb:
    """All five forms of a verb."""
    past, participle = past_tense(verb)
    return Verb(verb, third_person(verb), past, participle, gerund(verb))
