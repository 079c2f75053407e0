"""How fast the web process takes deliveries of 50 callers of a webhook: a commit for each, and as the door does it.

Behind the socket: each caller waits for the answer to one delivery before it makes the next. "A commit for each" hands over one
delivery at a time, as many at once as there are threads, and shares no flush with others. In turns, on both stores.
"""

import asyncio
import json
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time  # a benchmark measures real time

from bench.ground import TENANT, opened, report, stores
from fencepost import wiring
from fencepost.config.load import load
from fencepost.model.errors import FencepostError
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import apply_config
from fencepost.operations.webhook_delivery import HookRequest, Received, receive
from fencepost.web.store_threads import StoreThreads
from fencepost.wiring.machine_facts import now_us
from fencepost.wiring.tenant_secrets import fetch_secret, own_rights

CALLERS = 50
HOOK = "push"
RIGHTS = own_rights()
SECRET = "a-secret-of-enough-length"
CONFIG = """
[agents.a]
engine = "command"
command = ["true"]
waiting_max = 1000000
[hooks.push]
agent = "a"
scheme = "bearer"
secret = "file:{folder}/secret"
rate_per_minute = 1000000
"""


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    with stores() as each, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fencepost.toml")
        path.write_text(CONFIG.format(folder=folder))
        secret = Path(folder, "secret")
        secret.write_text(SECRET)
        secret.chmod(0o600)
        for kind, url in each:
            with opened(url) as store:
                apply_config(store.registry(), load(str(path)), tenant=TENANT, actor="bench")
            for number in range(options.rounds):
                names = [f"{number}-{one}" for one in range(options.deliveries)]
                alone, alone_us = deliver(url, [f"a{name}" for name in names], together=False)
                shared, shared_us = deliver(url, [f"t{name}" for name in names], together=True)
                rows.append(
                    {
                        "store": kind,
                        "commit each/s": round(alone),
                        "µs": round(alone_us),
                        "together/s": round(shared),
                        "µs then": round(shared_us),
                        "times": round(shared / alone, 2),
                    }
                )
    report("50 callers of a webhook", rows, target="5 times a commit for each")
    return 0


def deliver(url: str, names: list[str], *, together: bool) -> tuple[float, float]:
    """Let the callers make all deliveries; return how many a second, and µs of our processor for each."""
    group = wiring.commit_group(url) if together else None
    desk = StoreThreads(lambda: wiring.open_runtime(url, group=group))
    left = list(names)

    async def call() -> None:
        while left:
            name = left.pop()
            headers = {"authorization": f"Bearer {SECRET}", "idempotency-key": name}
            request = HookRequest(headers, json.dumps({"n": name}).encode())
            if together:
                answer = await desk.ask_together(_take, request, line=HOOK)
            else:
                (found,) = await desk.ask(_take, [request])
                assert isinstance(found, Received), found
                answer = found
            assert answer.status == "accepted", answer

    async def crowd() -> tuple[float, float]:
        began, used = perf_counter(), process_time()
        await asyncio.gather(*(call() for _ in range(CALLERS)))
        return len(names) / (perf_counter() - began), (process_time() - used) / len(names) * 1e6

    try:
        return asyncio.run(crowd())
    finally:
        desk.close()


def _take(store: Store, requests: Sequence[HookRequest]) -> list[Received | FencepostError]:
    return receive(
        store,
        requests,
        tenant=TENANT,
        name=HOOK,
        now_seconds=now_us() // 1_000_000,
        fetch_secret=lambda reference, tenant: fetch_secret(reference, tenant, RIGHTS),
        new_run_ids=wiring.new_run_ids,
    )


if __name__ == "__main__":
    sys.exit(main())
