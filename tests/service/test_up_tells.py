"""Everything that somebody may want to hear of, from what really happens under `up` to a receiver that hears it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.model.instants import from_us, parse_instant
from fencepost.model.signature import is_signed
from tests.support.receiver import Heard, Receiver, receiver
from tests.support.site import Site

SECRET = "a secret of at least sixteen bytes"
ABOVE = 4_000_000_000_000_000
MISSED = ("missed", "too-dear")
STORES = ("sqlite", "postgresql")
CONFIG = """
http_allow = ["127.0.0.1"]
[agents.fine]
command = ["true"]
[agents.broken]
command = ["sh", "-c", "exit 3"]
max_attempts = 2
backoff = "100ms"
[agents.still]
command = ["sleep", "60"]
stall_timeout = "500ms"
[agents.fenced]
command = ["true"]
gates = ["page"]
[gates.page]
kind = "file"
path = "{folder}/page.html"
[schedules.breaks]
agent = "broken"
cron = "0 0 1 1 *"
[schedules.stands-still]
agent = "still"
cron = "0 0 1 1 *"
[schedules.goes-back]
agent = "fenced"
cron = "0 0 1 1 *"
[schedules.too-dear]
agent = "fine"
cron = "* * * * * *"
grace = "1s"
max_runs_per_hour = 1
[notifications.desk]
kind = "webhook"
url = "http://127.0.0.1:{port}/desk"
secret = "file:{folder}/secret"
on = ["failed", "dead", "missed", "stalled", "fence_regress", "budget"]
[notifications.archive]
kind = "webhook"
url = "http://127.0.0.1:{port}/archive"
secret = "file:{folder}/secret"
on = ["audit_head"]
[notifications.chat]
url = "json://127.0.0.1:{port}/chat"
on = ["dead", "missed"]
[notifications.watch-breaks]
kind = "ping"
url = "http://127.0.0.1:{port}/breaks"
schedules = ["breaks"]
[notifications.watch-dear]
kind = "ping"
url = "http://127.0.0.1:{port}/dear"
schedules = ["too-dear"]
"""


@pytest.fixture(params=STORES)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    site = Site(tmp_path, request.getfixturevalue("postgres_url") if request.param == "postgresql" else None)
    yield site
    site.close()


def raise_above(site: Site) -> None:
    """Let a gate have seen a fence of this very store that the store knows nothing of."""
    store = wiring.open_runtime(site.store)
    ((_, _, store_id),) = store.dialect.read(lambda tx: tx.rows("fence_facts"))
    store.close()
    words = ("gate", "raise", "page", "--resource", "schedule:goes-back", "--fence", str(ABOVE))
    subprocess.run(
        [sys.executable, "-m", "fencepost", *words],
        cwd=site.folder,
        env={**site.environment(), "FENCEPOST_STORE_ID": store_id},
        check=True,
    )


def late(site: Site, act: Callable[[Site], None]) -> None:
    """Do something, and let ticks pass that nobody is there for."""
    until_us = SystemClock().wall_us() + 3_000_000
    act(site)
    site.until(lambda: SystemClock().wall_us() > until_us)


def told(server: Receiver, path: str) -> list[Heard]:
    return [heard for heard in server.heard if heard.path.partition("?")[0] == path]


def titles(server: Receiver) -> set[str]:
    """Return what the chat was told, in one line each."""
    return {heard.json["title"] for heard in told(server, "/chat")}


def events(server: Receiver) -> set[tuple[str, str]]:
    """Return what the desk was told, of which schedule."""
    return {(one.json["data"]["event"], one.json["data"]["schedule"]) for one in told(server, "/desk")}


def test_up_tells_of_everything_and_what_could_not_be_told_is_told_later(place: Site) -> None:
    site = place
    with ExitStack() as stack:
        server = stack.enter_context(receiver())
        (site.folder / "secret").write_text(SECRET)
        site.configure(CONFIG.format(folder=site.folder, port=server.port))
        late(site, raise_above)
        site.up("--workers", "2")
        for name in ("breaks", "stands-still", "goes-back"):
            site.fencepost("run", name)
        wanted = {
            ("failed", "breaks"),
            ("dead", "breaks"),
            ("stalled", "stands-still"),
            ("fence_regress", "goes-back"),
            ("budget", "too-dear"),
            MISSED,  # before anybody was there
        }
        site.until(lambda: events(server) >= wanted)
        assert events(server) == wanted, "each end is told once, under the word that says most"
        signed_at = SystemClock().wall_us() // 1_000_000
        for heard in told(server, "/desk"):
            assert is_signed([SECRET], heard.headers, heard.body, now_seconds=signed_at)
            assert not is_signed([SECRET], heard.headers, heard.body + b" ", now_seconds=signed_at)
        site.until(lambda: "fencepost: breaks needs a person: the agent exited with code 3" in titles(server))
        paths = ("/breaks/start", "/breaks/fail", "/dear/start", "/dear")
        site.until(lambda: all(told(server, path) for path in paths))
        assert not told(server, "/breaks"), "it never succeeded"
        assert not told(server, "/dear/fail"), "it never failed"
        site.until(lambda: len(told(server, "/archive")) >= 2)
        compare_heads(site, told(server, "/archive"))
        port = server.port
        stack.close()
        tell_later(site, port)


def compare_heads(site: Site, heads: list[Heard]) -> None:
    """See that the audit is the one whose seals were told, from the first on."""
    assert {1, 2} <= {heard.json["data"]["number"] for heard in heads}
    kept = site.folder / "heads.jsonl"
    kept.write_bytes(b"\n".join(heard.body for heard in heads))
    assert f"{len(heads)} exported heads compared" in site.fencepost("audit", "verify", "--heads", str(kept))


def tell_later(site: Site, port: int) -> None:
    """Have a run die while nobody listens, and `up` die after it."""
    run_id = site.fencepost("run", "breaks").split()[-1]
    site.until(lambda: site.rows("show", run_id)[0]["state"] == "dead")
    site.until(lambda: rests(site, run_id))
    late(site, Site.kill)
    with receiver(port) as server:
        site.up("--workers", "1")
        site.until(lambda: {("failed", "breaks"), ("dead", "breaks"), MISSED} <= events(server))
        site.until(lambda: any(run_id in heard.json["message"] for heard in told(server, "/chat")))
        site.until(lambda: any("too-dear missed" in title for title in titles(server)))
        site.until(lambda: told(server, "/breaks/fail"))
        (heard,) = [one for one in told(server, "/desk") if one.json["data"]["event"] == "dead"]
        assert heard.json["data"]["run_id"] == run_id
        assert is_signed([SECRET], heard.headers, heard.body, now_seconds=SystemClock().wall_us() // 1_000_000)


def rests(site: Site, run_id: str) -> bool:
    """Tell whether each target was tried in vain, and nothing is on its way; what follows waits for what comes first."""
    rows = [row for row in site.rows("notice", "list", "--state", "waiting") if row["subject"] == f"run:{run_id}"]
    first = {row["name"]: row for row in rows}  # the oldest stands last
    soon = from_us(SystemClock().wall_us()) + timedelta(seconds=60)
    return len(first) == 3 and all(row["error"] and parse_instant(row["due_at"]) < soon for row in first.values())
