"""The model gate, as its own program, before a provider on loopback: who may think, with which key, and for how much."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# ruff: noqa: ANN401  # what a call says is its own
import httpx
import pytest

from fencepost.host.clock import SystemClock
from fencepost.model.errors import GateUnreachable
from fencepost.model.own_program import own_program
from fencepost.service.channel import Channel
from fencepost.service.model_gate_client import ModelOrder, keep_pass, open_pass
from tests.support.model_provider import CACHED, INPUT, OUTPUT, REAL_KEY, Provider, model_provider
from tests.support.scratch import wait_until

SHOWN = "fencepost-r1-of-this-run"
SECRET_WORDS = "the quick brown prompt that nobody writes down"
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anthropic": ("anthropic", "/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 1000}),
    "chat": ("openai", "/v1/chat/completions", {"model": "gpt-5"}),
    "responses": ("openai", "/v1/responses", {"model": "gpt-5"}),
    "gemini": ("gemini", "/v1beta/models/gemini-2.5-pro:generateContent", {}),
}
COSTS = {  # of one call with INPUT, OUTPUT and CACHED, in millionths of a dollar
    "anthropic": 3 * INPUT + 15 * OUTPUT + 0.3 * CACHED,
    "chat": 1.25 * INPUT + 10 * OUTPUT + 0.125 * CACHED,
    "responses": 1.25 * INPUT + 10 * OUTPUT + 0.125 * CACHED,
    "gemini": 1.25 * INPUT + 10 * OUTPUT + 0.125 * CACHED,
}


def until(condition: Callable[[], object], *, seconds: float = 10.0) -> None:
    wait_until(lambda: bool(condition()), what="the gate has heard of it", seconds=seconds)


class Gate:
    """The program, and a run of ours at it."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.folder, self.provider = folder, provider
        self.process = subprocess.Popen([*own_program("fencepost.model_gate"), str(folder)], stderr=subprocess.PIPE)
        until((folder / "port").exists, seconds=60)
        self.port = int((folder / "port").read_text())
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        self.keepers: list[Channel] = []

    def admit(
        self,
        provider: str,
        budget_micro: int | None = None,
        seconds: float = 60,
        shown: str = SHOWN,
        keeper: str = "",
    ) -> Channel:
        terms = {"run_id": "r1", "provider": provider, "upstream": self.provider.url, "key": REAL_KEY}
        order = ModelOrder(
            str(self.folder), self.port, shown, {**terms, "counts_sleep": False, "budget_micro": budget_micro}, keeper
        )
        until(lambda: self._opened(order))  # the pass of the test before is closed a moment after its connection
        kept = keep_pass(order, SystemClock().awake_ns() + round(seconds * 1e9))
        assert kept is not None
        self.keepers.append(kept)
        return kept

    def _opened(self, order: ModelOrder) -> bool:
        try:
            open_pass(order)
        except GateUnreachable:
            return False
        return True

    def extend(self, keeper: Channel, seconds: float) -> None:
        keeper.send(deadline_ns=SystemClock().awake_ns() + round(seconds * 1e9))

    def call(self, way: str, *, stream: bool = False, words: str = SECRET_WORDS, **more: Any) -> httpx.Response:
        return self.client.post(
            *self.request(way, stream=stream), **self.content(way, stream=stream, words=words, **more)
        )

    def request(self, way: str, *, stream: bool = False) -> tuple[str]:
        path = CALLS[way][1]
        return (
            path.replace("generateContent", "streamGenerateContent") + "?alt=sse"
            if stream and way == "gemini"
            else path,
        )

    def content(
        self, way: str, *, stream: bool, words: str = SECRET_WORDS, key: str = SHOWN, **more: Any
    ) -> dict[str, Any]:
        asked = {
            **CALLS[way][2],
            "messages": [{"role": "user", "content": words}],
            **({"stream": True} if stream else {}),
        }
        return {"json": {**asked, **more}, "headers": headers(CALLS[way][0], key)}

    def told(self, keeper: Channel) -> dict[str, Any]:
        """Return what the gate has said of the run so far."""
        found: dict[str, Any] = {}

        def hears() -> bool:
            for message in keeper.receive():
                found.update(message)
            return "spent_micro" in found

        until(hears)
        return found


