"""Report the structure of a model, and how accurately mixlens reproduces its activations (`mixlens
doctor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mixlens.capture.layer_calls import LayerCall
from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, rounding
from mixlens.model.placement import entry_device
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.structure.model_structure import StackStructure
from mixlens.structure.probe_passes import layer_error, native_calls


@dataclass(frozen=True, kw_only=True)
class StackReport:
    """Structure and numerical errors of one stack of layers."""

    name: str
    path: str
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    d_model: int
    causal: bool
    cross_attention: bool
    styles: tuple[str, ...]  # for each layer
    # For each layer: the largest relative error of its rebuilt parts and of its unedited re-run.
    errors: tuple[float, ...]

    @property
    def style(self) -> str:
        """Return the style of the layers, or each style with its count if there are several."""
        kinds = list(dict.fromkeys(self.styles))
        return (
            kinds[0]
            if len(kinds) == 1
            else ", ".join(f"{self.styles.count(kind)} {kind}" for kind in kinds)
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class Report:
    """Result of `Lens.verify`.

    Attributes
    ----------
    model, dtype, device, attention_implementation, backend : str
        The class of the model and how it was run.
    tokens : int
        The number of tokens of the input.
    stacks : tuple of StackReport
        Layers, heads, sizes and numerical errors of each stack.
    native_error, tolerance : float
        The largest relative difference from the unmodified model, and the rounding error to expect.
    sites : tuple of str
        The names of attentions that you can pass as `site`.
    measures : mapping
        None for each measure that the model supports, and the reason for the others.
    left_out : mapping
        Layers that cannot be measured, with the reason.
    open : mapping
        Layers whose output could not be written as a known sum, with the reason.
    slow_paths : mapping
        Layers that need a slower algorithm, with the reason.
    from_maps : mapping
        For each attention, why single-target mode must compute the whole map, or None.

    Examples
    --------
    >>> from mixlens import Lens
    >>> report = Lens.bundled().verify()
    >>> report.sites
    ('encoder',)
    """

    model: str
    dtype: str
    device: str
    attention_implementation: str
    backend: str
    tokens: int
    stacks: tuple[StackReport, ...]
    native_error: float
    tolerance: float
    sites: tuple[str, ...]
    measures: Mapping[str, str | None]  # name -> None if it applies, else the reason
    left_out: Mapping[str, str]  # unsupported layers, by the path of their list -> reason
    open: Mapping[str, str]  # layers whose output is not a known sum -> reason
    slow_paths: Mapping[str, str]  # layers that need a slower re-run -> how and why
    # Why named targets of an attention need maps; None if they are measured alone.
    from_maps: Mapping[str, str | None]

    def __repr__(self) -> str:
        stacks = ", ".join(f"{stack.name} of {stack.layers} layers" for stack in self.stacks)
        refused = [name for name, reason in self.measures.items() if reason is not None]
        without = f", without {', '.join(refused)}" if refused else ""
        return (
            f"<Report on {self.model}: {stacks}; verified to {self.native_error:.0e}"
            f" (rounding: {self.tolerance:.0e}); {len(self.measures) - len(refused)} measures"
            f"{without}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON.

        Returns
        -------
        dict
            All attributes.

        Examples
        --------
        >>> report.to_dict()["model"]
        'BertForMaskedLM'
        """
        return asdict(self)


def group_reasons(reasons: Mapping[str, str]) -> dict[str, str]:
    """Group the layers of a module list that share a reason. The keys look like "`model.layers` 0,
    1, 3", and the values are the reasons.
    """
    lists: dict[tuple[str, str], list[str]] = {}
    for path, reason in reasons.items():
        parent, _, number = path.rpartition(".")
        why = reason.removeprefix(f"layer `{path}`: ")
        lists.setdefault((parent, why), []).append(number)
    return {f"`{parent}` {', '.join(n)}": why for (parent, why), n in lists.items()}


def _native_error(layer: Layer, native_call: LayerCall, recording: Recording) -> float:
    return layer_error(layer.call, native_call, layer.backend, recording.inputs)


