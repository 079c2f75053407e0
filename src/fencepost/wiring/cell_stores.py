"""Opens stores of cells by their URLs."""

from __future__ import annotations

import os

from fencepost.config.find import without_password
from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease import TTL_DEFAULT_SECONDS

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from fencepost.cells.store import CellStore
    from fencepost.model.cell import Root
    from fencepost.ports.cells import Cells

SPELLINGS = (
    *("git+ssh://git@host/team/site.git", "git+https://…", "git+file:///path"),
    *("s3://bucket/prefix", "redis://host:6379/0", "etcd://host:2379/prefix", "https://host:7420"),
)
SCHEMES = ("git+ssh", "git+https", "git+file", "s3", "redis", "rediss", "etcd", "https", "http")
TTL_SECONDS = {"git+ssh": 600.0, "git+https": 600.0, "git+file": 600.0, "s3": 120.0}
KEY = "FENCEPOST_STORE_KEY"
PORT, ETCD_PORT = 7420, 2379
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPTIONS = {"s3": ("endpoint_url", "region"), "etcd": ("tls",)}


def default_ttl(url: str) -> float:
    """Return how long a lease lasts whose caller says nothing about it."""
    return TTL_SECONDS.get(url.partition(":")[0], TTL_DEFAULT_SECONDS)


class CellOpener:
    """Opens one store, as often as a process needs it; what it is called is asked once."""

    __slots__ = ("_root", "_url")

    def __init__(self, url: str) -> None:
        self._url = url
        self._root: Root | None = None

    def open(self, *, probe: bool = False) -> CellStore:
        """Open it; once a day, or on demand, it is tried whether it can do what is asked of it."""
        from fencepost.cells.opening import open_cell_store

        store = open_cell_store(open_cells(self._url), here(self._url), known=self._root, probe_now=probe)
        self._root = store.root
        return store


def here(url: str):  # type: ignore[no-untyped-def]  # noqa: ANN201  # Here, whose import waits for the first use
    """Return who looks: this machine, its clock, and what it remembers of this store."""
    from hashlib import sha256

    from fencepost.cells.local_memory import MemoryFolder
    from fencepost.cells.store import Here
    from fencepost.host.clock import SystemClock
    from fencepost.host.identity import this_host

    folder = os.path.join(memory_folder(), sha256(without_password(url).encode()).hexdigest()[:16])
    return Here(this_host(), SystemClock(), MemoryFolder(folder))


def memory_folder() -> str:
    """Return where this machine keeps what it has seen of stores of cells."""
    from fencepost.config.find import state_folder

    return os.path.join(state_folder(os.environ), "cells")


def open_cells(url: str) -> Cells:
    """Return the adapter of a URL; nothing is asked yet."""
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{without_password(url)!r} is no URL of a store: {error}.") from None
    scheme = parts.scheme
    given = dict(parse_qsl(parts.query)) if scheme in OPTIONS else {}
    unknown = [name for name in given if name not in OPTIONS[scheme]]
    if unknown:
        raise Invalid(
            f"{without_password(url)}: a store of kind {scheme} has no option {unknown[0]!r}; there is {' and '.join(OPTIONS[scheme])}."
        )
    if scheme.startswith("git+"):
        return _git(url, parts)
    if scheme == "s3":
        from fencepost.cells.s3 import S3Cells

        return S3Cells(parts.netloc, parts.path, options=given, shown=without_password(url))
    if scheme in ("redis", "rediss"):
        from fencepost.cells.redis import RedisCells

        return RedisCells(url, shown=without_password(url))
    if not parts.hostname:
        raise Invalid(
            f"{without_password(url)} names no host; write {scheme}://host:{PORT if scheme != 'etcd' else ETCD_PORT}."
        )
    if scheme == "etcd":
        return _etcd(url, parts, given, port)
    return _http(url, parts, port)


def _git(url: str, parts: SplitResult) -> Cells:
    from fencepost.cells.git import GitCells
    from fencepost.host.host_tools import run_bounded

    where = parts.path if parts.scheme == "git+file" else parts.hostname
    if not where or not parts.path.strip("/"):
        raise Invalid(f"{without_password(url)} names no repository; write {SPELLINGS[0]}.")
    if parts.netloc.startswith("-") or (parts.hostname or "").startswith("-"):
        raise Invalid(f"{without_password(url)} is no address of a repository.")
    return GitCells(url, shown=without_password(url), run=run_bounded, environ=os.environ)


def _etcd(url: str, parts: SplitResult, given: dict[str, str], port: int | None) -> Cells:
    from urllib.parse import unquote

    from fencepost.cells.etcd import EtcdCells
    from fencepost.cells.http_requests import Server

    shown = without_password(url)
    tls = given.get("tls", "no") in ("yes", "true", "1")
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    server = Server(str(parts.hostname), port or ETCD_PORT, tls=tls, shown=shown)
    return EtcdCells(server, parts.path, login=login, shown=shown)


def _http(url: str, parts: SplitResult, port: int | None) -> Cells:
    from fencepost.cells.fencepost_http import HttpCells
    from fencepost.cells.http_requests import Server

    shown, host = without_password(url), str(parts.hostname)
    if parts.scheme == "http" and host not in LOOPBACK:
        raise Invalid(f"{shown} would send the key of the store in the clear; write https://, or keep to this machine.")
    if parts.username or parts.query:
        raise Invalid(f"{shown}: the key of the store belongs into {KEY}, and nothing else into the URL.")
    server = Server(host, port or PORT, tls=parts.scheme == "https", shown=shown)
    return HttpCells(server, parts.path, key=os.environ.get(KEY, ""), shown=shown)
