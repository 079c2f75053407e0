"""The definitions for a public forge agree with what the package says of itself."""

from pathlib import Path
from typing import Any

import yaml

from scripts.pythons import versions

WORKFLOWS = Path(__file__).parents[2] / ".github/workflows"


def workflow(name: str) -> dict[Any, Any]:
    found = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
    assert isinstance(found, dict)
    return found


def test_the_suite_runs_on_every_python_that_is_promised_on_linux_and_macos() -> None:
    matrix = workflow("check")["jobs"]["suite"]["strategy"]["matrix"]

    assert matrix["python"] == versions()
    assert [os.partition("-")[0] for os in matrix["os"]] == ["ubuntu", "macos"]


def test_only_the_job_that_publishes_may_ask_for_the_registry_s_trust() -> None:
    found = workflow("release")

    assert found["permissions"] == {"contents": "read"}
    assert found["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert found["jobs"]["publish"]["needs"] == "build"
    assert "permissions" not in found["jobs"]["build"]


def test_they_are_called_untried_until_they_have_run() -> None:
    for path in WORKFLOWS.glob("*.yml"):
        assert "Untried" in path.read_text()
