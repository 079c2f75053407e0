"""What may become of runs: every move that a commit makes, judged by its own small table and not by the product's."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from tests.simulation.clocks import Moment
from tests.simulation.runtime.blackouts import is_blacked_out
from tests.simulation.runtime.record_rules import first_in_line
from tests.simulation.runtime.snapshot import AttemptSeen, RunSeen, Snapshot
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.runtime.observer import Observer
    from tests.simulation.runtime.place import Seen

HOUR_US = 3_600_000_000
SECOND_LOOK = ("disabled", "paused", "calendar", "budget")  # why a run that waited does not start after all
LOST_ATTEMPTS = 3
FRUITLESS = 10
Move = tuple[str, str | None]


class Change(NamedTuple):
    """The store before and after a transaction, whose it was, and when."""

    before: Snapshot
    after: Snapshot
    seen: "Seen"
    now: Moment


class RunRules:
    """Judges what a commit did to runs."""

    def __init__(self, world: World, observer: "Observer") -> None:
        self._world = world
        self._observer = observer
        self._keys: dict[str, str] = {}

    def check(self, before: Snapshot, after: Snapshot, seen: "Seen", now: Moment) -> None:
        """Look at every run that is not as it was."""
        if after.runs is not before.runs:
            self._all(before, after, seen, now)
        if after.attempts is not before.attempts:
            self._tried(before, after)
        if after.checkpoints is not before.checkpoints:
            for run_id, row in after.checkpoints.items():
                if before.checkpoints.get(run_id) != row:
                    self._checkpoint(after.runs[run_id], row[0], Change(before, after, seen, now))

    def _all(self, before: Snapshot, after: Snapshot, seen: "Seen", now: Moment) -> None:
        self._observer.let_go(before.runs.keys() - after.runs.keys())
        for run_id, new in after.runs.items():
            old = before.runs.get(run_id)
            if old is None:
                self._made(new)
            elif old != new:
                self._moved(old, new, Change(before, after, seen, now))

    def _tried(self, before: Snapshot, after: Snapshot) -> None:
        changed = after.attempts.items() ^ before.attempts.items()
        for key, tried in after.attempts.items():
            earlier = before.attempts.get(key)
            if earlier and earlier.ended_us is not None and earlier != tried:
                self._world.fail("an end is an end", f"{earlier} was changed to {tried}")
        for run_id in sorted({owner for (owner, _), _ in changed} & after.runs.keys()):
            self._counted(after, run_id)

    def _made(self, new: RunSeen) -> None:
        if new.state != "ready" or new.attempt or new.fence:
            self._world.fail("a run begins ready", f"{new.id} begins {new.state}")
        self._world.totals[f"runs by {new.trigger}"] += 1

    def _moved(self, old: RunSeen, new: RunSeen, change: Change) -> None:
        if not old.live and old._replace(discarded_us=new.discarded_us) != new:
            self._world.fail("an end is an end", f"{old.id} was {old.state} ({old.reason}) and is now {new}")
        if (old.fence or 0) > (new.fence or 0):
            self._world.fail("fences rise", f"{old.id} went from fence {old.fence} to {new.fence}")
        if old.started_us not in (None, new.started_us) and not self._never_began(old, new, change.after):
            self._world.fail("a start is a start", f"{old.id} started at {old.started_us} and {new.started_us}")
        if (old.state, new.state) == ("ready", "running"):
            self._leased(old, new, change)
        elif old.state == "ready" and not new.live:
            self._ended_waiting(new)
        elif old.state == "running" and new.state != "running":
            self._ended(old, new, change)
        elif old.state == "running" and old.fence != new.fence:
            self._came_back(old, new, change)
        if old.started_us is None and new.started_us is not None:
            self._mine(new, change, "started")
            self._started_once(new, change)
            self._began(new, change.after)

    def _never_began(self, old: RunSeen, new: RunSeen, after: Snapshot) -> bool:
        """Whether a lane had put a start on record with the lease, and gave the run back before it was called."""
        attempt = after.attempts.get((old.id, old.fence or 0))
        given_back = ("lost_before_start", "gate_unreachable", "queue_timeout", *SECOND_LOOK)
        gave_back = new.reason in given_back or old.fence != new.fence
        return bool(new.in_process) and gave_back and attempt is not None and attempt.outcome in ("lost", "notstarted")

    def _started_once(self, new: RunSeen, change: Change) -> None:
        """A schedule that runs once is done with its first start, and does not start a second time."""
        if new.schedule is None or not new.tick_born:
            return
        old, now = change.before.schedules[new.schedule], change.after.schedules[new.schedule]
        if not now.definition.once or new.version != now.version:
            return
        self._world.totals["started once"] += 1
        if old.once_done or not now.once_done:
            self._world.fail("once", f"{new.id} of {new.schedule} starts, and once_done is {now.once_done}")

    def _leased(self, old: RunSeen, new: RunSeen, change: Change) -> None:
        """The second look: what held when the run was made must still hold."""
        before, after, _, now = change
        if new.ready_us > now.wall_us:
            self._world.fail("not before its time", f"{new.id} was leased {new.ready_us - now.wall_us}us too early")
        pauses = [one for one in before.pauses.values() if one.covers(now.wall_us)]
        if any(one.schedule == "" for one in pauses):
            self._world.fail("halted", f"{new.id} was leased although everything is halted")
        lease = after.leases.get(new.lease_id or "")
        own = lease is not None and (set(lease.names) >= set(new.names) if new.in_process else lease.run_id == new.id)
        if lease is None or lease.fence != new.fence or not own:
            self._world.fail(
                "lease and run", f"{new.id} is running with the lease {new.lease_id}, which is not its own"
            )
        ahead = first_in_line(new, before, now) if new.project else None
        if ahead is not None:
            self._world.fail("first come, first served", f"{new.id} went into {new.project} before {ahead.id}")
        if new.schedule is None:
            return
        if old.started_us is None:
            self._look_again(new, before, now)
        others = [one for one in before.live_of(new.schedule) if one.state == "running" and one.id != new.id]
        held = [one for one in others if self._in_hand(one, before, now) and after.runs[one.id].state == "running"]
        if len(held) >= new.lease_max:
            self._world.fail("overlap", f"{new.id} was leased beside {[one.id for one in held]}, of {new.lease_max}")

    def _look_again(self, new: RunSeen, before: Snapshot, now: Moment) -> None:
        """Of what never started: whatever holds its schedule back now."""
        assert new.schedule is not None
        schedule = before.schedules[new.schedule]
        paused = any(one.covers(now.wall_us) and one.schedule == new.schedule for one in before.pauses.values())
        if schedule.retired_us is not None or not schedule.definition.enabled:
            self._world.fail("recheck", f"{new.id} was leased although {new.schedule} is switched off")
        if new.tick_born and paused:
            self._world.fail("recheck", f"{new.id} was leased although {new.schedule} is paused")
        if new.tick_born and is_blacked_out(schedule.definition, now.wall_us):
            self._world.fail("recheck", f"{new.id} was leased although {new.schedule} is blacked out")

    def _came_back(self, old: RunSeen, new: RunSeen, change: Change) -> None:
        """A lane may settle an attempt and lease the run anew in one turn."""
        attempt = change.after.attempts.get((old.id, old.fence or 0))
        lease = change.before.leases.get(old.lease_id or "")
        mine = lease is not None and lease.held_by(change.seen.process.id)
        if attempt is None or attempt.outcome is None or not mine:
            self._world.fail("leases do not overlap", f"{old.id} was leased again while it was running")
        if all(state != "ready" for state, _ in self._expected(old, attempt, change.after)) or old.stop is not None:
            self._world.fail("settled by policy", f"{old.id} ended {attempt.outcome} and was leased again")
        self._leased(old, new, change)

    def _mine(self, run: RunSeen, change: Change, what: str) -> None:
        lease = change.after.leases.get(run.lease_id or "")
        if lease is None or not lease.held_by(change.seen.process.id):
            self._world.fail(
                "a loser changes nothing", f"{change.seen.process.name} {what} {run.id}, which is another's"
            )

    def _in_hand(self, run: RunSeen, before: Snapshot, now: Moment) -> bool:
        lease = before.leases.get(run.lease_id or "")
        return lease is not None and lease.state == "held" and not lease.over(now) and self._observer.alive(lease)

    def _ended_waiting(self, new: RunSeen) -> None:
        allowed = {
            "cancelled": {"cancelled", "overlap", *SECOND_LOOK},
            "dead": {"queue_timeout"},
        }
        if new.reason not in allowed.get(new.state, set()):
            self._world.fail("legal moves", f"{new.id} waited and is now {new.state} because of {new.reason}")
        self._world.totals[f"{new.state}: {new.reason}"] += 1

    def _ended(self, old: RunSeen, new: RunSeen, change: Change) -> None:
        """Only its holder ends an attempt, or anybody once the lease is over; and it ends as its policy says."""
        before, after, seen, now = change
        lease = before.leases.get(old.lease_id or "")
        mine = lease is not None and lease.held_by(seen.process.id)
        if lease is not None and not mine and not self._observer.may_be_taken(lease, now):
            self._world.fail(
                "only the lost are reaped", f"{seen.process.name} ended {old.id}, which another has in hand"
            )
        attempt = after.attempts[old.id, old.fence or 0]
        if attempt.outcome is None:
            self._world.fail("every end is told", f"{old.id} left fence {old.fence} without an outcome")
        expected = self._expected(old, attempt, after)
        if old.stop is not None:  # somebody asked it to stop: it does not come back
            expected = {move if move[0] != "ready" else ("cancelled", old.stop) for move in expected}
        if new.in_process and any(state == "ready" for state, _ in expected):  # and looked at again in the same turn
            expected |= {("dead", "queue_timeout"), *(("cancelled", reason) for reason in SECOND_LOOK)}
        if (new.state, new.reason) not in expected:
            found = f"{new.state} because of {new.reason}"
            self._world.fail("settled by policy", f"{old.id} ended {attempt.outcome} and is {found}, not {expected}")
        if new.reason == "resume" and not new.resume:
            self._world.fail("settled by policy", f"{old.id} shall be resumed, and is not told so")
        self._world.totals[f"{new.state}: {new.reason or 'done'}"] += 1

    def _expected(  # noqa: PLR0911  # one for each outcome
        self, run: RunSeen, attempt: AttemptSeen, after: Snapshot
    ) -> set[Move]:
        agent = run.definition
        again = {"resume": ("ready", "resume"), "restart": ("ready", "restart")}
        lost_max = max(agent.max_attempts, LOST_ATTEMPTS)
        onward = again.get(agent.on_lost) if run.attempt < lost_max else None
        match attempt.outcome:
            case "succeeded":
                return {("succeeded", None)}
            case "stopped":
                return {("cancelled", "cancelled"), ("cancelled", "overlap")}
            case "interrupted":
                kept = run.id in after.checkpoints or agent.on_lost != "triage"
                return {("ready", "drained") if kept else ("dead", "interrupted")}
            case "notstarted":
                return {("ready", "gate_unreachable")}
            case "lost" if attempt.started_us is None:
                fruitless = sum(one.started_us is None for one in after.attempts_of(run.id)) >= FRUITLESS
                return {("ready", "lost_before_start"), *([("dead", "lost")] if fruitless else [])}
            case "lost":
                return {onward or ("dead", "lost")}
            case "timedout":
                return {onward or ("dead", "timeout")}
            case "failed":
                failed: set[Move] = {("dead", "fence_refused"), onward or ("dead", "ambiguous")}
                retried = run.attempt < agent.max_attempts
                return {*failed, ("ready", "retry") if retried else ("dead", "exit_code")}
            case _:
                return set()

    def _counted(self, after: Snapshot, run_id: str) -> None:
        """A drain, a hindrance and a loss before the start use up no attempt; everything else does."""
        used = sum(one.costs for one in after.attempts_of(run_id))
        if after.runs[run_id].attempt != used:
            self._world.fail("attempts", f"{run_id} counts {after.runs[run_id].attempt} attempts, and {used} were used")

    def _checkpoint(self, run: RunSeen, fence: int, change: Change) -> None:
        self._mine(run, change, "left a checkpoint for")
        if run.state != "running" or run.fence != fence:
            self._world.fail("a loser changes nothing", f"fence {fence} left a checkpoint for {run.id} ({run.fence})")

    def _began(self, new: RunSeen, after: Snapshot) -> None:
        """Budgets hold for what has started."""
        if new.schedule is None:
            return
        rule = after.schedules[new.schedule].definition
        begun = [one for one in after.runs.values() if one.schedule == new.schedule and one.started_us is not None]
        if rule.max_runs_per_hour is not None:
            recent = sum(new.counted_us - HOUR_US < one.counted_us <= new.counted_us for one in begun)
            if recent > rule.max_runs_per_hour:
                self._world.fail("budget", f"{recent} runs of {new.schedule} in an hour, of {rule.max_runs_per_hour}")
        if rule.budget_usd_per_day and new.definition.budget_usd:
            zone = ZoneInfo(rule.timezone or "UTC")
            spent = sum(one.reserved_micro for one in begun if _date(one, zone) == _date(new, zone))
            if spent > float(rule.budget_usd_per_day) * 1_000_000:
                self._world.fail("budget", f"{spent / 1e6} dollars in a day, of {rule.budget_usd_per_day}")


def _date(run: RunSeen, zone: ZoneInfo) -> object:
    return datetime.fromtimestamp(run.counted_us / 1e6, UTC).astimezone(zone).date()
