"""Every program of ours that we start, or name in a file of another program, is started in one way."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from fencepost.model.own_program import own_program, own_script

SOURCE = Path(fencepost.__file__).parent
HOME = SOURCE / "model" / "own_program.py"


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != HOME]


def test_the_working_folder_is_not_searched_for_modules() -> None:
    assert own_program() == (sys.executable, "-P", "-m", "fencepost")
    assert own_program("fencepost.send_notices") == (sys.executable, "-P", "-m", "fencepost.send_notices")


def test_the_script_beside_the_interpreter_is_preferred_in_a_line_that_a_person_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert own_script() == (str(tmp_path / "python"), "-P", "-m", "fencepost")

    (tmp_path / "fencepost").touch(0o755)
    assert own_script() == (str(tmp_path / "fencepost"),)


def test_no_other_module_puts_such_a_command_line_together() -> None:
    found = [f"{path.relative_to(SOURCE)}:{line}" for path in modules() for line in built_here(path)]
    assert found == [], "ask own_program() instead"


def built_here(path: Path) -> Iterator[int]:
    """Yield the lines on which a module speaks of the interpreter, or of a module of ours after -m."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr == "executable":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield node.lineno
        if isinstance(node, ast.Tuple | ast.List):
            words = [one.value for one in node.elts if isinstance(one, ast.Constant)]
            if "-m" in words and any(str(word).startswith("fencepost") for word in words):
                yield node.lineno
