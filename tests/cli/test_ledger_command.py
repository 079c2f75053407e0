"""`fencepost ledger` from inside a run and by a person: recorded, replayed, in doubt, resolved."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.site import Site
from tests.support.terminal import on_a_terminal

FENCEPOST = f"{sys.executable} -m fencepost"
SEND = "sh -c 'echo sent >> effects; echo INV-17'"


@pytest.fixture
def lone(site: Site) -> Site:
    """A site with no configuration: `exec` and its store."""
    return site


def guarded(site: Site, line: str, *, code: int = 0, lock: str = "z") -> subprocess.CompletedProcess[str]:
    """Run a shell line under `fencepost exec`."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "fencepost",
            "exec",
            "--lock",
            lock,
            "--",
            "sh",
            "-c",
            line.replace("fencepost", FENCEPOST),
        ],
        cwd=site.folder,
        env=site.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


def effects(site: Site) -> int:
    path = site.folder / "effects"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_command_is_run_once_and_its_output_is_printed_ever_after(lone: Site) -> None:
    first = guarded(lone, f"fencepost ledger once invoice -- {SEND}")
    same_run = guarded(lone, f"fencepost ledger once invoice -- {SEND} && fencepost ledger once invoice -- {SEND}")

    assert first.stdout == "INV-17\n"
    assert same_run.stdout == "INV-17\nINV-17\n"
    assert effects(lone) == 1
    (entry,) = lone.rows("ledger", "list")
    assert (entry["key"], entry["state"], entry["answer"], entry["scope"]) == (
        "invoice",
        "completed",
        "INV-17\n",
        "tenant",
    )


def test_output_that_is_no_text_comes_back_byte_by_byte(lone: Site) -> None:
    line = r"fencepost ledger once bytes -- printf '\377\000x' | od -An -tx1"

    assert guarded(lone, line).stdout == guarded(lone, line).stdout == " ff 00 78\n"


def test_a_key_of_the_run_is_new_in_the_next_run(lone: Site) -> None:
    for _ in range(2):
        guarded(lone, f"fencepost ledger once invoice --scope run -- {SEND}")

    assert effects(lone) == 2


def test_a_failed_command_is_in_doubt_and_is_not_repeated(lone: Site) -> None:
    failing = "fencepost ledger once pay -- sh -c 'echo tried >> effects; exit 9'"

    guarded(lone, failing, code=9)
    refused = guarded(lone, failing, code=77)

    assert effects(lone) == 1
    assert "it is not known whether it took place" in refused.stderr
    assert "fencepost ledger resolve 'pay' --completed ANSWER" in refused.stderr.replace(FENCEPOST, "fencepost")
    (entry,) = lone.rows("ledger", "list", "--state", "ambiguous")
    assert entry["doubt"] == "CommandFailed: the command ended with 9"


@pytest.mark.parametrize(("options", "code"), [("", 75), ("--not-done 7,9", 9)])
def test_a_command_that_says_that_nothing_happened_may_be_run_again(lone: Site, options: str, code: int) -> None:
    failing = f"fencepost ledger once pay {options} -- sh -c 'echo tried >> effects; exit {code}'"

    guarded(lone, failing, code=code)
    guarded(lone, failing, code=code)

    assert effects(lone) == 2
    assert lone.rows("ledger", "list") == []


@pytest.mark.parametrize(("command", "code"), [("./nowhere", 127), ("./plain", 126)])
def test_a_command_that_cannot_start_leaves_nothing_behind(lone: Site, command: str, code: int) -> None:
    (lone.folder / "plain").write_text("no program")

    ran = guarded(lone, f"fencepost ledger once pay -- {command}", code=code)

    assert "nothing was done" in ran.stderr
    assert lone.rows("ledger", "list") == []


def test_a_run_that_is_killed_half_way_leaves_its_effect_in_doubt(lone: Site) -> None:
    half_way = "fencepost ledger once pay -- sh -c 'echo tried >> effects; kill -9 $PPID'"
    guarded(lone, half_way, code=137)

    guarded(lone, half_way, code=77)

    assert effects(lone) == 1


def test_a_probe_settles_the_doubt_either_way(lone: Site) -> None:
    for key in ("was", "was-not", "cannot-tell"):
        guarded(lone, f"fencepost ledger once {key} -- sh -c 'exit 9'", code=9)

    was = guarded(lone, f"fencepost ledger once was --probe 'echo found' -- {SEND}")
    was_not = guarded(lone, f"fencepost ledger once was-not --probe 'exit 1' -- {SEND}")
    guarded(lone, f"fencepost ledger once cannot-tell --probe 'exit 2' -- {SEND}", code=77)

    assert (was.stdout, was_not.stdout, effects(lone)) == ("found\n", "INV-17\n", 1)
    assert [entry["key"] for entry in lone.rows("ledger", "list", "--state", "ambiguous")] == ["cannot-tell"]
    assert guarded(lone, f"fencepost ledger once was -- {SEND}").stdout == "found\n"


