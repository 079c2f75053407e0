"""Figures for Prometheus: true to the store, of the key's tenant alone, without ids."""

from datetime import timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.flow.pruner import Pruner
from fencepost.model.definition import AgentDefinition
from fencepost.model.lease import Granted, Refused
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.model.signature import sign
from fencepost.operations.run_requests import cancel, discard, request_run
from fencepost.ports.metering import Figures
from fencepost.ports.pruning import PrunePlace
from fencepost.stores.metering import SqlMetering
from tests.stores.rig import claim
from tests.support.runtime import DEAD, SUCCEEDED, new_id
from tests.support.webdoor import WebDoor

SECRET = "a-signing-secret-of-32-characters"


def samples(answer: httpx.Response) -> dict[tuple[str, frozenset[str]], float]:
    assert answer.status_code == 200, answer.text
    return {
        (one.name, frozenset(value for name, value in one.labels.items() if name != "tenant")): one.value
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
    }


def test_every_figure_says_whose_it_is_and_dead_letters_that_wait_are_counted(web_on_both: WebDoor) -> None:
    web, runtime = web_on_both, web_on_both.runtime
    runtime.cron("s", "* * * * *")
    for _ in range(2):
        runtime.pass_time(60)
        runtime.tick()
        dead = runtime.work(DEAD)
    discard(web.store, dead.run.id, tenant="default", by="ada", note="")

    answer = web.ask("GET", "/metrics", headers=web.bearer("read"))
    found = [one for family in text_string_to_metric_families(answer.text) for one in family.samples]

    assert {one.labels.get("tenant") for one in found} == {"default"}
    assert samples(answer)["fencepost_dead_letters", frozenset()] == 1
    other = web.ask("GET", "/metrics", headers=web.bearer("read", "other"))
    assert samples(other)["fencepost_dead_letters", frozenset()] == 0


def test_the_figures_are_those_of_the_store(web_on_both: WebDoor) -> None:
    web, runtime = web_on_both, web_on_both.runtime
    runtime.cron("s", "* * * * *")
    runtime.pass_time(60)
    runtime.tick()
    runtime.pass_time(60)
    runtime.tick()  # the first still waits
    leased = runtime.leased(start=True)
    runtime.pass_time(5)
    runtime.settle(leased, SUCCEEDED, cost_micro=250_000, usage='{"input": 12, "output": 5, "partial": true}')
    runtime.pass_time(55)
    runtime.tick()
    answer = web.ask("GET", "/metrics", headers=web.bearer("read"))
    found = samples(answer)

    assert found["fencepost_ticks_total", frozenset(("s", "run"))] == 2
    assert found["fencepost_ticks_total", frozenset(("s", "overlap"))] == 1
    assert found["fencepost_runs_total", frozenset(("s", "succeeded"))] == 1
    assert found["fencepost_queue_depth", frozenset(("s", "agent"))] == 1
    assert found["fencepost_run_duration_seconds_count", frozenset(("s", "agent"))] == 1
    assert found["fencepost_run_duration_seconds_bucket", frozenset(("s", "agent", "10.0"))] == 1
    assert found["fencepost_run_duration_seconds_bucket", frozenset(("s", "agent", "1.0"))] == 0
    assert found["fencepost_cost_usd_total", frozenset(("s", "agent"))] == 0.25
    assert found["fencepost_llm_tokens_total", frozenset(("s", "agent", "input"))] == 12
    assert found["fencepost_llm_tokens_total", frozenset(("s", "agent", "output"))] == 5
    assert not any("partial" in labels for _, labels in found)
    assert found["fencepost_leases_lost_total", frozenset()] == 0
    assert leased.run.id not in answer.text


