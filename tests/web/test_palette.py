"""The colours of pictures can be told apart by eyes that see red and green alike, and stand out from the paper."""

import re
from itertools import combinations
from math import sqrt
from pathlib import Path

import pytest

from fencepost.web.dashboard.filters import FILLS

SHEET = Path(__file__).parents[2] / "src" / "fencepost" / "web" / "dashboard" / "static" / "dashboard.css"
LIGHT, DARK = SHEET.read_text("utf-8").split("@media (prefers-color-scheme: dark)", 1)
NAMES = ("succeeded", "running", "failed", "lost", "dead", "cancelled")
# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear light
EYES = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
DIFFERENT = 12.0  # in CIE Lab; about 2 is just noticeable side by side
CONTRAST = 3.0  # what WCAG asks of graphics

Colour = tuple[float, float, float]


def colour(sheet: str, name: str) -> Colour:
    found = re.search(rf"--{name}: #([0-9a-f]{{6}})", sheet)
    assert found, name
    return tuple(_linear(int(found[1][at : at + 2], 16) / 255) for at in (0, 2, 4))  # type: ignore[return-value]


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def seen(one: Colour, eyes: str) -> Colour:
    rows = (sum(share * part for share, part in zip(row, one, strict=True)) for row in EYES[eyes])
    return tuple(min(1.0, max(0.0, value)) for value in rows)  # type: ignore[return-value]


def lab(one: Colour) -> Colour:
    red, green, blue = one
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(one: Colour, other: Colour) -> float:
    return sqrt(sum((a - b) ** 2 for a, b in zip(lab(one), lab(other), strict=True)))


def contrast(one: Colour, other: Colour) -> float:
    first, second = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (one, other))
    return (second + 0.05) / (first + 0.05)


@pytest.mark.parametrize("sheet", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_colour_stands_out_from_the_paper_and_from_the_gaps_of_its_pattern(sheet: str, name: str) -> None:
    for paper in ("card", "k-gap"):
        assert contrast(colour(sheet, f"k-{name}"), colour(sheet, paper)) >= CONTRAST


@pytest.mark.parametrize("sheet", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_colours_are_told_apart_by_every_eye(sheet: str, eyes: str) -> None:
    close = {
        (one, other): round(near, 1)
        for one, other in combinations(NAMES, 2)
        if (near := distance(*(seen(colour(sheet, f"k-{name}"), eyes) for name in (one, other)))) < DIFFERENT
    }
    assert close == {}


def test_what_stands_in_one_plot_differs_in_colour_or_in_pattern() -> None:
    looks = {kind: (tone, look) for kind, tone, look in FILLS}
    together = (
        ("run", "missed", "overlap", "dst_gap", "coalesced", "paused", "budget", "calendar"),
        ("succeeded", "cancelled", "dead"),
        ("start", "takeover"),
    )
    for kinds in together:
        assert len({looks[kind] for kind in kinds}) == len(kinds)
    assert {tone for _, tone, _ in FILLS} <= set(NAMES)


def test_every_kind_of_attempt_has_a_pattern_of_its_own() -> None:
    template = SHEET.parents[1] / "templates" / "_timeline.html"
    text = template.read_text("utf-8")
    bodies = {name: re.search(rf'<pattern id="p-{name}"([^\n]*)</pattern>', text) for name in NAMES}
    assert all(bodies.values())
    assert len({re.sub(rf"f-{name}", "", body[1]) for name, body in bodies.items() if body}) == len(NAMES)