def test_a_person_says_what_became_of_it(lone: Site) -> None:
    for key in ("done", "not-done"):
        guarded(lone, f"fencepost ledger once {key} -- sh -c 'exit 9'", code=9)

    lone.fencepost("ledger", "resolve", "done", "--completed", '"by hand"')
    lone.fencepost("ledger", "resolve", "not-done", "--forget")

    assert guarded(lone, f"fencepost ledger once done -- {SEND}").stdout == "by hand"
    assert guarded(lone, f"fencepost ledger once not-done -- {SEND}").stdout == "INV-17\n"
    verbs = [(row["verb"], row["subject"]) for row in lone.rows("audit", "list")]
    assert ("ledger_resolve", "ledger:done") in verbs
    assert ("ledger_resolve", "ledger:not-done") in verbs


def test_only_a_person_resolves(lone: Site) -> None:
    guarded(lone, "fencepost ledger once pay -- sh -c 'exit 9'", code=9)

    refused = guarded(lone, "fencepost ledger resolve pay --forget", code=2)

    assert "is for a person" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("once", "k", "--", "true"), "not inside a run"),
        (("once", "k"), "there is no command"),
        (("resolve", "k", "--forget"), "the ledger has no entry 'k'"),
        (("list", "--", "true"), "takes a command"),
    ],
)
def test_what_cannot_work_is_said(lone: Site, words: tuple[str, ...], message: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "ledger", *words],
        cwd=lone.folder,
        env=lone.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 2
    assert message in ran.stderr


def test_a_long_output_is_recorded_as_far_as_the_ledger_goes(lone: Site) -> None:
    line = "fencepost ledger once long -- head -c 200000 /dev/zero | wc -c"

    first, second = guarded(lone, line), guarded(lone, line)

    assert first.stdout.strip() == "200000"
    assert "only the first" in first.stderr
    assert 5_000 < int(second.stdout) < 65_536


def test_the_listing_fits_and_says_what_needs_a_person(lone: Site) -> None:
    guarded(lone, f"fencepost ledger once invoice -- {SEND}; fencepost ledger once pay -- sh -c 'exit 9'", code=9)

    lines = on_a_terminal("ledger", "list", cwd=lone.folder, env=lone.environment()).splitlines()

    assert lines[0].split() == ["KEY", "STATE", "BEGUN", "RUN", "ANSWER"]
    assert "pay      ambiguous" in lines[1]
    assert all(len(line) <= 80 for line in lines)


AGENT = """
import json, sys
from fencepost import Done, InDoubt, NotDone, RunContext

def effect():
    with open("effects", "a") as file:
        file.write("x\\n")
    return {"number": 17}

def twice(run: RunContext) -> None:
    assert isinstance(run, RunContext)
    answers = [run.once("invoice", effect), run.once("invoice", effect)]
    run.gate("report").write(json.dumps(answers).encode())

async def awaited(run: RunContext) -> None:
    async def later():
        return effect()
    first = await run.once("invoice", later)
    second = await run.once("invoice", later)
    assert first == second == {"number": 17}, (first, second)

def dies(run: RunContext) -> None:
    def half_way():
        effect()
        raise TimeoutError("no answer")
    run.once("pay", half_way)

def probes(run: RunContext) -> None:
    assert run.once("pay", effect, probe=lambda: Done("found")) == "found"

def not_json(run: RunContext) -> None:
    run.once("odd", lambda: {1, 2})

def forgets_await(run: RunContext) -> None:
    async def later():
        return effect()
    run.once("late", lambda: later())
"""


def configure(site: Site) -> None:
    (site.folder / "jobs.py").write_text(AGENT)
    (site.folder / "out").mkdir()
    text = '[gates.report]\nkind = "file"\npath = "out/report.json"\n'
    for name in ("twice", "awaited", "dies", "probes", "not_json", "forgets_await"):
        gates = 'gates = ["report"]\n' if name == "twice" else ""
        text += f'[agents.{name}]\nengine = "python"\nfunction = "jobs:{name}"\n{gates}'
    site.configure(text)


def test_a_python_agent_has_its_effects_once(site: Site) -> None:
    configure(site)
    site.up("--workers", "1")

    site.fencepost("run", "twice", "--wait")
    site.fencepost("run", "twice", "--wait")
    site.fencepost("run", "awaited", "--wait")

    assert effects(site) == 1
    assert json.loads(Path(site.folder / "out/report.json").read_text()) == [{"number": 17}] * 2

    site.fencepost("run", "dies", "--wait", code=1)
    site.fencepost("run", "dies", "--wait", code=77)
    assert effects(site) == 2
    site.fencepost("run", "probes", "--wait")
    site.fencepost("run", "not_json", "--wait", code=2)
    site.fencepost("run", "forgets_await", "--wait", code=1)

    assert effects(site) == 2
    found = {entry["key"]: entry for entry in site.rows("ledger", "list")}
    assert found["pay"]["answer"] == "found"
    assert found["pay"]["resolved_by"].startswith("probe of run:")
    assert found["odd"]["state"] == "ambiguous"
    assert "late" not in found
