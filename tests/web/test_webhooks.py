"""Webhooks: only what was signed comes in, each delivery once, and what was acknowledged is there."""

import base64
import hmac
import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import FencepostError
from fencepost.model.registry_plan import want
from fencepost.model.signature import sign
from fencepost.operations.webhook_delivery import HookRequest, Received, receive
from fencepost.web import webhooks as door
from tests.support.runtime import new_ids
from tests.support.webdoor import WebDoor, asking, web_door

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "a-secret-of-enough-length"
BODY = json.dumps({"id": "evt_1", "type": "push", "event_id": "Ev1", "ref": "refs/heads/main", "n": [1, 2]}).encode()
SCHEMES = ("standard", "github", "slack", "stripe", "bearer")


def define(web: WebDoor, waiting_max: int = 1_000, **fields: Any) -> None:  # noqa: ANN401  # of the configuration
    hook = {"agent": "reviewer", "secret": "env:S", **fields}
    agents = {"reviewer": AgentDefinition("reviewer", command=("true",), waiting_max=waiting_max)}
    web.store.registry().apply(
        want("default", "test.toml", agents=agents, schedules={}, hooks={"push": hook}), actor="test"
    )
    web.secrets.update({"env:S": SECRET, "env:OLD": "the-secret-of-before-it"})
    door.pace = door.Pace()


def signed(scheme: str, body: bytes, at: int, *, secret: str = SECRET, delivery: str = "msg_1") -> dict[str, str]:
    def mac(content: bytes) -> str:
        return hmac.new(secret.encode(), content, sha256).hexdigest()

    makers: dict[str, Callable[[], dict[str, str]]] = {
        "standard": lambda: sign(secret, message_id=delivery, at_seconds=at, body=body),
        "github": lambda: {
            "X-Hub-Signature-256": f"sha256={mac(body)}",
            "X-GitHub-Delivery": delivery,
            "X-GitHub-Event": "push",
        },
        "slack": lambda: {
            "X-Slack-Request-Timestamp": str(at),
            "X-Slack-Signature": f"v0={mac(f'v0:{at}:'.encode() + body)}",
        },
        "stripe": lambda: {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={mac(f'{at}.'.encode() + body)}"},
        "bearer": lambda: {"Authorization": f"Bearer {secret}", "Idempotency-Key": delivery},
    }
    return makers[scheme]()


def post(
    web: WebDoor, headers: dict[str, str], body: bytes = BODY, path: str = "/hooks/default/push"
) -> httpx.Response:
    return web.ask("POST", path, headers=headers, content=body)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signed_delivery_is_one_run_however_often_it_comes(web_on_both: WebDoor, scheme: str) -> None:
    web = web_on_both
    define(web, scheme=scheme)
    shown = signed(scheme, BODY, web.now_seconds())
    first, second = post(web, shown), post(web, shown)

    assert (first.status_code, second.status_code) == (202, 200), first.text
    assert first.json()["run_id"] == second.json()["run_id"]
    (run,) = web.store.runs(tenant="default")
    assert (run.id, run.trigger) == (first.json()["run_id"], "webhook")
    assert json.loads(run.payload)["body"]["ref"] == "refs/heads/main"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_not_signed_so_is_refused_and_changes_nothing(web: WebDoor, scheme: str) -> None:
    define(web, scheme=scheme)
    now = web.now_seconds()
    good = signed(scheme, BODY, now)
    wrong: list[tuple[dict[str, str], bytes]] = [
        ({}, BODY),
        (signed(scheme, BODY, now, secret="another-secret-of-length"), BODY),
        ({name: value[:-1] for name, value in good.items()}, BODY),
        (dict.fromkeys(good, "none"), BODY),
        (dict.fromkeys(good, ""), BODY),
    ]
    if scheme != "bearer":
        wrong += [(good, BODY + b" "), (good, b""), (good, json.dumps(json.loads(BODY), indent=1).encode())]
    if scheme in ("standard", "slack", "stripe"):
        wrong += [(signed(scheme, BODY, now - 301), BODY), (signed(scheme, BODY, now + 301), BODY)]
    for headers, body in wrong:
        assert post(web, headers, body).status_code == 401, (headers, body)
    twice = [pair for pair in good.items() for _ in range(2)]
    assert web.ask("POST", "/hooks/default/push", headers=twice, content=BODY).status_code == 401
    for path in ("/hooks/default/other", "/hooks/theirs/push"):
        assert post(web, good, path=path).status_code == 401
    assert web.store.runs(tenant="default") == []


def test_a_time_within_five_minutes_is_good(web: WebDoor) -> None:
    define(web, scheme="standard")
    for shift in (-299, 299):
        shown = signed("standard", BODY, web.now_seconds() + shift, delivery=f"msg{shift}")
        assert post(web, shown).status_code == 202


def test_both_secrets_are_good_while_they_are_exchanged(web: WebDoor) -> None:
    define(web, scheme="github", previous_secret="env:OLD")
    old = signed("github", BODY, 0, secret="the-secret-of-before-it")
    new = signed("github", BODY + b" ", 0, delivery="msg_2")

    assert post(web, old).status_code == 202
    assert post(web, new, BODY + b" ").status_code == 202
    define(web, scheme="github")
    assert post(web, old).status_code == 401


def test_the_same_id_with_another_body_is_a_conflict(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="standard")
    other = BODY.replace(b"main", b"next")

    assert post(web, signed("standard", BODY, web.now_seconds())).status_code == 202
    again = post(web, signed("standard", other, web.now_seconds()), other)
    assert again.status_code == 409
    assert again.json()["code"] == "key_reused"


def test_a_github_id_that_came_before_with_another_body_is_refused(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="github")
    first = post(web, signed("github", BODY, 0, delivery="a"))
    again = post(web, signed("github", BODY, 0, delivery="a"))
    other = post(web, signed("github", BODY + b" ", 0, delivery="a"), BODY + b" ")
    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 409)
    assert first.json()["run_id"] == again.json()["run_id"]
    assert len(web.runtime.runs()) == 1


