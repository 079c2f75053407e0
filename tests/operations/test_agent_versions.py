"""A CLI that is newer than its definition is told by doctor, before a run shows that it changed."""

from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.config.presets import shipped, shipped_names
from fencepost.operations.agent_versions import ask_version, untried
from fencepost.operations.doctor_finding import Status

AGENTS = """\
[engines.mine]
extends = "codex"
version_argv = ["{folder}/mine", "--version"]
tried = ["1.9", "1.10.2"]
[agents.a]
engine = "cli"
preset = "mine"
prompt = "x"
[agents.b]
engine = "cli"
preset = "gemini"
prompt = "x"
"""


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("mine 1.10.2 (build 7)", Status.OK),
        ("1.9.9", Status.OK),
        ("mine v1.10.3", Status.WARN),
        ("mine-cli 2.0", Status.WARN),
    ],
)
def test_an_installed_version_is_compared_with_those_that_were_tried(tmp_path: Path, says: str, status: Status) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(AGENTS.format(folder=tmp_path))
    (tmp_path / "mine").write_text(f"#!/bin/sh\necho '{says}'\n")
    (tmp_path / "mine").chmod(0o755)

    (finding,) = untried(load(str(file)), {"PATH": str(tmp_path)}, ask_version)

    assert (finding.check, finding.status) == ("mine version", status)
    assert "1.9, 1.10.2" in finding.message


@pytest.mark.parametrize("preset", ["amp", "cursor-agent"])
def test_a_definition_that_was_never_run_with_the_real_program_says_so(tmp_path: Path, preset: str) -> None:
    file, program = tmp_path / "fencepost.toml", tmp_path / preset
    file.write_text(f'[agents.a]\nengine = "cli"\npreset = "{preset}"\nprompt = "x"\n')
    program.write_text("#!/bin/sh\necho 1.2.3\n")
    program.chmod(0o755)

    (finding,) = untried(load(str(file)), {"PATH": str(tmp_path)}, ask_version)

    assert (finding.status, "was never run with a real one" in finding.message) == (Status.WARN, True)


def test_with_which_versions_a_definition_was_tried_is_no_part_of_a_manifest(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(AGENTS.format(folder=tmp_path))

    for agent in load(str(file)).agents.values():
        assert not {"tried", "version_argv"} & agent.options["definition"].keys()


def test_every_definition_that_could_be_tried_says_with_what() -> None:
    untried_ones = {name for name in shipped_names() if not shipped(name).get("tried")}

    assert untried_ones == {"amp", "cursor-agent"}, "their model cannot be stood in for, or they cannot be had"