def test_no_figure_falls_when_records_are_pruned(web_on_both: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.web.metrics.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("fencepost.web.metrics.SHARE", 0)
    web, runtime = web_on_both, web_on_both.runtime
    runtime.cron("s", "* * * * *")
    runtime.apply(AgentDefinition("agent", command=("true",), max_attempts=9, on_lost="restart"))
    for settlement in (SUCCEEDED, DEAD, Settlement(RunState.DEAD, Reason.FENCE_REFUSED)):
        runtime.pass_time(60)
        runtime.tick()
        leased = runtime.leased(start=True)
        runtime.pass_time(5)
        runtime.settle(leased, settlement, cost_micro=1_500_000, usage='{"input": 12, "output": 5, "partial": true}')
    runtime.pass_time(60)
    runtime.tick()
    lost = runtime.leased(start=True)
    runtime.pass_time(40)
    runtime.reap()
    runtime.pass_time(40)
    runtime.settle(runtime.leased(start=True), SUCCEEDED)
    made = request_run(web.store, tenant="default", target="agent", key="k", new_run_id=new_id, by="ada").run
    request_run(web.store, tenant="default", target="agent", key="k", new_run_id=new_id, by="ada")
    cancel(web.store, made.id, tenant="default", by="ada")
    for run in runtime.runs():
        if run.state == "dead":
            discard(web.store, run.id, tenant="default", by="ada")
    shown = web.bearer("read")
    before = samples(web.ask("GET", "/metrics", headers=shown))
    runtime.pass_time(500 * 86_400)
    place: PrunePlace | None = PrunePlace()
    while place is not None:
        place = Pruner(web.store, "default", timedelta(days=90)).step(place).next
    after = samples(web.ask("GET", "/metrics", headers=shown))

    assert runtime.runs() == []
    totals = {key for key in before if key[0].endswith(("_total", "_bucket", "_count", "_sum"))}
    assert {key: after.get(key) for key in totals} == {key: before[key] for key in totals}
    everybody: frozenset[str] = frozenset()
    assert before["fencepost_leases_lost_total", everybody] == 1, lost
    assert before["fencepost_takeovers_total", everybody] == 1
    assert before["fencepost_runs_refused_total", everybody] == 1
    assert before["fencepost_duplicate_requests_total", everybody] == 1
    assert before["fencepost_cost_usd_total", frozenset(("s", "agent"))] == 4.5
    assert before["fencepost_llm_tokens_total", frozenset(("s", "agent", "input"))] == 36
    assert after["fencepost_llm_tokens_total", frozenset(("s", "agent", "output"))] == 15
    assert not any("partial" in labels for _, labels in after)


def test_many_who_ask_at_once_cost_the_store_one_look(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    real = SqlMetering.figures

    def counted(self: SqlMetering, tenant: str) -> Figures:
        looks.append(tenant)
        return real(self, tenant)

    monkeypatch.setattr(SqlMetering, "figures", counted)
    shown = web.bearer("read")
    answers = web.ask_all([("GET", "/metrics", {"headers": shown})] * 20)

    assert {one.status_code for one in answers} == {200}
    assert looks == ["default"]


def test_how_far_the_stores_clock_is_ahead_is_shown(web: WebDoor) -> None:
    web.skew_us = -90_000_000
    found = samples(web.ask("GET", "/metrics", headers=web.bearer("read")))

    assert found["fencepost_clock_skew_seconds", frozenset()] == pytest.approx(90, abs=1)


def test_another_tenants_figures_are_not_there(web: WebDoor) -> None:
    web.runtime.cron("s", "* * * * *")
    web.runtime.pass_time(60)
    web.runtime.tick()
    found = samples(web.ask("GET", "/metrics", headers=web.bearer("read", "theirs")))

    assert not any("s" in labels for _, labels in found)


def test_openmetrics_is_spoken_to_those_who_ask_for_it(web: WebDoor) -> None:
    shown = {**web.bearer("read"), "Accept": "application/openmetrics-text; version=1.0.0"}
    answer = web.ask("GET", "/metrics", headers=shown)

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_a_run_that_is_carried_out_elsewhere_reports_over_http(web_on_both: WebDoor) -> None:
    web, runtime = web_on_both, web_on_both.runtime
    options = {"url": "https://example.com", "secret": "env:S"}
    runtime.apply(AgentDefinition("agent", engine="http", options=options))
    runtime.cron("s", "* * * * *")
    runtime.pass_time(60)
    runtime.tick()
    leased = runtime.leased(start=True)
    web.secrets["env:S"] = SECRET

    def post(status: str, fence: int, secret: str = SECRET) -> httpx.Response:
        body = f'{{"fence": {fence}, "status": "{status}", "summary": "ok"}}'.encode()
        shown = sign(secret, message_id="m1", at_seconds=web.now_seconds(), body=body)
        return web.ask("POST", f"/completions/default/{leased.run.id}", headers=shown, content=body)

    fence = leased.lease.fence
    assert post("running", fence, "another-secret-of-32-characters!").status_code == 401
    assert post("running", fence - 1).status_code == 409
    assert post("running", fence).json()["state"] == "running"
    assert post("succeeded", fence).json()["state"] == "succeeded"
    kept = runtime.store.completion(leased.run.id)
    assert kept is not None
    assert kept.state == "succeeded"


def test_guarded_commands_are_counted_by_how_they_ended_and_listed(web_on_both: WebDoor) -> None:
    guarded = claim("lock:digest")._replace(is_command=True, label="./digest <b>")
    granted = web_on_both.store.acquire(guarded)
    assert isinstance(granted, Granted)
    assert isinstance(web_on_both.store.acquire(claim("lock:digest")._replace(is_command=True)), Refused)
    web_on_both.store.release(granted.lease, clean=True, answered=False, code=3)
    found = samples(web_on_both.ask("GET", "/metrics", headers=web_on_both.bearer("read")))

    counted = {labels: number for (name, labels), number in found.items() if name == "fencepost_commands_total"}
    assert counted == {frozenset({"failed"}): 1, frozenset({"refused"}): 1}
    page = web_on_both.ask("GET", "/leases", headers={**web_on_both.bearer("read"), "Accept": "text/html"}).text
    assert "./digest &lt;b&gt;" in page
    assert "failed</span>, exit code 3" in page
    other = web_on_both.ask("GET", "/leases", headers=web_on_both.bearer("read", "other")).text
    assert "./digest" not in other
