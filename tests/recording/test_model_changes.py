"""A recording belongs to one state of its model and to its own copy of the inputs."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from transformers.modeling_outputs import BaseModelOutput

import mixlens
from mixlens import Lens, Recording
from mixlens.errors import MixlensError, ModelChanged
from mixlens.evaluations.norm_statistics import singular_values
from mixlens.maps.attention_identifiability import identifiability
from mixlens.maps.encoder_decoder import alti_through
from mixlens.maps.routes import routes
from mixlens.model.restore_model import MARKS
from mixlens.text.inputs import prepare_inputs
from tests.conformance.zoo import built, inputs

Undo = Callable[[], Any]


def _model() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).double().eval()


def _ids(tokens: int = 8) -> Tensor:
    return torch.randint(3, 60, (1, tokens), generator=torch.Generator().manual_seed(1))


def _recordings(lens: Lens) -> dict[str, Recording]:
    return {
        "kept": lens.record({"input_ids": _ids()}),
        "recomputed": lens.record({"input_ids": _ids()}, memory_budget=0),
        "targets": lens.record({"input_ids": _ids()}, targets=[-1]),
        "generated": lens.generate({"input_ids": _ids()}, max_new_tokens=2),
    }


_OUTPUT = {"word": 7, "of": "logit"}
_MEASURES: dict[str, dict[str, Any]] = {
    "attention": {},
    "alti": {},
    "value_zeroing": {},
    "hidden_token_attribution": {"probes": 2},
    "gradient_x_input": _OUTPUT,
    "blank_out": {"word": 7, "replacement": 5},
}


def _uses(lens: Lens, kind: str, recording: Recording) -> dict[str, Callable[[], Any]]:
    """Everything that reads a recording, by name."""
    whole = kind in ("kept", "recomputed")
    uses: dict[str, Callable[[], Any]] = {
        name: functools.partial(_scores, name, recording, options)
        for name, options in _MEASURES.items()
        if whole or not options
    }
    uses["rollout"] = lambda: lens.rollout("alti", recording, [-1] if whole else None).scores
    uses["compare"] = lambda: _shares(lens.compare(recording, only=["attention", "alti"]))
    if whole:
        uses["identifiability"] = lambda: _null_shares(recording)
        uses["bounds"] = lambda: mixlens.attention_bounds(recording, 0, 1, 3).upper
        uses["alternative"] = lambda: mixlens.alternative_attention(recording, 1, 0, 3).weights
        uses["layers"] = lambda: recording.layers()[1].sites()[0].weights.numpy()
        uses["routes"] = lambda: np.array([edge.weight for edge in routes(recording).edges])
        uses["singular values"] = lambda: singular_values(recording)
    return uses


def _scores(name: str, recording: Recording, options: dict[str, Any]) -> np.ndarray:
    maps = mixlens.measure(name, recording, **options)
    assert not isinstance(maps, list)
    return maps.scores


def _null_shares(recording: Recording) -> np.ndarray:
    table = identifiability(recording)
    assert not isinstance(table, list)
    return table["null_share"].to_numpy()


def _shares(comparison: Any) -> np.ndarray:
    assert not comparison.left_out
    return np.stack([*comparison.scores.values()])


# ------------------------------------------------------------------------------------------ changes


def _swap(table: Any, name: Any, value: Any) -> Undo:
    """Puts a value into a dict, a module list or an object."""
    if isinstance(table, (dict, nn.ModuleList)):
        old = table[name]
        table[name] = value
        return lambda: table.__setitem__(name, old)
    if name not in vars(table) and not isinstance(table, nn.Module):
        raise KeyError(name)
    was_own, old = name in vars(table), getattr(table, name)
    setattr(table, name, value)
    return lambda: (
        setattr(table, name, old) if was_own or name != "forward" else delattr(table, name)
    )


def _write(model: Any) -> None:
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] += 0.5


def _load(model: Any) -> None:
    model.load_state_dict(
        {name: 2 * weight for name, weight in model.state_dict().items() if "lm_head" not in name},
        strict=False,
    )


def _column_through_data(model: Any) -> Undo:
    weight = model.model.layers[0].self_attn.o_proj.weight
    old = weight.data[:, 5].clone()
    weight.data[:, 5] = 0
    return lambda: weight.data[:, 5].copy_(old)


def _row_through_data(model: Any) -> Undo:
    weight = model.model.embed_tokens.weight
    old = weight.data[17].clone()
    weight.data[17] = 0
    return lambda: weight.data[17].copy_(old)


def _entry_through_data(model: Any) -> Undo:
    weight = model.model.layers[1].mlp.down_proj.weight
    old = weight.data[3, 7].clone()
    weight.data[3, 7] += 5
    return lambda: weight.data[3, 7].copy_(old)


def _through_data(change: Callable[[Tensor], Any], undo: Callable[[Tensor], Any]) -> Any:
    def changed(model: Any) -> Undo:
        matrices = [each for each in model.parameters() if each.dim() == 2]
        for each in matrices:
            change(each.data)
        return lambda: [undo(each.data) for each in matrices]

    return changed


def _hook_on_all_modules(model: Any) -> Undo:
    return register_module_forward_hook(
        lambda module, given, output: 2 * output if isinstance(module, nn.Linear) else None
    ).remove


def _buffer(model: Any) -> Undo:
    frequencies = model.model.rotary_emb.inv_freq
    old = frequencies.clone()
    frequencies.mul_(1.5)
    return lambda: frequencies.copy_(old)


def _training(model: Any) -> Undo:
    model.train()
    return lambda: model.eval()


def _part_in_training(model: Any) -> Undo:
    model.model.layers[0].mlp.train()
    return lambda: model.eval()


def _hook(on: Callable[[Any], nn.Module], kind: str = "register_forward_hook") -> Any:
    return lambda model: getattr(on(model), kind)(lambda *given: None).remove


def _attention(model: Any) -> Undo:
    model.set_attn_implementation("eager")
    return lambda: model.set_attn_implementation("sdpa")


_CHANGES: dict[str, tuple[Callable[[Any], Undo | None], str]] = {
    "write in place": (_write, r"`model.layers.1.mlp.down_proj.weight` was changed"),
    "load": (_load, r"weight` was changed"),
    "column": (_column_through_data, r"through `.data`"),
    "row": (_row_through_data, r"through `.data`"),
    "entry": (_entry_through_data, r"through `.data`"),
    "signs": (_through_data(Tensor.neg_, Tensor.neg_), r"through `.data`"),
    "a block's signs": (
        _through_data(lambda each: each[2:6, 2:6].neg_(), lambda each: each[2:6, 2:6].neg_()),
        r"through `.data`",
    ),
    "twice as large": (
        _through_data(lambda weight: weight.mul_(2), lambda weight: weight.div_(2)),
        r"through `.data`",
    ),
    "hook on all modules": (_hook_on_all_modules, "hook .* was added to all modules"),
    "buffer": (_buffer, "numbers of weights or buffers"),
    "train": (_training, r"training mode.*model\.eval\(\)"),
    "train a part": (_part_in_training, r"training mode.*model\.eval\(\)"),
    "half": (lambda model: model.half() and None, r"is float16 \[60, 16\] on cpu and was float64"),
    "hook on a layer": (_hook(lambda model: model.model.layers[0]), "hook .* was added to"),
    "hook on the embeddings": (_hook(lambda model: model.model.embed_tokens), "hook"),
    "hook on the model": (_hook(lambda model: model, "register_forward_pre_hook"), "hook"),
    "backward hook": (
        _hook(lambda model: model.model.layers[1], "register_full_backward_hook"),
        "hook",
    ),
    "attention": (_attention, r"config\.attn_implementation is 'eager' and was 'sdpa'"),
    "attribute": (
        lambda model: _swap(vars(model.model.layers[0].self_attn), "scaling", 1.0),
        r"`model.layers.0.self_attn.scaling` is 1.0 and was 0.5",
    ),
    "list": (
        lambda model: _swap(vars(model.config), "rope_parameters", {"rope_theta": 3.0}),
        "rope_parameters",
    ),
    "parameter": (
        lambda model: _swap(
            model.model.norm._parameters, "weight", nn.Parameter(torch.ones(16).double())
        ),
        r"`model.norm.weight` was replaced",
    ),
    "module": (
        lambda model: _swap(model.model.layers, 1, _model().model.layers[1]),
        r"`model.layers.1` is a different module",
    ),
    "tied module": (
        lambda model: _swap(
            model._modules, "lm_head", nn.Linear(16, 60, bias=False).double().eval()
        ),
        r"`lm_head` is a different module",
    ),
    "forward": (
        lambda model: _swap(model.model.layers[0].mlp, "forward", lambda hidden: hidden),
        "functions",
    ),
    "function": (
        lambda model: (
            _swap(vars(model.model.layers[0].mlp), "act_fn", F.relu)
            if "act_fn" in vars(model.model.layers[0].mlp)
            else _swap(model.model.layers[0].mlp._modules, "act_fn", nn.ReLU().eval())
        ),
        "act_fn|functions",
    ),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_a_recording_of_a_model_that_changed_is_refused(name: str) -> None:
    """And measured as before if the change is undone."""
    change, said = _CHANGES[name]
    model = _model()
    lens = Lens(model)
    recordings = _recordings(lens)
    uses = {
        (kind, use): run
        for kind, recording in recordings.items()
        for use, run in _uses(lens, kind, recording).items()
    }
    before = {key: run() for key, run in uses.items()} if name in _COMPARED else {}
    undo = change(model)
    for key, run in uses.items():
        with pytest.raises(ModelChanged, match=said):
            raise AssertionError(f"{key} gives {run()} after: {name}")
    if undo is None:
        return
    undo()
    for key, run in uses.items():
        after = run()
        if key in before:
            np.testing.assert_array_equal(before[key], after, str(key))


def test_whole_maps_of_a_recording_of_targets_are_not_measured_after_a_change() -> None:
    """They are kept for the next measure, as the layers of a recording of all targets are."""
    model = _model()
    recording = Lens(model).record({"input_ids": _ids()}, targets=[-1])
    options = {"probes": 2}
    before = _scores("hidden_token_attribution", recording, options)
    assert recording.whole is not None
    undo = _entry_through_data(model)
    with pytest.raises(ModelChanged, match=r"through `.data`"):
        _scores("hidden_token_attribution", recording, options)
    undo()
    after = _scores("hidden_token_attribution", recording, options)
    np.testing.assert_array_equal(before, after)


def test_a_recording_of_a_different_model_is_refused() -> None:
    model = _model()
    recordings, other = _recordings(Lens(model)), Lens(_model())
    for use in (
        lambda: other.rollout("alti", recordings["kept"], [-1]),
        lambda: other.rollout("alti", recordings["targets"]),
        lambda: other.measure("alti", recordings["kept"]),
        lambda: other.compare(recordings["kept"], only=["alti"]),
        lambda: other.hops(recordings["generated"], reasoning=[3]),
    ):
        with pytest.raises(mixlens.InvalidInput, match="made with a different LlamaForCausalLM"):
            use()


_COMPARED = ("row", "train", "hook on a layer", "attention", "module")


# -------------------------------------------------------------------------------------- no changes


def _copied_weights(model: Any) -> None:
    """As after a move to a different device and back."""
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    for part in model.modules():
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = buffer.clone()


def _gradients(model: Any) -> None:
    model.requires_grad_(False).requires_grad_(True)
    model(input_ids=_ids(), labels=_ids()).loss.backward()


def _saved(model: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)


def _runs(model: Any) -> None:
    model(input_ids=_ids(40))
    model.generate(input_ids=_ids(), max_new_tokens=2, do_sample=False)
    Lens(model).measure("value_zeroing", {"input_ids": _ids(5)})


def _compiled_part(model: Any) -> None:
    model.model.layers[0].compile()


def _compiled_forward(model: Any) -> None:
    model.forward = torch.compile(model.forward)


def _compiled_copy(model: Any) -> None:
    model.model.layers[1] = torch.compile(model.model.layers[1])


@pytest.mark.parametrize(
    "harmless",
    [_copied_weights, _gradients, _saved, _runs, _compiled_part, _compiled_forward, _compiled_copy],
)
def test_no_false_alarm(harmless: Callable[[Any], None]) -> None:
    model = _model()
    lens = Lens(model)
    recordings = _recordings(lens)
    uses = {
        (kind, use): run
        for kind, recording in recordings.items()
        for use, run in _uses(lens, kind, recording).items()
        if use in ("alti", "value_zeroing", "gradient_x_input", "layers")
    }
    before = {key: run() for key, run in uses.items()}
    harmless(model)
    for key, run in uses.items():
        np.testing.assert_array_equal(before[key], run(), str(key))


class _Noting(nn.Module):
    """A part that notes the size of its last input and counts its calls."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.calls, self.factor = part, 0, 1.0

    def forward(self, given: Tensor) -> Any:
        self.calls += 1
        self.tokens = given.shape[1]
        return self.part(given) * self.factor


