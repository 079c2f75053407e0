"""The dashboard file and the figures that the web door tells: each knows all of the other's names and labels."""

import json
import re
from pathlib import Path
from typing import Any

from fencepost.ports.metering import Figures, Sums
from fencepost.web.metrics import Reading

BOARD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "examples/grafana/fencepost.json").read_text())
MANUAL = Path(__file__).parents[2] / "docs/how-to/watch-with-prometheus.md"
NAMED = re.compile(r"`(fencepost_[a-z_]+)`")
SPOKEN_IN_TEXT = re.compile(r"`(fencepost_[a-z_]+)(?:\{[^`]*)?`")
SPOKEN = re.compile(r"(fencepost_[a-z_]+)(?:\{([^}]*)\})?")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
EVEN_WITHOUT = {"fencepost_build_info"}
FIGURES = Figures(now_us=1, ticks=(), runs=(), live=(), ended=(), tokens=(), sums=Sums(0, 0, 0, 0, 0), cursor_us=0)
READING = Reading("default", FIGURES, dead=0, ahead_seconds=0.0)


def told() -> dict[str, set[str]]:
    """Return every name that can be asked for, with its labels."""
    found: dict[str, set[str]] = {}
    for family in READING.collect():
        labels = set(getattr(family, "_labelnames", ()))
        for suffix in SUFFIXES[family.type]:
            found[f"{family.name}{suffix}"] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def test_every_figure_on_the_dashboard_is_told_with_its_labels() -> None:
    known = told()
    for expression in expressions():
        for name, matchers in SPOKEN.findall(expression):
            assert name in known, expression
            asked = set(re.findall(r"(\w+)=~?\"", matchers))
            grouped = {word for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.split(", ")}
            assert asked | grouped <= known[name], expression


def test_every_figure_that_is_told_is_on_the_dashboard() -> None:
    shown = {name for expression in expressions() for name, _ in SPOKEN.findall(expression)}
    families = {family.name for family in READING.collect()} - EVEN_WITHOUT
    missing = {name for name in families if not any(one.startswith(name) for one in shown)}
    assert missing == set()


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not mine & cells, panel["title"]
        cells |= mine


def test_the_manual_names_every_figure_that_is_told_with_its_labels_and_no_other() -> None:
    rows = [line.split("|")[1:4] for line in MANUAL.read_text().splitlines() if line.startswith("| `fencepost_")]
    written = {
        name: set(labels.replace(" ", "").split(",")) - {""}
        for names, labels, _ in rows
        for name in NAMED.findall(names)
    }
    families = [family for family in READING.collect() if family.name not in EVEN_WITHOUT]
    shown = {
        f"{one.name}_total" if one.type == "counter" else one.name: set(getattr(one, "_labelnames", ()))
        for one in families
    }
    assert written == shown
    everywhere = set(SPOKEN_IN_TEXT.findall(MANUAL.read_text()))
    assert everywhere <= told().keys() | shown.keys()
