"""Definitions and stand-ins beside what the real CLIs were recorded to print: `make test-agents` renews the recordings."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.config.presets import shipped
from fencepost.model.agent_verdict import judge
from fencepost.model.cli_definition import ENDINGS, definition_from
from fencepost.model.outcome import Failed, Outcome, Succeeded
from fencepost.model.output_rules import Heard, OutputRules
from fencepost.model.transcript import Transcript, event_in
from tests.engines.conftest import STANDINS

RECORDED = Path(__file__).parent / "recorded"
CLIS = tuple(sorted(path.name for path in RECORDED.iterdir()))
PRESETS = {name: name.partition("-before")[0] for name in CLIS}
EXIT_CODES = {("gemini", "fault-401"): 145}  # an end that the output tells, whatever the code, needs none
NO_USE = Failed(78, said=True)
# What the model was to do, and how the run has to end by what was printed. Those that were cut off by a time-out say nothing.
ENDS = {"works": Succeeded(), "fault-401": NO_USE}


def rules_of(name: str) -> OutputRules:
    return definition_from(shipped(PRESETS.get(name, name))).output


def heard(name: str, lines: list[str]) -> Transcript:
    told = Transcript(rules_of(name))
    for line in lines:
        told.hear(line.encode(), aside=not line.startswith("{") and rules_of(name).format != "text")
    told.finish()
    return told


def recorded(name: str, scene: str) -> list[str]:
    return (RECORDED / name / f"{scene}.log").read_text().splitlines()


def ended(name: str, scene: str) -> Outcome | None:
    definition = definition_from(shipped(PRESETS[name]))
    codes = {code: ENDINGS[word] for code, word in definition.exit_codes.items()}
    told = heard(name, recorded(name, scene))
    code = EXIT_CODES.get((PRESETS[name], scene), 0)
    tells = definition.output.tells_success
    return judge(told, code, tells_success=tells, exit_codes=codes, ended_by_us=False)


@pytest.mark.parametrize("scene", ENDS)
@pytest.mark.parametrize("name", CLIS)
def test_a_recording_ends_as_the_run_did(name: str, scene: str) -> None:
    assert ended(name, scene) == ENDS[scene]


@pytest.mark.parametrize("name", CLIS)
def test_a_recorded_stream_that_was_cut_is_a_success_only_if_the_answer_came_whole(name: str) -> None:
    whole = "all of it is done, in three pieces"
    lines = recorded(name, "fault-cut")

    if heard(name, lines).work and ended(name, "fault-cut") == Succeeded():
        assert any(whole in line for line in lines)


def told_by(rules: OutputRules, lines: list[str]) -> Iterator[tuple[str, int]]:
    """Yield by which rule of which fact something was told."""
    lists = {name: getattr(rules, name) for name in OutputRules.__dataclass_fields__ if name not in ("format", "usage")}
    lists |= {f"usage.{name}": where for name, where in rules.usage.items()}
    version = next((one for one in _versions(rules, lines)), None)
    for line in lines:
        event = None if rules.format == "text" else event_in(line.encode())
        one = Heard(event, "" if event is not None else line, version)
        for fact, where in lists.items():
            for place, rule in enumerate(where):
                if one.fits_one(rule) and (rule.say or not (rule.take or rule.match) or list(one.values(rule))):
                    yield fact, place


def _versions(rules: OutputRules, lines: list[str]) -> Iterator[tuple[int, ...]]:
    told = Transcript(rules)
    for line in lines:
        told.hear(line.encode())
    if told.version:
        yield told.version


def stand_in(name: str, mood: str, folder: Path) -> list[str]:
    """Let a stand-in speak, called as its definition calls the real one."""
    definition = definition_from(shipped(name))
    (folder / "prompt").write_text("do it")
    known = {"{session}": "s", "{prompt_file}": str(folder / "prompt"), "{prompt}": "do it"}
    words = [word for word in definition.argv[1:] if word not in ("{args}", "{model_args}")]
    for placeholder, value in known.items():
        words = [word.replace(placeholder, value) for word in words]
    env = {"HOME": str(folder), "STANDIN": mood, "FENCEPOST_FENCE": "1", **definition.env}
    ran = subprocess.run(
        [sys.executable, STANDINS / f"{name}.py", *words],
        input="do it",
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.stdout, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("mood", ["works", "fails"])
@pytest.mark.parametrize("name", sorted(set(PRESETS.values())))
def test_a_stand_in_says_nothing_in_a_way_that_the_real_one_was_not_seen_to(
    name: str, mood: str, tmp_path: Path
) -> None:
    rules = rules_of(name)
    real = [line for one, preset in PRESETS.items() if preset == name for path in (RECORDED / one).iterdir()
            for line in path.read_text().splitlines()]  # fmt: skip

    by_stand_in = set(told_by(rules, stand_in(name, mood, tmp_path)))

    assert by_stand_in <= set(told_by(rules, real))