def test_a_replayed_github_body_under_another_id_is_the_same_run(web: WebDoor) -> None:
    define(web, scheme="github")
    first = post(web, signed("github", BODY, 0, delivery="a"))
    second = post(web, signed("github", BODY, 0, delivery="b"))

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() | {"status": ""} == second.json() | {"status": ""}


def test_only_what_the_hook_is_for_makes_a_run_and_only_its_values_get_in(web: WebDoor) -> None:
    define(web, scheme="github", events=["push"], filter={"ref": "refs/heads/main"}, payload={"n": "n.0", "x": "no"})
    hostile = json.dumps({"ref": "refs/heads/main", "n": ['$(touch X); {payload} "quoted"']}).encode()
    for body in (b'{"ref": "refs/heads/other"}', b'{"ref": ["refs/heads/main"]}', b"{}"):
        answer = post(web, signed("github", body, 0), body)
        assert (answer.status_code, answer.json()["status"]) == (200, "filtered")
    assert post(web, {**signed("github", BODY, 0), "X-GitHub-Event": "issues"}).json()["status"] == "filtered"
    assert post(web, signed("github", hostile, 0), hostile).status_code == 202
    (run,) = web.store.runs(tenant="default")
    payload = json.loads(run.payload)
    assert payload["n"] == '$(touch X); {payload} "quoted"'
    assert payload["x"] is None
    assert set(payload) == {"n", "x", "webhook"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'"x"',
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"[" * 100_000,
    ],
)
def test_a_signed_body_that_is_no_such_json_is_a_4xx_that_says_so(web: WebDoor, body: bytes) -> None:
    define(web, scheme="github")
    answer = post(web, signed("github", body, 0), body)

    assert answer.status_code == 400
    assert "body" in answer.json()["detail"]
    assert web.store.runs(tenant="default") == []


def test_slack_shakes_hands_and_github_pings_without_a_run(web: WebDoor) -> None:
    define(web, scheme="slack")
    hello = b'{"type": "url_verification", "challenge": "xyz"}'
    assert post(web, signed("slack", hello, web.now_seconds()), hello).text == "xyz"
    define(web, scheme="github")
    ping = {**signed("github", BODY, 0), "X-GitHub-Event": "ping"}
    assert post(web, ping).json()["status"] == "filtered"
    assert web.store.runs(tenant="default") == []


