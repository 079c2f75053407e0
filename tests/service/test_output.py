"""Secrets do not reach the log, however the agent's output is cut into pieces."""

import base64
import json
import os
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.host.log_files import LogFile, read_log
from fencepost.service.output import HIDDEN, Blotter, Output

SECRET = "hunter2-hunter2"


def log_of(path: Path, pieces: list[bytes], secrets: list[str]) -> bytes:
    reader, writer = os.pipe()
    output = Output(reader)
    log = LogFile(str(path / "log"), 1_000_000)
    output.keep(log, secrets)
    for piece in pieces:
        os.write(writer, piece)
        output.drain()
    os.close(writer)
    output.finish()
    log.close()
    os.close(reader)
    return read_log(str(path / "log"))


@given(before=st.binary(max_size=20), after=st.binary(max_size=20), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_a_secret_split_over_reads_is_blotted_out(
    tmp_path_factory: object, before: bytes, after: bytes, cuts: list[int]
) -> None:
    text = before + SECRET.encode() + after
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges) if start < end]

    printed = log_of(tmp_path_factory.mktemp("log"), pieces, [SECRET])  # type: ignore[attr-defined]

    assert SECRET.encode() not in printed
    assert printed == text.replace(SECRET.encode(), HIDDEN)


def test_the_longer_of_two_secrets_is_blotted_out_whole(tmp_path: Path) -> None:
    assert log_of(tmp_path, [b"x abcdefgh y"], ["abcd", "abcdefgh"]) == b"x " + HIDDEN + b" y"


def test_what_only_begins_like_a_secret_is_printed_in_the_end(tmp_path: Path) -> None:
    assert log_of(tmp_path, [b"hunter2-"], [SECRET]) == b"hunter2-"


def test_output_that_nobody_takes_does_not_pile_up_in_memory(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    output = Output(reader)
    log = LogFile(str(tmp_path / "log"), 1000)
    output.keep(log, [])
    for _ in range(200):
        os.write(writer, b"x" * 10_000)
        while output.drain() and output.seen % 10_000:
            pass
    log.close()

    assert output.seen == 2_000_000
    assert len(read_log(str(tmp_path / "log"))) <= 1000


FEW = st.text(alphabet="ab", min_size=4, max_size=7)


@given(
    secrets=st.lists(FEW, min_size=1, max_size=3),
    output=st.text(alphabet="abc", max_size=40),
    cuts=st.lists(st.integers(1, 9), max_size=6),
)
def test_secrets_that_overlap_are_blotted_out_as_a_whole_wherever_reads_end(
    secrets: list[str], output: str, cuts: list[int]
) -> None:
    covered: set[int] = set()
    for secret in secrets:
        starts = [at for at in range(len(output)) if output.startswith(secret, at)]
        covered.update(place for at in starts for place in range(at, at + len(secret)))
    uncovered = "".join(letter for place, letter in enumerate(output) if place not in covered)

    blotter, shown, rest = Blotter(secrets), b"", output.encode()
    for size in cuts:
        shown += blotter.pass_on(rest[:size])
        rest = rest[size:]
    shown += blotter.pass_on(rest) + blotter.pass_on(b"", last=True)

    assert shown.replace(HIDDEN, b"").decode() == uncovered
    assert shown == Blotter(secrets).pass_on(output.encode(), last=True), "where reads end makes no difference"


def test_a_secret_that_begins_like_a_longer_one_does_not_let_the_longer_ones_end_slip_out() -> None:
    blotter = Blotter(["password", "password-2027"])

    assert blotter.pass_on(b"the password") + blotter.pass_on(b"-2027!", last=True) == b"the [redacted]!"


SPELT = 'p\u00e4ss "word"/+7&x'
AS_OTHERS_SPELL_IT = [
    r'{"key": "p\u00e4ss \"word\"\/+7&x"}',  # PHP
    r'{"key": "päss \"word\"\/+7&x"}',
    r'{"key": "päss \"word\"/+7\u0026x"}',  # Go
    r'{"key": "p\u00E4ss \u0022word\u0022/\u002B7\u0026x"}',  # .NET
    r'{"key": "p\u00e4ss \"word\"\u002f+7&x"}',
    r'{"key": "p\u00E4ss \"word\"\u002F+7&x"}',
    r'{"text": "{\"key\": \"p\\u00e4ss \\\"word\\\"\\/+7&x\"}"}',  # a text in a text
    "{" + "".join(f"\\u{ord(letter):04x}" for letter in SPELT) + "}",
    "key=p%c3%a4ss+%22word%22%2f%2b7%26x",  # small digits
    "https://x/#p%C3%A4ss%20%22word%22/+7&x",  # JavaScript's encodeURI
]


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_a_secret_is_blotted_out_however_a_program_spells_it(before: str, after: str) -> None:
    """As it is, in JSON, in an address, and in base64 wherever in it the secret begins."""
    printed = [
        SPELT,
        json.dumps({"key": SPELT}),
        json.dumps({"key": SPELT}, ensure_ascii=False),
        f"https://example.org/?{urlencode({'key': SPELT})}",
        f"postgresql://me:{quote(SPELT, safe='')}@db/x",
        *AS_OTHERS_SPELL_IT,
    ]
    for text in printed:
        assert HIDDEN in Blotter([SPELT]).pass_on(text.encode(), last=True), text
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        told = encode(f"{before}{SPELT}{after}".encode())
        shown = Blotter([SPELT]).pass_on(told, last=True)
        assert HIDDEN in shown
        assert len(shown.replace(HIDDEN, b"")) <= len(encode(f"{before}{after}".encode())) + 4, (
            "only the edges are left"
        )


@given(st.text(min_size=4, max_size=12), st.binary(max_size=5), st.binary(max_size=5))
def test_no_base64_of_a_secret_between_any_neighbours_slips_through(secret: str, before: bytes, after: bytes) -> None:
    whole = before + secret.encode("utf-8", "replace") + after
    if len(secret.encode("utf-8", "replace")) < 8:
        return  # too little of it would be left to know it by
    assert HIDDEN in Blotter([secret]).pass_on(base64.b64encode(whole), last=True)


def test_the_edges_of_base64_do_not_hide_what_is_no_secret() -> None:
    text = base64.b64encode(b"nothing of the kind, " * 20)
    assert Blotter([SPELT]).pass_on(text, last=True) == text
