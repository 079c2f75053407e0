"""Merging hooks into people's settings: nothing of theirs is lost, ours are there once, and go without a trace."""

import json
from contextlib import suppress
from re import escape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model import jsonc
from fencepost.model.agent_hook_settings import CLIS, Cli, install, installed, uninstall, wanted

WORDS = ("/opt/it's here/fencepost",)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)
HANDLERS = st.lists(st.fixed_dictionaries({"type": st.just("command"), "command": st.text()}), min_size=1, max_size=2)
GROUPS = st.lists(st.fixed_dictionaries({"hooks": HANDLERS}, optional={"matcher": st.text()}), min_size=1, max_size=2)
EVENTS = st.sampled_from(["PreToolUse", "BeforeTool", "Stop", "SessionStart", "UserPromptSubmit"])
SETTINGS = st.builds(
    lambda rest, hooks: {**rest, **({"hooks": hooks} if hooks else {})},
    st.dictionaries(st.text().filter(lambda key: key != "hooks"), JSON, max_size=3),
    st.dictionaries(EVENTS, GROUPS, max_size=3),
)
ANY_CLI = st.sampled_from(list(CLIS.values()))


@pytest.fixture(params=list(CLIS.values()), ids=list(CLIS))
def cli(request: pytest.FixtureRequest) -> Cli:
    found: Cli = request.param
    return found


def number_for(cli: Cli) -> int:
    """Return how many handlers we have in a CLI's settings."""
    return sum(len(group["hooks"]) for group in wanted(cli, WORDS).values())


@settings(max_examples=30, deadline=None)
@given(SETTINGS, ANY_CLI, st.sampled_from([None, 2, 4, "\t"]))
def test_install_and_uninstall_leave_every_character_where_it_was(
    value: dict[str, Any], cli: Cli, indent: int | str | None
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"

    with_ours = install(text, cli, WORDS)

    found = json.loads(with_ours)
    assert {name: one for name, one in found.items() if name != "hooks"} == {
        name: one for name, one in value.items() if name != "hooks"
    }
    for event, groups in value.get("hooks", {}).items():
        assert found["hooks"][event][: len(groups)] == groups
    assert len(installed(with_ours)) == number_for(cli)
    assert install(with_ours, cli, WORDS) == with_ours
    assert uninstall(with_ours) == text


COMMENTED = """\
{
  // how I like it
  "theme": "dark", /* really */
  "hooks": {
    "Stop": [
      { "hooks": [ { "type": "command", "command": "say done" } ] }, // loud
    ],
    // before tools
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "log"}]}] // mine
  }
}
"""


def test_comments_and_trailing_commas_stay_where_they_are(cli: Cli) -> None:
    with_ours = install(COMMENTED, cli, WORDS)

    for line in ("// how I like it", "/* really */", "// loud", "// before tools", "// mine"):
        assert line in with_ours
    assert len(installed(with_ours)) == number_for(cli)
    assert uninstall(with_ours) == COMMENTED


def test_another_installation_of_ours_is_replaced_and_not_doubled(cli: Cli) -> None:
    old = install(COMMENTED, cli, ("/old/fencepost",))

    new = install(old, cli, WORDS)

    assert "/old/" not in new
    assert len(installed(new)) == number_for(cli)


def test_a_handler_that_a_person_put_beside_ours_stays(cli: Cli) -> None:
    value = json.loads(install("{}", cli, WORDS))
    theirs = {"type": "command", "command": "mine"}
    value["hooks"][cli.after_turn][0]["hooks"].insert(0, theirs)
    value["hooks"]["SessionEnd"].append({"hooks": [theirs]})

    left = json.loads(uninstall(json.dumps(value, indent=2)))

    assert left == {"hooks": {cli.after_turn: [{"hooks": [theirs]}], "SessionEnd": [{"hooks": [theirs]}]}}


def test_settings_that_were_empty_are_empty_again(cli: Cli) -> None:
    for text in ("{}", "{}\n", "// only a word\n{}\n"):
        assert uninstall(install(text, cli, WORDS)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: a value is missing"),
        ("[]", "settings are an object"),
        ('{\n"a": 1\n"b": 2}', "line 3: a comma or } is missing"),
        ('{"a": 1} x', "behind the end"),
        ('{"hooks": []}', "hooks is no object"),
        ('{"hooks": {"PreToolUse": {}}}', "hooks.PreToolUse is no list"),
        ('{"a": 1, "a": 2}', "'a' stands there twice"),
        ("[" * 1000, "nested too deep"),
        ('{"a": NaN}', "is no value"),
        ("{'a': 1}", "a key in quotes is missing"),
    ],
)
def test_what_cannot_be_read_is_not_guessed_at(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=escape(says)):
        install(text, CLIS["claude"], WORDS)


@settings(max_examples=100, deadline=None)
@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_it_reads_what_json_reads(value: object, indent: int | str | None) -> None:
    assert jsonc.parse(json.dumps(value, indent=indent)).value == value


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='{}[],:"\\/* \n01atrue-.', max_size=40))
def test_on_any_text_it_agrees_with_json_or_is_more_lenient(text: str) -> None:
    try:
        strict = json.loads(text)
    except ValueError:
        return
    if isinstance(strict, dict):
        with suppress(ValueError):  # a key that stands there twice
            assert jsonc.parse(text).value == strict
    else:
        assert jsonc.parse(text).value == strict
