"""The Python pages name what there is, and their programs are programs."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import fencepost
from fencepost import Fencepost, RunContext

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/python.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / page).read_text())


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in fencepost.__all__ if name not in PAGE] == []


@pytest.mark.parametrize(("kind", "pattern"), [(Fencepost, r"`@?app\.(\w+)"), (RunContext, r"^\| (`\w.*?) \|")])
def test_what_the_page_names_exists_and_nothing_is_left_out(kind: type, pattern: str) -> None:
    section = PAGE.split(f"## {kind.__name__}\n")[1].split("\n## ")[0]
    named = {word for row in re.findall(pattern, section, re.MULTILINE) for word in re.findall(r"(?:^|`)(\w+)", row)}
    public = {name for name in dir(kind) if not name.startswith("_")}

    assert named <= public
    assert public - named <= {"store_url"}


@pytest.mark.parametrize("page", ["how-to/schedule-from-python.md", "how-to/do-it-once.md"])
def test_python_blocks_are_python(page: str) -> None:
    assert blocks(page)
    for block in blocks(page):
        compile(block, page, "exec")


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Give the first program as a module of its own, as a reader would save it."""
    path = tmp_path / "books_of_the_page.py"
    path.write_text(blocks("how-to/schedule-from-python.md")[0])
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("books_of_the_page")
    del sys.modules["books_of_the_page"]


def test_the_test_of_the_how_to_passes_for_its_first_program(books: ModuleType, tmp_path: Path) -> None:
    program = blocks("how-to/schedule-from-python.md")[-1].replace("/tmp/report.json", f"{tmp_path}/report.json")
    names = dict(vars(books))
    exec(program, names)  # our own page

    names["test_a_second_attempt_sends_nothing_twice"]()

    assert (tmp_path / "report.json").read_text() == '{"invoice": "2026-0042"}'


def test_the_first_program_of_the_how_to_is_in_order(books: ModuleType) -> None:
    config = books.app.config()

    assert {name: one.agent for name, one in config.schedules.items()} == {
        "close-books": "close-books-agent",
        "sweep": "sweep-agent",
    }
    assert config.agents["close-books-agent"].gates == ("report",)