def test_numbers_that_a_model_notes_while_it_runs_are_no_change() -> None:
    model = _model()
    noting = model.model.layers[0].mlp = _Noting(model.model.layers[0].mlp).eval()
    for kind, recording in _recordings(lens := Lens(model)).items():
        noting.factor = 1.0
        run = _uses(lens, kind, recording)["value_zeroing"]
        before = run()
        model(input_ids=_ids(40))
        np.testing.assert_array_equal(before, run(), kind)
        noting.factor = 2.0
        with pytest.raises(ModelChanged, match=r"factor` is 2\.0 and was 1\.0"):
            run()


def test_offloaded_weights() -> None:
    accelerate = pytest.importorskip("accelerate")
    model = accelerate.cpu_offload(_model(), execution_device="cpu")
    lens = Lens(model)
    recordings = _recordings(lens)
    for recording in recordings.values():
        first, second = (_scores("alti", recording, {}) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    store = model.model.layers[0].mlp.down_proj._hf_hook.weights_map.dataset
    with torch.no_grad():
        next(iter(store.values())).mul_(2)
    for recording in recordings.values():
        with pytest.raises(ModelChanged, match="offloaded weight"):
            _scores("alti", recording, {})


# ----------------------------------------------------------------------------------------- adapters


def _adapted() -> Any:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj", "down_proj"])
    model = peft.get_peft_model(_model(), config)
    model.add_adapter("other", config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    return model.eval()


def _scaled(model: Any) -> Undo:
    return _swap(model.base_model.model.model.layers[0].self_attn.q_proj.scaling, "default", 7.0)


def _merged(model: Any) -> None:
    model.merge_adapter()


def _switched(model: Any) -> Undo:
    model.set_adapter("other")
    return lambda: model.set_adapter("default")


def _disabled(model: Any) -> Undo:
    context: AbstractContextManager[Any] = model.disable_adapter()
    context.__enter__()
    return lambda: context.__exit__(None, None, None)


@pytest.mark.parametrize("change", [_disabled, _switched, _scaled, _merged])
def test_adapters(change: Callable[[Any], Undo | None]) -> None:
    model = _adapted()
    lens = Lens(model)
    recordings = _recordings(lens)
    before = {kind: _scores("value_zeroing", each, {}) for kind, each in recordings.items()}
    undo = change(model)
    for recording in recordings.values():
        with pytest.raises(ModelChanged, match="_proj"):
            _scores("value_zeroing", recording, {})
    if undo is not None:
        undo()
        for kind, scores in before.items():
            np.testing.assert_array_equal(scores, _scores("value_zeroing", recordings[kind], {}))


def test_recorded_without_an_adapter_and_measured_with_it() -> None:
    model = _adapted()
    lens = Lens(model)
    with model.disable_adapter():
        recordings = _recordings(lens)
        before = {kind: _scores("alti", each, {}) for kind, each in recordings.items()}
    for recording in recordings.values():
        with pytest.raises(ModelChanged, match="_disable_adapters` is False and was True"):
            _scores("alti", recording, {})
    with model.disable_adapter():
        for kind, scores in before.items():
            np.testing.assert_array_equal(scores, _scores("alti", recordings[kind], {}))


def test_encoder_and_decoder() -> None:
    model = built("bart")
    recording = Lens(model).record(inputs("bart"))
    before = alti_through(recording)[0].scores
    np.testing.assert_array_equal(before, alti_through(recording)[0].scores)
    with torch.no_grad():
        next(model.parameters()).mul_(1.1)
    with pytest.raises(ModelChanged, match="was changed"):
        alti_through(recording)


# ------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("family", ["bert", "llama", "bart", "vit"])
def test_a_later_edit_of_an_input_changes_nothing(family: str) -> None:
    model = built(family)
    lens = Lens(model)
    # without a mask: padding is put last in a copy
    given = {name: value for name, value in inputs(family).items() if "mask" not in name}
    recordings = [lens.record(given), lens.record(given, memory_budget=0)]
    recordings += [] if family == "vit" else [lens.record(given, targets=[-1])]

    def measured() -> list[Any]:
        made: list[Any] = []
        for name in ("attention", "value_zeroing", "blank_out", "gradient_x_input"):
            for recording in recordings:
                options: dict[str, Any] = {"replacement": "zero"} if name == "blank_out" else {}
                try:
                    maps = mixlens.measure(name, recording, **options)
                except MixlensError as error:
                    made.append(str(error))
                    continue
                made += [each.scores for each in (maps if isinstance(maps, list) else [maps])]
        return made

    before = measured()
    for value in given.values():
        value.copy_(value.flip(-1) if value.dtype.is_floating_point else (value + 1) % 2)
    for one, other in zip(before, measured(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_nested_inputs_and_arrays_are_copied() -> None:
    model, given = built("bart"), inputs("bart")
    states = torch.ones(2, 7, 16, dtype=torch.float64)
    encoded: Any = BaseModelOutput(states, (states.clone(),))  # type: ignore[arg-type]
    ids = given["decoder_input_ids"].numpy()
    first = ids.copy()
    tensors = prepare_inputs(
        model, None, {"encoder_outputs": encoded, "decoder_input_ids": ids}
    ).tensors
    encoded.last_hidden_state.zero_()
    encoded.hidden_states[0].zero_()
    ids[:] = 5
    copied: Any = tensors["encoder_outputs"]
    assert isinstance(copied, BaseModelOutput)
    assert bool((copied[0] == 1).all())
    assert bool((copied["hidden_states"][0] == 1).all())
    np.testing.assert_array_equal(tensors["decoder_input_ids"].numpy(), first)


class _TakesNotes(transformers.LlamaForCausalLM):
    """Gives itself attributes while it runs: a new one, and one that hides that of its class."""

    def forward(self, input_ids: Any = None, **given: Any) -> Any:
        self.last_length, self.main_input_name = input_ids.shape[1], "ids"
        return super().forward(input_ids=input_ids, **given)


def test_attributes_that_a_run_adds_are_no_change() -> None:
    model = _TakesNotes(_model().config).double().eval()
    names, lens = {*vars(model)}, Lens(model)
    for kind, recording in _recordings(lens).items():
        for name, options in _MEASURES.items():
            if not options or kind in ("kept", "recomputed"):
                _scores(name, recording, options)
                assert {*vars(model)} - names <= MARKS
