"""What the dashboard tells of all schedules at once: skips, notices, budgets, the proof; and runs for what is over."""

import re

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.notice import Wish
from fencepost.operations.run_requests import request_run
from fencepost.operations.schedule_registry import pause_schedule, resume_schedule
from tests.support.runtime import DEAD, TENANT, new_id
from tests.support.webdoor import WebDoor, asking
from tests.web.test_dashboard import Person, words


@pytest.fixture
def minutely(web_on_both: WebDoor) -> WebDoor:
    """One run that goes on, and three ticks that were in its way."""
    runtime = web_on_both.runtime
    runtime.cron("minutely", "* * * * *")
    runtime.pass_time(60)
    runtime.tick()
    runtime.leased(start=True, ttl=100_000)
    for _ in range(3):
        runtime.pass_time(60)
        runtime.tick()
    return web_on_both


def test_what_was_skipped_lately_is_told_however_much_was_decided_since(minutely: WebDoor) -> None:
    registry = minutely.store.registry()
    for _ in range(160):
        pause_schedule(registry, "minutely", tenant=TENANT, until=None, note="", actor="ada")
        resume_schedule(registry, "minutely", tenant=TENANT, actor="ada")
    person = Person(minutely)

    page = words(person.looks("/")).partition("Skipped lately")[2]
    assert re.search(r"minutely\s+overlap\s+3\s", page)
    minutely.runtime.pass_time(86_401)
    assert "Skipped lately" not in words(Person(minutely).looks("/"))


