"""The palette is distinguishable with any colour vision, and every measure has its own style."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from mixlens.measures import MEASURES, attention, ready_measures, register, spec_of
from mixlens.views import style

# Machado, Oliveira & Fernandes 2009, table 1, severity 1.0; on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    return LAB @ np.cbrt(LMS @ np.clip(rgb, 0, 1))


def contrast(one: str, other: str) -> float:
    low, high = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] + 0.05 for c in (one, other))
    return float(high / low)


def test_series_are_distinguishable_with_colour_blindness() -> None:
    """Okabe and Ito's six colours are 0.076 apart for the worst eye."""
    for name, eye in EYES.items():
        count = len(style.SERIES) if name == "normal" else style.SAFE
        seen = [oklab(eye @ linear(colour)) for colour in style.SERIES[:count]]
        nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
        assert nearest > (0.1 if name == "normal" else 0.079), name


def test_colours_can_be_read_on_both_papers() -> None:
    for theme in (style.LIGHT, style.DARK):
        assert contrast(theme["ink"], theme["paper"]) > 7
        assert contrast(theme["quiet"], theme["paper"]) > 4.5
        for colour in (*style.SERIES, style.BASELINE):
            assert contrast(colour, theme["paper"]) > 2.3


def test_every_measure_has_a_style_of_its_own() -> None:
    styles = style.measure_styles()
    assert list(styles) == list(ready_measures())
    assert len({(s.marker, s.dash) for s in styles.values()}) == len(styles)
    assert len({s.colour for s in styles.values()}) == min(len(styles), len(style.SERIES) + 1)
    assert styles["random"].colour == style.BASELINE
    assert all(s.colour in style.SERIES for name, s in styles.items() if name != "random")


def test_a_measure_of_others_takes_no_style_of_ours() -> None:
    before = style.measure_styles()
    register("a_first", spec_of("attention"))(attention.score_layer)
    try:
        after = style.measure_styles()
    finally:
        MEASURES.unregister("a_first")
    assert {name: after[name] for name in before} == before
    assert after["a_first"] not in before.values()


def test_a_measure_keeps_its_style_among_any_others() -> None:
    alone = style.styles_of(["value_zeroing"])["value_zeroing"]
    among = style.styles_of(["compression", "random", "value_zeroing"])
    assert among["value_zeroing"] == alone
    assert among["compression"] not in style.measure_styles().values()


def test_pages_get_every_colour() -> None:
    sheet = style.css()
    for theme in (style.LIGHT, style.DARK):
        assert all(f"--{name}: {value};" in sheet for name, value in theme.items())


def test_the_viewer_has_the_same_colours() -> None:
    sheet = (Path(__file__).parents[2] / "web" / "src" / "style.css").read_text()
    for theme in (style.LIGHT, style.DARK):
        for name, value in theme.items():
            assert f"--{name}: {value};" in sheet
    ramps = (Path(__file__).parents[2] / "web" / "src" / "colour.ts").read_text()
    for ramp in (style.PLUS, style.MINUS):
        assert ", ".join(f'"{stop}"' for stop in ramp) in ramps
