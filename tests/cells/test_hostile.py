"""Cells that another program wrote, and servers that answer slowly, halfway or in another tongue."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from fencepost.cells.etcd import EtcdCells
from fencepost.cells.fencepost_http import HttpCells
from fencepost.cells.http_requests import Server
from fencepost.cells.redis import RedisCells
from fencepost.cells.s3 import S3Cells
from fencepost.cells.store import cell_name
from fencepost.host.clock import SystemClock
from fencepost.model.cell import SIZE_MAX, decode
from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.ports.cells import Answer, Cells
from tests.cells.grounds import Machine, Machines, ground_of
from tests.support.s3 import CREDENTIALS

SECONDS = 0.5
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 10**30, 1.5, float("inf"), float("nan"), "", "\x1b[2J", "a\nb", [], [[]], {}, {"a": 1}, [None]),
    "9" * 5000,
)


@pytest.fixture
def a(machines: Machines) -> Machine:
    return machines("a")


def put(machine: Machine, name: str, document: bytes) -> None:
    """Write a cell past the algorithm."""
    cells = machine._ground.cells()
    swapped = cells.swap(name, cells.read([name], seconds=30)[name].tag, document, seconds=30)
    assert swapped.tag is not None, swapped
    cells.close()


def test_a_cell_under_another_s_name_is_refused_and_changes_neither(a: Machine, machines: Machines) -> None:
    held = a.granted("lock:a")
    cells = a._ground.cells()
    name, other = cell_name("default", "lock:a"), cell_name("default", "lock:b")
    copied = cells.read([name], seconds=30)[name].document
    assert copied is not None
    put(a, other, copied)

    with pytest.raises(StoreUnavailable, match="belongs under another name"):
        machines("b").granted("lock:b")
    a.store.renew(held)
    assert cells.read([other], seconds=30)[other].document == copied
    cells.close()


@pytest.mark.parametrize(
    "document",
    [b"[]", b"\xff\xfe", b"[" * 16_000, b'{"v": 1}', b'{"v": 1' + b" " * SIZE_MAX + b"}", b'{"v": 99}'],
    ids=["list", "bytes", "deep", "bare", "huge", "newer"],
)
def test_what_is_no_cell_stops_its_own_lock_and_says_which(
    document: bytes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with ground_of("redis", tmp_path, request.getfixturevalue) as ground:
        a = Machine(ground, tmp_path, "a")
        put(a, cell_name("default", "lock:a"), document)

        with pytest.raises(StoreUnavailable, match=cell_name("default", "lock:a")):
            a.granted("lock:a")
        assert a.granted("lock:b")
        a.close()


def test_one_unreadable_cell_leaves_the_others_to_be_listed_lifted_and_taken(a: Machine) -> None:
    name = cell_name("default", "lock:bent")
    held = a.granted("lock:a")
    put(a, name, b'{"v": 1, "lease": "bent"}')

    assert [one.id for one in a.store.leases()] == [held.id]
    assert [name in notice and "cannot be read" in notice for notice in a.store.facts().notices] == [True]
    assert a.store.bump(held.fence + 1000) == held.fence + 1000
    a.store.release(held, clean=True)
    assert a.granted("lock:a").fence > held.fence + 1000


def test_a_ref_without_a_cell_in_it_stops_no_other_lock(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with ground_of("git", tmp_path, request.getfixturevalue) as ground:
        a = Machine(ground, tmp_path, "a")
        held = a.granted("lock:a")
        remote = ground.url.removeprefix("git+file://")
        name = cell_name("default", "lock:bent")
        tree = git(remote, "mktree", stdin="")
        commit = git(remote, "commit-tree", "-m", "no cell", tree)
        git(remote, "update-ref", f"refs/fencepost-cells/{name}", commit)

        assert [one.id for one in a.store.leases()] == [held.id]
        assert any(name in notice for notice in a.store.facts().notices)
        with pytest.raises(StoreUnavailable, match=name):
            a.granted("lock:bent")
        a.close()


def git(folder: str, *words: str, stdin: str | None = None) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    ran = subprocess.run(["git", *author, *words], cwd=folder, input=stdin, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def documents() -> Iterator[bytes]:
    """Yield a whole document with each of its values replaced by each strange one."""
    lease = {
        "id": "i",
        "fence": 5,
        "run_id": "r",
        "holder": None,
        "label": "sh",
        "host": "h",
        "machine": "m",
        "pid": 1,
        "ttl_ms": 30_000,
        "granted_us": 1,
        "started_us": None,
    }
    tick = {
        "job": "j",
        "cron": "* * * * *",
        "zone": "UTC",
        "cursor_us": 1,
        "state": "started",
        "attempts": 1,
        "run": "r",
        "host": "h",
        "fence": 5,
        "last_success_us": None,
    }
    whole: dict[str, Any] = {
        "v": 1,
        "tenant": "default",
        "resource": "lock:a",
        "nonce": "n",
        "fence": 5,
        "beat": 1,
        "lease": lease,
        "owed_gates": [{"gate": "file:/a", "machine": ""}],
        "tick": [tick],
        "lost": [lease],
        "resets": 0,
    }
    decode(json.dumps(whole).encode(), where="here")
    for strange in STRANGE:
        for key in whole:
            yield json.dumps({**whole, key: strange}).encode()
        for key in lease:
            yield json.dumps({**whole, "lease": {**lease, key: strange}}).encode()
        for key in tick:
            yield json.dumps({**whole, "tick": [{**tick, key: strange}]}).encode()


def test_every_document_is_understood_or_refused_and_none_steers_a_terminal() -> None:
    refused, longest = 0, 0
    for document in documents():
        try:
            cell = decode(document, where="here")
        except FencepostError as error:
            refused += 1
            longest = max(longest, len(str(error)))
            continue
        shown = (
            cell.tenant,
            cell.resource,
            *((cell.lease.id, cell.lease.host, cell.lease.label) if cell.lease else ()),
        )
        assert all(text.isprintable() for text in shown), document
        assert isinstance(hash(cell), int)
    assert refused > 300
    assert longest < 600


@contextmanager
def server(answer: bytes, *, drip: bool = False) -> Iterator[int]:
    """Serve these bytes to every caller; `drip`: one every tenth of a second, without end."""
    over = Event()

    def serve(line: socket.socket) -> None:
        with line, suppress(OSError):
            line.recv(65_536)
            line.sendall(answer)
            while drip and not over.wait(0.1):
                line.sendall(b"x")

    def listen() -> None:
        with suppress(OSError):
            while True:
                Thread(target=serve, args=(listener.accept()[0],)).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=listen)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ANSWERS = {
    "nothing": (b"", False),
    "half a header": (b"HTTP/1.1 20", False),
    "half a body": (HEAD + b'Content-Length: 5000\r\n\r\n{"v": 1', False),
    "garbage": (b"\x00\xff" * 50 + b"\r\n\r\n", False),
    "header by drips": (HEAD + b"X: ", True),
    "body by drips": (HEAD + b"Content-Length: 5000\r\n\r\n", True),
    "body without end": (HEAD + b"\r\n", True),
    "deep": (HEAD + b"Content-Length: 9000\r\n\r\n" + b"[" * 9000, False),
    "another shape": (HEAD + b'Content-Length: 16\r\n\r\n{"kvs": [{}, 1]}', False),
}


def cells_at(kind: str, port: int) -> Cells:
    """Return what asks a server of this kind."""
    at = Server("127.0.0.1", port, tls=False, shown="there")
    if kind == "etcd":
        return EtcdCells(at, "x", login=None, shown="there")
    if kind == "http":
        return HttpCells(at, "", key="k", shown="there")
    if kind == "redis":
        return RedisCells(f"redis://127.0.0.1:{port}", shown="there")
    return S3Cells("bucket", "", options={"endpoint_url": f"http://127.0.0.1:{port}"}, shown="there")


DRIPS = {
    "redis": {"a line": b"$", "an answer": b"$5000\r\n", "many": b"*9\r\n$5000\r\n"},
    "s3": {
        "header": HEAD + b"X: ",
        "body": HEAD + b'ETag: "1"\r\nContent-Length: 5000\r\n\r\n',
        "body without end": HEAD + b'ETag: "1"\r\n\r\n',
    },
}


@pytest.mark.parametrize(("kind", "how"), [(kind, how) for kind, drips in DRIPS.items() for how in drips])
def test_a_server_that_answers_by_drips_without_end_is_unavailable_in_time(
    kind: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with server(DRIPS[kind][how], drip=True) as port:
        cells = cells_at(kind, port)
        with suppress(StoreUnavailable):
            cells.read(["a"], seconds=SECONDS)  # loads the library
        clock = SystemClock()
        began_ns = clock.awake_ns()
        for ask in (lambda: cells.list("", seconds=SECONDS), lambda: cells.read(["a", "b"], seconds=SECONDS)):
            with pytest.raises(StoreUnavailable):
                ask()
        swapped = cells.swap("a", None, b"{}", seconds=SECONDS)
        assert (clock.awake_ns() - began_ns) / 1e9 < 6 * SECONDS
        if how == "body without end":
            return  # whole as far as a put goes: its header is all that is asked for
        assert (swapped.tag, swapped.answer) == (None, Answer.UNKNOWN) or how == "body"


@pytest.mark.parametrize("how", ANSWERS)
@pytest.mark.parametrize("kind", ["etcd", "http"])
def test_a_server_that_answers_slowly_or_half_is_unavailable_in_time(kind: str, how: str) -> None:
    answer, drip = ANSWERS[how]
    with server(answer, drip=drip) as port:
        cells = cells_at(kind, port)
        clock = SystemClock()
        began_ns = clock.awake_ns()
        with pytest.raises(StoreUnavailable):
            cells.list("", seconds=SECONDS)
        if kind == "etcd" or how not in ("deep", "another shape"):  # there a cell is whatever came back whole
            with pytest.raises(StoreUnavailable):
                cells.read(["a"], seconds=SECONDS)
        swapped = cells.swap("a", None, b"{}", seconds=SECONDS)
        assert not swapped.tag
        assert how in ("deep", "another shape") or swapped.answer is Answer.UNKNOWN
        assert (clock.awake_ns() - began_ns) / 1e9 < 10 * SECONDS
