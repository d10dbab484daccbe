"""`mixlens demo`: the main job on the bundled model, as a story whose answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlens.cli.compare import show
from mixlens.cli.loading import lens_from

if TYPE_CHECKING:
    from rich.console import Console

    from mixlens.lens import Lens

# Text, the word that the masked one must agree with, the right word, the wrong one. The first is
# shown in full.
SENTENCES = (
    ("The pictures of some hat [MASK] scaring Marcus.", "pictures", "are", "is"),
    ("The keys to the old cabinet [MASK] on the table.", "keys", "are", "is"),
    ("The author of the books [MASK] written a letter.", "author", "has", "have"),
    ("The sisters of the king [MASK] not leaving the house.", "sisters", "are", "is"),
    ("The teacher with the red books [MASK] smiling.", "teacher", "is", "are"),
    ("The dogs near the river [MASK] barking.", "dogs", "were", "was"),
    ("The boy behind the trees [MASK] seen the bird.", "boy", "has", "have"),
    ("The songs about the girl [MASK] very old.", "songs", "are", "is"),
)
EXAMPLES = "mixlens demo"
EVERY = 4  # one of so many bundled sentences is looked at layer by layer


def demo() -> None:
    """Explain one choice of the bundled model, step by step."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    console = Console(highlight=False)
    lens = lens_from(None, "cpu", "float32")
    text, cue, word, foil = SENTENCES[0]
    guesses = lens.predictions(text, top=5)
    console.print(f"\n{text}", markup=False, style="bold")
    console.print(
        "the model fills in: " + ", ".join(f"{guess} {share:.0%}" for guess, share in guesses)
    )
    console.print(
        f"The verb must agree with «{cue}»; «hat» is nearer and is singular. Which measures"
        f" find «{cue}»?\nGradients and erasure explain «{word}» against «{foil}»; the others show"
        " what [MASK] takes in, mean of the layers.\n",
        markup=False,
    )
    comparison = lens.compare(text, "[MASK]", explain={"word": word, "foil": foil}, cue=cue)
    show(comparison)

    ranks: dict[str, list[int]] = {name: [] for name in comparison.scores}
    counts = []
    for text, cue, word, foil in track(
        SENTENCES, "one sentence may be luck: more …", console=Console(stderr=True), transient=True
    ):
        comparison = lens.compare(text, "[MASK]", explain={"word": word, "foil": foil})
        counts.append(len(comparison.others))
        for name, rank in comparison.rank_of(cue).items():
            ranks[name].append(rank)
    chance = float(np.mean([(count + 1) / 2 for count in counts]))
    table = Table("measure", "mean rank", "ranks", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, places in sorted(ranks.items(), key=lambda item: float(np.mean(item[1]))):
        mean = float(np.mean(places))
        table.add_row(
            name,
            f"{mean:.1f}" + (" [green]finds it[/]" if mean < 2.5 else ""),
            " ".join(map(str, places)),
        )
    console.print(
        f"\nRank of the cue in {len(SENTENCES)} sentences of this kind (1 = largest; by chance"
        f" {chance:.1f}):"
    )
    console.print(table)
    _show_layers(lens, console)
    console.print(
        "\nTry your own: mixlens compare 'TEXT with a [MASK]' --model NAME, or mixlens map TEXT"
        " --measure value_zeroing --target '[MASK]'",
        markup=False,
        style="dim",
    )


def _show_layers(lens: Lens, console: Console) -> None:
    """When the number arrives: the cue's share of what the masked word takes in, layer by layer."""
    import numpy as np
    from rich.table import Table

    from mixlens import datasets as corpus
    from mixlens.evaluations import cases, cue_alignment

    groups: dict[str, list[Any]] = {}
    for example in corpus.bundled().examples[::EVERY]:
        groups.setdefault(example.group or "", []).append(example)
    config: Any = lens.model.config
    numbers = map(str, range(config.num_hidden_layers))
    table = Table(
        "layer", *numbers, "chance", "arrives", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for group, examples in groups.items():
        held = list(cases(lens, examples))
        chance = float(np.mean([1 / (len(case.row) - 1) for case in held]))
        layers = cue_alignment.evaluate(held, "value_zeroing").details["layers"]
        arrives = [str(n) for n, share in enumerate(layers) if share > 2 * chance]
        table.add_row(
            group,
            *(f"[green]{x:.2f}[/]" if x > 2 * chance else f"{x:.2f}" for x in layers),
            f"{chance:.2f}",
            f"in {', '.join(arrives) or 'no layer'}",
        )
    console.print(
        "\nThe mean over layers hides when the number arrives. The cue's share of what [MASK] takes"
        " in, by value_zeroing, layer by layer, in sentences of five kinds:",
        markup=False,
    )
    console.print(table)
    console.print(
        "If no layer takes it from the cue itself, as in the sentences above, it comes through"
        " other words: a measure that follows one output through the whole model can see that.",
        markup=False,
    )
