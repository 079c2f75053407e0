"""A retried run through the whole product: daemon, supervisor, gateway, server."""

import shutil
from pathlib import Path

from tests.support.site import Site

EXAMPLE = Path(__file__).parents[2] / "examples/mcp-gate"


def test_the_example_sends_each_mail_once_though_its_agent_runs_twice(site: Site) -> None:
    for name in ("agent.py", "server.py"):
        shutil.copy(EXAMPLE / name, site.folder)
    site.configure((EXAMPLE / "fencepost.toml").read_text().partition('timezone = "UTC"\n')[2])
    site.up("--workers", "1", command="worker")

    site.fencepost("run", "mailer")
    site.until(lambda: site.runs(state="succeeded"))

    (run,) = site.runs()
    assert run.attempt == 2
    assert (site.folder / "sent.txt").read_text() == "to ann\nto bob\n"
    log = site.fencepost("logs", run.id)
    assert log.count("sent to ann") == log.count("sent to bob") == 1, (
        "the log is of the second attempt, which was answered"
    )
    assert [entry["state"] for entry in site.rows("ledger", "list")] == ["completed", "completed"]
