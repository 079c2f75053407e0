"""Which addresses a request may go to: public ones, and private ones that the worker's owner allows."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NAT64 = IPv6Network("64:ff9b::/96")
GIVEN_OUT = IPv6Network("2000::/3")  # all that is public so far; fec0::/10 and its like were, or will be, local
PORTS = {"http": 80, "https": 443}


class RequestTarget(NamedTuple):
    """Where a request goes, taken apart."""

    secure: bool
    host: str
    port: int
    path: str


def target_of(url: str) -> RequestTarget:
    """Take a URL apart, or raise Invalid."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise Invalid(f"the URL cannot be read: {error}.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise Invalid("the URL must begin with https:// or http:// and a host.")
    if parts.username is not None or parts.password is not None:
        raise Invalid("the URL names a user; put credentials into a header.")
    if any(ord(one) <= ord(" ") or ord(one) > ord("~") for one in url):
        raise Invalid("the URL has blanks or characters that are not ASCII; escape them.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return RequestTarget(parts.scheme == "https", parts.hostname, port, path)


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read networks and single addresses, or raise Invalid."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise Invalid(f"{error}; write an address or a network, such as 127.0.0.1 or 10.0.0.0/8.") from None


def check_address(text: str, allowed: Sequence[Network]) -> None:
    """Refuse an address inside the own network, however it is spelled, unless it is allowed."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None  # the very same one, written otherwise
    for one in (mapped or address, *_within(address)):
        if any(one in network for network in allowed if network.version == one.version):
            continue
        if not one.is_global or one.is_multicast or one.is_reserved or (one.version == 6 and one not in GIVEN_OUT):  # noqa: PLR2004  # IPv6
            raise Invalid(
                f"it leads to {text}, which is no public address; if that is meant, allow it on the worker: "
                f'http_allow = ["{one}"] in [fencepost].'
            )


def _within(address: Address) -> list[IPv4Address]:
    """Return the old-style addresses that are wrapped in a new one."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
