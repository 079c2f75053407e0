"""A little of the fuzzing on every push, and everything that a fuzzer ever found, again."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
SLOW = {"config": 25, "redaction": 40}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_once_is_right_now(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_met_with_composure(name: str) -> None:
    seeds = [path.read_bytes() for path in KEPT if path.parent.name == name]

    @settings(max_examples=SLOW.get(name, 80), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.binary(max_size=300) | st.sampled_from(seeds or [b""]).flatmap(_bent))
    def meet(data: bytes) -> None:
        TARGETS[name](data)

    meet()


@st.composite
def _bent(draw: st.DrawFn, seed: bytes) -> bytes:
    """Change a known input a little."""
    at = draw(st.integers(0, len(seed)))
    return seed[:at] + draw(st.binary(max_size=8)) + seed[at + draw(st.integers(0, 4)) :]


def test_every_target_has_a_corpus_and_nothing_else_lies_there() -> None:
    assert sorted({path.parent.name for path in KEPT}) == sorted(TARGETS)
