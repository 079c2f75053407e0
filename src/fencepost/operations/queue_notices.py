"""Tells notification targets which runs wait, in which place and behind which run, and when they stop waiting."""

from collections.abc import Iterator, Sequence

from fencepost.model.notice import Notice
from fencepost.model.run import RunState
from fencepost.operations.phrases import rfc3339
from fencepost.operations.run_queries import LIVE_MAX, RunListing, SeenRun, Store, list_live
from fencepost.ports.notices import run_notice
from fencepost.ports.runs import RunRow

EVENT = "queued"
LOOK_SECONDS = 2.0
AT_ONCE_US = 2_000_000  # who waits for less than this is not worth a word
REMEMBERED = 500  # runs of which an earlier scheduler has told


class QueueTeller:
    """Looks at the line now and then; a place that has not changed is told once."""

    def __init__(self, tenant: str) -> None:
        """Look after the runs of a tenant."""
        self._tenant = tenant
        self._told: dict[str, None] | None = None  # ids of runs that wait, as far as those who listen know

    def step(self, store: Store) -> float:
        """Tell of what has changed; return in how many seconds to look again."""
        notices = store.notices()
        if self._told is None:
            rows = notices.listed(self._tenant, event=EVENT, limit=REMEMBERED)
            self._told = dict.fromkeys(row.subject.removeprefix("run:") for row in rows)
        listing = list_live(store, self._tenant, limit=LIVE_MAX, waiting_only=True)
        waiting = [one for one in listing.runs if _waits_behind(one, listing.now_us)]
        over = [run for run in self._gone(store, listing) if run.state != RunState.READY]
        notices.put([*_waits(waiting, listing.now_us), *_ends(over)])
        gone = {run.id for run in over}
        self._told = {run_id: None for run_id in self._told if run_id not in gone}
        self._told |= dict.fromkeys(one.run.id for one in waiting)
        return LOOK_SECONDS

    def _gone(self, store: Store, listing: RunListing) -> Iterator[RunRow]:
        """Yield the runs that were told of and wait no more."""
        still = {one.run.id for one in listing.runs}
        for run_id in self._told or ():
            run = None if run_id in still else store.run(run_id, tenant=self._tenant)
            if run is not None:
                yield run


def _waits_behind(one: SeenRun, now_us: int) -> bool:
    return one.place is not None and one.place.behind is not None and now_us - one.run.ready_us >= AT_ONCE_US


def _waits(waiting: Sequence[SeenRun], now_us: int) -> Iterator[Notice]:
    for one in waiting:
        place = one.place
        assert place is not None
        assert place.behind is not None
        behind = place.behind
        yield run_notice(
            one.run,
            f"{EVENT} {one.run.id} {place.position} {behind.run_id or ''}",
            (EVENT,),
            state=one.run.state,
            position=place.position,
            behind=behind.run_id,
            behind_what=behind.what,
            behind_since=rfc3339(behind.since_us),
            summary=place.words(now_us),
        )


def _ends(over: Sequence[RunRow]) -> Iterator[Notice]:
    for run in over:
        yield run_notice(run, f"{EVENT} {run.id} over", (EVENT,), state=run.state, position=0, reason=run.reason)
