"""The schedules in the how-to pages of engines can be copied as they are, and run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.config.presets import shipped, shipped_names
from tests.engines.conftest import Bench
from tests.support.receiver import Receiver, receiver

ROOT = Path(__file__).parents[2]
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTINGS = re.compile(r"^\[fencepost\]\n", re.MULTILINE)


def blocks(page: str, kind: re.Pattern[str] = TOML) -> list[str]:
    return kind.findall((ROOT / f"docs/how-to/{page}.md").read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-a-test")
    monkeypatch.setenv("IMPORT_SECRET", "a-signing-secret-of-32-characters")
    monkeypatch.setenv("IMPORT_AUTH", "Bearer of-a-test")
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def jobs() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def carry_out(bench: Bench, text: str) -> dict[str, object]:
    """Apply a page's file with a store of the test's own, run its schedule now, and return the run."""
    bench.configure(
        SETTINGS.sub("", text, count=1).replace('timezone = "Europe/Berlin"\n', "").replace('timezone = "UTC"\n', "")
    )
    bench.up("--workers", "1", "--ttl", "5s", command="worker")
    (schedule,) = load(str(bench.folder / "fencepost.toml")).schedules
    bench.fencepost("run", schedule, "--wait")
    (run,) = bench.runs()
    return bench.shown(run.id)


def test_claude_code(bench: Bench) -> None:
    run = carry_out(bench, blocks("run-claude-code")[0])

    words, prompt, env = json.loads((bench.folder / "claude-argv.json").read_text())
    assert (run["state"], run["cost_usd"]) == ("succeeded", 0.0123)
    assert prompt.startswith("Look at what failed in CI since")
    assert words[words.index("--max-budget-usd") + 1] == "5.00"
    assert env["ANTHROPIC_API_KEY"] == "of-a-test"


@pytest.mark.parametrize("preset", ["codex", "gemini", "amp"])
def test_another_agent_cli_by_changing_one_line(bench: Bench, preset: str) -> None:
    text = blocks("run-another-agent-cli")[0]
    assert text.count('preset = "codex"') == 1

    run = carry_out(bench, text.replace('preset = "codex"', f'preset = "{preset}"'))

    assert (run["state"], run["schedule"]) == ("succeeded", "review-daily")
    assert str(run["summary"]).startswith(f"{preset} answers: Review the commits since")


def test_an_agent_behind_http(bench: Bench, jobs: Receiver) -> None:
    text = blocks("run-an-http-agent")[0]
    assert "https://jobs.example/import" in text

    here = text.replace("https://jobs.example/import", f"{jobs.url}/import").replace(
        '# http_allow = ["10.0.0.0/8"]', 'http_allow = ["127.0.0.1"]'
    )
    run = carry_out(bench, here)

    (heard,) = jobs.heard
    assert run["state"] == "succeeded"
    assert (heard.path, heard.headers["authorization"]) == ("/import", "Bearer of-a-test")
    assert heard.json["run_id"] == run["id"]


def test_a_python_function(bench: Bench) -> None:
    (bench.folder / "reports").mkdir()
    (bench.folder / "reports" / "weekly.py").write_text(blocks("run-a-python-agent", PYTHON)[0])

    run = carry_out(bench, blocks("run-a-python-agent")[0])

    assert (run["state"], run["summary"], run["cost_usd"], run["usage"]) == (
        "succeeded",
        "12 pages",
        0.12,
        {"input": 900},
    )


def test_the_lines_for_each_cli_can_be_copied(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(blocks("run-another-agent-cli")[1])

    presets = {agent.options["preset"] for agent in load(str(file)).agents.values()}

    assert presets == {name for name in shipped_names() if shipped(name).get("tried")} - {"claude"}


def test_a_definition_of_ones_own_can_be_copied_too(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(blocks("run-another-agent-cli")[2])

    assert load(str(file)).agents["mine"].options["definition"]["argv"][0] == "mycli"


def test_programs_on_the_agent_sdk_can_be_copied_too() -> None:
    compile(blocks("run-a-python-agent", PYTHON)[1], "how-to", "exec")
