"""`mixlens demo`: the main job on the bundled model, as a story whose answer is known."""

from __future__ import annotations

from mixlens.cli.compare import show
from mixlens.cli.loading import lens_from

TEXT, TARGET, CUE = "The pictures of some hat [MASK] scaring Marcus.", "[MASK]", "pictures"


def demo() -> None:
    """Run the main job on the bundled model: which measures find the word that the verb must agree with?"""
    from rich.console import Console

    console = Console(highlight=False)
    lens = lens_from(None, "cpu", "float32")
    guesses = lens.predictions(TEXT, top=5)
    console.print(f"\n{TEXT}", markup=False, style="bold")
    console.print("the model fills in: " + ", ".join(f"{word} {share:.0%}" for word, share in guesses))
    console.print(
        f"The verb must agree with «{CUE}»; «hat» stands nearer and is singular. Which measures show that the model uses «{CUE}»?\n"
    )
    found = lens.compare(TEXT, TARGET)
    show(found, CUE)
    ranks = found.rank_of(found.sources.index(CUE))
    finders = [name for name, rank in ranks.items() if rank == 1]
    console.print(f"\nrank «{CUE}» first: {', '.join(finders) or 'none'}")
    console.print(f"do not: {', '.join(name for name in ranks if name not in finders) or 'none'}")
    console.print(
        "\nTry your own: mixlens compare 'TEXT with a [MASK]' --model NAME, or mixlens map TEXT --measure value_zeroing --target '[MASK]'",
        markup=False,
        style="dim",
    )
