"""The dashboard without a browser: who sees what, what a form does, and how people are told what is wrong."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from fencepost.cli.main import COMMANDS
from fencepost.model.access import csrf_of, read_secret
from fencepost.model.definition import AgentDefinition
from fencepost.model.effect_ledger import EffectCall
from fencepost.model.errors import StoreUnavailable
from fencepost.model.gate import Proof
from fencepost.model.lease import Granted, Refused
from fencepost.operations.gates import GateWriter, raise_gate
from fencepost.operations.run_queries import list_audit
from fencepost.operations.run_requests import request_run
from fencepost.web.dashboard.routes import ROOMS
from fencepost.web.store_threads import StoreThreads
from tests.stores.rig import claim
from tests.support.runtime import DEAD, new_id
from tests.support.webdoor import HOST, WebDoor

HTML = {"Accept": "text/html,application/xhtml+xml"}
ORIGIN = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what a browser says under `no-referrer`


# Commands of machines, terminals and files, and reports that are read by programs.
ELSEWHERE = {
    *("init", "demo", "up", "scheduler", "worker", "web", "mcp", "version", "import", "store", "service", "simulate"),
    *("exec", "gate", "hook", "mcp-gate", "worktree", "checkpoint", "progress", "ticks", "plan", "apply"),
    *("completion", "crontab", "drain"),
}
OFFERED = {
    "run": "/schedules/{schedule}/run",
    "ps": "/",
    "top": "/",
    "timeline": "/timeline",
    "runs": "/runs",
    "show": "/runs/{run_id}",
    "logs": "/runs/{run_id}/stream",
    "cancel": "/runs/{run_id}/cancel",
    "why": "/schedules/{schedule}/why",
    "schedule": "/schedules/{schedule}/pause",
    "queue": "/queues",
    "dead": "/dead",
    "halt": "/halt",
    "unhalt": "/unhalt",
    "lease": "/leases",
    "ledger": "/runs/{run_id}",
    "dst-check": "/calendar",
    "doctor": "/doctor",
    "audit": "/audit",
    "prove": "/audit",
    "notice": "/notices",
    "key": "/keys",
}


class Person:
    """Somebody at a browser, logged in by a key of a role."""

    def __init__(self, web: WebDoor, role: str = "admin", tenant: str = "default") -> None:
        self._web = web
        secret = web.key(role, tenant).secret.text
        answer = web.ask("POST", "/login", data={"secret": secret}, headers={**HTML, **ORIGIN})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].partition(";")[0]
        session = read_secret(cookie.partition("=")[2], "session")
        assert session is not None
        self._cookie, self.csrf = {"Cookie": cookie}, csrf_of(session)

    def looks(self, path: str, status: int = 200) -> str:
        answer = self._web.ask("GET", path, headers={**HTML, **self._cookie})
        assert answer.status_code == status, answer.text
        return answer.text

    def sends(self, path: str, **fields: str) -> httpx.Response:
        data = {"csrf": self.csrf, **fields}
        return self._web.ask("POST", path, data=data, headers={**HTML, **ORIGIN, **self._cookie})


@pytest.fixture
def busy(web_on_both: WebDoor) -> WebDoor:
    runtime = web_on_both.runtime
    runtime.apply(AgentDefinition("digest", command=("true",)))
    runtime.cron("nightly", "0 2 * * *", timezone="Europe/Berlin")
    runtime.cron("minutely", "* * * * *")
    runtime.pass_time(60)
    runtime.tick()
    return web_on_both


def words(page: str) -> str:
    """What a page says, without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("<main")[2]))


def test_every_command_that_looks_or_acts_has_its_page(web: WebDoor) -> None:
    paths = {route.path for route in web.gate.routes if isinstance(route, Route)}

    assert set(OFFERED.values()) <= paths
    assert set(COMMANDS) - ELSEWHERE == set(OFFERED)


