"""Hints: a run that is asked for starts at once, and when nothing can be heard, a moment later."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fencepost.service.wakeup import Deaf, NotifyHint
from fencepost.stores.postgres.listening import listen
from fencepost.stores.postgres.server import at
from tests.support.pgbouncer import PoolMode
from tests.support.site import Site

# A worker that says when it falls asleep, and looks by itself only once in an hour.
SLEEPY = """
import sys
from fencepost.service import station
from fencepost.cli.main import main

station.POLL_SECONDS = 3600.0
fall_asleep = station.Station._wait

def say_and_fall_asleep(self, seconds, hint=None):
    if hint is not None and not self._worker.running:
        print("asleep", round(seconds), file=sys.stderr, flush=True)
    fall_asleep(self, seconds, hint)

station.Station._wait = say_and_fall_asleep
sys.exit(main(["worker", "--workers", "1", "--ttl", "3s"]))
"""
LISTENERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN fencepost'"
AGENT = '[agents.true]\ncommand = ["true"]\n'


@pytest.fixture(params=["sqlite", "postgres"])
def any_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, request.getfixturevalue("durable_url") if request.param == "postgres" else None)
    yield made
    made.close()


@pytest.fixture
def postgres_site(tmp_path: Path, durable_url: str) -> Iterator[Site]:
    made = Site(tmp_path, durable_url)
    yield made
    made.close()


def start_sleepy(site: Site) -> None:
    (site.folder / "sleepy.py").write_text(SLEEPY)
    site.start(sys.executable, "sleepy.py")


def fell_asleep(site: Site) -> int:
    return site.said().count("asleep 3600")


def run_while_asleep(site: Site) -> None:
    """Ask for a run once the worker sleeps for an hour, and see it end."""
    ended = len(site.runs(state="succeeded"))
    site.until(lambda: fell_asleep(site))
    site.fencepost("run", "true")
    site.until(lambda: len(site.runs(state="succeeded")) == ended + 1)


def test_a_run_wakes_a_worker_that_would_sleep_for_an_hour(any_site: Site) -> None:
    any_site.configure(AGENT)
    start_sleepy(any_site)
    run_while_asleep(any_site)


def test_a_worker_listens_again_when_its_connection_was_cut(postgres_site: Site) -> None:
    site = postgres_site
    site.configure(AGENT)
    start_sleepy(site)
    site.until(lambda: fell_asleep(site))
    with psycopg.connect(site.store, autocommit=True) as connection:
        (first,) = connection.execute(LISTENERS).fetchall()
        slept = fell_asleep(site)
        connection.execute("SELECT pg_terminate_backend(%s)", first)
        site.until(lambda: connection.execute(LISTENERS).fetchall() not in ([], [first]))
    site.until(lambda: fell_asleep(site) > slept)
    run_while_asleep(site)


def test_behind_a_transaction_pooler_nobody_listens(pgbouncer_url: Callable[[PoolMode], str]) -> None:
    url = pgbouncer_url("transaction")
    assert listen(at(url)) is None
    hint = NotifyHint(lambda: listen(at(url)), lambda: 0)
    assert (hint.fds(), hint.heard([])) == ([], False)
    assert hint.poll_seconds() > 1000, "there is nothing to try again"


class Ears:
    """A server that can be reached, or not, and says what it is told to."""

    def __init__(self) -> None:
        self.words: list[str] | None = []
        self.reachable = True
        self.opened = 0

    def __call__(self) -> "Ears":
        if not self.reachable:
            raise Deaf
        self.opened += 1
        self.words = []
        return self

    def fileno(self) -> int:
        return 7

    def take(self) -> list[str] | None:
        words, self.words = self.words, [] if self.words is not None else None
        return words

    def close(self) -> None: ...


def test_who_lost_the_connection_looks_at_once_and_tries_ever_more_seldom_to_listen_again() -> None:
    now = 0
    ears = Ears()
    hint = NotifyHint(ears, lambda: now)
    assert hint.fds() == [7]
    assert not hint.heard([7])
    ears.words, ears.reachable = None, False
    assert hint.heard([7]), "what was said meanwhile is not known"
    assert hint.fds() == []
    pauses = []
    for _ in range(10):
        pauses.append(hint.poll_seconds())
        assert not hint.heard([])
        now += round(pauses[-1] * 1e9)
        assert not hint.heard([])
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    ears.reachable = True
    now += 60 * 10**9
    assert hint.heard([]), "what was said meanwhile is not known"
    assert (hint.fds(), ears.opened) == ([7], 2)
