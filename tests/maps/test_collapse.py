"""Rollouts that have collapsed onto one source."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens import Lens, MixingMaps
from mixlens.maps.rollout import LEAST_SHARE, MEAN_SHARE, collapse_of, roll_out, row_normalised
from mixlens.views.viewer.payload import payload_of
from tests.cli.running import run

TEXT = "The keys to the old cabinet in the hall of the house are on the table."


def causal(layers: int, tokens: int, sink: float, seed: int = 0) -> MixingMaps:
    """Every token takes at least the share `sink` from the first."""
    draw = np.random.default_rng(seed)
    maps = (1 - sink) * row_normalised(np.tril(draw.random((layers, tokens, tokens))))
    maps[..., 0] += sink
    return MixingMaps.of(maps)


@given(
    layers=st.integers(1, 12),
    tokens=st.integers(3, 8),
    sink=st.floats(0.0, 0.9),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_a_collapse_is_one_source_in_all_targets(
    layers: int, tokens: int, sink: float, seed: int
) -> None:
    rolled = roll_out(causal(layers, tokens, sink, seed))
    taken = rolled.scores[-1][1:, 0]
    expected = bool(taken.mean() >= MEAN_SHARE and taken.min() >= LEAST_SHARE)
    collapse = collapse_of(rolled)
    if expected:
        assert collapse is not None
        assert (collapse.source, round(collapse.share, 9)) == (0, round(float(taken.mean()), 9))
    else:
        assert collapse is None or collapse.source != 0


def test_only_rollouts_of_tokens_collapse() -> None:
    maps = causal(12, 5, 0.5)
    with pytest.warns(UserWarning, match=r"collapsed onto the token '0' \(position 0\)"):
        rolled = maps.rollout()
    assert collapse_of(rolled) is not None
    assert collapse_of(maps) is None
    assert collapse_of(rolled.at(layers=[0])) is None, "one layer is not yet a product"
    few = rolled.at(targets=[-1])
    assert collapse_of(few) is not None, "a few targets are enough"
    own = MixingMaps.of(np.stack([np.eye(4)] * 3)).rollout()
    assert collapse_of(own) is None, "tokens that keep themselves"
    spread = np.full((3, 4, 4), 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MixingMaps.of(spread).rollout()


def test_every_way_to_roll_out_warns() -> None:
    lens = Lens.bundled("causal")
    maps = lens.measure("value_zeroing", TEXT)
    with pytest.warns(UserWarning, match="collapsed onto the token '<s>'"):
        maps.rollout()
    with pytest.warns(UserWarning, match="collapsed"):
        lens.rollout("value_zeroing", TEXT, [-1])
    with pytest.warns(UserWarning, match=r"value_zeroing: The rollout has collapsed"):
        compared = lens.compare(TEXT, only=["value_zeroing", "alti"], aggregate="rollout")
    assert list(compared.warnings) == list(compared.to_dict()["warnings"]) == ["value_zeroing"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert not lens.compare(TEXT, only=["value_zeroing"]).warnings
        lens.measure("alti", TEXT).rollout()


def test_the_command_prints_the_warning() -> None:
    command = ["map", TEXT, "-m", "mixlens/bundled/causal", "--target", "-1"]
    command += ["--measure", "value_zeroing"]
    rolled = run(*command, "--rollout")
    assert rolled.status == 0
    assert "warning: The rollout has collapsed onto the token '<s>'" in rolled.err
    assert "collapsed" not in run(*command).err


def test_the_page_has_the_warning_where_the_rollout_is_shown() -> None:
    maps = Lens.bundled("causal").measure("value_zeroing", TEXT)
    (entry,) = payload_of(maps)["maps"]
    first, *_, last = entry["joined"]["warnings"]
    assert first is None, "one layer is not yet a product"
    assert "collapsed onto the token '<s>'" in last
    assert not any(entry["warnings"])
    assert entry["reading"] == "mean"
    (rolled,) = payload_of(roll_out(maps))["maps"]
    assert "collapsed" in rolled["warnings"][-1]
    (masked,) = payload_of(Lens.bundled().measure("value_zeroing", TEXT))["maps"]
    assert not any(masked["joined"]["warnings"])
