"""How fast the web process takes deliveries of 50 callers of a webhook: a commit for each, and as the door does it.

Each caller waits for the answer to one delivery before it makes the next. "A commit for each" hands over one delivery at a
time, as many at once as there are threads, and shares no flush with others. In turns, on both stores, behind the socket;
with --http through a web door of its own process, asked over 50 connections that stay: µs are that process's then.
"""

import asyncio
import json
import multiprocessing
import os
import selectors
import socket
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import perf_counter, process_time  # a benchmark measures real time
from typing import TypeVar

from bench.ground import KINDS, TENANT, opened, report, stores
from fencepost import wiring
from fencepost.config.load import load
from fencepost.model.errors import FencepostError
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import apply_config
from fencepost.operations.webhook_delivery import HookRequest, Received, receive
from fencepost.web.server import WebAddress, serve
from fencepost.web.store_threads import StoreThreads
from fencepost.wiring.machine_facts import now_us
from fencepost.wiring.tenant_secrets import fetch_secret, own_rights
from tests.support.sender import SECRET, posted

T = TypeVar("T")
CALLERS = 50
WARM = 200
HOOK = "push"
RIGHTS = own_rights()
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
    parser.add_argument("--store", choices=KINDS, action="append")
    parser.add_argument("--http", action="store_true")
    options = parser.parse_args()
    rows = []
    with stores(options.store or KINDS) as each, tempfile.TemporaryDirectory() as folder:
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
                way = post if options.http else deliver
                alone, alone_us = way(url, [f"a{name}" for name in names], together=False)
                shared, shared_us = way(url, [f"t{name}" for name in names], together=True)
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
    report(
        f"50 callers of a webhook{' through HTTP' if options.http else ''}", rows, target="5 times a commit for each"
    )
    return 0


def deliver(url: str, names: list[str], *, together: bool) -> tuple[float, float]:
    """Let the callers make all deliveries; return how many a second, and µs of our processor for each."""
    group = wiring.commit_group(url) if together else None
    desk = StoreThreads(lambda: wiring.open_runtime(url, group=group))
    ask = desk.ask_together if together else partial(ask_each, desk)

    async def call(left: list[str]) -> None:
        while left:
            name = left.pop()
            headers = {"authorization": f"Bearer {SECRET}", "idempotency-key": name}
            answer = await ask(_take, HookRequest(headers, json.dumps({"n": name}).encode()), line=HOOK)
            assert answer.status == "accepted", answer

    try:
        return _measured(call, names)
    finally:
        desk.close()


def post(url: str, names: list[str], *, together: bool) -> tuple[float, float]:
    """Let the callers post all deliveries; return how many a second, and µs of the door's processor for each."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = int(one.getsockname()[1])
    door = multiprocessing.get_context("spawn").Process(target=serve_door, args=(url, port, together))
    door.start()
    try:
        asyncio.run(_answers(port))
        post_all(port, [f"w{name}" for name in names[:WARM]])
        began, used = perf_counter(), _used_us(door.pid)
        post_all(port, names)
        return len(names) / (perf_counter() - began), (_used_us(door.pid) - used) / len(names)
    finally:
        door.terminate()
        door.join()


def post_all(port: int, names: list[str]) -> None:
    """Post deliveries over as many connections as there are callers: 15 µs for each, so that the door's cost shows."""
    left = [posted(port, f"/hooks/{TENANT}/{HOOK}", name) for name in names]
    with selectors.DefaultSelector() as waiting, ExitStack() as stack:
        for _ in range(min(CALLERS, len(left))):
            caller = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            caller.sendall(left.pop())
            waiting.register(caller, selectors.EVENT_READ, caller)
        while waiting.get_map():
            for found, _ in waiting.select():
                caller = found.data
                answer = caller.recv(65_536)
                while answer and not answer.endswith(b"}"):
                    answer += caller.recv(65_536)
                assert answer.startswith(b"HTTP/1.1 202 "), answer
                if left:
                    caller.sendall(left.pop())
                else:
                    waiting.unregister(caller)


def _used_us(pid: int | None) -> float:
    """Return how much of a processor a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") * 1e6


def serve_door(url: str, port: int, together: bool) -> None:  # noqa: FBT001 - a process takes no keywords
    """Serve the web door, as it is or with a commit for each delivery."""
    if not together:
        setattr(StoreThreads, "ask_together", ask_each)  # noqa: B010 - it is another method that takes its place
        setattr(wiring, "commit_group", lambda _: None)  # noqa: B010 - likewise
    serve(url, TENANT, WebAddress(port=port))


async def ask_each(
    desk: StoreThreads,
    operation: Callable[[Store, Sequence[T]], Sequence[Received | FencepostError]],
    item: T,
    **_: object,
) -> Received:
    """Stand in for `ask_together` with a commit for each."""
    (found,) = await desk.ask(operation, [item])
    assert isinstance(found, Received), found
    return found


async def _answers(port: int) -> None:
    """Wait until a server listens."""
    for _ in range(300):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            return writer.close()
        await asyncio.sleep(0.1)
    raise AssertionError("the web door has not begun")


def _measured(call: Callable[[list[str]], Awaitable[None]], names: list[str]) -> tuple[float, float]:
    left = list(names)

    async def crowd() -> tuple[float, float]:
        began, used = perf_counter(), process_time()
        await asyncio.gather(*(call(left) for _ in range(CALLERS)))
        return len(names) / (perf_counter() - began), (process_time() - used) / len(names) * 1e6

    return asyncio.run(crowd())


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
