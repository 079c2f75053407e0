"""The dashboard without a browser: who sees what, what a form does, and how people are told what is wrong."""

import re
from typing import Any

import httpx
import pytest

from fencepost.model.access import csrf_of, read_secret
from fencepost.model.definition import AgentDefinition
from fencepost.operations.looking import list_audit
from tests.support.runtime import DEAD
from tests.support.webdoor import HOST, WebDoor

HTML = {"Accept": "text/html,application/xhtml+xml"}
ORIGIN = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what a browser says under `no-referrer`


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


def test_the_first_page_says_how_it_stands(busy: WebDoor) -> None:
    person = Person(busy)
    assert "Nobody drives the schedules." in words(person.looks("/"))
    busy.runtime.work(DEAD)

    page = words(person.looks("/"))

    assert "1 run needs a person." in page
    assert "minutely" in page


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
    assert asked <= 16, asked


def questions(web: WebDoor, monkeypatch: pytest.MonkeyPatch, look: Any) -> int:  # noqa: ANN401  # a callable
    """Count the statements that a page costs."""
    counted = 0
    kind = type(web.store.dialect)
    real = kind.read

    def counting(self: Any, work: Any) -> Any:  # noqa: ANN401
        nonlocal counted
        counted += 1
        return real(self, work)

    monkeypatch.setattr(kind, "read", counting)
    look()
    return counted


def test_another_tenants_things_are_not_there(busy: WebDoor) -> None:
    run = busy.runtime.runs("minutely")[0].id
    stranger = Person(busy, tenant="theirs")

    assert "minutely" not in stranger.looks("/")
    assert "minutely" not in stranger.looks("/schedules")
    for path in (f"/runs/{run}", f"/runs/{run}/log", f"/runs/{run}/stream", "/schedules/minutely"):
        assert "There is nothing here" in stranger.looks(path, 404)
    assert stranger.sends(f"/runs/{run}/cancel").status_code == 404


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
