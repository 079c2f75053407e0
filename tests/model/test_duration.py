"""Durations: what people write, and what they get when they write something else."""

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.model.duration import format_duration, parse_duration
from fencepost.model.errors import Invalid


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ms", 0.3),
        ("3s", 3),
        ("10m", 600),
        ("4h", 14_400),
        ("2d", 172_800),
        ("1h30m", 5400),
        ("1d2h3m4s5ms", 93_784.005),
        ("1.5h", 5400),
        ("0.25s", 0.25),
        ("0s", 0),
        (" 5m ", 300),
        ("090s", 90),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_a_sum_of_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("300", "did you mean '300s'"),
        ("5min", "did you mean m?"),
        ("5 minutes", "did you mean m?"),
        ("2w", "7d is a week"),
        ("10M", "did you mean m?"),
        ("-5s", "is no unit"),
        ("s", "no number stands before 's'"),
        ("30m1h", "out of order"),
        ("1h1h", "out of order"),
        ("1.s", "is no number"),
        ("1.2.3s", "is no number"),
        (".5s", "is no number"),
        ("0.0001s", "finer than a millisecond"),
        ("99999d", "longer than 100 years"),
        ("9" * 400 + "s", "is no number"),
        ("\u0663s", "is no unit"),
        ("1_0s", "is no unit"),
        ("1h 30m", "is no unit"),
        ("5x", "is no unit"),
    ],
)
def test_anything_else_is_refused_with_a_reason_and_an_example(text: str, part: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_duration(text)
    assert part in str(refused.value)
    assert "300ms 3s 10m 4h 2d" in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.3, "300ms"), (90, "1m30s"), (90.5, "1m30s500ms"), (172_800, "2d"), (-5, "-5s")]
)
def test_the_shortest_spelling_is_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@settings(deadline=None)
@given(st.integers(0, 36_500 * 86_400_000))
def test_what_is_written_reads_back_the_same(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@settings(deadline=None)
@given(st.text(max_size=30) | st.text(alphabet="0123456789.smhd ", max_size=20))
@example("1" * 10_000)
def test_any_text_is_a_duration_or_a_refusal(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except Invalid as refused:
        assert "is no duration" in str(refused)  # noqa: PT017  # either outcome is right


def test_reading_a_duration_imports_nothing_heavy() -> None:
    code = "import sys, fencepost.model.duration; print({'re', 'datetime', 'dataclasses', 'typing'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "set()", done.stderr
