"""A new version may replace the package's files under a living guard: all that it needs was loaded before it was forked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import Site

# Runs `fencepost up` with guards that write down what they import, and which of them or of their children did.
WATCHED = """
import os, sys
from fencepost.cli.main import run
from fencepost.service import zygote
from fencepost.wiring import serving

make = serving.guard_maker

def note(text):
    with open(path, "a") as file:
        file.write(text + chr(10))

class Notes:
    def __init__(self, guard):
        self.guard = guard

    def find_spec(self, name, path=None, target=None):
        note(("guard " if os.getpid() == self.guard else "child ") + name)

def watched(become):
    def become_watched(listener, place):
        sys.meta_path.insert(0, Notes(os.getpid()))
        become(listener, place)
        note("guard ended")
    return become_watched
"""
# The worker, and the helper of its full guards.
UP = f"""
{WATCHED}
path = os.path.abspath("imported")
serving.guard_maker = lambda rights: watched(make(rights))
zygote.plain_words = lambda: [sys.executable, "-c", PLAIN, path]
run()
"""
# The helper of its plain guards.
PLAIN = f"""
{WATCHED}
from fencepost.service import plain_zygote
path, descriptor = sys.argv[1:]
load = plain_zygote.load
plain_zygote.load = lambda: watched(load())
plain_zygote.main(int(descriptor))
"""
CONFIG = """
[projects.repo]
path = "repo"
isolation = "worktree"
merge = "merge"
[gates.page]
kind = "file"
path = "page.html"
[agents.plain]
command = ["true"]
[agents.fails]
command = ["sh", "-c", "exit 3"]
[agents.late]
command = ["sleep", "60"]
timeout = "500ms"
[agents.gated]
command = 'fencepost gate check && echo "{}" | fencepost checkpoint set'
shell = true
gates = ["page"]
[agents.apart]
project = "repo"
command = ["sh", "-c", "date > new && git add new && git commit -qm new"]
[agents.apart.env]
GIT_AUTHOR_NAME = "a"
GIT_AUTHOR_EMAIL = "a@example.invalid"
GIT_COMMITTER_NAME = "a"
GIT_COMMITTER_EMAIL = "a@example.invalid"
[agents.function]
engine = "python"
function = "books:close"
"""
AGENTS = ("plain", "fails", "late", "gated", "apart", "function")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_neither_a_guard_nor_its_children_import_what_a_new_version_may_replace(site: Site) -> None:
    repo = site.folder / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", repo], check=True)
    words = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-q", "--allow-empty", "-m", "first"]
    subprocess.run(["git", "-C", repo, *words], check=True)
    (site.folder / "books.py").write_text("def close(ctx):\n    print('closed')\n")
    site.configure(CONFIG)
    site.start(sys.executable, "-c", f"PLAIN = {PLAIN!r}\n{UP}", "up", "--no-web", "--workers", "2")
    for agent in AGENTS:
        site.fencepost("run", agent)
    site.until((site.folder / "imported").exists)
    notes = site.folder / "imported"
    site.until(lambda: notes.read_text().count("guard ended") >= len(AGENTS))

    ends = {run.agent: run.state for run in site.runs()}
    assert ends == {**dict.fromkeys(AGENTS, "succeeded"), "fails": "dead", "late": "dead"}
    imported = [line for line in notes.read_text().splitlines() if line != "guard ended"]
    assert [line for line in imported if line.startswith("guard ") or " fencepost" in line] == []
