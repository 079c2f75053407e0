"""The MCP gateway's judgement on both stores: made once, answered ever after, refused in doubt, and passed unchanged."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from fencepost.operations.supervisor_client import refusal
from fencepost.service.answers import LOST
from fencepost.service.tool_calls import ToolCalls
from fencepost.service.tool_gate import Passage, Rules, ToolGate
from tests.stores.rig import AnyStore, Rig, granted

MAIL = {"to": "ann", "text": "hello"}
_ids = count(1)


class Attempt:
    """One attempt of run r1: its lease, its supervisor's counting, and as many gateways as it likes."""

    def __init__(self, store: AnyStore, *, resumed: bool = False) -> None:
        self.store = store
        self.lease = granted(store, "lock:a")._replace(run_id="r1")
        self.calls = ToolCalls(self.lease, store.ledger, {})
        self.lost = False
        self.resumed = resumed
        self.said: list[str] = []

    def ask(self, verb: str, **fields: str) -> Mapping[str, Any]:
        answer = LOST if self.lost else {"ok": True} if verb == "check" else self.calls.answer({"verb": verb, **fields})
        if not answer["ok"]:
            raise refusal(answer)
        return answer

    def gate(self, **rules: Any) -> ToolGate:  # noqa: ANN401  # as Rules takes them
        made = Rules("mail", resumed=self.resumed, **rules)
        return ToolGate(made, self.ask, wait=lambda _: None, say=self.said.append)

    def over(self) -> None:
        self.store.release(self.lease, clean=True)


def request(tool: str = "send", arguments: object = MAIL, *, number: int | None = None) -> bytes:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": number or next(_ids), "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n"


def id_in(frame: bytes) -> object:
    return json.loads(frame)["id"]


def sent(gate: ToolGate, frame: bytes, text: str = "sent") -> None:
    """Let a call pass and be answered by the server."""
    assert gate.from_agent(frame) == Passage(frame)
    gate.from_server(reply(frame, text))


def reply(frame: bytes, text: str = "sent") -> bytes:
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": id_in(frame), "result": result}).encode() + b"\n"


def told(passage: Passage) -> str:
    """Return what the agent was answered instead of the server."""
    assert passage.onward == b""
    answer = json.loads(passage.back)
    return str(answer["result"]["content"][0]["text"])


def refused(passage: Passage) -> str:
    assert json.loads(passage.back)["result"]["isError"] is True
    return told(passage)


def test_a_restarted_run_is_answered_from_the_ledger_and_the_server_hears_nothing(store: AnyStore) -> None:
    first = Attempt(store)
    sent(first.gate(), request(), "sent as 17")
    first.over()

    again = request()
    passage = Attempt(store).gate().from_agent(again)

    assert told(passage) == "sent as 17"
    assert id_in(passage.back) == id_in(again)


def test_the_same_call_twice_in_one_attempt_is_made_twice_and_replayed_twice(store: AnyStore) -> None:
    first = Attempt(store)
    gate = first.gate()
    sent(gate, request(), "one")
    sent(gate, request(), "two")
    first.over()

    replay = Attempt(store).gate()

    assert [told(replay.from_agent(request())) for _ in range(2)] == ["one", "two"]
    sent(replay, request(), "three")


def test_a_resumed_run_goes_on_counting_behind_what_was_done(store: AnyStore) -> None:
    first = Attempt(store)
    sent(first.gate(), request(), "one")
    first.over()

    resumed = Attempt(store, resumed=True)
    sent(resumed.gate(), request("other"), "nothing need be made again before something new")
    sent(resumed.gate(), request(), "two")
    resumed.over()

    replay = Attempt(store).gate()
    assert [told(replay.from_agent(request())) for _ in range(2)] == ["one", "two"]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_call_that_was_never_answered_is_for_a_person_in_the_next_attempt(store: AnyStore, *, resumed: bool) -> None:
    first = Attempt(store)
    frame = request()
    assert first.gate().from_agent(frame).onward == frame
    first.over()

    second = Attempt(store, resumed=resumed)
    gate = second.gate()
    assert "it is not known whether it took place" in refused(gate.from_agent(request()))
    assert refused(gate.from_agent(request())), "asking again does not wear it down"
    second.over()
    (entry,) = store.ledger().entries("default", standing="ambiguous")
    assert store.ledger().resolve(entry, answer='"it was sent"', by="ann")

    assert told(Attempt(store).gate().from_agent(request())) == '"it was sent"'


def test_a_write_that_the_earlier_attempt_did_not_make_is_refused_while_others_stand_unexplained(
    store: AnyStore,
) -> None:
    first = Attempt(store)
    sent(first.gate(), request(), "one")
    first.over()

    gate = Attempt(store).gate()
    why = refused(gate.from_agent(request(arguments={"to": "bob"})))

    assert "did mcp:mail:send:" in why
    told(gate.from_agent(request()))
    sent(gate, request(arguments={"to": "bob"}))


def test_when_the_server_dies_or_the_agent_cancels_the_like_is_refused_until_a_person_has_looked(
    store: AnyStore,
) -> None:
    attempt = Attempt(store)
    gate = attempt.gate()
    frame, other = request(), request("pay")
    gate.from_agent(frame)
    gate.from_agent(other)
    params = {"requestId": id_in(other)}
    cancel = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode() + b"\n"

    assert gate.from_agent(cancel) == Passage(cancel)
    gate.end("the server ended")

    assert "the server ended" in refused(gate.from_agent(request()))
    assert "cancelled" in refused(attempt.gate().from_agent(request("pay")))
    for entry in store.ledger().entries("default", standing="ambiguous"):
        store.ledger().resolve(entry, answer=None, by="ann")
    sent(gate, request())


