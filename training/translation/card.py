"""The card of a trained model: what the run recorded and the evaluation measured, no more."""

from __future__ import annotations

from typing import Any

OUT_OF_DOMAIN = (
    "The gold alignments are of European Parliament debates, in long sentences; the training text"
    " is captions of photographs. Most words there are foreign to the model, so these rates do not"
    " say how well a model of this kind can align, nor which measure is better."
)


def card(training: dict[str, Any], figures: dict[str, Any]) -> str:
    settings = training["settings"]
    how = (
        f"{training['steps']:,} steps in {training['minutes']:.1f} minutes on {training['device']},"
        f" seed {settings['seed']}. Marian, {settings['layers']} + {settings['layers']} layers,"
        f" width {settings['hidden']}, {settings['heads']} heads, {figures['parameters']:,}"
        f" parameters, post-norm; dropout {settings['dropout']}, label smoothing"
        f" {settings['smoothing']}, AdamW with peak rate {settings['rate']}, batches of at most"
        f" {settings['tokens']:,} tokens. The weights are those with the lowest validation loss"
        f" ({training['validation_loss']:.3f})."
    )
    rows = [
        f"| {measure} | {setting} | {100 * f['best']:.1f} ({f['best_layer']}) |"
        f" {100 * f['held_out']:.1f} | {100 * f['mean']:.1f} | "
        + " | ".join(f"{100 * value:.1f}" for value in f["layers"])
        + " |"
        for measure, settings_ in figures["aer"].items()
        for setting, f in settings_.items()
    ]
    layers = range(len(next(iter(next(iter(figures["aer"].values())).values()))["layers"]))
    head = ["measure", "setting, end mark", "best (layer)", "held out", "mean", *map(str, layers)]
    samples = [
        f"- {german}\n  - reference: {english}\n  - model: {translation}"
        for german, english, translation in figures["examples"]
    ]
    return "\n".join(
        [
            "# A small German–English translation model",
            "",
            f"Trained from scratch on {figures['corpus']}. {how}",
            "",
            (
                "It is made to be measured, not to be relied on: it knows the language of its"
                " training text and nothing else."
            ),
            "",
            "## Figures",
            "",
            (
                f"Test set ({figures['sentences']:,} sentences): BLEU {figures['bleu']:.1f}"
                " (lower-case, punctuation apart, beam 4), token accuracy with the reference"
                f" before it {figures['token_accuracy']:.3f}."
            ),
            "",
            (
                f"Alignment error rate in per cent on {figures['aligned_pairs']} pairs with gold"
                " alignments, layers counted from 0. The best layer is chosen on the same pairs;"
                " held out, each half is read in the layer that is best on the other half. Linking"
                " every word to the one at the same relative place gives"
                f" {100 * figures['diagonal']:.1f}."
            ),
            "",
            f"| {' | '.join(head)} |",
            "|" + "---|" * len(head),
            *rows,
            "",
            *([OUT_OF_DOMAIN, ""] if figures["corpus"] == "Multi30k" else []),
            "## First translations of the test set",
            "",
            *samples,
            "",
        ]
    )