def test_more_than_its_rate_is_refused_until_the_next_minute(web: WebDoor) -> None:
    define(web, scheme="bearer", rate_per_minute=2)
    answers = [post(web, signed("bearer", BODY, 0, delivery=str(n))).status_code for n in range(3)]
    assert answers == [202, 202, 429]
    web.runtime.pass_time(60)
    assert post(web, signed("bearer", BODY, 0, delivery="3")).status_code == 202


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [("bearer", ""), ("bearer", "short"), ("bearer", None), ("standard", "whsec_!!!!!!!!!!!!!!!!")],
)
def test_a_secret_that_cannot_be_used_lets_nobody_in_and_only_the_operator_hears_which(
    web: WebDoor, scheme: str, secret: str | None
) -> None:
    define(web, scheme=scheme)
    del web.secrets["env:S"]
    if secret is not None:
        web.secrets["env:S"] = secret
    shown = signed(scheme, BODY, web.now_seconds())
    shown |= {"Authorization": f"Bearer {secret}"} if scheme == "bearer" else {}

    answers = [post(web, shown) for _ in range(3)]
    stranger = post(web, shown, path="/hooks/default/unheard-of")

    assert [(one.status_code, one.text) for one in answers] == [(401, stranger.text)] * 3
    (said,) = [one for one in web.told if "cannot be checked here" in one]
    assert "the hook push of tenant default" in said
    assert web.store.runs(tenant="default") == []


def test_a_hook_is_not_checked_with_a_secret_that_is_not_its_tenants(web: WebDoor) -> None:
    define(web, scheme="bearer", secret="env:S", previous_secret="env:OLD")
    shown = {"Authorization": f"Bearer {SECRET}"}
    for tenant, secrets in (("harbor", ("env:S", "env:OLD")), ("default", ("env:OLD",))):
        web.allow(tenant, *secrets)
        assert post(web, shown).status_code == 401
    assert web.store.runs(tenant="default") == []
    web.allow("default", "env:OLD", "env:S")
    assert post(web, shown).status_code == 202


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_callers_own_key_cannot_stand_for_a_delivery_that_has_not_come_yet(web_on_both: WebDoor, scheme: str) -> None:
    web = web_on_both
    define(web, scheme=scheme)
    ask, look = asking(web, "trigger"), asking(web, "read")
    keys = [f"hook:push:{one}" for one in ("msg_1", "evt_1", "Ev1", f"body:{sha256(BODY).hexdigest()}")]
    for key in keys:
        made = ask("POST", "/runs", 202, json={"target": "reviewer"}, headers={"Idempotency-Key": key})
        again = ask("POST", "/runs", 200, json={"target": "reviewer"}, headers={"Idempotency-Key": key})
        assert again["id"] == made["id"]
        assert look("GET", f"/runs/{made['id']}")["request_key"] == key, "it is shown as it was given"

    assert post(web, signed(scheme, BODY, web.now_seconds())).status_code == 202


def test_a_stripe_body_without_an_id_is_one_run_however_often_it_comes(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="stripe")
    body = json.dumps({"type": "push"}).encode()

    answers = [post(web, signed("stripe", body, web.now_seconds() - late), body) for late in (0, 0, 7)]

    assert [one.status_code for one in answers] == [202, 200, 200]
    assert len(web.store.runs(tenant="default")) == 1


def test_a_hook_goes_with_the_file_that_had_it(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="github")
    wanted = want("default", "other.toml", agents={}, schedules={}, hooks={"push": {"agent": "reviewer"}})
    with pytest.raises(Exception, match=r"is defined by test\.toml too"):
        web.store.registry().apply(wanted, actor="test")
    gone = want("default", "test.toml", agents={}, schedules={})
    web.store.registry().apply(gone, actor="test")
    assert post(web, signed("github", BODY, 0)).status_code == 401