def test_a_gateway_that_was_killed_at_a_call_keeps_its_like_away_from_the_next_gateway(store: AnyStore) -> None:
    attempt = Attempt(store)
    attempt.gate().from_agent(request())

    after = attempt.gate()

    assert "another gateway of this run" in refused(after.from_agent(request()))
    sent(after, request("pay"))


def test_a_call_that_surely_did_not_arrive_is_given_back_and_counts_as_never_made(store: AnyStore) -> None:
    attempt = Attempt(store)
    gate = attempt.gate()
    frame = request()
    gate.from_agent(frame)

    answer = json.loads(gate.unanswered(json.dumps(id_in(frame)), "no connection.", sent=False))

    assert answer["error"]["message"] == "fencepost: no connection."
    sent(gate, request())
    assert [entry.key[-2:] for entry in store.ledger().entries("default")] == [":1"]


def test_without_the_lease_no_tool_is_called_and_everything_else_passes(store: AnyStore) -> None:
    attempt = Attempt(store)
    gate = attempt.gate(reads=frozenset({"look"}))
    attempt.lost = True
    listing = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'

    assert "lost" in refused(gate.from_agent(request()))
    assert "lost" in refused(gate.from_agent(request("look")))
    assert json.loads(gate.from_agent(listing).onward) == json.loads(listing)
    assert store.ledger().entries("default") == []


def test_a_lease_that_is_taken_over_between_call_and_answer_leaves_the_call_in_doubt(rig: Rig) -> None:
    attempt = Attempt(rig.store)
    gate = attempt.gate()
    frame = request()
    gate.from_agent(frame)
    rig.store.release(attempt.lease, clean=False)

    assert gate.from_server(reply(frame)) == reply(frame)

    assert [entry.standing for entry in rig.store.ledger().entries("default")] == ["ambiguous"]
    assert "could not be recorded" in attempt.said[0]


def test_which_tools_write_is_said_by_the_list_or_by_the_server_and_else_assumed(store: AnyStore) -> None:
    attempt = Attempt(store)
    gate = attempt.gate(writes=frozenset({"sly"}))
    listing = b'{"jsonrpc":"2.0","id":"l","method":"tools/list"}\n'
    hints = {
        "look": {"readOnlyHint": True},
        "sly": {"readOnlyHint": True},
        "odd": {"readOnlyHint": "yes"},
        "bare": None,
    }
    tools = [{"name": name, "annotations": value} for name, value in hints.items()]
    gate.from_agent(listing)
    gate.from_server(json.dumps({"jsonrpc": "2.0", "id": "l", "result": {"tools": tools}}).encode() + b"\n")

    for tool in (*hints, "unlisted"):
        sent(gate, request(tool))

    recorded = {entry.key.split(":")[2] for entry in store.ledger().entries("default")}
    assert recorded == {"sly", "odd", "bare", "unlisted"}


def test_what_makes_two_calls_the_same_can_be_chosen_and_their_spelling_does_not_count(store: AnyStore) -> None:
    first = Attempt(store)
    sent(first.gate(key_args={"send": ("to",)}), request(arguments={"to": "ann", "text": "Monday"}), "one")
    sent(first.gate(), request("pay", {"a": 1, "b": [2, {"c": 3, "d": 4}]}), "two")
    first.over()

    gate = Attempt(store).gate(key_args={"send": ("to",)})

    assert told(gate.from_agent(request(arguments={"text": "Tuesday", "to": "ann"}))) == "one"
    assert told(gate.from_agent(request("pay", {"b": [2, {"d": 4, "c": 3}], "a": 1}))) == "two"


def test_errors_are_answers_too_and_long_answers_are_kept_as_a_note(store: AnyStore) -> None:
    first = Attempt(store)
    gate = first.gate()
    failing, long = request("fail"), request("long")
    gate.from_agent(failing)
    error = {"code": -32603, "message": "boom"}
    gate.from_server(json.dumps({"jsonrpc": "2.0", "id": id_in(failing), "error": error}).encode())
    sent(gate, long, "x" * 100_000)
    first.over()

    replay = Attempt(store).gate()

    assert json.loads(replay.from_agent(request("fail")).back)["error"] == error
    assert "too long to keep" in told(replay.from_agent(request("long")))


def test_a_batch_passes_whole_or_without_what_is_refused(store: AnyStore) -> None:
    attempt = Attempt(store)
    gate = attempt.gate()
    ping = {"jsonrpc": "2.0", "id": 90, "method": "ping"}
    call = json.loads(request("send", number=91))
    batch = b" " + json.dumps([ping, call]).encode() + b"\r\n"

    assert json.loads(gate.from_agent(batch).onward) == [ping, call]
    answers = [{"jsonrpc": "2.0", "id": 90, "result": {}}, json.loads(reply(json.dumps(call).encode()))]
    gate.from_server(json.dumps(answers).encode())
    attempt.lost = True
    part = gate.from_agent(batch)

    assert json.loads(part.onward) == [ping]
    assert json.loads(part.back)["id"] == 91
    assert [entry.standing for entry in store.ledger().entries("default")] == ["completed"]
