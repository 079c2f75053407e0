"""Connections to the outside: a host is looked up once, every address is checked, and only what was checked is used."""

import http.client
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from fencepost.model.allowed_addresses import RequestTarget, check_address, networks_of


def connect(target: RequestTarget, allow: Sequence[str], seconds: float) -> http.client.HTTPConnection:
    """Connect to a target that is public or allowed; raise Invalid for any other, OSError if it cannot be reached."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    networks = networks_of(allow)
    for *_, place in found:
        check_address(str(place[0]), networks)
    connection: http.client.HTTPConnection
    if target.secure:
        connection = http.client.HTTPSConnection(target.host, target.port, timeout=seconds)
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=seconds)
    plain = _first(found, seconds)
    if target.secure:
        plain = ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)
    connection.sock = plain
    return connection


def _first(found: list[Any], seconds: float) -> socket.socket:
    trouble: OSError = OSError("the host has no address")
    for family, kind, protocol, _, place in found:
        one = socket.socket(family, kind, protocol)
        one.settimeout(seconds)
        try:
            one.connect(place)
        except OSError as error:
            one.close()
            trouble = error
        else:
            return one
    raise trouble
