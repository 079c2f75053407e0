"""An upgrade without a stop: a worker of the old program goes on while the new one migrates the store and moves in."""

import json

from fencepost.stores.sqlite.store import newest_schema
from tests.support.site import Site
from tests.upgrade.conftest import OldSite

CONFIG = """
[agents.slow]
command = ["sh", "-c", "fencepost progress began; while ! test -e go; do sleep 0.1; done; echo done >> slow"]
[agents.quick]
command = ["sh", "-c", "echo $FENCEPOST_TICK >> quick"]
[schedules.second]
agent = "quick"
cron = "* * * * * *"
overlap = "queue"
"""
OLD_SCHEMA = 3


def test_an_old_worker_goes_on_while_the_new_program_migrates_and_takes_over(now: Site, then: OldSite) -> None:
    then.configure(CONFIG)
    worker = then.up("--workers", "2", "--ttl", "3s")
    slow = then.fencepost("run", "slow").split()[-1]
    then.until(lambda: is_running(then, slow))
    before = then.rows("show", slow)[0]

    migrated = json.loads(now.fencepost("store", "migrate", "--json", "--store", now.store))
    assert migrated == {"from": OLD_SCHEMA, "to": newest_schema()}
    now.up(command="scheduler")

    # There is no other worker yet than the old one.
    made_now = now.fencepost("run", "quick").split()[-1]
    now.until(lambda: [one for one in now.runs(id=made_now) if one.state == "succeeded"])
    (now.folder / "go").touch()
    now.until(lambda: [one for one in now.runs(id=slow) if one.state == "succeeded"])
    (ended,) = now.runs(id=slow)
    assert (ended.fence, ended.attempt) == (before["fence"], 1), "the old worker renewed and settled what it had begun"

    now.up("--workers", "2", "--ttl", "3s", command="worker")
    worker.terminate()
    assert worker.wait(30) == 0
    ticks = len(now.runs(state="succeeded"))
    now.until(lambda: len(now.runs(state="succeeded")) >= ticks + 3)
    ran = (now.folder / "quick").read_text().split()
    assert len(ran) == len(set(ran)), "no tick ran twice"
    *_, verdict = now.rows("prove")
    assert (verdict["missing"], verdict["doubled"]) == (0, 0)
    assert "Traceback" not in then.said()


def test_an_old_worker_that_is_killed_is_reaped_by_the_new_program(now: Site, then: OldSite) -> None:
    then.configure(CONFIG.replace("[agents.slow]", '[agents.slow]\non_lost = "resume"'))
    worker = then.up("--workers", "2", "--ttl", "3s")
    slow = then.fencepost("run", "slow").split()[-1]
    then.until(lambda: is_running(then, slow))
    now.fencepost("store", "migrate", "--store", now.store)
    worker.kill()
    worker.wait(10)
    now.up("--workers", "2", "--ttl", "3s")
    now.until(lambda: len([one for one in attempts(now, slow) if one.started_us]) == 2)
    (now.folder / "go").touch()
    now.until(lambda: [one for one in now.runs(id=slow) if one.state == "succeeded"])
    first, second = attempts(now, slow)
    assert first.fence < second.fence
    assert first.outcome == "lost"
    assert (now.folder / "slow").read_text() == "done\n"


def is_running(site: Site, run: str) -> bool:
    row = site.rows("show", run)[0]
    return row["state"] == "running" and row["started_at"] is not None


def attempts(site: Site, run: str) -> list:  # type: ignore[type-arg]
    from fencepost import wiring  # noqa: PLC0415  # opened only for this look

    store = wiring.open_runtime(site.store)
    try:
        return store.attempts(run)
    finally:
        store.close()