def test_nothing_that_was_acknowledged_in_a_burst_is_lost_and_a_full_line_says_429(web: WebDoor) -> None:
    define(web, waiting_max=80, scheme="bearer", rate_per_minute=100_000)
    path = "/hooks/default/push"
    burst = [
        ("POST", path, {"headers": signed("bearer", BODY, 0, delivery=f"d{n % 160}"), "content": BODY})
        for n in range(400)
    ]
    answers = [one for start in range(0, len(burst), 100) for one in web.ask_all(burst[start : start + 100])]
    acknowledged = {one.json()["run_id"] for one in answers if one.status_code in (200, 202)}
    kept = {run.id for run in web.store.runs(tenant="default", limit=10_000)}

    assert {one.status_code for one in answers} == {200, 202, 429}
    assert acknowledged == kept
    assert len(kept) == 80
    assert sum(one.status_code == 202 for one in answers) == 80


def test_the_secret_is_base64_after_its_prefix(web: WebDoor) -> None:
    define(web, scheme="standard")
    web.secrets["env:S"] = "whsec_" + base64.b64encode(b"k" * 24).decode()
    shown = signed("standard", BODY, web.now_seconds(), secret=web.secrets["env:S"])
    assert post(web, shown).status_code == 202


def received(web: WebDoor, *requests: HookRequest) -> list[Received | FencepostError]:
    """Hand over what waited together."""
    return receive(
        web.store,
        requests,
        tenant="default",
        name="push",
        now_seconds=web.now_seconds(),
        fetch_secret=lambda *_: SECRET,
        new_run_ids=new_ids,
    )


def bearing(delivery: str, body: bytes = BODY, secret: str = SECRET) -> HookRequest:
    return HookRequest({"authorization": f"Bearer {secret}", "idempotency-key": delivery}, body)


def test_deliveries_that_waited_together_have_one_commit_and_each_its_own_answer(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="bearer", waiting_max=3)
    before = post(web, signed("bearer", BODY, 0, delivery="before")).json()["run_id"]
    other = BODY.replace(b"main", b"else")
    answers = received(
        web,
        bearing("a"),
        bearing("b", secret="not-the-secret-of-the-hook"),
        bearing("a"),
        bearing("a", other),
        bearing("before"),
        bearing("before", other),
        bearing("c", b"[]"),
        bearing("d"),
        bearing("e"),
        bearing("e"),
    )
    kinds = [one.status if isinstance(one, Received) else type(one).__name__ for one in answers]
    assert kinds == [
        *("accepted", "Unauthorised", "duplicate", "KeyReused", "duplicate", "KeyReused", "Invalid"),
        *("accepted", "QueueFull", "QueueFull"),
    ]
    runs = [one.run_id for one in answers if isinstance(one, Received)]
    assert (runs[1], runs[2]) == (runs[0], before)
    kept = web.store.runs(tenant="default", limit=10)
    assert {run.id for run in kept} == {before, runs[0], runs[3]}
    assert {json.loads(run.payload)["webhook"]["delivery"] for run in kept} == {"before", "a", "d"}
    entries = web.store.reads("default").audit(verb="webhook", limit=50)
    assert sorted(one.subject for one in entries) == sorted(f"run:{run.id}" for run in kept), "one entry for each run"
    assert received(web, bearing("a"), bearing("d")) == [
        Received("duplicate", runs[0]),
        Received("duplicate", runs[3]),
    ]


def test_deliveries_that_waited_together_are_gathered_in_their_order(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="bearer", debounce="30s")
    news = [bearing(f"d{number}", BODY.replace(b"main", f"b{number}".encode())) for number in range(5)]
    first = received(web, news[0], news[1], news[0])
    second = received(web, news[1], *news[2:])

    assert [one.status for one in (*first, *second) if isinstance(one, Received)] == [
        *("accepted", "coalesced", "duplicate"),
        *("duplicate", "coalesced", "coalesced", "coalesced"),
    ]
    (run,) = web.store.runs(tenant="default", limit=10)
    payload = json.loads(run.payload)
    assert (payload["webhook"]["deliveries"], payload["body"]["ref"]) == (5, "refs/heads/b4")
    counts = [json.loads(one.detail)["count"] for one in web.store.reads("default").audit(verb="coalesce", limit=50)]
    assert sorted(counts) == [2, 3, 4, 5]


