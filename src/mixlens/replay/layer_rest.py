"""The rest of a layer after its attention, as a function of single tokens.

After its attention, a layer processes every target separately: its output e_i depends only on its
input x_i and its attention output o_i. If only o_i changes, there is no need to run whole
sequences. Any number of pairs (x_i, o_i), from any text, can pass through the rest of the layer at
once.

The layer's own code is used, but its attention is skipped (`shortcuts`). Whether single tokens give
correct results is tested with many tokens, shuffled and repeated, because an MLP may depend on a
token's position (BLIP-2's Q-Former has a different MLP for its text tokens), on the number of
tokens (experts with a capacity) or on neighbouring tokens (convolutions). If the test fails, whole
sequences are run instead, which is always correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.kernels.chunks import computing_dtype
from mixlens.kernels.differences import difference, same_bar
from mixlens.model.placement import raise_if_out_of_memory
from mixlens.model.session import ModuleCache
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.shortcuts import Shortcut, find_shortcuts, run_with_outputs

_PROVED_ROWS = 1024


@dataclass(frozen=True)
class _Proved:
    """The shortcuts of a layer, and the number of tokens in the test that they passed."""

    shortcuts: tuple[Shortcut, ...]
    rows: int


_known: ModuleCache[_Proved | None] = ModuleCache()  # for identical layers
_of_layers: ModuleCache[_Proved | None] = ModuleCache()


class LayerRest:
    """The rest of one layer after one of its attention modules.

    `mode` is "sum" if the rest only adds to the attention block's output, "shortcut" if the layer's
    own code runs on single tokens, or "sequences" if it needs whole sequences.
    """

    def __init__(self, layer: Layer, kind: AttentionKind, *, rows: int = 4096) -> None:
        self.layer = layer
        self.kind = kind
        self.rows = rows  # most tokens that pass the layer at once
        self.sites: list[Attention] = layer.sites()
        self.position: int = layer.position(kind)
        self.site: Attention = self.sites[self.position].reading(kind)
        self.shortcuts: tuple[Shortcut, ...] = ()
        self.mode: str = self._chosen_mode()

    @property
    def module(self) -> nn.Module:
        """Return the layer's module in float32 or better."""
        return self.layer.module

    def __call__(
        self,
        texts: Int[Tensor, " row"],
        targets: Int[Tensor, " row"],
        projected: Float[Tensor, "row d_model"],
    ) -> Float[Tensor, "row d_model"]:
        """Return the layer's output for the given targets of the given texts.

        `projected` contains the edited output of the attention's output projection for each target.
        """
        assert self.mode != "sequences", "its tokens depend on each other"
        run = self._by_sum if self.mode == "sum" else self._by_shortcut
        return run(texts, targets, projected)

    @torch.no_grad()
    def require_recorded_output(
        self, texts: Int[Tensor, " row"], targets: Int[Tensor, " row"]
    ) -> None:
        """Check that a few unedited tokens reproduce the layer's recorded output. Otherwise, fall
        back to whole sequences.
        """
        if self.mode == "sequences":
            return
        few = slice(None, None, max(1, len(texts) // 8))
        texts, targets = texts[few], targets[few]
        outputs = self(texts, targets, self.site.projected[texts, targets])
        error = difference(outputs, self.layer.output[texts, targets])
        if not error <= self.layer.rounding:
            note_fallback(
                self.layer,
                (
                    "Value Zeroing runs whole sequences, because unedited tokens are off by "
                    f"{error:.1e}"
                ),
            )
            self.mode = "sequences"

    # ------------------------------------------------------------------------------------- two ways

    def _by_sum(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        """Return the output of a layer whose MLP runs parallel to the attention, or that has no
        MLP.

        In both cases, the layer's output changes by the same amount as the output of the attention
        block.
        """
        residual = self.site.residual[texts, targets]
        block = self.site.structure.levels(self.module, residual, projected)["block"]
        return block + (self.layer.output - self.site.block_output)[texts, targets]

    def _by_shortcut(self, texts: Tensor, targets: Tensor, projected: Tensor) -> Tensor:
        outputs_by_path: dict[str, Any] = {}
        for number, shortcut in enumerate(self.shortcuts):
            site = self.sites[number]
            site_output = projected if number == self.position else site.projected[texts, targets]
            value = site_output
            if shortcut.level != "projected":
                residual = site.residual[texts, targets]
                value = site.structure.levels(self.module, residual, site_output)[shortcut.level]
            outputs_by_path[shortcut.path] = shortcut.pack(value[None])
        hidden = self.layer.input[texts, targets][None]
        return run_with_outputs(self.layer, 0, outputs_by_path, hidden)

    # ----------------------------------------------------------------------------------- the choice

    def _chosen_mode(self) -> str:
        if self.site.structure.open is not None:
            note_fallback(
                self.layer,
                "Value Zeroing runs whole sequences, because the rest of the layer is not a "
                "known sum",
            )
            return "sequences"
        last = self.position == len(self.sites) - 1
        structure = self.layer.structure
        ends_with_attention = structure.feed_forward is None and not structure.further
        if last and (self.site.structure.parallel or ends_with_attention):
            return "sum"
        if not last:  # a later attention needs its own masks and states for every token
            return "sequences"
        module, layer_structure = self.layer.submodule(""), self.layer.structure
        key = (self.kind, self.layer.has_one_token, module.training, layer_structure)
        proved = _of_layers.of(module, key, self._proved_alike)
        if proved is None:
            note_fallback(
                self.layer,
                "Value Zeroing runs whole sequences, because the rest of the layer does not "
                "work on single tokens",
            )
            return "sequences"
        self.shortcuts, self.rows = proved.shortcuts, min(self.rows, proved.rows)
        return "shortcut"

    def _proved_alike(self) -> _Proved | None:
        """Test the shortcuts, and cache the result for all identical layers."""
        key = (self.kind, self.layer.submodule("").training, self.layer.signature)
        return _known.of(self.layer.model, key, self._proved_whole)

    @torch.no_grad()
    def _proved_whole(self) -> _Proved | None:
        """Test the shortcuts on a layer that contains all of its targets, because a layer that is
        restricted to some targets cannot be re-run.
        """
        whole = self.layer.whole
        if whole is self.layer:
            return self._prove(find_shortcuts(self.layer))
        layer_rest = LayerRest(whole, self.kind, rows=self.rows)
        return (
            _Proved(layer_rest.shortcuts, layer_rest.rows)
            if layer_rest.mode == "shortcut"
            else None
        )

    def _prove(self, candidates: Sequence[Shortcut | None]) -> _Proved | None:
        """Return the shortcuts, or None if their results differ from re-running the whole layer.

        The test uses many tokens from two edited copies of a text, shuffled and repeated.
        """
        shortcuts = tuple(shortcut for shortcut in candidates if shortcut is not None)
        if len(shortcuts) < len(self.sites):
            return None
        self.shortcuts = shortcuts
        base = self.site.projected[0]
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(2, *base.shape, generator=generator).to(base)
        edited = base * (1 + noise / 2) + noise * base.abs().mean() / 2
        expected = self.layer.rerun(0, attention_output=edited, kind=self.kind)
        count = max(2 * len(base) + 1, min(self.rows, _PROVED_ROWS))
        copies, targets = (
            torch.randint(high, (count,), generator=generator) for high in (2, len(base))
        )
        crowd = slice(
            0, count // 4
        )  # the same token many times, so that all copies go to one expert
        copies[crowd], targets[crowd] = 0, len(base) // 2
        copies, targets = copies.to(base.device), targets.to(base.device)
        try:
            by_shortcut = self._by_shortcut(
                torch.zeros_like(targets), targets, edited[copies, targets]
            )
        except Exception as failure:  # a layer may do anything with unexpected tokens
            raise_if_out_of_memory(failure)
            return None
        error = difference(by_shortcut, expected[copies, targets])
        return _Proved(shortcuts, count) if error <= same_bar(expected) else None


_widest: ModuleCache[int] = ModuleCache()


def _largest_axis(module: nn.Module) -> int:
    """Return the size of the largest axis of any weight matrix in a layer."""
    matrices = (weight for weight in module.parameters() if weight.dim() > 1)
    return max((max(weight.shape) for weight in matrices), default=0)


def bytes_of_a_row(module: nn.Module, d_model: int, dtype: torch.dtype) -> int:
    """Return the number of bytes that one token needs in the rest of a layer.

    The estimate includes a few copies of the token's hidden state in float32 or better, and a few
    copies of the widest activation in the model's precision.
    """
    widest = _widest.of(module, None, lambda: _largest_axis(module)) or d_model
    return 6 * d_model * computing_dtype(dtype).itemsize + 4 * widest * dtype.itemsize