def headers(provider: str, key: str) -> dict[str, str]:
    names = {
        "anthropic": ("x-api-key", key),
        "openai": ("authorization", f"Bearer {key}"),
        "gemini": ("x-goog-api-key", key),
    }
    return dict([names[provider]])


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with model_provider() as made:
        yield made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Gate]:
    gate = Gate(tmp_path_factory.mktemp("gate"), provider)
    yield gate
    gate.client.close()
    gate.process.terminate()
    _, said = gate.process.communicate(timeout=20)
    assert SECRET_WORDS.encode() not in said
    assert REAL_KEY.encode() not in said


@pytest.fixture
def gate(program: Gate) -> Iterator[Gate]:
    program.provider.asked.clear()
    program.provider.go_on.clear()
    program.provider.left.clear()
    yield program
    program.provider.go_on.set()
    while program.keepers:
        program.keepers.pop().close()


@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_goes_to_the_provider_with_the_real_key_and_is_counted(gate: Gate, way: str, *, stream: bool) -> None:
    keeper = gate.admit(CALLS[way][0], budget_micro=10_000_000)

    answer = gate.call(way, stream=stream)

    assert answer.status_code == 200, answer.text
    assert "hello" in answer.text or not stream
    asked = gate.provider.asked[-1]
    assert REAL_KEY in json.dumps(asked["headers"])
    assert SHOWN not in json.dumps(asked)
    told = gate.told(keeper)
    assert told["spent_micro"] == COSTS[way]
    assert told["usage"] == {"input": INPUT, "output": OUTPUT, "cache_read": CACHED, "cache_write": 0}
    keeper.close()


def test_geminis_key_in_the_address_is_not_sent_on(gate: Gate) -> None:
    keeper = gate.admit("gemini")
    answer = gate.client.post(f"{CALLS['gemini'][1]}?key={SHOWN}&x=1", json={})

    assert answer.status_code == 200
    assert gate.provider.asked[-1]["path"].endswith(":generateContent?x=1")
    keeper.close()


@pytest.mark.parametrize("way", CALLS)
def test_a_run_whose_lease_is_over_cannot_think(gate: Gate, way: str) -> None:
    keeper = gate.admit(CALLS[way][0], seconds=60)
    assert gate.call(way).status_code == 200
    keeper.close()  # and with it the pass
    keeper = gate.admit(CALLS[way][0], seconds=0)

    refused = gate.call(way)

    assert "the lease of this run is lost" in refused.text
    assert refused.json()["error"]["message"].startswith("fencepost:")
    gate.extend(keeper, 60)  # it was renewed late, and nobody else has it: it goes on
    until(lambda: gate.call(way).status_code == 200)
    keeper.send(close=True)
    until(lambda: gate.call(way).status_code == 403)
    keeper.close()


def test_who_has_no_guard_any_more_has_no_pass(gate: Gate) -> None:
    keeper = gate.admit("anthropic")
    assert gate.call("anthropic").status_code == 200
    keeper.close()
    until(lambda: gate.call("anthropic").status_code == 403)


@pytest.mark.parametrize("way", CALLS)
def test_an_answer_is_cut_off_in_the_middle_when_the_lease_is_lost(gate: Gate, way: str) -> None:
    keeper = gate.admit(CALLS[way][0])
    content = gate.content(way, stream=True, words="SLOW")
    with gate.client.stream("POST", *gate.request(way, stream=True), **content) as answer:
        parts = answer.iter_bytes()
        assert b"hello" in next(parts) + next(parts) + next(parts)
        keeper.send(close=True)
        rest = b"".join(parts)

    assert b"the lease of this run is lost" in rest
    until(gate.provider.left.is_set)
    keeper.close()


