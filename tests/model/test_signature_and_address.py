"""Signed requests, and where they may go."""

import base64

import pytest

from fencepost.model.allowed_addresses import check_address, networks_of, target_of
from fencepost.model.errors import Invalid
from fencepost.model.signature import is_signed, sign

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def test_the_signature_is_that_of_standard_webhooks() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'

    headers = sign(secret, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_seconds=1614265330, body=body)

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_only_the_very_body_within_five_minutes_by_a_known_secret_is_believed() -> None:
    headers = sign(SECRET, message_id="m", at_seconds=1000, body=b"x")

    assert is_signed([SECRET], headers, b"x", now_seconds=1300)
    assert is_signed(["another-secret-of-mine", SECRET], headers, b"x", now_seconds=700)
    assert not is_signed([SECRET], headers, b"y", now_seconds=1000)
    assert not is_signed([SECRET], headers, b"x", now_seconds=1301)
    assert not is_signed(["another-secret-of-mine"], headers, b"x", now_seconds=1000)
    assert not is_signed([SECRET], {**headers, "webhook-id": "n"}, b"x", now_seconds=1000)
    assert not is_signed([SECRET], {**headers, "webhook-timestamp": "1e3"}, b"x", now_seconds=1000)
    assert not is_signed([SECRET], {}, b"x", now_seconds=1000)
    assert not is_signed([], headers, b"x", now_seconds=1000)


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(Invalid, match="longer"):
        sign("short", message_id="m", at_seconds=1, body=b"")


PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1",
    "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::",
    "2001:0:a9fe:a9fe::1", "::127.0.0.1",
    "fec0::1", "feff::1", "5f00::1", "64:ff9b:1::7f00:1", "::ffff:0:7f00:1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_inside_the_own_network_is_refused_in_whatever_dress(address: str) -> None:
    with pytest.raises(Invalid, match="http_allow"):
        check_address(address, ())


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_fine(address: str) -> None:
    check_address(address, ())


def test_what_is_allowed_may_be_reached_and_nothing_beside_it() -> None:
    allowed = networks_of(["10.1.0.0/16", "127.0.0.1", "fd00::/8"])

    for address in ("10.1.2.3", "127.0.0.1", "fd00::5", "::ffff:10.1.2.3"):
        check_address(address, allowed)
    for address in ("10.2.0.1", "127.0.0.2", "fe80::1"):
        with pytest.raises(Invalid):
            check_address(address, allowed)


@pytest.mark.parametrize(
    "url", ["ftp://x/", "file:///etc/passwd", "https://", "https://me@x/", "http://x y/", "http://[::1", "http://x:99999/",
            "//x/", "gopher://x", "http://x/\n", "http://bücher/"],
)  # fmt: skip
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        target_of(url)


def test_a_url_is_taken_apart() -> None:
    assert target_of("https://Hooks.Example/a/b?c=d#e") == (True, "hooks.example", 443, "/a/b?c=d")
