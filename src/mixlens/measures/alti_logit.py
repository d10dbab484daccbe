"""ALTI-Logit: the contribution of each input token to one logit, layer by layer.

Ferrando et al. 2023, Explaining How Transformers Use Context to Build Predictions (ACL): a layer's
logit updates are split among its own tokens, which are mixtures of the input tokens. The ALTI maps
of the layers below propagate the updates to the input, V_l = D_l M_(l-1) ... M_0, and preserve the
total update of each layer. The MLP is assumed to keep every token separate.

`variant="released"` uses the maps of the authors' code: 1e-6 is added to every difference, and
tokens that a target cannot see count as zero vectors. The layers are processed from the last to the
first, so each map is multiplied only with vectors, never with another map, and the map of the last
layer is not needed. If a target has no ALTI scores, its update cannot be propagated and is not
assigned to any token.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec, by_layer, is_released
from mixlens.kernels.chunks import rows_at_once
from mixlens.measures.alti import normalised_contributions
from mixlens.measures.logit_update import with_initial
from mixlens.model.placement import entry_device
from mixlens.replay.logit_parts import LogitParts, StreamCheck, not_a_sum

if TYPE_CHECKING:
    from mixlens.contracts import Targets
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained

SPEC = Spec(
    summary=(
        "contribution of each input token to one logit through the attention of each layer,"
        " propagated down by ALTI"
    ),
    citation=(
        "Ferrando et al. (2023), Explaining How Transformers Use Context to Build Predictions, ACL"
    ),
    use_when=(
        "for signed parts of one logit of a decoder, by layer and in total, at about the cost of"
        " alti"
    ),
    cost="as alti",
    facts=Facts(signed=True, reaches_input=True),
    splits="block",
    follows_output=True,
    sites=(AttentionKind.SELF,),
    one_stack=True,
    explains_output=True,
    explains_by_default="logit",
    gives="rows",
    one_row="sum",
    limitations=(
        "splits the update of each attention block and propagates it down with ALTI's scores,"
        " which have no sign and leave out the MLPs. The MLPs' contributions to the logit belong to"
        " no token. If content is copied through several tokens, the intermediate tokens rank above"
        " the original source"
    ),
    memory=lambda sizes: 4 * sizes.heads * sizes.targets * sizes.d_model + sizes.block,
    rounding=3e-5,
    half_precision=None,
)


# Early targets see few sources, so blocks save up to half of the work. Small ones take longer.
_BLOCKS, _LEAST = 8, 128

refusal = not_a_sum


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    initial: bool = False,
    variant: str = "paper",
) -> Scores:
    """Return the contributions to the logit. `variant` is "paper" or "released". `initial` adds the
    contribution of the explained token's own embedding to its score in layer 0.
    """
    parts = LogitParts.of("alti_logit", recording, request, output)
    product = _CarriedDown(
        parts=parts,
        request=request,
        released=is_released(variant),
        initial=initial,
        budget=recording.memory_budget,
        block=_block_size(recording, request),
    )
    if recording.is_kept:
        layers = recording.layers(request.site)
        every = replace(request, targets=None).chosen(recording)
        targets = replace(request, targets=parts.places).chosen(recording)
        for position in reversed(range(len(layers))):
            product.begin()
            product.add(layers[position], every, targets)
    else:
        recording.visit(replace(request, targets=parts.places), product.visit, product.blocks)
    product.begin()
    return Scores(
        by_layer([product.rows[position] for position in request.layers])[:, :, None],
        {"unattributed": by_layer([product.remainders[position] for position in request.layers])},
        {"unattributed": ()},
        target_labels=output.names,
    )


def _block_size(recording: Recording, request: Request) -> int:
    """Return the number of targets to process at once if the recording does not keep its layers."""
    stack = recording.structure.stack_of(request.site)
    tokens = recording.tokens_of(stack)
    target_bytes = 24 * max(site.heads for site in stack.layers[0].sites) * tokens
    fitting = rows_at_once(target_bytes, recording.memory_budget, entry_device(recording.model))
    return min(fitting, max(_LEAST, -(-tokens // _BLOCKS)))


@dataclass(kw_only=True)
class _CarriedDown:
    """Propagate logit updates from the last layer down to the input.

    For each requested layer, `rows` contains its logit updates, split among the tokens of the layer
    that was visited last.
    """

    parts: LogitParts
    request: Request
    released: bool
    initial: bool
    budget: int
    block: int
    rows: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, source]
    remainders: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch]
    _below: Tensor | None = None  # of the layer that is being visited
    _new: dict[int, Tensor] = field(default_factory=dict)
    _check: StreamCheck = field(default_factory=lambda: StreamCheck("alti_logit"))

    def begin(self) -> None:
        """Start the next layer. Call this after all targets of the layer above have been added."""
        if self._below is not None:
            self.rows = dict(zip(self.rows, self._below.unbind(1), strict=True))
        self.rows |= self._new
        self._below, self._new = None, {}

    def blocks(self, position: int) -> list[list[int]]:
        """Return the targets that the next layer needs, in blocks.

        These are the explained targets, and the tokens to which a layer above assigned an update.
        """
        self.begin()
        explained = list(self.parts.places[0])
        if not self.rows:
            return [explained]
        is_needed = torch.stack(list(self.rows.values())).any(0)[0]
        is_needed[explained] = False
        other_targets = is_needed.nonzero()[:, 0].tolist()
        starts = range(0, len(other_targets), self.block)
        return [explained, *(other_targets[start : start + self.block] for start in starts)]

    def visit(self, position: int, layer: Layer, block: Targets) -> None:
        """Process one block of a layer's targets."""
        self.add(layer, block, block if block.positions == self.parts.places else None)

    def add(self, layer: Layer, block: Targets, explained: Targets | None) -> None:
        """Propagate updates through some targets of a layer, and add the layer's own updates for
        the `explained` targets.
        """
        with layer.hold_attention():
            if explained is not None:
                self._check.add(layer, explained)
            has_updates = explained is not None and layer.index in self.request.layers
            if not self.rows and not has_updates:
                return
            site = layer.site(self.request.kind)
            if self.rows:
                self._carry(site, block)
            if explained is None or not has_updates:
                return
            updates = self.parts.updates(layer, site, explained)
            self.remainders[layer.index] = self.parts.sum_unattributed(layer, updates, explained)
            if self.initial and layer.index == 0:
                updates = with_initial(self.parts, updates, layer, explained)
            self._new[layer.index] = updates

    def _carry(self, site: Attention, block: Targets) -> None:
        shares, _ = normalised_contributions(site, block, self.budget, released=self.released)
        carried_scores = torch.stack(list(self.rows.values()), 1).to(shares.device)
        if block.positions is not None:
            carried_scores = carried_scores[:, :, list(block.positions[0])]
        carried_down = carried_scores @ shares
        self._below = carried_down if self._below is None else self._below + carried_down
