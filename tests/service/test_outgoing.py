"""Requests to the outside: no spelling of an address leads into the own network (W-5)."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.host.outgoing_connection import connect
from fencepost.model.allowed_addresses import target_of
from fencepost.model.errors import Invalid
from tests.support.receiver import Receiver, receiver

SECRET = "a-signing-secret-of-32-characters"
# Where {p} stands, a receiver listens: whatever got through would be heard.
URLS = (
    "http://127.0.0.1:{p}/", "http://localhost:{p}/", "http://LOCALHOST:{p}/", "http://127.1:{p}/", "http://127.0.1:{p}/",
    "http://2130706433:{p}/", "http://0x7f000001:{p}/", "http://017700000001:{p}/", "http://0177.0.0.1:{p}/",
    "http://0x7f.0.0.1:{p}/", "http://127.000.000.001:{p}/", "http://0:{p}/", "http://0.0.0.0:{p}/",
    "http://127.255.255.254:{p}/", "http://[::1]:{p}/", "http://[::]:{p}/", "http://[0:0:0:0:0:0:0:1]:{p}/",
    "http://[::ffff:127.0.0.1]:{p}/", "http://[::ffff:7f00:1]:{p}/", "http://[::127.0.0.1]:{p}/",
    "http://[64:ff9b::7f00:1]:{p}/", "http://[2002:7f00:1::]:{p}/", "http://[fe80::1%25lo]:{p}/",
    "http://me:secret@127.0.0.1:{p}/", "http://127.0.0.1:{p}\\@example.com/", "http://①②⑦.⓪.⓪.①:{p}/",
    "http://127。0。0。1:{p}/", "http:///127.0.0.1:{p}/", "http://127.0.0.1:{p}#@example.com/",
    "http://169.254.169.254/latest/meta-data/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/",
    "http://[::ffff:a9fe:a9fe]/", "http://[fd00:ec2::254]/", "http://[fec0::1]/", "http://[feff::1]/", "http://[5f00::1]/", "http://[64:ff9b:1::7f00:1]/",
    "http://[::ffff:0:7f00:1]/", "http://100.100.100.200/", "http://192.0.0.192/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/", "http://224.0.0.1/", "http://255.255.255.255/",
    "file:///etc/passwd", "gopher://127.0.0.1:{p}/_x", "dict://127.0.0.1:{p}/", "ftp://127.0.0.1:{p}/",
)  # fmt: skip


@pytest.fixture
def inside() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def delivered(jobs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "fencepost.send_notices"],
        input=json.dumps({"allow": [], "rights": [], "jobs": jobs}),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {one["id"]: one for one in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.parametrize("kind", ["webhook", "ping"])
def test_no_spelling_of_a_private_address_gets_through(inside: Receiver, kind: str) -> None:
    common = {"kind": kind, "event": "dead", "at": "2026-01-01T00:00:00Z", "body": {}, "style": "healthchecks"}
    urls = [url.format(p=inside.port) for url in URLS]
    found = delivered([{**common, "id": url, "url": url, "secret": SECRET} for url in urls])

    assert len(urls) >= 40
    assert [url for url in urls if found[url]["error"] is None] == []
    assert inside.heard == []


def test_a_name_is_looked_up_once_and_what_was_checked_is_what_is_used(
    inside: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int, **_: object) -> list[Any]:
        """Name an address that may be reached at first, and afterwards one that may not."""
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.9"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    connection = connect(target_of(f"http://rebound.example:{inside.port}/"), ["127.0.0.1"], 5)
    connection.request("POST", "/", b"")
    assert connection.getresponse().status == 200
    connection.close()
    assert asked == ["rebound.example"]


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)

    with pytest.raises(Invalid, match=r"10\.0\.0\.1"):
        connect(target_of("http://mixed.example/"), [], 5)