def test_all_skips_are_listed_with_their_reason_in_pages(minutely: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.web.dashboard.schedules.SKIPPED", 2)
    person = Person(minutely)
    first = person.looks("/skips")
    following = re.search(r'href="(\?cursor=[^"]+)" rel="next"', first)
    assert following
    second = person.looks(f"/skips{following[1]}")

    assert words(first).count("It was skipped because of overlap: run") == 2
    assert words(second).count("It was skipped because of overlap: run") == 1
    assert 'rel="next"' not in second
    assert "No tick became that" in words(person.looks("/skips?wanted=missed"))
    assert "Nothing was skipped" in words(Person(minutely, tenant="theirs").looks("/skips"))


def test_what_has_ended_is_shown_however_many_wait(web_on_both: WebDoor) -> None:
    runtime = web_on_both.runtime
    runtime.apply(AgentDefinition("first", command=("true",)), AgentDefinition("digest", command=("true",)))
    request_run(web_on_both.store, tenant=TENANT, target="first", new_run_id=new_id, by="test")
    runtime.work()
    for _ in range(70):
        request_run(web_on_both.store, tenant=TENANT, target="digest", new_run_id=new_id, by="test")

    page = words(Person(web_on_both).looks("/")).partition("Ended lately")[2]
    assert "first" in page
    assert "Nothing has ended yet" not in page


def test_what_is_used_of_a_budget_stands_with_the_schedule(web_on_both: WebDoor) -> None:
    runtime = web_on_both.runtime
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron("close", "* * * * *", budget_usd_per_day="5", max_runs_per_hour=3, timezone="Europe/Berlin")
    runtime.pass_time(60)
    runtime.tick()
    runtime.settle(runtime.leased(start=True), cost_micro=1_250_000)
    page = words(Person(web_on_both).looks("/schedules/close"))
    detail = asking(web_on_both, "read")("GET", "/schedules/close")

    assert "$1.25 of $5.00 of this day" in page
    assert "1 of 3 runs within the last hour" in page
    assert [(one["limit"], one["used"], one["allowed"]) for one in detail["budget"]] == [
        ("budget_usd_per_day", 1.25, 5.0),
        ("max_runs_per_hour", 1, 3),
    ]
    assert detail["budget"][0]["anew_at"].endswith("T23:00:00Z"), "midnight in Berlin, in winter"
    runtime.pass_time(60)
    runtime.tick()
    set_aside = asking(web_on_both, "read")("GET", "/schedules/close")["budget"]
    assert [one["used"] for one in set_aside] == [3.25, 2], "what waits counts with what it may cost"


def test_a_notice_that_was_given_up_is_seen_and_tried_once_more(web_on_both: WebDoor) -> None:
    runtime, outbox = web_on_both.runtime, web_on_both.store.notices()
    outbox.declare(TENANT, "test.toml", {Wish("chat <b>", "dead")})
    runtime.cron("minutely", "* * * * *")
    runtime.pass_time(60)
    runtime.tick()
    runtime.work(DEAD)
    person, reader = Person(web_on_both), Person(web_on_both, "read")
    assert "1 on the way" in words(person.looks("/notices"))
    for one in outbox.claim(TENANT, "test.toml", ("chat <b>",), limit=8, hold_seconds=60):
        outbox.failed(one, "it answered 410 <gone>", again_in_seconds=None)

    page = person.looks("/notices?wanted=dead")
    assert "it answered 410 &lt;gone&gt;" in page
    assert "1 given up" in words(page)
    assert "once more" not in words(reader.looks("/notices"))
    address = re.search(r'href="(/notices/retry[^"]+)"', page)
    assert address
    assert "Try chat &lt;b&gt; once more?" in person.looks(address[1])
    assert reader.sends(address[1]).status_code == 403
    assert person.sends(address[1]).headers["location"] == "/notices?done=revived"
    assert "1 on the way" in words(person.looks("/notices"))
    assert person.sends(address[1]).status_code == 400, "there is nothing left to revive"


def test_the_proof_says_whether_every_owed_tick_is_accounted_for(minutely: WebDoor) -> None:
    person = Person(minutely)
    assert "Every owed tick" not in words(person.looks("/audit"))
    assert "Every owed tick is accounted for : 4 owed" in words(person.looks("/audit?prove=1"))

    minutely.runtime.sql(
        "DELETE FROM $tick WHERE disposition = 'overlap' AND tick_us = (SELECT max(tick_us) FROM $tick)"
    )
    page = words(person.looks("/audit?prove=1"))
    assert "Not every owed tick is accounted for : 1 missing, 0 doubled, of 4 owed" in page


def test_a_backfill_is_counted_confirmed_and_made_once(web_on_both: WebDoor) -> None:
    runtime = web_on_both.runtime
    runtime.cron("hourly", "0 * * * *", overlap="queue")
    start = runtime.now
    runtime.pass_time(6 * 3600)
    runtime.tick()
    before = len(runtime.runs("hourly"))
    person = Person(web_on_both, "trigger")
    asked = {"from": f"{start:%Y-%m-%dT%H:%M:%SZ}", "until": f"{runtime.now:%Y-%m-%dT%H:%M:%SZ}"}

    question = person.sends("/schedules/hourly/backfill", **asked)
    assert question.status_code == 200
    assert "Make 5 runs of hourly?" in words(question.text)
    assert len(runtime.runs("hourly")) == before, "nothing is made before it is confirmed"
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', question.text))
    assert fields["sure"] == "yes"
    fields.pop("csrf")
    first, second = (person.sends("/schedules/hourly/backfill", **fields) for _ in range(2))
    assert first.headers["location"] == "/runs?schedule=hourly&done=backfilled"
    assert second.headers["location"] == "/runs?schedule=hourly&done=backfilled-before"
    assert [run.trigger for run in runtime.runs("hourly")].count("backfill") == 5


def test_a_backfill_that_cannot_be_is_said_above_the_form(web_on_both: WebDoor) -> None:
    web_on_both.runtime.cron("hourly", "0 * * * *")
    person, reader = Person(web_on_both, "trigger"), Person(web_on_both, "read")
    late = {"from": "2031-01-01T00:00:00Z", "until": "2031-01-02T00:00:00Z"}

    assert "no tick in that range" in words(person.sends("/schedules/hourly/backfill", **late).text)
    swapped = person.sends("/schedules/hourly/backfill", **{"from": late["until"], "until": late["from"]})
    assert (swapped.status_code, "swap them" in swapped.text) == (400, True)
    assert 'value="2031-01-02T00:00:00Z"' in swapped.text
    assert person.sends("/schedules/hourly/backfill", **{"from": "soon", "until": ""}).status_code == 400
    assert reader.sends("/schedules/hourly/backfill", **late).status_code == 403
    assert "Backfill" not in words(reader.looks("/schedules/hourly"))
