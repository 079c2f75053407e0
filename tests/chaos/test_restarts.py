"""Workers that are killed, leave, and come again at random under running agents: no agent notices."""

import json
import os
import random  # noqa: TID251  # seeded
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from fencepost.host.log_files import log_path
from tests.chaos.test_stations import heeds_signals
from tests.support.ground import is_alive
from tests.support.site import Site

AGENTS, RESTARTS = int(os.environ.get("FENCEPOST_TEST_RESTARTS", "12")), 8  # of 100 they were all there still
CONFIG = """
[agents.counts]
command = '''
echo $$ > new-$FENCEPOST_RUN_ID; mv new-$FENCEPOST_RUN_ID pid-$FENCEPOST_RUN_ID
i=0; until [ -e go ]; do i=$((i+1)); echo "line $i"; sleep 0.1; done
echo $FENCEPOST_RUN_ID >> ended; echo the end
'''
shell = true
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return Site(tmp_path, request.getfixturevalue("durable_url") if request.param == "postgresql" else None)


def pids(site: Site) -> dict[str, int]:
    return {path.name.removeprefix("pid-"): int(path.read_text()) for path in site.folder.glob("pid-*")}


@pytest.mark.parametrize("seed", [1, 2])
def test_agents_outlive_every_restart_of_their_worker(site: Site, seed: int) -> None:
    dice, ways = random.Random(seed), Counter[int]()
    environment = {**site.environment(), "FENCEPOST_ON_TERM": "leave"}
    start = partial(
        site.start, "fencepost", "up", "--workers", str(AGENTS), "--ttl", "30s", "--no-web", environment=environment
    )
    site.configure(CONFIG)
    try:
        worker = start()
        site.fencepost("run", "counts", "--payloads", "-", data="{}\n" * AGENTS)
        site.until(lambda: len(pids(site)) == AGENTS, seconds=60 + 2 * AGENTS)
        agents, fences = pids(site), {run.id: run.fence for run in site.runs()}
        for _ in range(RESTARTS):
            Event().wait(dice.uniform(0.1, 1.5))
            way = dice.choice((signal.SIGKILL, signal.SIGTERM))
            if way == signal.SIGTERM:  # a worker that is only starting has nothing to leave
                site.until(partial(heeds_signals, worker.pid))
            worker.send_signal(way)
            worker.wait(20)
            ways[way] += 1
            assert all(map(is_alive, agents.values()))
            worker = start()
        assert len(ways) == 2, "both ways were gone"
        (site.folder / "go").touch()
        site.until(lambda: len(site.runs(state="succeeded")) == AGENTS, seconds=60 + 2 * AGENTS)
    finally:
        site.close()

    assert pids(site) == agents, "same processes"
    assert {run.id: (run.fence, run.attempt) for run in site.runs()} == {run: (fences[run], 1) for run in agents}
    assert sorted((site.folder / "ended").read_text().split()) == sorted(agents), "each ended once"
    settled = Counter(row["subject"] for row in site.rows("audit", "--limit", "1000") if row["verb"] == "settle")
    assert settled == {f"run:{run}": 1 for run in agents}
    for run in agents:
        shown = json.loads(site.fencepost("show", run, "--json"))
        lines = Path(log_path(f"{site.folder}/state/fencepost/logs", run, shown["fence"])).read_text().splitlines()
        assert lines == [*(f"line {number}" for number in range(1, len(lines))), "the end"], "the log is whole"
        assert len(shown["attempts"]) == 1
