"""Targets of gates: one spelling, no secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.target import Target, parse_target, target_of


@pytest.mark.parametrize(
    "text",
    [
        "file:out/report #1.json",
        "dir:/srv/www/site",
        "sql:env:LEDGER_URL",
        "sql:env:LEDGER_URL#table=audit.fences",
        "sql:postgresql://reader@db.example/ledger",
        "git:git@example.com:team/site.git#branch=main",
        "git:/srv/git/site.git#branch=release%231",
    ],
)
def test_a_target_is_read_and_spelled_the_same(text: str) -> None:
    assert parse_target(text).text == text


def test_options_have_one_order() -> None:
    assert parse_target("sql:env:X#b=2&a=1").text == "sql:env:X#a=1&b=2"


@given(value=st.text(min_size=1), name=st.from_regex(r"[a-z_]+", fullmatch=True))
def test_any_value_survives(value: str, name: str) -> None:
    target = Target("sql", "env:X", ((name, value),))

    assert parse_target(target.text) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file:",
        "ftp:x",
        "sql",
        "sql:#table=x",
        "sql:env:X#table",
        "sql:env:X#a=1&a=2",
        "sql:postgresql://me:hunter2@db/ledger",
        "sql:postgresql://db/ledger?password=hunter2",
        "redis:redis://:hunter2@host/0",
    ],
)
def test_what_is_no_target_is_refused_and_a_password_is_not_repeated(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_target(text)

    assert "hunter2" not in str(refused.value)


def test_a_definition_has_a_target() -> None:
    assert target_of({"kind": "file", "path": "out", "url": ""}) == "file:out"
    assert target_of({"kind": "git", "url": "env:REMOTE", "branch": "main", "path": ""}) == "git:env:REMOTE#branch=main"
