"""Our light JSON says what json says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model import fast_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_it_writes_what_json_writes(value: object) -> None:
    assert json.dumps(value) == fast_json.dumps(value)


@given(VALUES, st.integers(0, 4))
def test_it_reads_what_json_reads(value: object, indent: int) -> None:
    text = json.dumps(value, indent=indent)

    assert value == fast_json.loads(f" {text}\n")
    assert value == fast_json.loads(text.encode())


@given(st.text())
def test_it_refuses_what_json_refuses(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011  # in whatever words
            fast_json.loads(text)
    else:
        assert repr(expected) == repr(fast_json.loads(text))


def test_surrogates_of_a_strange_argv_survive() -> None:
    assert fast_json.loads(fast_json.dumps({"a": "\udcff"})) == {"a": "\udcff"}


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        fast_json.dumps({1})
