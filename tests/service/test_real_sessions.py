"""Sessions of the real Claude Code in one directory: each holds its project from a prompt to the end of that turn."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import claude_agent_sdk
import pytest

from tests.support.messages_api import MessagesApi, messages_api
from tests.support.site import Site

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
HELD, FREE = 75, 0
SECONDS = 60.0  # on a busy machine


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with messages_api() as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    (made.folder / "work").mkdir()
    yield made
    made.close()


def session(site: Site, api: MessagesApi, prompt: str) -> subprocess.Popen[bytes]:
    """Start a session as a person does, by whose settings our hooks are called."""
    env = {**site.environment(), **api.environment, "IS_SANDBOX": "1"}
    words = (str(CLAUDE), "-p", prompt, "--allowedTools", "Bash")
    return site.start(*words, environment=env, folder=str(site.folder / "work"))


def others(site: Site) -> int:
    """Return how a command ends that wants the project now."""
    return site.try_fencepost("exec", "--project", "work", "--", "true").returncode


def test_a_real_session_holds_its_project_from_its_prompt_to_the_end_of_the_turn(site: Site, api: MessagesApi) -> None:
    site.fencepost("hook", "install", "claude")

    first = session(site, api, "please STAY")
    site.until((site.folder / "work" / "draft").exists, seconds=SECONDS)
    assert others(site) == HELD
    first.kill()  # as a closed terminal does
    site.until(lambda: others(site) == FREE, seconds=SECONDS)

    assert session(site, api, "please WRITE").wait(SECONDS) == 0
    assert (site.folder / "work" / "written").exists()
    site.until(lambda: others(site) == FREE, seconds=SECONDS)


def test_strictly_a_real_session_that_came_second_waits_until_the_first_is_gone(site: Site, api: MessagesApi) -> None:
    site.fencepost("hook", "install", "claude", "--strict")
    first = session(site, api, "please STAY")
    site.until((site.folder / "work" / "draft").exists, seconds=SECONDS)

    second = session(site, api, "please WRITE")
    site.until(lambda: any("WRITE" in str(asked) for asked in api.asked), seconds=SECONDS)
    site.until(lambda: _waits(site), seconds=SECONDS)
    assert not (site.folder / "work" / "written").exists()
    first.kill()

    assert second.wait(SECONDS) == 0
    assert (site.folder / "work" / "written").exists()


def _waits(site: Site) -> bool:
    """Tell whether the hook before a tool is under way."""
    found = [Path(f"/proc/{pid}/cmdline") for pid in site.left_alive()]
    return any(b"turn-check" in path.read_bytes() for path in found if path.exists())
