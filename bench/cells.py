"""What a lease costs on each kind of cells, beside the raw swap: `make bench-cells`, or `python -m bench.cells URL …`.

Without a URL, a real server of each kind is started on this machine; with URLs the figures are those of your servers, and
the network's. For each: the median of N raw swaps, and of N leases that are taken and given back (a read and a swap each),
by a caller that has the store open.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fencepost.cells.opening import open_cell_store
from fencepost.model.lease import Claim, Granted
from fencepost.model.process import ProcessId
from fencepost.ports.cells import Cells
from fencepost.wiring.cell_stores import here, open_cells
from tests.cells.grounds import ONCE, LeaseDoor, ground_of
from tests.support.etcd import EtcdServer
from tests.support.redis import RedisServer
from tests.support.s3 import S3Server


def main() -> None:
    """Measure each store that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("-n", type=int, default=50)
    arguments = parser.parse_args()
    print(f"{'store':40} {'swap ms':>9} {'lease ms':>9} {'ratio':>6}")
    with ExitStack() as stack, TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder  # no memory of other days, and none left
        for url in arguments.urls or own_servers(stack, Path(folder)):
            measure(url, arguments.n)


def measure(url: str, count: int) -> None:
    """Print what one store takes."""
    cells = open_cells(url)
    swap, lease = raw_swaps(cells, count), leases(url, count)
    print(f"{cells.facts.url[:40]:40} {swap:9.1f} {lease:9.1f} {lease / swap:6.1f}")
    cells.close()


def own_servers(stack: ExitStack, folder: Path) -> Iterator[str]:
    """Start a server of each kind, one after the other, and yield where it is."""
    servers: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "s3_server": S3Server.running,
        "redis_server": RedisServer.running,
        "etcd_server": EtcdServer.running,
        "lease_door": lambda: LeaseDoor.running(folder),
    }
    for kind in ONCE:
        yield stack.enter_context(ground_of(kind, folder, lambda name: stack.enter_context(servers[name]()))).url


def raw_swaps(cells: Cells, count: int) -> float:
    """Return what one swap takes, in milliseconds."""
    name, tag, spent = f"probe-{os.urandom(8).hex()}", None, []
    for _ in range(count):
        document = b'{"v": 1, "probe": "%s"}' % os.urandom(16).hex().encode()
        began = time.perf_counter()
        tag = cells.swap(name, tag, document, seconds=30).tag
        spent.append(time.perf_counter() - began)
        assert tag is not None, "no other swaps this one"
    cells.swap(name, tag, None, seconds=30)
    return statistics.median(spent) * 1000


def leases(url: str, count: int) -> float:
    """Return what taking a lease and giving it back takes, in milliseconds."""
    place = here(url)
    store = open_cell_store(open_cells(url), place)
    spent = []
    for number in range(count):
        process = ProcessId(place.host, os.getpid(), "bench")
        claim = Claim(os.urandom(16).hex(), "default", ("lock:bench",), f"bench-{number}", 60.0, process, starts=True)
        began = time.perf_counter()
        answer = store.acquire(claim)
        assert isinstance(answer, Granted), "no other takes this one"
        store.release(answer.lease, clean=True)
        spent.append(time.perf_counter() - began)
    store.close()
    return statistics.median(spent) * 1000


if __name__ == "__main__":
    main()
