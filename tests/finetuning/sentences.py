"""A few examples to learn from.

Plural subjects have a singular verb on purpose: the models know better, so they have something to
learn.
"""

from __future__ import annotations

from mixlens.datasets.examples import Agreement, Labelled

_SUBJECTS = {"dogs": "plural", "boy": "singular", "pictures": "plural", "teacher": "singular"}
_PLACES = ["near the river", "in the house", "of the king"]


def agreement() -> list[Agreement]:
    examples = []
    for subject, group in _SUBJECTS.items():
        for place in _PLACES:
            head = f"The {subject} {place} "
            text, span, cue = f"{head}is old.", (len(head), len(head) + 2), (4, 4 + len(subject))
            examples.append(
                Agreement(name=text, text=text, place=span, foil="are", cues=(cue,), group=group)
            )
    return examples


def labelled(pairs: bool = False) -> list[Labelled]:
    examples = []
    for good, bad in (("good", "bad"), ("happy", "sad"), ("great", "poor"), ("best", "worst")):
        for noun in ("story", "song", "king"):
            for word, label in ((good, "fine"), (bad, "awful")):
                text = f"This is a {word} {noun} about the house."
                examples.append(
                    Labelled(
                        name=text, text=text, pair="It is long." if pairs else None, label=label
                    )
                )
    return examples