def test_every_act_is_asked_about_before_it_is_done() -> None:
    methods: dict[str, set[str]] = {}
    for route in (route for room in ROOMS for route in room.router.routes):
        assert isinstance(route, Route)
        methods.setdefault(route.path, set()).update(route.methods or ())
    acts = {path for path, allowed in methods.items() if "POST" in allowed}

    assert len(acts) >= 12
    assert all("GET" in methods[path] for path in acts)


def test_the_first_page_says_how_it_stands(busy: WebDoor) -> None:
    person = Person(busy)
    assert "No scheduler drives the schedules." in words(person.looks("/"))
    busy.runtime.work(DEAD)

    page = words(person.looks("/"))

    assert "1 run needs a person." in page
    assert "minutely" in page


def test_a_budget_is_a_bar_that_is_as_full_as_its_limit_is_used(busy: WebDoor) -> None:
    runtime = busy.runtime
    runtime.cron("dear", "* * * * *", budget_usd_per_day="2.00", budget_usd_per_month="0.25", max_runs_per_hour=4)
    runtime.pass_time(60)
    runtime.tick()
    while (leased := runtime.leased(start=True)).run.schedule != "dear":
        pass
    runtime.settle(leased, cost_micro=500_000)

    page = Person(busy).looks("/schedules/dear")
    bars = bars_of(page)

    assert [(one["aria-label"], float(one["value"]), float(one["max"])) for one in bars] == [
        ("budget_usd_per_day", 0.5, 2.0),
        ("budget_usd_per_month", 0.25, 0.25),  # a bar that is full, although twice as much was used
        ("max_runs_per_hour", 1, 4),
    ]
    for one in bars:
        low, high, most = (float(one[name]) for name in ("low", "high", "max"))
        assert 0 < low < high < most
    assert "$0.50 of $2.00 of this day" in words(page)
    assert '<span class="bad">$0.50 of $0.25 of this month' in page


def test_a_budget_of_nothing_is_a_full_bar(busy: WebDoor) -> None:
    busy.runtime.cron("never", "* * * * *", budget_usd_per_day="0")

    (bar,) = bars_of(Person(busy).looks("/schedules/never"))

    assert bar["value"] == bar["max"]


def bars_of(page: str) -> list[dict[str, str]]:
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', one)) for one in re.findall(r"<meter ([^>]*)>", page)]


def test_what_a_role_may_not_do_it_is_neither_offered_nor_allowed(busy: WebDoor) -> None:
    run = busy.runtime.runs("minutely")[0].id
    reader, helper, admin = (Person(busy, role) for role in ("read", "trigger", "admin"))

    assert "Run now" not in reader.looks("/schedules/minutely")
    assert "Run now" in helper.looks("/schedules/minutely")
    assert "Pause" not in words(helper.looks("/schedules/minutely"))
    assert "Pause" in words(admin.looks("/schedules/minutely"))
    assert reader.sends(f"/runs/{run}/cancel").status_code == 403
    assert helper.sends("/schedules/minutely/pause").status_code == 403
    assert "this takes a key with the role trigger" in reader.looks(f"/runs/{run}/cancel", 403)


def test_a_schedule_is_paused_with_a_note_shown_and_resumed(busy: WebDoor) -> None:
    person = Person(busy)
    assert "Pause nightly?" in words(person.looks("/schedules/nightly/pause"))

    done = person.sends("/schedules/nightly/pause", note="the <b>mail</b> is down", until="2027-06-01T06:00")
    assert (done.status_code, done.headers["location"]) == (303, "/schedules/nightly?done=paused")
    page = person.looks("/schedules/nightly?done=paused")
    assert "the &lt;b&gt;mail&lt;/b&gt; is down" in page
    assert "1 Jun 06:00 Europe/Berlin" in page
    assert 'href="/schedules/nightly/resume"' in page
    assert person.sends("/schedules/nightly/resume").status_code == 303
    assert 'href="/schedules/nightly/pause"' in person.looks("/schedules/nightly")


def test_what_is_wrong_with_a_form_is_said_above_it_and_what_was_written_stays(busy: WebDoor) -> None:
    answer = Person(busy).sends("/schedules/nightly/pause", note="keep me", until="tomorrow-ish")

    assert answer.status_code == 400
    assert "tomorrow-ish" in words(answer.text)
    assert 'value="keep me"' in answer.text


