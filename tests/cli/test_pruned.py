"""What people are told about records that are no longer kept."""

import json
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.host.identity import this_host
from fencepost.host.log_files import LogFile, log_path, remove_log
from fencepost.stores.runtime import RuntimeStore
from tests.support.desk import Desk
from tests.support.site import Site


@pytest.fixture
def kept(desk: Desk) -> Desk:
    """A schedule of three ticks: two are pruned, of the third there is a dead letter."""
    desk.schedule(cron="0 9 * * *", timezone="UTC")
    for day in (28, 29, 30):
        desk.tick(f"2026-03-{day}T09:00:00Z")
        if day == 30:
            desk.dead()
        else:
            desk.settle(desk.lease())
    desk.tick("2026-07-30T12:00:00Z")
    return desk


def test_a_dry_run_tells_what_would_go_and_prune_tells_what_has_gone(kept: Desk) -> None:
    assert kept.text("store", "prune", "--dry-run") == (
        "would prune 2 runs, 0 ticks and 0 pauses of tenant default; kept for 90d.\n"
    )
    assert kept.text("store", "prune") == "pruned 2 runs, 2 ticks and 0 pauses of tenant default; kept for 90d.\n"
    (again,) = kept.json("store", "prune", "--retention", "100d")
    assert again == {"tenant": "default", "dry_run": False, "leases": 0, "runs": 0, "ticks": 0, "pauses": 0, "logs": 0}


def test_a_retention_that_leaves_no_time_to_look_is_refused(kept: Desk) -> None:
    told = kept.cli("store", "prune", "--retention", "1h")
    assert told.code == 2
    assert "retention is at least 1d" in told.err


def test_why_says_that_a_record_was_pruned(kept: Desk) -> None:
    kept.text("store", "prune")
    told = kept.flat("why", "nightly", "--at", "2026-03-28T09:00:00Z")
    assert "was decided, and its record was pruned." in told
    assert "Records up to 2026-03-29T09:00:00Z are gone: records are kept for 90d." in told
    (answer,) = kept.json("why", "nightly", "--at", "2026-03-28T09:00:00Z")
    assert answer["verdict"] == "pruned"
    assert kept.json("why", "nightly", "--at", "2026-03-30T09:00:00Z")[0]["verdict"] == "dead"
    assert kept.json("why", "nightly", "--at", "2026-03-28T09:30:00Z")[0]["verdict"] == "no_tick"


def test_the_listing_of_ticks_says_that_there_were_more(kept: Desk) -> None:
    kept.text("store", "prune")
    assert "earlier ones, up to 2026-03-29T09:00:00Z, were pruned: records are kept for 90d" in kept.flat(
        "schedule", "ticks", "nightly"
    )
    assert "pruned" not in kept.text("schedule", "ticks", "nightly", "--from", "2026-04-01T00:00:00Z")


def test_the_numbers_of_a_schedule_are_those_of_all_times(kept: Desk) -> None:
    (before,) = kept.json("schedule", "show", "nightly")
    kept.text("store", "prune")
    (after,) = kept.json("schedule", "show", "nightly")
    assert before["runs"] == after["runs"] == {"dead": 1, "succeeded": 2}
    assert before["ticks"] == after["ticks"] == {"missed": 122, "run": 3}
    assert (before["pruned_until"], after["pruned_until"]) == (None, "2026-03-29T09:00:00Z")


def test_a_run_that_is_not_found_may_have_been_pruned(kept: Desk) -> None:
    (first,) = kept.json("runs", "--limit", "100")[-1:]
    kept.text("store", "prune")
    told = kept.cli("show", first["id"])
    assert told.code == 2
    assert "was pruned (records are kept for 90d); see: fencepost runs" in told.err


def test_the_proof_says_where_it_begins(kept: Desk) -> None:
    kept.text("store", "prune")
    told = kept.flat("prove")
    assert "every owed tick is accounted for" in told
    assert "pruned: nightly is proved from 2026-03-29T09:00:00Z on; earlier records are gone" in told
    first, _ = kept.json("prove")
    assert (first["pruned_until"], first["owed"]) == ("2026-03-29T09:00:00Z", 123)


def test_up_prunes_by_itself_and_removes_the_logs_on_its_disk(site: Site) -> None:
    site.configure('[agents.a]\ncommand = ["true"]\n[schedules.s]\nagent = "a"\ncron = "0 0 1 1 *"\n')
    site.up("--workers", "1")
    run = site.fencepost("run", "s", "--wait").split()[-1]
    store = site_store(site)
    try:
        store.dialect.write(lambda tx: tx._connection.execute(AGED).fetchall())  # type: ignore[attr-defined]
        fence = store.attempts(run)[0].fence
        path = Path(log_path(str(site.folder / "state" / "fencepost" / "logs"), run, fence))
        assert path.exists()
        for process in site._processes:
            process.terminate()
            process.wait(20)
        site.up("--workers", "1")
        site.until(lambda: store.run(run, tenant="default") is None)
        site.until(lambda: store.old_logs(this_host().name, 1) == [], seconds=90)
        assert not path.exists()
    finally:
        store.close()
    assert json.loads(site.fencepost("schedule", "show", "s", "--json"))["runs"] == {"succeeded": 1}


AGED = "UPDATE run SET created_us = created_us - 100 * 86400000000, ended_us = ended_us - 100 * 86400000000"


def site_store(site: Site) -> RuntimeStore:
    return wiring.open_runtime(site.store)


def test_a_log_is_removed_with_its_older_half(tmp_path: Path) -> None:
    path = log_path(str(tmp_path), "r1", 7)
    log = LogFile(path, 10)
    log.write(b"x" * 12)
    log.close()
    remove_log(path)
    remove_log(path)
    assert list(tmp_path.iterdir()) == []
