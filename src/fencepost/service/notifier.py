"""Delivers notices: takes what is due, hands it to a process of its own, and writes down how it went. It never waits."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fencepost.model.instants import format_instant, from_us
from fencepost.model.notice import PINGED, Delivery, Wish, link_to, pause_after
from fencepost.model.own_program import own_program
from fencepost.model.secret_rights import NO_LISTS, Rights
from fencepost.ports.clock import Clock

if TYPE_CHECKING:
    from fencepost.stores.notices import SqlNotices

LOOK_SECONDS, BUSY_SECONDS = 2.0, 0.2
DEADLINE_SECONDS = 75.0  # the process ends itself before that
HOLD_SECONDS = 180.0  # no other worker sends what we may still be sending
BATCH = 20
FORGET_SECONDS = 3600.0


class Post(NamedTuple):
    """Whose notices these are, and where they go."""

    tenant: str
    owner: str  # the configuration that names the targets
    targets: Mapping[str, Mapping[str, Any]]
    allow: Sequence[str]  # private networks that may be reached
    rights: Rights = NO_LISTS  # which secrets are handed to which tenant
    web_url: str = ""  # where browsers reach the web door

    def batch(self, jobs: Sequence[Mapping[str, object]]) -> bytes:
        """Spell what a delivering process is to do, and for which tenants: it fetches only a tenant's own secrets."""
        whole = {"allow": list(self.allow), "tenant": self.tenant, "rights": self.rights.listed, "jobs": jobs}
        return json.dumps(whole).encode()


class Trip(NamedTuple):
    """A process that is delivering."""

    process: "subprocess.Popen[bytes]"
    answers: IO[bytes]
    load: Mapping[str, Delivery]
    until_ns: int


class Notifier:
    """One delivery trip at a time, looked after in small steps."""

    def __init__(self, post: Post, clock: Clock, say: Callable[[str], None]) -> None:
        self._post = post
        self._clock = clock
        self._say = say
        self._trip: Trip | None = None
        self._declared = False
        self._forget_ns = 0

    def step(self, store: "SqlNotices") -> float:
        """Do what can be done at once; return in how many seconds to come again."""
        post = self._post
        if not self._declared:
            store.declare(post.tenant, post.owner, wishes_of(post.targets))
            self._declared = True
        if self._trip is not None:
            return self._look_after(self._trip, store)
        if not post.targets:
            return FORGET_SECONDS
        now = self._clock.awake_ns()
        if now >= self._forget_ns and not store.forget(post.tenant):
            self._forget_ns = now + round(FORGET_SECONDS * 1e9)
        load = store.claim(post.tenant, post.owner, list(post.targets), limit=BATCH, hold_seconds=HOLD_SECONDS)
        if not load:
            return LOOK_SECONDS
        self._trip = self._set_out(load)
        return BUSY_SECONDS

    def _set_out(self, load: Sequence[Delivery]) -> Trip:
        answers = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the trip is over
        with tempfile.TemporaryFile() as jobs:  # a file, because a pipe would make us wait for its reader
            jobs.write(self._post.batch([self._job(one) for one in load]))
            jobs.seek(0)
            process = subprocess.Popen(
                own_program("fencepost.send_notices"),
                stdin=jobs,
                stdout=answers,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        until_ns = self._clock.awake_ns() + round(DEADLINE_SECONDS * 1e9)
        return Trip(process, answers, {one.id: one for one in load}, until_ns)

    def _job(self, one: Delivery) -> dict[str, object]:
        target = self._post.targets[one.name]
        body = json.loads(one.body)
        link = link_to(self._post.web_url, body)
        return {
            "id": one.id,
            "event": one.event,
            "at": format_instant(from_us(one.at_us)),
            "body": {**body, "link": link} if link else body,
            **{name: target[name] for name in ("kind", "url", "secret", "style")},
        }

    def _look_after(self, trip: Trip, store: "SqlNotices") -> float:
        if trip.process.poll() is None:
            if self._clock.awake_ns() < trip.until_ns:
                return BUSY_SECONDS
            trip.process.kill()
            trip.process.wait()
        heard = _heard(trip.answers)
        for one in trip.load.values():
            self._settle(one, heard.get(one.id, {"error": "no answer in time", "final": False}), store)
        trip.answers.close()
        self._trip = None  # at the end: if the store fails, the answers are written down when it is back
        return BUSY_SECONDS

    def _settle(self, one: Delivery, answer: Mapping[str, Any], store: "SqlNotices") -> None:
        if answer["error"] is None:
            store.sent(one)
            return
        pause = None if answer["final"] else pause_after(self._post.targets[one.name]["kind"], one.attempt, one.id)
        store.failed(one, answer["error"], again_in_seconds=pause)
        if one.attempt == 1 or pause is None:
            what = "was given up" if pause is None else "is tried again"
            self._say(f"the notice {one.event} to {one.name} did not arrive and {what}: {answer['error']}")


def try_target(post: Post, name: str, *, at: str, within_seconds: float = DEADLINE_SECONDS) -> str | None:
    """Send a test to one target and wait for it, for so long; return why it did not arrive."""
    target = post.targets[name]
    event = "succeeded" if target["kind"] == "ping" else "test"
    wanted = {name: target[name] for name in ("kind", "url", "secret", "style")}
    job = {"id": f"test {name} {at}", "event": event, "at": at, "body": {"tenant": post.tenant}, **wanted}
    try:
        ran = subprocess.run(
            own_program("fencepost.send_notices"),
            input=post.batch([job]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=within_seconds,
        )
    except subprocess.TimeoutExpired:  # and it is ended
        return "no answer in time"
    lines = ran.stdout.splitlines()
    return json.loads(lines[-1])["error"] if lines else "no answer in time"


def _heard(answers: IO[bytes]) -> dict[str, dict[str, Any]]:
    """Read what was told; a last line that was cut off tells nothing."""
    answers.seek(0)
    whole = [line for line in answers.read().split(b"\n")[:-1] if line]
    return {one["id"]: one for one in map(json.loads, whole)}


def wishes_of(targets: Mapping[str, Mapping[str, Any]]) -> set[Wish]:
    """Return what the targets want to hear of."""
    return {
        Wish(name, event, schedule)
        for name, target in targets.items()
        for event in (PINGED if target["kind"] == "ping" else target["on"])
        for schedule in (target["schedules"] or ("",))
    }