def test_a_form_that_is_sent_twice_makes_one_run(busy: WebDoor) -> None:
    person = Person(busy, "trigger")
    key = re.search(r'name="key" value="([^"]+)"', person.looks("/schedules/nightly/run"))
    assert key
    first, second = (person.sends("/schedules/nightly/run", key=key[1]) for _ in range(2))

    assert first.headers["location"].partition("?")[0] == second.headers["location"].partition("?")[0]
    assert len(busy.runtime.runs("nightly")) == 1


def test_a_form_without_its_token_changes_nothing(busy: WebDoor) -> None:
    person = Person(busy)
    person.csrf = "0" * 64

    answer = person.sends("/halt", note="x")

    assert answer.status_code == 403
    assert "Everything is halted" not in words(person.looks("/"))


def test_a_dead_letter_is_replayed_and_discarded_with_a_note(busy: WebDoor) -> None:
    person = Person(busy, "trigger")
    dead = busy.runtime.work(DEAD).run.id

    replayed = person.sends(f"/runs/{dead}/replay")
    assert replayed.status_code == 303
    page = words(person.looks(replayed.headers["location"]))
    assert "replay, of" in page
    busy.runtime.work(DEAD)
    again = busy.runtime.runs("minutely")[-1].id
    assert person.sends(f"/runs/{again}/discard", note="known since Monday").status_code == 303
    detail = next(row.detail for row in list_audit(busy.store, "default", verb="discard", limit=1))
    assert "known since Monday" in detail


