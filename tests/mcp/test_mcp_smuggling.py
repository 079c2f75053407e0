"""A call of a tool that only another parser finds in a frame does not pass the gateway; the other parsers are real ones."""

import json
import sys
from pathlib import Path

import pytest

from fencepost.model import mcp
from fencepost.model.mcp_frame import Unreadable, read_answers, read_frame
from fencepost.service.tool_gate import Rules, ToolGate
from tests.fuzz.targets import finds_a_call
from tests.mcp.test_mcp_fuzz import stale, willing
from tests.mcp.wire import Wire, effects
from tests.support.ground import Ground

SDK_SERVER = [sys.executable, str(Path(__file__).parent / "stdio_server.py")]
CALL = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"line":"smuggled"}}}'
WELCOME = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
PING = '"jsonrpc":"2.0","id":9,"method":"ping"'
SPLIT = {
    "in params": f'{{{PING},"params":{{"x":[\r{CALL}\r]}}}}',
    "before it": f"[\r{CALL}\r,{{{PING}}}]",
    "among blanks": f'{{{PING},"params": \r\r {CALL} \r}}',
}  # fmt: skip
LAX = {
    "Method": f'{{{PING},"Method":"tools/call","params":{{"name":"add"}}}}',
    "METHOD alone": '{"jsonrpc":"2.0","id":9,"METHOD":"tools/call","params":{"name":"add"}}',
    "a long s": f'{{{CALL[1:-1]},"param\\u017f":{{"name":"other"}}}}',
    "a dotless i": f'{{{CALL[1:-1]},"\\u0131d":8}}',
    "an underscore": f'{{{PING},"_method":"tools/call"}}',
    "Name": '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"look","Name":"add"}}',
    "Tools/Call": '{"jsonrpc":"2.0","id":9,"method":"Tools/Call","params":{"name":"add"}}',
    "half a letter": f'{{{PING},"me\\ud800thod":"tools/call"}}',
}
TWICE = {
    "method": f'{{{PING},"method":"tools/call"}}',
    "an argument": '{"id":9,"method":"tools/call","params":{"name":"x","arguments":{"a":{"to":1,"to":2}}}}',
    "spelled otherwise": f'{{{PING},"\\u006dethod":"tools/call"}}',
}
NUMBERS = {
    "NaN": f'{{{PING},"params":{{"x":NaN}}}}',
    "-Infinity": f'{{{PING},"params":{{"x":-Infinity}}}}',
    "beyond a double": f'{{{PING},"params":{{"x":1e999}}}}',
    "without end": f'{{{PING},"params":{{"x":{"9" * 5000}}}}}',
    "an id of 64 bits": '{"id":9007199254740993,"method":"ping"}',
    "an id with a fraction": '{"id":9.5,"method":"ping"}',
}
SHAPES = {
    "a batch in a batch": f"[[{CALL}]]",
    "a text": f'"{CALL[1:3]}"',
    "no name": '{"id":9,"method":"tools/call","params":{}}',
    "params by place": '{"id":9,"method":"tools/call","params":["add"]}',
    "a method that is a list": '{"id":9,"method":["tools/call"]}',
    "an empty batch": "[]",
}


def gate(ask: object = stale) -> ToolGate:
    return ToolGate(Rules("s"), ask, wait=lambda _: None, say=lambda _: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", SPLIT)
def test_a_call_behind_a_raw_carriage_return_never_reaches_a_server_that_ends_lines_there(
    ground: Ground, how: str
) -> None:
    wire = Wire(ground.start("mcp-gate", "--", *SDK_SERVER, stdin=-1))
    wire.ask("initialize", WELCOME)
    wire.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    wire.write(SPLIT[how].encode() + b"\n")
    answers = json.loads(wire.read())

    assert "carriage return" in (answers if isinstance(answers, dict) else answers[0])["error"]["message"]
    wire.ask("ping")
    assert wire.close() == 0
    assert effects(ground.folder) == []


def test_a_line_that_ends_with_both_marks_is_one_line(ground: Ground) -> None:
    wire = Wire(ground.start("mcp-gate", "--", *SDK_SERVER, stdin=-1))
    wire.ask("initialize", WELCOME)

    wire.write(b'{"jsonrpc":"2.0","id":"x","method":"ping"}\r\n')

    assert json.loads(wire.read())["id"] == "x"
    assert wire.close() == 0


@pytest.mark.parametrize(
    "text", [*LAX.values(), *TWICE.values(), *NUMBERS.values(), *SHAPES.values()],
    ids=[*LAX, *TWICE, *NUMBERS, *SHAPES],
)  # fmt: skip
def test_what_two_parsers_read_in_two_ways_is_refused_and_answered(text: str) -> None:
    passage = gate(willing).from_agent(text.encode() + b"\n")

    assert passage.onward == b""
    answers = json.loads(passage.back)
    for answer in answers if isinstance(answers, list) else [answers]:
        assert answer["error"]["code"] == mcp.PARSE_ERROR
        assert answer["id"] in (7, 9, 8, 9.5, 9007199254740993, None)


def test_a_frame_with_a_byte_order_mark_or_broken_letters_is_refused() -> None:
    for bad in (
        b"\xef\xbb\xbf" + CALL.encode(),
        CALL.encode("utf-16"),
        CALL.replace("add", "\udcff").encode("utf-8", "surrogateescape"),
    ):
        with pytest.raises(Unreadable):
            read_frame(bad + b"\n")


def test_what_passes_is_written_anew_so_that_no_parser_finds_more_in_it() -> None:
    text = (
        '  {"jsonrpc":"2.0", "id":9,\t"method":"ping","params":{"z":1.50,"u":"\u2028\u0085é\\ud800","A":1,"a":2}} \r\n'
    )

    onward = gate().from_agent(text.encode()).onward

    assert onward == (
        b'{"jsonrpc": "2.0", "id": 9, "method": "ping", '
        b'"params": {"z": 1.5, "u": "\\u2028\\u0085\\u00e9\\ud800", "A": 1, "a": 2}}\n'
    )


def test_a_batch_of_one_stays_a_batch() -> None:
    assert gate().from_agent(f"[{{{PING}}}]\n".encode()).onward.startswith(b"[{")


def test_a_blank_line_says_nothing_to_the_server() -> None:
    assert gate().from_agent(b" \r\r \n") == gate().from_agent(b"\n")
    assert gate().from_agent(b"\r\n").onward == b""


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (b'{"id":7,"id":8,"result":{}}', {"id": 8, "result": {}}),
        (b'{"id":7,"ID":8,"result":{},"Result":1}', {"id": 7, "result": {}}),
        (b'{"id":7,\r"result":\r{"Name":1,"name":2}}', {"id": 7, "result": {"Name": 1, "name": 2}}),
    ],
)
def test_the_agent_reads_the_answer_that_is_recorded(said: bytes, read: object) -> None:
    passed = gate().from_server(said + b"\n")

    assert json.loads(passed) == read
    assert b"\r" not in passed
    frame = read_answers(said)
    assert frame is not None
    assert frame.messages == [read]


def test_a_line_for_people_from_the_server_holds_no_message_behind_a_carriage_return() -> None:
    assert gate().from_server(b'10%\r{"id":7,"result":{}}\r20%\n') == b'10% {"id":7,"result":{}} 20%\n'


@pytest.mark.parametrize("text", [*SPLIT.values(), *LAX.values(), TWICE["method"]])
def test_the_fuzzers_other_parsers_find_these_calls(text: str) -> None:
    """Keep the oracle sharp: what was smuggled once is seen by it."""
    assert finds_a_call(text.encode() + b"\n")
