"""The scheduler and the workers die apart: each goes on without the other."""

from tests.support.site import Site

CONFIG = """
[agents.slow]
command = ["sh", "-c", "echo began >> slow; while ! test -e go; do sleep 0.1; done; echo done >> slow"]
[agents.quick]
command = ["sh", "-c", "echo $FENCEPOST_TICK >> quick"]
[schedules.second]
agent = "quick"
cron = "* * * * * *"
overlap = "queue"
"""


def test_a_run_goes_on_while_only_the_scheduler_is_killed_and_started_again(site: Site) -> None:
    """An engine that was restarted started the step again while the first copy still ran."""
    site.configure(CONFIG)
    site.up("--workers", "2", "--ttl", "3s", command="worker")
    scheduler = site.up("--ttl", "3s", command="scheduler")
    slow = site.fencepost("run", "slow").split()[-1]
    site.until((site.folder / "slow").exists)
    (before,) = site.runs(id=slow)
    for _ in range(3):
        scheduler.kill()
        scheduler.wait(10)
        ran = len(site.runs(state="succeeded"))
        scheduler = site.up("--ttl", "3s", command="scheduler")
        site.until(lambda ran=ran: len(site.runs(state="succeeded")) > ran)  # type: ignore[misc]
    (site.folder / "go").touch()
    site.until(lambda: site.runs(id=slow, state="succeeded"))
    (after,) = site.runs(id=slow)
    assert (after.fence, after.attempt) == (before.fence, 1)
    assert (site.folder / "slow").read_text() == "began\ndone\n"
    ticks = (site.folder / "quick").read_text().split()
    assert len(ticks) == len(set(ticks))
