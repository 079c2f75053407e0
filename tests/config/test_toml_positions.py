"""Where keys stand: the finder agrees with the parser about what there is, and each place leads to its key."""

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from fencepost.config.problems import TextPlace
from fencepost.config.toml_positions import Path, TomlPositions
from tests.config.toml_texts import texts


def paths(value: Any, path: Path = ()) -> Iterator[Path]:  # noqa: ANN401
    """Yield the path of everything that a parsed text holds."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise


@given(texts)
def test_the_finder_knows_exactly_the_keys_that_the_parser_knows(text: str) -> None:
    table = parsed(text)
    assert set(TomlPositions(text).offsets) == set(paths(table))


@given(texts)
def test_a_place_leads_to_the_key_or_to_its_section(text: str) -> None:
    table = parsed(text)
    found = TomlPositions(text)
    rows = text.split("\n")
    for path in paths(table):
        place = found.place(*path)
        rest = rows[place.line - 1][place.column - 1 :]
        assert rest
        if isinstance(path[-1], str) and path[-1].isalnum() and not rest.startswith(("[", '"', "'")):
            assert path[-1] in rest


@given(st.text(max_size=60))
def test_any_text_at_all_is_survived(text: str) -> None:
    found = TomlPositions(text)
    assert found.place("x", "y") >= TextPlace(1, 1)


def test_places_of_each_kind() -> None:
    text = 'top = 1\n\n[a.b]\nc.d = "x"\ne = [\n  1,\n  {f = 2},\n]\n[[h]]\n[[h]]\ni = 3\n["q.r"]\n'
    found = TomlPositions(text)
    assert found.place("top") == (1, 1)
    assert found.place("a", "b") == (3, 1)
    assert found.place("a", "b", "c", "d") == (4, 1)
    assert found.place("a", "b", "e", 0) == (6, 3)
    assert found.place("a", "b", "e", 1, "f") == (7, 4)
    assert found.place("h", 1, "i") == (11, 1)
    assert found.place("q.r") == (12, 1)


def test_what_is_not_there_is_reported_at_what_is_above_it() -> None:
    assert TomlPositions("[a]\nb = 1\n").place("a", "zzz") == (1, 1)
    assert TomlPositions("").place("a") == (1, 1)
