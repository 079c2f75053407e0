"""Figures for Prometheus: true to the store, of the key's tenant alone, without ids."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from fencepost.model.definition import AgentDefinition
from fencepost.model.signature import sign
from tests.support.runtime import SUCCEEDED
from tests.support.webdoor import WebDoor

SECRET = "a-signing-secret-of-32-characters"


def samples(answer: httpx.Response) -> dict[tuple[str, frozenset[str]], float]:
    assert answer.status_code == 200, answer.text
    return {
        (one.name, frozenset(one.labels.values())): one.value
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
    }


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