def test_a_delivery_that_the_database_does_not_take_is_refused_alone(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="github")
    requests = []
    for number, label in enumerate(("one", "poison\0", "three")):
        body = BODY.replace(b"main", f"b{number}".encode())
        shown = signed("github", body, 0, delivery=label)
        requests.append(HookRequest({name.lower(): value for name, value in shown.items()}, body))
    answers = received(web, *requests)

    taken = [isinstance(one, Received) for one in answers]
    assert taken == [True, web.store.facts().kind == "sqlite", True], "PostgreSQL takes no text with a NUL"
    kept = {run.id for run in web.store.runs(tenant="default", limit=10)}
    assert kept == {one.run_id for one in answers if isinstance(one, Received)}


def delivered(web: WebDoor, number: int, body: bytes = BODY) -> httpx.Response:
    return post(web, signed("bearer", body, 0, delivery=f"d{number}"), body)


def test_deliveries_close_together_are_one_run_with_the_newest_body_once_it_is_quiet(web_on_both: WebDoor) -> None:
    web, runtime = web_on_both, web_on_both.runtime
    define(web, scheme="bearer", debounce="30s")
    answers = []
    for number in range(3):
        answers.append(delivered(web, number, BODY.replace(b"main", f"b{number}".encode())))
        runtime.pass_time(20)
        assert runtime.lease() is None, "each delivery moves the start"

    assert [one.status_code for one in answers] == [202, 202, 202]
    assert [one.json()["status"] for one in answers] == ["accepted", "coalesced", "coalesced"]
    assert len({one.json()["run_id"] for one in answers}) == 1
    runtime.pass_time(11)
    leased = runtime.lease()
    assert leased is not None
    payload = json.loads(leased.run.payload)
    assert payload["body"]["ref"] == "refs/heads/b2"
    assert payload["webhook"]["deliveries"] == 3
    assert leased.run.id == answers[0].json()["run_id"]


def test_a_delivery_that_was_coalesced_is_known_when_it_comes_again(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="bearer", debounce="30s")
    runs = {delivered(web, number).json()["run_id"] for number in range(3)}
    again = [delivered(web, number) for number in range(3)]
    other = delivered(web, 1, BODY.replace(b"main", b"next"))

    assert [one.status_code for one in again] == [200, 200, 200]
    assert {one.json()["run_id"] for one in again} == runs
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    (run,) = web.store.runs(tenant="default")
    assert json.loads(run.payload)["webhook"]["deliveries"] == 3
    web.runtime.pass_time(31)
    assert web.runtime.lease() is not None
    assert delivered(web, 0).json()["run_id"] in runs, "also after it has started"


def test_what_comes_after_the_start_is_a_run_of_its_own(web_on_both: WebDoor) -> None:
    web = web_on_both
    define(web, scheme="bearer", debounce="30s")
    first = delivered(web, 0).json()["run_id"]
    web.runtime.pass_time(31)
    second = delivered(web, 1).json()  # due, and not started yet: what it was told stays as it is

    assert second["status"] == "accepted"
    assert second["run_id"] != first


def test_deliveries_without_an_end_do_not_hold_their_run_back_for_ever(web: WebDoor) -> None:
    define(web, scheme="bearer", debounce="30s", rate_per_minute=10_000)
    for number in range(16):
        delivered(web, number)
        web.runtime.pass_time(20)

    started = web.runtime.lease()
    assert started is not None, "ten times the debounce after the first"
    assert json.loads(started.run.payload)["webhook"]["deliveries"] == 15


def test_gathering_goes_on_where_it_was_after_a_restart(web: WebDoor, tmp_path: Path) -> None:
    define(web, scheme="bearer", debounce="30s")
    first = delivered(web, 0).json()["run_id"]
    with web_door(web.runtime, tmp_path) as another:
        another.secrets.update(web.secrets)
        assert delivered(another, 1).json() == {"status": "coalesced", "run_id": first}


def test_a_cancelled_run_gathers_nothing_more(web: WebDoor) -> None:
    define(web, scheme="bearer", debounce="30s")
    first = delivered(web, 0).json()["run_id"]
    web.store.cancel(first, tenant="default", by="ada")

    assert delivered(web, 1).json()["status"] == "accepted"
