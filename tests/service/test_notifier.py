"""Notices on their way to real receivers, through the process that delivers them."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.host.clock import SystemClock
from fencepost.model.notice import PAUSES, Notice, pause_after
from fencepost.model.secret_rights import NO_LISTS, Rights
from fencepost.model.signature import is_signed
from fencepost.send_notices import _last_words
from fencepost.service.notifier import BATCH, Notifier, Post, _heard
from fencepost.stores.notices import SqlNotices, put_notices
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.transaction import Transaction
from tests.stores.rig import SqliteRig, sqlite_rig
from tests.support.receiver import Receiver, receiver
from tests.support.site import Site

SECRET = "a secret of at least sixteen bytes"
TRIP_SECONDS = 90
LOCAL = ("127.0.0.1",)
PLAIN: Mapping[str, Any] = {"secret": "", "style": "healthchecks", "schedules": (), "on": ("dead",)}
BODY = {
    "tenant": "default",
    "run_id": "r01",
    "schedule": "nightly",
    "reason": "exit_code",
    "exit_code": 3,
    "summary": "it broke",
}


def _put(notice: Notice, tx: Transaction) -> None:
    put_notices(tx, [notice])


class Office:
    """A notifier with its store, whose clock the test moves, and what it said."""

    def __init__(
        self,
        rig: SqliteRig,
        targets: Mapping[str, Mapping[str, Any]],
        allow: tuple[str, ...],
        rights: Rights,
    ) -> None:
        self.rig = rig
        self.said: list[str] = []
        self.store: SqlNotices = RuntimeStore(rig.store).notices()
        self.notifier = Notifier(Post("default", "file.toml", targets, allow, rights), SystemClock(), self.said.append)
        self.notifier.step(self.store)

    def tell(self, *events: str, run: str = "r01", **more: object) -> None:
        body = {**BODY, **more, "run_id": run}
        for event in events:
            notice = Notice("default", f"{event} {run}", (event,), f"run:{run}", "nightly", body)
            self.rig.store.dialect.write(partial(_put, notice))

    def deliver(self) -> None:
        """Make one whole trip."""
        clock = SystemClock()
        until = clock.awake_ns() + TRIP_SECONDS * 10**9
        self.notifier.step(self.store)
        while self.notifier._trip is not None:
            self.notifier.step(self.store)
            clock.sleep(0.02)
            assert clock.awake_ns() < until, "the trip has no end"

    def states(self) -> list[tuple[str, int]]:
        rows = self.rig.store.dialect._connection.execute("SELECT state, attempt FROM notice ORDER BY seq")  # type: ignore[attr-defined]
        return list(rows)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SqliteRig]:
    with sqlite_rig(tmp_path) as found:
        yield found


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def office(
    rig: SqliteRig, *, allow: tuple[str, ...] = LOCAL, rights: Rights = NO_LISTS, **targets: Mapping[str, Any]
) -> Office:
    return Office(rig, {name: {**PLAIN, **target} for name, target in targets.items()}, allow, rights)


def hook(url: str) -> dict[str, Any]:
    return {"kind": "webhook", "url": url, "secret": "env:HOOK_SECRET"}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def test_a_webhook_is_signed_and_says_what_happened(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, ops=hook(f"{server.url}/in?x=1"))
    desk.tell("dead")
    desk.deliver()
    (heard,) = server.heard
    now = SystemClock().wall_us() // 1_000_000
    assert is_signed([SECRET], heard.headers, heard.body, now_seconds=now)
    assert not is_signed(["another secret, just as long"], heard.headers, heard.body, now_seconds=now)
    assert heard.path == "/in?x=1"
    assert heard.json["type"] == "run.dead"
    assert heard.json["data"]["run_id"] == "r01"
    assert desk.states() == [("sent", 1)]


def test_a_receiver_that_fails_is_tried_again_under_the_same_id(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, ops=hook(server.url))
    server.answers[:] = [500]
    desk.tell("dead")
    desk.deliver()
    assert desk.states() == [("waiting", 1)]
    assert "answered 500" in desk.said[0]
    rig.pass_time(PAUSES["webhook"][0] * 1.3)
    desk.deliver()
    assert desk.states() == [("sent", 2)]
    first, second = (heard.headers["webhook-id"] for heard in server.heard)
    assert first == second


def test_a_message_is_given_up_in_the_end(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, ops={"kind": "ping", "url": server.url, "on": (), "schedules": ("nightly",)})
    desk.tell("dead")
    tries = len(PAUSES["ping"]) + 1
    server.answers[:] = [503] * tries
    for _ in range(tries):
        desk.deliver()
        rig.pass_time(max(PAUSES["ping"]) * 2)
    assert desk.states() == [("dead", tries)]
    assert desk.store.health("default").last_error == "ops: the receiver answered 503"


def test_a_receiver_that_is_gone_for_good_is_not_asked_again(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, ops=hook(server.url))
    server.answers[:] = [410]
    desk.tell("dead")
    desk.deliver()
    assert desk.states() == [("dead", 1)]


def test_one_receiver_that_never_answers_does_not_keep_the_others_waiting(rig: SqliteRig, server: Receiver) -> None:
    with receiver() as slow:
        slow.open.clear()
        desk = office(rig, slow=hook(slow.url), ops=hook(server.url))
        desk.tell("dead")
        desk.deliver()
        assert len(server.heard) == len(slow.heard) == 1
    assert sorted(desk.states()) == [("sent", 1), ("waiting", 1)]


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://0x7f.1:{port}/"]
)
def test_a_private_address_is_refused_unless_it_is_allowed(rig: SqliteRig, server: Receiver, address: str) -> None:
    desk = office(rig, allow=(), ops=hook(address.format(port=server.port)))
    desk.tell("dead")
    desk.deliver()
    assert server.heard == []
    assert "no public address" in desk.said[0]


def test_a_redirect_is_not_followed(rig: SqliteRig, server: Receiver) -> None:
    with receiver() as inner:
        server.answers[:], server.location = [302], f"{inner.url}/secret"
        desk = office(rig, ops=hook(server.url))
        desk.tell("dead")
        desk.deliver()
        assert inner.heard == []
    assert "answered 302" in desk.said[0]


def test_a_ping_tells_start_success_and_death_in_their_order(rig: SqliteRig, server: Receiver) -> None:
    ping = {"kind": "ping", "url": f"{server.url}/uuid", "schedules": ("nightly",)}
    desk = office(rig, watch=ping)
    desk.tell("started", "succeeded", run="r01")
    desk.tell("started", "dead", run="r02")
    desk.deliver()
    desk.deliver()
    paths = [heard.path.partition("?") for heard in server.heard]
    assert sorted(path for path, _, _ in paths) == ["/uuid", "/uuid/fail", "/uuid/start", "/uuid/start"]
    assert {path for path, _, _ in paths[:2]} == {"/uuid/start"}
    assert len({query for _, _, query in paths}) == 2, "each run has an id of its own"


def test_a_ping_speaks_to_cronitor_too(rig: SqliteRig, server: Receiver) -> None:
    desk = office(
        rig, watch={"kind": "ping", "url": f"{server.url}/p/key/job", "schedules": ("nightly",), "style": "cronitor"}
    )
    desk.tell("dead")
    desk.deliver()
    assert [heard.path for heard in server.heard] == ["/p/key/job?state=fail&series=r01"]


def test_apprise_tells_people(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, chat={"kind": "apprise", "url": f"json://127.0.0.1:{server.port}/"})
    desk.tell("dead", schedule="nightly {reason} %s <b>")
    desk.deliver()
    assert desk.states() == [("sent", 1)], desk.said
    (heard,) = server.heard
    assert heard.json["title"] == "fencepost: nightly {reason} %s <b> needs a person: the agent exited with code 3"
    assert "fencepost show r01" in heard.json["message"]


def test_apprise_cannot_reach_a_private_address_that_is_not_allowed(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, allow=(), chat={"kind": "apprise", "url": f"json://127.0.0.1:{server.port}/"})
    desk.tell("dead")
    desk.deliver()
    assert server.heard == []
    assert desk.states() == [("waiting", 1)]


def test_what_apprise_says_about_a_failure_names_no_part_of_the_address_that_may_be_a_secret() -> None:
    address = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/alerts-and-more?format=markdown"
    said = "WARNING: no answer\nERROR: A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ at hooks.slack.com, T1JJ3T3L2: 403\n"
    told = _last_words(said, address)
    assert told.startswith("ERROR: ")
    assert told.endswith(": 403")
    assert "hooks.slack.com" in told
    assert not any(part in told for part in ("A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ", "T1JJ3T3L2"))
    assert _last_words("", address) == "apprise could not send it"


def test_a_secret_that_is_not_there_is_said_and_never_shown(
    rig: SqliteRig, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET")
    desk = office(rig, ops=hook(server.url))
    desk.tell("dead")
    desk.deliver()
    assert "env:HOOK_SECRET is not set" in desk.said[0]
    assert server.heard == []


def test_a_notice_goes_nowhere_by_a_secret_that_is_not_the_tenants(
    rig: SqliteRig, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_URL", server.url)
    rights = Rights((("default", ("env:HOOK_SECRET",)), ("harbor", ("env:HARBOR_URL",))))
    desk = office(rig, rights=rights, ops=hook("env:HARBOR_URL"), fine=hook(server.url))
    desk.tell("dead")
    desk.deliver()
    assert len(server.heard) == 1, "the one whose secret is listed"
    assert "do not list env:HARBOR_URL" in desk.said[0]
    assert server.url not in desk.said[0]


def test_a_killed_delivery_is_made_again_and_a_hostile_answer_harms_nobody(rig: SqliteRig, server: Receiver) -> None:
    server.open.clear()
    desk = office(rig, ops=hook(server.url))
    desk.tell("dead")
    desk.notifier.step(desk.store)
    trip = desk.notifier._trip
    assert trip is not None
    trip.process.kill()
    desk.deliver()
    assert desk.states() == [("waiting", 1)]
    assert "no answer in time" in desk.said[0]
    server.open.set()
    rig.pass_time(60)
    desk.deliver()
    assert desk.states() == [("sent", 2)]


def test_a_flood_is_delivered_in_bounded_batches(rig: SqliteRig, server: Receiver) -> None:
    desk = office(rig, ops=hook(server.url))
    for number in range(BATCH + 5):
        desk.tell("dead", run=f"r{number:02d}")
    desk.deliver()
    assert len(server.heard) == BATCH
    desk.deliver()
    assert len({heard.headers["webhook-id"] for heard in server.heard}) == BATCH + 5


def test_pauses_grow_and_end() -> None:
    pauses = [pause_after("webhook", attempt, "id") for attempt in range(1, len(PAUSES["webhook"]) + 2)]
    assert pauses[-1] is None
    known = [pause for pause in pauses if pause is not None]
    assert known == sorted(known)


def test_a_delivery_that_was_cut_off_while_it_told_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_bytes(json.dumps({"id": "a", "error": None}).encode() + b"\n" + b'{"id": "b", "err')
    with path.open("rb") as answers:
        assert list(_heard(answers)) == ["a"]


def test_up_tells_of_a_run_that_died_and_goes_on_when_the_receiver_does_not(site: Site, server: Receiver) -> None:
    (site.folder / "secret").write_text(SECRET)
    site.configure(
        'http_allow = ["127.0.0.1"]\n'
        '[agents.worker]\ncommand = ["sh", "-c", "exit 3"]\n'
        f'[notifications.desk]\nkind = "webhook"\nurl = "{server.url}"\nsecret = "file:{site.folder}/secret"\n'
    )
    server.answers[:] = [500]
    site.up("--workers", "1")
    site.until(lambda: "fencepost: up:" in site.said())
    site.fencepost("run", "worker", "--wait", code=3)
    site.until(lambda: len(server.heard) >= 2)
    assert {heard.json["data"]["exit_code"] for heard in server.heard} == {3}
    assert len({heard.headers["webhook-id"] for heard in server.heard}) == 1
    site.until(lambda: [row["state"] for row in site.rows("notice", "list")] == ["sent"])
    assert site.fencepost("notice", "test", "desk") == "desk was told\n"
    assert server.heard[-1].json["type"] == "test"
    server.answers[:] = [500]
    assert "the receiver answered 500" in site.fencepost("notice", "test", "desk", code=1)
    site.fencepost("notice", "test", "des", code=2)
    site.fencepost("notice", "retry", "desk", code=2)