def test_every_skip_says_why_in_few_questions(busy: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, person = busy.runtime, Person(busy)
    runtime.leased(start=True)
    for _ in range(30):
        runtime.pass_time(60)
        runtime.tick()
    page = words(person.looks("/schedules/minutely"))
    assert page.count("It was skipped because of overlap: run") == 30

    asked = questions(busy, monkeypatch, lambda: person.looks("/schedules/minutely"))
    assert asked <= 20, asked  # a picture and its plots take six of them, however much they show


def questions(web: WebDoor, monkeypatch: pytest.MonkeyPatch, look: Any) -> int:  # noqa: ANN401  # a callable
    """Count the statements that a page costs; a thread that is asked for the first time also opens its store, so look thrice."""
    counted = 0
    kind = type(web.store.dialect)
    real = kind.read

    def counting(self: Any, work: Any, **how: bool) -> Any:  # noqa: ANN401
        nonlocal counted
        counted += 1
        return real(self, work, **how)

    monkeypatch.setattr(kind, "read", counting)
    found = []
    for _ in range(3):
        before = counted
        look()
        found.append(counted - before)
    return min(found)


def test_the_marks_of_a_runs_gates_are_asked_for_at_the_gates(web: WebDoor, tmp_path: Path) -> None:
    target = f"file:{tmp_path}/report.json"
    web.runtime.apply(AgentDefinition("writer", command=("true",), gates=(target, "sql:env:NOT_SET_HERE")))
    request_run(web.store, tenant="default", target="writer", new_run_id=new_id, by="test")
    leased = web.runtime.leased(start=True)
    lease = leased.lease
    raise_gate(
        GateWriter(Proof(lease.tenant, lease.resources, lease.fence, lease.store, "here", lease.run_id), None), target
    )
    page = words(Person(web).looks(f"/runs/{leased.run.id}/gates"))

    assert str(leased.lease.fence) in page
    assert "this run's own" in page.replace("&#39;", "'")
    assert "It cannot be asked from here" in page


def test_a_gate_is_not_asked_with_a_secret_that_is_not_the_tenants(web: WebDoor) -> None:
    web.secrets["env:HARBOR_KEY"] = "sqlite:/nowhere.db"
    web.allow("harbor", "env:HARBOR_KEY")
    web.runtime.apply(AgentDefinition("writer", command=("true",), gates=("sql:env:HARBOR_KEY",)))
    request_run(web.store, tenant="default", target="writer", new_run_id=new_id, by="test")
    leased = web.runtime.leased(start=True)
    page = words(Person(web).looks(f"/runs/{leased.run.id}/gates"))

    assert "env:HARBOR_KEY is not for tenant default" in page
    assert "nowhere" not in page


def test_an_effect_in_doubt_is_ended_by_a_person(busy: WebDoor) -> None:
    person, ledger = Person(busy), busy.store.ledger()
    leased = busy.runtime.leased(start=True)
    call = EffectCall("send mail <1>", "c1")
    ledger.begin(leased.lease, call)
    ledger.doubt(leased.lease, call, "the line went dead")
    page = person.looks(f"/runs/{leased.run.id}")
    assert "the line went dead" in page
    address = re.search(r'href="(/ledger/resolve[^"]+)"', page)
    assert address
    path = address[1].replace("&amp;", "&")
    assert "it is not known whether it took place" in words(person.looks(path))

    assert person.sends(path, became="done", answer="{not json").status_code == 400
    assert person.sends(path, became="done", answer='{"id": 7}').status_code == 303
    entry = ledger.entry("default", "send mail <1>")
    assert entry is not None
    assert (entry.state, entry.answer) == ("completed", '{"id": 7}')


def test_a_guarded_command_stands_among_the_runs_and_has_a_page(web_on_both: WebDoor) -> None:
    asked = claim("lock:digest", id="x", label="make <b>digest</b> \x1b[2J")._replace(is_command=True)
    answer = web_on_both.store.acquire(asked)
    assert isinstance(answer, Granted)
    person = Person(web_on_both)
    assert "running" in words(person.looks("/runs/run-of-x"))
    assert isinstance(web_on_both.store.acquire(claim("lock:digest", id="y")._replace(is_command=True)), Refused)
    web_on_both.store.release(answer.lease, clean=True, code=3)

    for path in ("/runs", "/leases"):
        page = person.looks(path)
        assert "make &lt;b&gt;digest" in page
        assert 'href="/runs/run-of-x"' in page
        assert "\x1b" not in page
    page = words(person.looks("/runs/run-of-x"))
    for said in ("failed", "exit code 3", "lock:digest", f"fence {answer.lease.fence}", "1 other command came in vain"):
        assert said in page, said
    assert Person(web_on_both, tenant="other").looks("/runs/run-of-x", 404)


def test_another_tenants_things_are_not_there(busy: WebDoor) -> None:
    run = busy.runtime.runs("minutely")[0].id
    stranger = Person(busy, tenant="theirs")

    assert "minutely" not in stranger.looks("/")
    assert "minutely" not in stranger.looks("/schedules")
    for path in (f"/runs/{run}", f"/runs/{run}/log", f"/runs/{run}/stream", "/schedules/minutely"):
        assert "There is nothing here" in stranger.looks(path, 404)
    assert stranger.sends(f"/runs/{run}/cancel").status_code == 404


def test_a_stream_too_many_is_refused_and_one_that_ends_makes_room(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = web.bearer("read")
    assert "event: hello" in web.ask("GET", "/live", headers=shown).text
    monkeypatch.setattr("fencepost.web.dashboard.streams.TENANT_MAX", 0)
    assert web.ask("GET", "/live", headers=shown).status_code == 429
    monkeypatch.undo()
    assert web.ask("GET", "/live", headers=shown).status_code == 200


def test_people_are_told_on_a_page_and_programs_in_json(web: WebDoor) -> None:
    person = Person(web)
    stranger = web.ask("GET", "/", headers=HTML)
    program = web.ask("GET", "/")

    assert (stranger.status_code, program.status_code) == (401, 401)
    assert "fencepost key link" in stranger.text
    assert program.headers["content-type"] == "application/problem+json"
    assert "There is nothing here" in person.looks("/nowhere", 404)
    assert web.ask("GET", "/api/v1/nothing", headers={**HTML, **web.bearer()}).json()["code"] == "unknown"


def test_pages_without_a_session_allow_their_own_style_and_nothing_else(web: WebDoor) -> None:
    answer = web.ask("GET", "/", headers=HTML)
    policy = answer.headers["content-security-policy"]

    assert "script-src" not in policy
    assert "style-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "<script" not in answer.text


def test_a_cookie_stays_with_https_where_the_browser_came_by_it(web: WebDoor) -> None:
    def cookie(**more: str) -> str:
        made = web.ask("POST", "/login", data={"secret": web.link()}, headers={**ORIGIN, **more})
        return made.headers["set-cookie"]

    assert "Secure" not in cookie()
    assert "Secure" in cookie(**{"X-Forwarded-Proto": "https"})
    assert "Secure" in cookie(Origin=f"https://{HOST}")


def test_a_page_of_ours_may_hide_its_name_and_others_may_not(web: WebDoor) -> None:
    shown = web.bearer()

    assert web.ask("POST", "/logout", headers={**shown, **ORIGIN}).status_code == 204
    for site in ("cross-site", "same-site", "none"):
        answer = web.ask("POST", "/logout", headers={**shown, "Origin": "null", "Sec-Fetch-Site": site})
        assert answer.status_code == 403


def test_ten_thousand_runs_cost_a_page_no_more_questions_than_a_hundred(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(web)
    pages = (
        *("/", "/runs", "/runs?state=succeeded", "/dead", "/queues", "/schedules", "/schedules/s5", "/calendar"),
        *("/skips", "/notices", "/audit"),
    )
    fill(web, 1, 100)
    few = {path: questions(web, monkeypatch, lambda path=path: person.looks(path)) for path in pages}
    fill(web, 101, 10_000)
    many = {path: questions(web, monkeypatch, lambda path=path: person.looks(path)) for path in pages}

    assert many == few
    assert max(many.values()) <= 20, many


def fill(web: WebDoor, first: int, last: int) -> None:
    """Put runs, ticks and a few schedules into the store, as a busy year would."""
    for number in range(1, 8):
        web.runtime.cron(f"s{number}", f"{number} * * * *")
    now_us = web.runtime.rig.now_us()
    web.runtime.sql(
        f"""
        WITH RECURSIVE n(n) AS (SELECT CAST({first} AS bigint) UNION ALL SELECT n + 1 FROM n WHERE n < {last})
        INSERT INTO $run (id, tenant, agent, schedule, version, trigger, idempotency_key, manifest, manifest_hash, payload,
                          resources, lease_max, lines_up, priority, rank, state, reason, created_us, waiting_us, ready_us,
                          place_us, counted_us, started_us, ended_us, fence, tick_us, occurrence, in_process)
        SELECT 'x' || n, 'default', 'agent', 's' || (n % 7 + 1), 1, 'cron', '', '{{"name": "agent"}}', '', '{{}}',
               '[["default", "schedule:s' || (n % 7 + 1) || '"]]', 1, FALSE, 0, 0,
               CASE WHEN n % 50 = 0 THEN 'dead' ELSE 'succeeded' END, CASE WHEN n % 50 = 0 THEN 'exit_code' END,
               {now_us} - n * 1000000, {now_us} - n * 1000000, 0, 0, 0, {now_us} - n * 1000000, {now_us} - n * 900000, n,
               {now_us} - n * 1000000, 'o' || n, FALSE FROM n
        """
    )
    web.runtime.sql(
        f"""
        WITH RECURSIVE n(n) AS (SELECT CAST({first} AS bigint) UNION ALL SELECT n + 1 FROM n WHERE n < {last})
        INSERT INTO $tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count,
                           disposition, run_id, tzdata, decided_us)
        SELECT 'default', 's' || (n % 7 + 1), 'o' || n, 1, '2026-01-01T00:00:00', '2026-01-01T00:00:00',
               {now_us} - n * 1000000, {now_us} - n * 1000000, 1, 'run', 'x' || n, '', {now_us} FROM n
        """
    )


def test_a_store_that_is_away_is_said_on_a_page(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person(web)

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is gone.")

    monkeypatch.setattr(StoreThreads, "ask", away)
    page = person.looks("/", 503)

    assert "The store is away" in page
    assert "the disk is gone." in page
    assert "Try again" in page