def test_the_provider_is_left_when_the_caller_leaves(gate: Gate) -> None:
    keeper = gate.admit("anthropic")
    content = gate.content("anthropic", stream=True, words="SLOW")
    with gate.client.stream("POST", "/v1/messages", **content) as answer:
        next(answer.iter_bytes())
    until(gate.provider.left.is_set)
    told = gate.told(keeper)
    assert told["usage"]["input"] == INPUT
    keeper.close()


def test_the_first_part_arrives_before_the_answer_is_whole(gate: Gate) -> None:
    keeper = gate.admit("anthropic")
    content = gate.content("anthropic", stream=True, words="SLOW")
    with gate.client.stream("POST", "/v1/messages", **content) as answer:
        parts = answer.iter_bytes()
        assert b"message_start" in next(parts)
        gate.provider.go_on.set()
        assert b"message_delta" in b"".join(parts)
    keeper.close()


@pytest.mark.parametrize("way", CALLS)
def test_the_call_that_would_pass_the_budget_is_not_made(gate: Gate, way: str) -> None:
    budget = round(COSTS[way] * 2.5 + 2048 * 15)
    keeper = gate.admit(CALLS[way][0], budget_micro=budget)

    answers = [gate.call(way, stream=True) for _ in range(12)]
    codes = [answer.status_code for answer in answers]

    made = codes.count(200)
    assert 2 <= made < 12
    assert codes == [200] * made + [403] * (12 - made)
    assert "may cost" in answers[-1].json()["error"]["message"]
    assert len(gate.provider.asked) == made
    told = gate.told(keeper)
    assert told["spent_micro"] <= budget
    assert "this call would pass that" in told["over"]
    keeper.close()


def test_a_stream_that_goes_on_and_on_is_cut_where_the_budget_ends(gate: Gate) -> None:
    keeper = gate.admit("anthropic", budget_micro=60_000)
    content = gate.content("anthropic", stream=True, words="SLOW", max_tokens=32_000)
    with gate.client.stream("POST", "/v1/messages", **content) as answer:
        rest = b"".join(answer.iter_bytes())

    assert b"may cost 0.06 USD" in rest
    until(gate.provider.left.is_set)
    keeper.close()


def test_calls_side_by_side_share_one_budget(gate: Gate) -> None:
    """Each of them alone would stay within it; what one has used, the others may not use again."""
    budget = 200_000
    keeper = gate.admit("anthropic", budget_micro=budget)

    def one(_: int) -> bytes:
        content = gate.content("anthropic", stream=True, words="SLOW", max_tokens=32_000)
        with gate.client.stream("POST", "/v1/messages", **content) as answer:
            return b"".join(answer.iter_bytes())

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(one, range(4)))

    assert all(b"may cost 0.20 USD" in one for one in said)
    cut = sum(b"was cut off" in one for one in said)  # on a busy machine one may come when all is spent
    assert cut > 1
    spent: list[int] = []

    def settled() -> bool:
        spent.extend(one["spent_micro"] for one in keeper.receive() if "spent_micro" in one)
        return len(spent) == cut

    until(settled)
    assert 0.9 * budget < max(spent) < 1.1 * budget, "no more than the part that was under way comes on top"
    keeper.close()


def test_an_answer_that_cannot_be_cut_off_is_put_aside_as_a_whole(gate: Gate) -> None:
    keeper = gate.admit("anthropic", budget_micro=200_000)

    whole = gate.call("anthropic", max_tokens=32_000)
    streamed = gate.call("anthropic", max_tokens=32_000, stream=True)

    assert (whole.status_code, streamed.status_code) == (403, 200)
    keeper.close()


