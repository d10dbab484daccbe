"""The cues of BLiMP's five paradigms: hand-worked sentences, refusals, and the files against other
rules.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.datasets import cues
from mixlens.datasets.blimp import agreement
from mixlens.datasets.examples import Agreement
from mixlens.errors import InvalidInput

ANAPHOR = "anaphor_number_agreement"
DETERMINER = "determiner_noun_agreement_2"
ADJECTIVE = "determiner_noun_agreement_with_adj_2"
DISTRACTOR = "distractor_agreement_relational_noun"
SUBJECT = "regular_plural_subject_verb_agreement_1"


def pair(good: str, bad: str, paradigm: str) -> Agreement:
    return agreement("f:1", {"sentence_good": good, "sentence_bad": bad, "UID": paradigm}, "file")


@pytest.mark.parametrize(
    ("paradigm", "good", "bad", "target", "cue", "label"),
    [
        (ANAPHOR, "Ann sees herself.", "Ann sees themselves.", "herself", "Ann", "singular"),
        (
            ANAPHOR,
            "James can't see himself.",
            "James can't see themselves.",
            "himself",
            "James",
            "singular",
        ),
        (
            ANAPHOR,
            "Marie Curie saw herself.",
            "Marie Curie saw themselves.",
            "herself",
            "Marie Curie",
            "singular",
        ),
        (
            ANAPHOR,
            "The boys see themselves.",
            "The boys see himself.",
            "themselves",
            "boys",
            "plural",
        ),
        (
            ANAPHOR,
            "A lot of men won't see themselves.",
            "A lot of men won't see itself.",
            "themselves",
            "men",
            "plural",
        ),
        (
            ANAPHOR,
            "Girls talked to themselves.",
            "Girls talked to itself.",
            "themselves",
            "Girls",
            "plural",
        ),
        (
            ANAPHOR,
            "That movie has shown itself.",
            "That movie has shown themselves.",
            "itself",
            "movie",
            "singular",
        ),
        (
            ANAPHOR,
            "Every movie theater scares itself.",
            "Every movie theater scares themselves.",
            "itself",
            "theater",
            "singular",
        ),
        (DETERMINER, "Ann saw these cats.", "Ann saw this cats.", "these", "cats", "plural"),
        (
            DETERMINER,
            "Ann saw that art gallery.",
            "Ann saw those art gallery.",
            "that",
            "gallery",
            "singular",
        ),
        (ADJECTIVE, "Ann saw this big bus.", "Ann saw these big bus.", "this", "bus", "singular"),
        (
            ADJECTIVE,
            "Ann saw those out in the open men.",
            "Ann saw that out in the open men.",
            "those",
            "men",
            "plural",
        ),
        (
            DISTRACTOR,
            "The aunt of the boys hasn't left.",
            "The aunt of the boys haven't left.",
            "has",
            "aunt",
            "singular",
        ),
        (
            DISTRACTOR,
            "A newspaper article about cats is old.",
            "A newspaper article about cats are old.",
            "is",
            "article",
            "singular",
        ),
        (
            DISTRACTOR,
            "The sons of a lot of kings cry.",
            "The sons of a lot of kings cries.",
            "cry",
            "sons",
            "plural",
        ),
        (
            SUBJECT,
            "A lot of ladies watch Ann.",
            "A lot of ladies watches Ann.",
            "watch",
            "ladies",
            "plural",
        ),
        (
            SUBJECT,
            "Marie Curie worries Ann.",
            "Marie Curie worry Ann.",
            "worries",
            "Marie Curie",
            "singular",
        ),
        (
            SUBJECT,
            "An actress discusses Ann.",
            "An actress discuss Ann.",
            "discusses",
            "actress",
            "singular",
        ),
        (SUBJECT, "The Borgias were here.", "The Borgias is here.", "were", "Borgias", "plural"),
    ],
)
def test_cues_worked_out_by_hand(
    paradigm: str, good: str, bad: str, target: str, cue: str, label: str
) -> None:
    example = pair(good, bad, paradigm)
    assert example.target == target
    assert [example.text[slice(*span)] for span in example.cues] == [cue]
    assert example.label == label
    assert example.group == paradigm


@pytest.mark.parametrize(
    ("paradigm", "good", "bad", "reason"),
    [
        (
            SUBJECT,
            "Those drivers disgusts Ann.",
            "Those drivers disgust Ann.",
            "singular, but its cue 'drivers'",
        ),
        (SUBJECT, "The driver have left.", "The driver has left.", "plural, but its cue 'driver'"),
        (SUBJECT, "The cat is here.", "The cat was here.", "both singular"),
        (SUBJECT, "The cat ran here.", "The cat sat here.", "neither singular nor plural"),
        (SUBJECT, "Is Ann here.", "Are Ann here.", "no subject"),
        (ANAPHOR, "The old man saw himself.", "The old man saw themselves.", "no verb"),
        (DETERMINER, "Ann saw this.", "Ann saw these.", "no noun"),
        (SUBJECT, "The cats are here.", "The cat is here.", "exactly one word"),
        (SUBJECT, "The cats are here.", "The cats are.", "exactly one word"),
    ],
)
def test_sentences_outside_the_rules_are_skipped(
    paradigm: str, good: str, bad: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        pair(good, bad, paradigm)


def test_other_paradigms_have_no_cues(tmp_path: Path) -> None:
    example = pair("Who did Ann see?", "Who did Ann seen?", "something_else")
    assert (example.target, example.foil, example.cues, example.label, example.group) == (
        "see",
        "seen",
        (),
        None,
        "something_else",
    )
    rows = [
        {"sentence_good": "Ann is here.", "sentence_bad": "Ann are here."},
        {"sentence_good": "Ann is.", "sentence_bad": 3},
    ]
    (tmp_path / f"{SUBJECT}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = corpus.read(tmp_path)
    assert read.groups == {SUBJECT: 1}
    assert read.errors == ((f"{SUBJECT}.jsonl:2", "sentence_bad is not a sentence."),)


def test_not_is_written_out() -> None:
    assert (
        pair(
            "Ann can't say he won't see it hasn't.", "Ann can't say he won't see it haven't.", "x"
        ).text
        == "Ann cannot say he will not see it has not."
    )


def test_counts_stand_beside_the_papers(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = corpus.read(shared / "data" / "blimp")
    with capsys.disabled():
        print(f"\n{cues.counts(data)}")
    assert data.groups == {
        ANAPHOR: 1000,
        DETERMINER: 1000,
        ADJECTIVE: 1000,
        DISTRACTOR: 1000,
        SUBJECT: 993,
    }
    assert cues.counts(data).endswith("4,993   (Mohebbi et al. 2023: 4,276)")
    assert all("seems not to be" in reason for _, reason in data.errors)


def test_agrees_with_other_rules(shared: Path) -> None:
    """The cues of `blimp_cues` were made by other rules.

    All differences are “a lot of …”, where those mark “lot”.
    """
    names = {
        "ana": ANAPHOR,
        "dna": DETERMINER,
        "dnaa": ADJECTIVE,
        "darn": DISTRACTOR,
        "rpsv": SUBJECT,
    }
    ours = {
        (each.group, each.text): each
        for each in corpus.read(shared / "data" / "blimp")
        if isinstance(each, Agreement)
    }
    others = [
        each for each in corpus.read(shared / "data" / "blimp_cues") if isinstance(each, Agreement)
    ]
    same = 0
    for other in others:
        own = ours[names[str(other.group)], other.text]
        assert (own.place, own.foil, own.label) == (other.place, other.foil, other.label)
        ((first, last),), ((start, stop),) = own.cues, other.cues
        if first <= start and stop <= last:
            same += 1
        else:
            assert (own.text[:9], other.text[start:stop]) == ("A lot of ", "lot")
    print(f"cues agree in {same} of {len(others)}: {same / len(others):.3f}")
    assert same / len(others) > 0.98