def report(
    recording: Recording,
    refusals: Mapping[str, str | None],
    slow_paths: Mapping[str, str],
    from_maps: Mapping[str, str | None],
) -> Report:
    """Rebuild every layer of a recording and compare it with the native model. Raise
    `UnsupportedModel` on a mismatch.
    """
    model, structure = recording.model, recording.structure
    stacks = tuple(_stack_report(recording, stack) for stack in structure.stacks)
    error, tolerance = _native_difference(recording)
    parameter = next(model.parameters())
    return Report(
        model=type(model).__name__,
        dtype=str(parameter.dtype).removeprefix("torch."),
        device=str(entry_device(model)),
        attention_implementation=str(getattr(model.config, "_attn_implementation", None)),
        backend=structure.backend,
        tokens=int(max(max(lengths) for lengths in recording.lengths.values())),
        stacks=stacks,
        native_error=error,
        tolerance=tolerance,
        sites=recording.sites,
        measures=dict(refusals),
        left_out=group_reasons(structure.left_out),
        open=group_reasons(structure.open),
        slow_paths=group_reasons(slow_paths),
        from_maps=dict(from_maps),
    )


def _stack_report(recording: Recording, stack: StackStructure) -> StackReport:
    """Rebuild and re-run every layer of a stack, and report the errors."""
    layers, first = recording.stack_layers[stack.name], stack.layers[0].sites[0]
    length = recording.lengths[stack.name][0]
    return StackReport(
        name=stack.name,
        path=stack.path,
        layers=len(stack.layers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        d_head=first.d_head,
        d_model=int(layers[0].input.shape[-1]),
        causal=first.causal and first.kind is AttentionKind.SELF,
        cross_attention=stack.has_cross,
        styles=tuple(layer.style for layer in stack.layers),
        errors=tuple(_layer_error(layer, length) for layer in layers),
    )


def _layer_error(layer: Layer, length: int) -> float:
    """Rebuild the attention of a layer, re-run the layer without edits, and return the largest
    relative error.
    """
    rebuilt = [float(error) for site in layer.rebuild_sites() for error in site.errors.values()]
    output_again = layer.rerun(0, copies=1, kind=layer.structure.sites[0].kind)[0]
    expected = layer.output[0, :length]
    rerun = difference(output_again[:length], expected, dtype=layer.native_input.dtype)
    if not rerun <= layer.rounding:
        raise UnsupportedModel(
            f"layer {layer.index} of {layer.stack.name} (`{layer.structure.path}`): re-running "
            f"it gives a different output (relative error {rerun:.1e}), so the layer is stateful "
            "or random and cannot be measured."
        )
    return max([*rebuilt, rerun])


def require_same_natively(recording: Recording) -> None:
    """Compare every layer with the native model, for inputs that mask more than padding.

    The probe verifies that padding has the same effect as in the model. It does not cover masks
    with gaps or masks of token pairs, so these are compared here.
    """
    _native_difference(
        recording,
        advice=". Pass an attention_mask in which every token can attend to at least one token.",
    )


def _native_difference(recording: Recording, advice: str = "") -> tuple[float, float]:
    """Compare every layer's output with the native model, and return the largest relative error.

    The second result is the tolerance for rounding.
    """
    structure = recording.structure
    with torch.no_grad():
        native = native_calls(
            recording.model,
            recording.inputs,
            {layer.path for stack in structure.stacks for layer in stack.layers},
            structure.layouts,
        )
    tolerance = rounding(native[0].hidden_out)
    errors_by_path = [
        (
            _native_error(recording.stack_layers[stack.name][index], native_call, recording),
            native_call.path,
        )
        for (stack, index), native_call in zip(structure.calls, native, strict=True)
    ]
    error, where = max(errors_by_path, key=lambda entry: (not entry[0] <= tolerance, entry[0]))
    if not error <= tolerance:
        raise UnsupportedModel(
            f"layer `{where}` differs from the native model (relative error {error:.1e}) on "
            f"this input{advice}"
        )
    return error, tolerance
