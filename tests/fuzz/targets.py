"""What is fuzzed: each target takes any bytes, makes something of them that the product may meet, and states what must hold.

The bytes alone decide, so that what a fuzzer found can be kept as a file and replayed for ever.
"""

# ruff: noqa: PT017  # a refusal is as good as an answer, and has to be a good one

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from fencepost.cli import exec as exec_door
from fencepost.cli import exec_options
from fencepost.cli import lease as lease_door
from fencepost.cli.main import COMMANDS
from fencepost.config.load import load
from fencepost.config.problems import InvalidConfig
from fencepost.host.log_files import LogFile, read_log
from fencepost.model import webhook
from fencepost.model.cron import parse_cron
from fencepost.model.duration import DIGITS_MAX, format_duration, parse_duration
from fencepost.model.errors import FencepostError, FenceRefused, Invalid
from fencepost.model.trigger import cron_trigger
from fencepost.service.gateway import Splitter
from fencepost.service.output import HIDDEN, SECRET_MIN, Blotter, Output
from fencepost.service.secret_spellings import spellings
from fencepost.service.tool_gate import Rules, ToolGate
from tests.fuzz import oracles

NOW = 1_800_000_000
LONGEST = 36_500 * 86_400
TICKS_MAX = 3000  # of every minute for two days
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia")
SECRET = "an-old-secret-of-32-characters-xx"
HEADERS = (
    *("webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "x-slack-signature"),
    *("x-slack-request-timestamp", "stripe-signature", "authorization", "idempotency-key", "x-github-event"),
)
SCHEMES = ("standard", "github", "slack", "stripe", "bearer")


class Feed:
    """Takes values off the front of some bytes; when they are used up, everything is empty or the first of its kind."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, below: int) -> int:
        head, self._data = self._data[:2], self._data[2:]
        return int.from_bytes(head) % below

    def choice(self, values: "list[Any] | tuple[Any, ...]") -> Any:  # noqa: ANN401  # of whatever kind they are
        return values[self.number(len(values))]

    def some(self, most: int) -> bytes:
        size = self.number(most + 1)
        head, self._data = self._data[:size], self._data[size:]
        return head

    def text(self, most: int) -> str:
        return self.some(most).decode("utf-8", "replace")

    def rest(self) -> bytes:
        head, self._data = self._data, b""
        return head


def cron(data: bytes) -> None:
    """Any text is an expression whose ticks an independent walk over every minute finds too, or a refusal that helps."""
    feed = Feed(data)
    zone, gap, fold = feed.choice(ZONES), feed.choice(("skip", "shift")), feed.choice(("auto", "first", "last", "both"))
    text = feed.rest().decode("utf-8", "replace")
    try:
        parse_cron(text)
        trigger = cron_trigger(text, zone, dst_gap=gap, dst_fold=fold)
    except Invalid as refusal:
        assert len(str(refusal)) > 20, "a refusal says what to do"
        return
    start, end = oracles.WINDOWS[len(text) % 2]
    found: list[datetime] = []
    for at in trigger.instants(start, end):
        found.append(at)
        if len(found) > TICKS_MAX:
            break
    assert found == sorted(set(found))
    following = trigger.next_after(start - timedelta(microseconds=1))
    assert following is not None, "what never fires is refused"
    assert not found or following.tick_at == found[0]
    if len(found) > TICKS_MAX:
        return
    assert trigger.count_between(start, end) == len(found)
    before = trigger.last_before(end)
    assert not found or (before is not None and before.tick_at == found[-1])
    theirs = oracles.instants(text, zone, start, end, gap=gap, fold=fold)
    assert theirs is None or theirs == found, f"a walk over every minute finds {theirs}"


def duration(data: bytes) -> None:
    """Any text is the time that another reading of it gives, from nothing to a hundred years, or a refusal."""
    text = data.decode("utf-8", "replace")
    theirs = oracles.seconds(text)
    try:
        found = parse_duration(text)
    except Invalid:
        assert theirs is None or theirs > LONGEST or (theirs * 1000).denominator > 1 or len(text) > DIGITS_MAX
        return
    assert theirs is not None
    assert 0 <= found <= LONGEST
    assert round(theirs * 1000) == round(found * 1000)
    assert parse_duration(format_duration(found)) == found


def config(data: bytes) -> None:
    """Any file is a configuration, or invalid with the place of each problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fencepost.toml")
        with open(path, "wb") as file:
            file.write(data)
        try:
            made = load(path)
        except InvalidConfig as refusal:
            assert refusal.problems
            assert all(one.place.line >= 1 and one.place.column >= 1 for one in refusal.problems)
            return
        except Invalid:
            return
    made.wanted()


def webhooks(data: bytes) -> None:
    """Nobody without the secret is let in; whatever is let in becomes a payload that is JSON."""
    feed = Feed(data)
    scheme, signs = feed.choice(SCHEMES), feed.number(2)
    headers = {name: feed.some(40).decode("latin-1") for name in HEADERS if feed.number(2)}
    body = feed.rest()
    if signs:
        headers |= oracles.signed(scheme, SECRET, body, NOW)
    assert _genuine(scheme, headers, body) == bool(signs), "only what is signed is genuine"
    if signs:
        _tampered(scheme, headers, body)
    hook = webhook.Hook(
        "agent", scheme, "env:S", filter={"a.b": "1"}, payload={"x": "a", "y": "b.c"} if len(body) % 2 else {}
    )
    try:
        content = webhook.read_content(body)
        webhook.delivery_of(scheme, headers, body, content)
    except Invalid:
        return
    webhook.is_wanted(hook, webhook.event_of(scheme, headers, content), content)
    spelled = json.dumps(webhook.payload_of(hook, content), allow_nan=False)
    spelled.encode("utf-8")
    json.loads(spelled)


def _genuine(scheme: str, headers: dict[str, str], body: bytes, *, secret: str = SECRET, now: int = NOW) -> bool:
    return webhook.is_genuine(scheme, [secret], headers, body, now_seconds=now)


def _tampered(scheme: str, headers: dict[str, str], body: bytes) -> None:
    """Let nothing through that was changed after it was signed, is signed by another, or is too old or too new."""
    assert not _genuine(scheme, headers, body, secret=SECRET[::-1])
    if scheme == "bearer":
        return  # it proves who, and nothing about what
    place = len(body) // 2
    assert not _genuine(scheme, headers, body[:place] + b"x" + body[place:])
    assert not body or not _genuine(scheme, headers, body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
    for name, value in oracles.signed(scheme, SECRET, body, NOW).items():
        assert not _genuine(scheme, {**headers, name: value[:-1]}, body)
        assert not _genuine(scheme, {one: text for one, text in headers.items() if one != name}, body)
    if scheme != "github":
        assert _genuine(scheme, headers, body, now=NOW + 300)
        assert not _genuine(scheme, headers, body, now=NOW + 301)
        assert not _genuine(scheme, headers, body, now=NOW - 301)


def frames(data: bytes) -> None:
    """Of a run that lost its lease no call of a tool gets through, however the bytes are cut; nothing crashes."""
    feed = Feed(data)
    cuts = [feed.number(64) + 1 for _ in range(3)]
    stream = feed.rest() + b"\n"
    whole = list(_lines(stream, [len(stream)]))
    assert whole == list(_lines(stream, cuts)), "where reads end makes no difference"
    for line in whole:
        refusing = ToolGate(Rules("s"), _refuse, wait=lambda _: None, say=lambda _: None)
        onward = refusing.from_agent(line).onward
        assert not finds_a_call(onward)
        assert onward.count(b"\n") == bool(onward), "one line"
        assert onward.isascii()
        assert b"\r" not in onward + refusing.from_server(line)
    for after in range(4):
        _fading(whole, after)


def _fading(lines: list[bytes], after: int) -> None:
    """Lose the lease after so many questions: what is passed on was asked for, one question for each call."""
    allowed: list[str] = []

    def ask(verb: str, **_: str) -> Mapping[str, Any]:
        if len(allowed) >= after:
            raise FenceRefused("the lease is lost.")
        allowed.append(verb)
        return {"ok": True, "verdict": "new", "entry": f"k:{len(allowed)}"} if verb == "tool_begin" else {"ok": True}

    gate = ToolGate(Rules("s"), ask, wait=lambda _: None, say=lambda _: None)
    for line in lines:
        before = len(allowed)
        onward = gate.from_agent(line).onward
        assert not finds_a_call(onward) or len(allowed) > before, "no call of a tool passes unasked"
        gate.from_server(line)


def _lines(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    splitter, number = Splitter(), 0
    while stream:
        size = max(1, cuts[number % len(cuts)])
        yield from splitter.feed(stream[:size])
        stream, number = stream[size:], number + 1


def _refuse(_: str, **__: str) -> Mapping[str, Any]:
    raise FenceRefused("the lease is lost.")


def finds_a_call(frame: bytes) -> bool:
    """Look for calls as any other parser would: where it ends lines, which of two names it takes, how it reads names."""
    text = frame.decode("utf-8", "replace")
    lines = {*text.split("\n"), *text.splitlines(), *text.replace("\r", "\n").split("\n")}
    for line in lines:
        for hook in (dict, _first_wins, _lax, lambda pairs: _lax(pairs[::-1])):
            try:
                value = json.loads(line.lstrip("\ufeff"), object_pairs_hook=hook)
            except (ValueError, RecursionError):
                continue
            found = value if isinstance(value, list) else [value]
            if any(isinstance(one, dict) and oracles.letters(one.get("method")) == "toolscall" for one in found):
                return True
    return False


def _first_wins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))


def _lax(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {oracles.letters(name): value for name, value in pairs}


def redaction(data: bytes) -> None:
    """No secret is in the log, and how the output was cut into reads makes no difference to what is."""
    feed = Feed(data)
    secrets = [text for _ in range(feed.number(3) + 1) if len(text := feed.text(12)) >= SECRET_MIN]
    pieces = []
    for _ in range(feed.number(6) + 1):
        pieces.append(feed.some(10))
        pieces.append(feed.choice(spellings(feed.choice(secrets))) if secrets and feed.number(2) else b"")
    cuts = [feed.number(9) + 1 for _ in range(3)]
    output = b"".join(pieces) + feed.some(30)
    blotter, shown, at = Blotter(secrets), [], 0
    for number in range(len(output) + 1):
        size = cuts[number % len(cuts)]
        shown.append(blotter.pass_on(output[at : at + size]))
        at += size
        if at >= len(output):
            break
    found = b"".join([*shown, blotter.pass_on(b"", last=True)])
    wanted = oracles.blotted(output, [one for secret in secrets for one in spellings(secret)], HIDDEN)
    assert found == wanted, "no byte of a secret is shown, and every other one is, wherever reads end"
    for secret in [one for one in secrets if one.isprintable() and max(one) <= "\uffff"]:
        spelt = oracles.spelt(secret, len(output))
        assert spelt not in Blotter([secret]).pass_on(b"{" + spelt + b"}", last=True), "nor as others spell it"
    if len(output) % 16 == 0:
        assert _logged(output, cuts, secrets) == wanted, "and so it is in the log"


def _logged(output: bytes, cuts: list[int], secrets: list[str]) -> bytes:
    """Let an output pass the way to the log, in reads of these sizes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        reader, writer = os.pipe()
        log = LogFile(path, 1_000_000)
        try:
            passing = Output(reader)
            passing.keep(log, secrets)
            number = 0
            while output:
                size = cuts[number % len(cuts)]
                os.write(writer, output[:size])
                passing.drain()
                output, number = output[size:], number + 1
            os.close(writer)
            passing.finish()
        finally:
            os.close(reader)
            log.close()
        return read_log(path)


def arguments(data: bytes) -> None:
    """Any words are understood, or refused with exit code 2 and a word on what to do; no traceback, nothing done."""
    feed = Feed(data)
    name = feed.choice(sorted(COMMANDS))
    known = (
        "--lock",
        "--ttl",
        "--wait",
        "--json",
        "--limit",
        "--from",
        "--until",
        "--for",
        "--store",
        "--tenant",
        "--",
    )
    words = [
        feed.choice(known) + feed.choice(("", "=")) if feed.number(2) else feed.text(20) for _ in range(feed.number(5))
    ]
    words = [word.replace("\0", "") for word in words]
    try:
        if name == "exec":
            options, command = exec_options.split(words)
            if command:
                exec_door.order_of({key: value for key, value in options.items() if key != "--gate"}, command)
        elif name == "lease":
            lease_door.parse(words)
        else:
            _parse(name, words)
    except FencepostError as refusal:
        assert str(refusal)


def _parse(name: str, words: list[str]) -> None:
    parser = getattr(import_module(f"fencepost.cli.{COMMANDS[name][0].partition(':')[0]}"), "parser", None)
    if parser is None or name in ("up", "scheduler", "worker", "halt", "unhalt"):
        return
    said = io.StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(said):
            parser().parse_args(words)
    except SystemExit as end:
        assert end.code in (0, 2), end.code
        assert said.getvalue(), "it says why"


TARGETS: dict[str, Callable[[bytes], None]] = {
    "cron": cron,
    "duration": duration,
    "config": config,
    "webhooks": webhooks,
    "frames": frames,
    "redaction": redaction,
    "arguments": arguments,
}
