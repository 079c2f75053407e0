"""`fencepost completion`: what is offered at Tab, and what it is made from."""

import signal
import socket
import subprocess
import sys

import pytest

from fencepost.cli import exec_options as exec_
from fencepost.cli import gate, hook, lease
from fencepost.cli.completion_words import candidates, split_line
from fencepost.cli.description import Description, describe, describe_all
from fencepost.cli.main import COMMANDS
from tests.support.site import Site

CONFIG = """
[projects.shop]
path = "shop"

[gates.report]
kind = "file"
path = "report.json"

[agents.digest]
engine = "command"
command = ["true"]

[agents.clean]
engine = "command"
command = ["true"]

[schedules.nightly]
agent = "digest"
cron = "0 2 * * *"

[schedules.noon]
agent = "clean"
cron = "0 12 * * *"
"""


@pytest.fixture
def busy(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    (site.folder / "shop").mkdir()
    site.configure(CONFIG)
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)
    return site


def offered(line: str) -> list[str]:
    return [name or f"<{note}>" for name, note in candidates(split_line(line)[1:])]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fencepost sch", ["schedule", "scheduler"]),
        ("fencepost schedule p", ["pause"]),
        ("fencepost lease b", ["break"]),
        ("fencepost lease break --n", ["--note"]),
        ("fencepost gate write-f", ["write-file"]),
        ("fencepost gate write-file --f", ["--fence"]),
        ("fencepost hook inst", ["install"]),
        ("fencepost exec --bus", ["--busy-exit"]),
        ("fencepost exec --wait --loc", ["--lock"]),  # --wait takes a value only with =
        ("fencepost ledger list --state c", ["completed"]),
        ("fencepost ledger list --state=c", ["--state=completed"]),
        ("fencepost logs --fol", ["--follow"]),
        ("fencepost runs --json --js", []),  # once is enough
        ("fencepost schedule ticks nightly --disp", ["--disposition"]),
        ("fencepost up --log-format ", ["text", "json"]),
        ("fencepost completion ", ["bash", "zsh", "fish"]),
        ("fencepost plan ", ["<files>"]),
        ("fencepost gate proxy --marks ", ["<folders>"]),
        ("fencepost exec --lock a -- ", ["<programs>"]),
        ("fencepost exec --lock a -- cat ", ["<files>"]),
        ("fencepost exec cat --lo", ["<files>"]),  # an option of their command
        ("fencepost mcp-gate -- ", ["<programs>"]),
        ("fencepost ticks --cron '0 9 * * *' --timezone Europe/Berl", ["Europe/Berlin"]),
        ("fencepost ticks --cron '0 9 *", []),  # a quote that is still open
        ("fencepost nonsense ", []),
    ],
)
def test_commands_and_options_are_offered(line: str, words: list[str]) -> None:
    assert offered(line) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fencepost schedule pause ", ["nightly", "noon"]),
        ("fencepost schedule pause --note 'not now' ni", ["nightly"]),
        ("fencepost why no", ["noon"]),
        ("fencepost schedule ticks ni", ["nightly"]),
        ("fencepost runs --schedule ", ["nightly", "noon"]),
        ("fencepost runs --schedule=no", ["--schedule=noon"]),
        ("fencepost runs --agent d", ["digest"]),
        ("fencepost run ", ["clean", "digest", "nightly", "noon"]),  # an agent or a schedule
        ("fencepost exec --project s", ["shop", "<folders>"]),
        ("fencepost gate status r", ["report"]),
        ("fencepost why --tenant other ", []),
    ],
)
def test_names_come_from_the_store_and_the_configuration(busy: Site, line: str, words: list[str]) -> None:  # noqa: ARG001
    assert offered(line) == words


def test_runs_are_offered_newest_first_with_what_became_of_them(busy: Site) -> None:
    ids = [busy.rows("run", name)[0]["id"] for name in ("digest", "clean")]

    found = list(candidates(["logs", ""]))

    assert [one.name for one in found] == ids[::-1]
    assert [one.note.partition(" ")[0] for one in found] == ["clean,", "digest,"]
    assert offered(f"fencepost show {ids[0][:-1]}") in ([ids[0]], sorted(ids))


def test_a_store_that_is_not_there_yet_is_not_made(site: Site) -> None:
    said = site.fencepost("completion", "words", "--", "why", "")

    assert said == ""
    assert not (site.folder / "state").exists()


def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(site: Site) -> None:
    (site.folder / "fencepost.toml").write_text("[fencepost\n")

    ran = site.try_fencepost("completion", "words", "--", "why", "")

    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_store_that_does_not_answer_is_not_waited_for(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none"
        words = [sys.executable, "-m", "fencepost", "completion", "words", "--", "why", "--store", url, ""]
        ran = subprocess.run(
            words, cwd=site.folder, env=site.environment(), capture_output=True, text=True, timeout=60, check=False
        )

    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGALRM, "", "")


def descriptions() -> dict[str, Description]:
    return {one.name: one for one in describe_all()}


def test_every_command_describes_itself() -> None:
    found = descriptions()

    assert [name for name in COMMANDS if name not in found] == []
    assert [name for name, one in found.items() if " " not in name and not one.text] == []
    assert {f"gate {name}" for name in gate.COMMANDS} <= set(found)
    assert {f"hook {name}" for name in hook.COMMANDS} <= set(found)


def test_the_options_of_exec_are_those_that_it_reads() -> None:
    found = describe("exec").options

    assert {one.names[0] for one in found} == {*exec_.VALUED, *exec_.BARE}
    assert [one.names[0] for one in found if one.value_after_equals_only] == ["--wait"]
    assert [one.names[0] for one in found if not one.metavar] == ["--no-wait"]


def test_the_options_of_lease_are_those_that_it_reads() -> None:
    found = {one.names[0]: one.metavar for one in describe("lease").options}
    words = [word for option, metavar in found.items() for word in ([option, "1"] if metavar else [option])]

    assert set(lease.parse(["list", *words])[1]) == set(found)