@pytest.mark.parametrize(
    ("way", "asked"),
    [
        ("chat", {"max_completion_tokens": 1000, "n": 20}),
        ("gemini", {"generationConfig": {"maxOutputTokens": 1000, "candidateCount": 20}}),
    ],
)
def test_several_answers_to_one_call_are_put_aside_each(gate: Gate, way: str, asked: dict[str, Any]) -> None:
    keeper = gate.admit(CALLS[way][0], budget_micro=100_000)

    assert gate.call(way, **asked).status_code == 403
    assert gate.provider.asked == []
    keeper.close()


@pytest.mark.parametrize("way", CALLS)
def test_what_stands_around_the_words_of_a_stream_is_not_counted_as_words(gate: Gate, way: str) -> None:
    """A token of a stream comes in hundreds of bytes: by those, any small budget would be used up by a short answer."""
    keeper = gate.admit(CALLS[way][0], budget_micro=round(COSTS[way] + 2048 * 15 + 40_000))
    answer = gate.call(way, stream=True, words="LONG-WINDED")

    assert answer.status_code == 200
    assert len(answer.content) > 100_000
    assert "may cost" not in answer.text
    assert gate.told(keeper)["usage"]["output"] == OUTPUT
    keeper.close()


@pytest.mark.parametrize(
    ("whose", "asked"),
    [
        ("responses", {"service_tier": "priority"}),
        ("chat", {"service_tier": "priority"}),
        ("anthropic", {"speed": "fast"}),
    ],
)
def test_a_tier_without_a_price_passes_only_without_a_budget(gate: Gate, whose: str, asked: dict[str, Any]) -> None:
    keeper = gate.admit(CALLS[whose][0], budget_micro=10_000_000)
    refused = gate.call(whose, **asked)
    free = gate.admit(CALLS[whose][0], shown=f"{SHOWN}-free")

    assert (refused.status_code, "is not known" in refused.text) == (403, True)
    assert gate.call(whose, key=f"{SHOWN}-free", **asked).status_code == 200
    keeper.close()
    free.close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "gpt-5", "background": true, "background": false}',
        b'{"model": "gpt-5", "x": {"y": 1, "y": 2}}',
        b'{"model": "gpt-5"',
        b'[{"model": "gpt-5"}]',
        b"",
    ],
)
def test_a_body_that_can_be_read_in_two_ways_is_handed_to_nobody(gate: Gate, body: bytes) -> None:
    keeper = gate.admit("openai")
    refused = gate.client.post("/v1/responses", content=body, headers=headers("openai", SHOWN))

    assert (refused.status_code, "not one plain JSON object" in refused.text) == (403, True)
    assert gate.provider.asked == []
    keeper.close()


def test_a_packed_body_in_which_anything_may_hide_is_refused(gate: Gate) -> None:
    keeper = gate.admit("openai")
    packed = gzip.compress(json.dumps({"model": "gpt-5", "background": True}).encode())
    how = {**headers("openai", SHOWN), "content-encoding": "gzip"}
    refused = gate.client.post("/v1/responses", content=packed, headers=how)

    assert refused.status_code == 415
    assert gate.provider.asked == []
    keeper.close()


def test_who_has_only_the_key_that_the_agent_shows_keeps_no_pass_open(gate: Gate) -> None:
    guard = gate.admit("anthropic", seconds=0.3, keeper="of the guard")
    terms = {"run_id": "r1", "provider": "anthropic", "upstream": gate.provider.url, "key": "k", "counts_sleep": False}
    theirs = ModelOrder(str(gate.folder), gate.port, SHOWN, {**terms, "budget_micro": None})

    assert keep_pass(theirs, SystemClock().awake_ns() + 10**12) is None
    with pytest.raises(GateUnreachable):
        open_pass(theirs)
    until(lambda: gate.call("anthropic").status_code == 403)
    guard.close()


def test_an_hour_in_the_cache_costs_more_than_five_minutes(gate: Gate) -> None:
    keeper = gate.admit("anthropic", budget_micro=10_000_000)
    gate.call("anthropic", words="HOUR")

    told = gate.told(keeper)

    assert told["spent_micro"] == COSTS["anthropic"] + 3.75 * 100 + 6 * 300
    assert told["usage"]["cache_write"] == 400
    keeper.close()


