"""Records what the real CLIs print, for the stand-ins and definitions to be checked against without them.

FENCEPOST_TEST_RECORD=tests/engines/recorded make test-agents

On a quiet machine: a run that our own limit ended says nothing.
"""

import json
import re
from pathlib import Path
from typing import Any

from tests.agents.story import Story

TEXT_MAX = 300
LINES_MAX = 60
RECORDED = ("works", "fault-401", "fault-500", "fault-cut", "drained")
NOISE = ("session.background_tasks_changed",)  # by the dozen
PLACES = re.compile(r"(file://)?/(tmp|work|root|home|dev/shm|usr|var)/[^\s\"',;:)]*")
PORT = re.compile(r"127\.0\.0\.1:\d+")


def record(story: Story, folder: Path) -> None:
    """Write the last attempt of some runs down, without what is of this machine alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RECORDED:
        if name not in story.runs:
            continue
        lines = Path(story.runs[name]["log"]).read_text().splitlines()
        kept = [line for line in map(_plain, lines) if line and not any(one in line for one in NOISE)]
        (folder / f"{name}.log").write_text("\n".join(_few(kept)) + "\n")


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LINES_MAX else [*lines[: LINES_MAX // 2], *lines[-LINES_MAX // 2 :]]


def _plain(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return _text(line.rstrip())
    return json.dumps(_short(event), ensure_ascii=False) if isinstance(event, dict) else ""


def _short(value: Any) -> Any:  # noqa: ANN401  # JSON of any shape
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_short(one) for one in value[:3]]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return PORT.sub("127.0.0.1:8080", PLACES.sub("/home/ada/work", text))[:TEXT_MAX]
