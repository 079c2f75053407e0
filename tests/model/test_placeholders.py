"""Facts of a run in a text: put in once, as data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.placeholders import FIELDS, as_data, check_placeholders, fill


def test_a_placeholder_is_replaced_and_what_is_put_in_is_not_read_again() -> None:
    assert fill("{tick} {agent}", {"tick": "{agent}", "agent": "x"}) == "{agent} x"


def test_braces_that_hold_no_name_are_left_alone() -> None:
    text = 'return {"a": 1}, f{x y}, {}, { tick }, ${HOME}'

    assert fill(text, {"tick": "T"}) == text


def test_doubled_braces_stand_for_themselves() -> None:
    assert fill("{{tick}}", {"tick": "T"}) == "{tick}"


def test_a_placeholder_says_what_stands_for_an_empty_value() -> None:
    values = {"last_success": "", "tick": "T"}

    assert fill("since {last_success|the beginning};", values) == "since the beginning;"
    assert fill("at {tick|never}", values) == "at T"
    assert fill("since {last_success|}.", values) == "since ."
    assert fill("{{last_success|the beginning}}", values) == "{last_success|the beginning}"


def test_a_bar_in_braces_that_mean_something_else_is_left_alone() -> None:
    text = "match {a|b}, {yes|no} and {x|y|z}"

    assert fill(text, {"tick": "T"}) == text
    with pytest.raises(Invalid, match=r"Did you mean \{last_success\}"):
        check_placeholders("{last_sucess|the beginning}", FIELDS)


def test_an_unknown_placeholder_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(Invalid, match=r"Did you mean \{period_start\}"):
        check_placeholders("Since {perod_start}", FIELDS)


@given(st.text())
def test_no_payload_closes_its_tag(payload: str) -> None:
    assert as_data(payload).count("</payload>") == 1
    assert as_data(payload).endswith("</payload>")


@given(st.text(), st.text())
def test_any_value_comes_through_unchanged(before: str, value: str) -> None:
    template = before.replace("{", "").replace("}", "") + "{tick}"

    assert fill(template, {"tick": value}).endswith(value)