def test_a_model_without_a_price_passes_only_without_a_budget(gate: Gate) -> None:
    keeper = gate.admit("anthropic", budget_micro=1_000_000)
    unknown = gate.call("anthropic", model="claude-of-tomorrow-9")
    assert unknown.status_code == 403
    assert "the price of model 'claude-of-tomorrow-9' is not known" in unknown.text
    keeper.close()
    until(lambda: gate.call("anthropic").status_code == 403)

    free = gate.admit("anthropic")
    assert gate.call("anthropic", model="claude-of-tomorrow-9").status_code == 200
    free.close()


@pytest.mark.parametrize(
    ("whose", "method", "path"),
    [
        ("anthropic", "POST", "/v1/messages/batches"),
        ("anthropic", "POST", "/v1/files"),
        ("anthropic", "DELETE", "/v1/models/x"),
        ("anthropic", "POST", "/v1/messages/../files"),
        ("anthropic", "POST", "//v1/messages"),
        ("openai", "POST", "/v1/batches"),
        ("openai", "GET", "/v1/responses/resp_1"),
        ("openai", "POST", "/v1/fine_tuning/jobs"),
        ("gemini", "POST", "/v1beta/models/gemini-2.5-pro:batchGenerateContent"),
        ("gemini", "POST", "/v1beta/cachedContents"),
        ("openai", "GET", "/v1/models/.."),
        ("gemini", "POST", "/v1beta/models/..%2f..:generateContent"),
    ],
)
def test_what_outlives_a_lease_does_not_pass(gate: Gate, whose: str, method: str, path: str) -> None:
    keeper = gate.admit(whose)
    refused = gate.client.request(method, f"http://127.0.0.1:{gate.port}{path}", headers=headers(whose, SHOWN))

    assert refused.status_code == 403, refused.text
    assert gate.provider.asked == []
    keeper.close()


def test_a_response_in_the_background_is_refused(gate: Gate) -> None:
    keeper = gate.admit("openai")
    refused = gate.call("responses", background=True)

    assert refused.status_code == 403
    assert "would outlive the run's lease" in refused.text
    assert gate.provider.asked == []
    keeper.close()


def test_a_redirect_is_not_followed_and_another_host_is_not_answered(gate: Gate) -> None:
    keeper = gate.admit("anthropic")

    redirected = gate.call("anthropic", words="REDIRECT")
    rebound = gate.client.post("/v1/messages", json={}, headers={**headers("anthropic", SHOWN), "host": "evil.example"})
    stranger = gate.call("anthropic", key="fencepost-r2-guessed")

    assert redirected.status_code == 502
    assert (rebound.status_code, stranger.status_code) == (403, 403)
    assert len(gate.provider.asked) == 1
    keeper.close()


def test_nothing_of_a_prompt_and_no_key_is_written_down(gate: Gate) -> None:
    keeper = gate.admit("anthropic", budget_micro=1)
    gate.call("anthropic")
    keeper.close()
    other = gate.admit("anthropic")
    gate.call("anthropic", stream=True)
    other.close()

    written = b"".join(path.read_bytes() for path in gate.folder.rglob("*") if path.is_file())
    assert SECRET_WORDS.encode() not in written
    assert REAL_KEY.encode() not in written


def test_there_is_one_gate_for_all(gate: Gate) -> None:
    second = subprocess.run([*own_program("fencepost.model_gate"), str(gate.folder)], timeout=60, check=False)

    assert second.returncode == 0
    assert int((gate.folder / "port").read_text()) == gate.port
    assert sys.platform != "linux" or _is_unreadable(gate.process.pid)


def _is_unreadable(pid: int) -> bool:
    """A process that gave up being dumpable belongs to root in /proc, whoever it runs as."""
    return Path(f"/proc/{pid}/environ").stat().st_uid == 0
