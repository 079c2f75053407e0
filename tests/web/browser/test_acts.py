"""What people do there, with a script and without; what comes by itself; and text that would like to be a script."""

import hmac
import json
from hashlib import sha256

import httpx
import pytest
from playwright.sync_api import Browser, expect

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import StoreUnavailable
from fencepost.model.outcome import Settlement
from fencepost.model.registry_plan import want
from fencepost.model.run import RunState
from fencepost.operations.run_requests import request_run
from fencepost.operations.schedule_registry import pause_schedule
from tests.support.browser import faults
from tests.support.runtime import DEAD, TENANT, new_id
from tests.support.scene import Scene
from tests.web.browser.conftest import Visitor

NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><svg onload=alert(3)>"
STEERING = "\x1b]8;;javascript:alert(4)\x07click\x1b]8;;\x07 \x1b[31mred\x1b[0m \u202etxt.exe"


def test_a_schedule_is_paused_in_place_and_resumed(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/schedules/nightly-digest")
    page.get_by_role("link", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause nightly-digest?")
    dialog.get_by_label("Why").fill("the mail is down")
    dialog.get_by_role("button", name="Pause").click()

    expect(page.get_by_role("status").first).to_contain_text("Paused.")
    expect(page.locator("#top")).to_contain_text("the mail is down")
    page.get_by_role("link", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status").first).to_contain_text("Resumed.")


def test_a_dialog_closes_by_escape_and_gives_the_focus_back(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/schedules/nightly-digest")
    page.get_by_role("link", name="Skip next").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(":focus")).to_have_text("Skip next")


def test_everything_works_without_a_script(browser: Browser, scene: Scene) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 800})
    visitor = Visitor(context, scene)
    visitor.log_in()
    page = visitor.goes("/dead")
    dead = scene.dead()[-1]
    page.get_by_role("link", name=f"Replay {dead}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Replay {dead}?")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status").first).to_contain_text("This is the new run")
    expect(page.locator("main")).to_contain_text(dead)
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("#top")).to_contain_text("cancelled")
    assert scene.runtime.run(dead).discarded_us is not None
    visitor.goes(f"/runs/{scene.begun[0].run.id}")
    expect(page.locator("#log")).to_contain_text("48 messages")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("main")).to_contain_text("You are logged out")
    visitor.goes("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    context.close()


def test_a_reader_is_offered_no_acts_and_refused_them(visitor: Visitor) -> None:
    visitor.log_in("read")
    page = visitor.goes("/schedules/nightly-digest")
    assert page.locator("[data-act]").count() == 0
    assert page.get_by_role("link", name="Keys").count() == 0
    visitor.goes("/keys")
    expect(page.locator("main")).to_contain_text("this takes a key with the role admin; yours is read.")


def test_a_key_is_shown_once_and_ended(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/keys")
    page.get_by_role("link", name="Make a key").click()
    page.get_by_label("Name").fill("nightly build")
    page.get_by_label("Role").select_option("trigger")
    page.get_by_role("button", name="Make the key").click()
    key = page.get_by_label("The new key").text_content() or ""
    assert key.startswith("fpk_")
    visitor.goes("/keys")
    assert key.rpartition("_")[2] not in page.content()
    row = page.locator("tbody tr").filter(has_text="nightly build")
    row.get_by_role("link", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.locator("tbody tr").filter(has_text="nightly build")).to_contain_text("revoked")


def test_a_log_comes_as_it_is_written_goes_on_where_it_was_and_ends(visitor: Visitor) -> None:
    scene, runtime = visitor.scene, visitor.scene.runtime
    visitor.log_in()
    request_run(runtime.store, tenant=TENANT, target="digest", new_run_id=new_id, by="ada")
    log = scene.begin()
    run = scene.begun[-1]
    page = visitor.goes(f"/runs/{run.run.id}")
    expect(page.locator("#log-state")).to_have_text("live")
    log.write(b"the first line\n")
    expect(page.locator("#log")).to_contain_text("the first line")
    visitor.context.set_offline(True)
    log.write(b"while nobody heard\n")
    visitor.context.set_offline(False)
    log.write(f"{NASTY}\n{STEERING}\nthe last line, without an end".encode())
    runtime.settle(run, Settlement(RunState.SUCCEEDED), exit_code=0)

    expect(page.locator("#log-state")).to_contain_text("succeeded after")
    expect(page.locator("#log")).to_contain_text("the last line, without an end")
    text = page.locator("#log").text_content() or ""
    assert text.count("the first line") == text.count("while nobody heard") == 1
    assert NASTY in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    expect(page.locator("#top .mark").first).to_have_text("succeeded")


def test_a_page_that_is_open_learns_what_has_happened_elsewhere(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/schedules/weekly-report")
    expect(page.locator("#live-note")).to_be_visible()
    visitor.scene.runtime.store.registry().resume(TENANT, "weekly-report", actor="bob")

    expect(page.locator("#top .mark").first).to_have_text("active")


def test_a_page_says_that_the_store_is_away_and_goes_on_by_itself_when_it_is_back(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.log_in()
    note = visitor.goes("/schedules").locator("#live-note")
    expect(note).to_have_text("This page keeps itself up to date.")

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the server does not answer.")

    with monkeypatch.context() as gone:
        gone.setattr(visitor.scene._desk, "ask", away)
        expect(note).to_have_text("The server does not answer; this page goes on when it does.")
    visitor.scene.runtime.cron("made-meanwhile", "0 5 * * *")
    expect(note).to_have_text("This page keeps itself up to date.")
    expect(visitor.page.locator("#schedules")).to_contain_text("made-meanwhile")


def test_a_backfill_is_asked_for_counted_and_made(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/schedules/nightly-digest")
    page.get_by_role("link", name="Backfill").click()
    page.get_by_label("From").fill("2027-03-28")
    page.get_by_label("Until").fill("soon")
    page.get_by_role("button", name="How many?").click()
    expect(page.get_by_role("alert")).to_contain_text("soon")
    page.goto(page.url.replace("nightly-digest", "sweep-hourly"))
    page.get_by_label("From").fill("2027-03-28T02:00")
    page.get_by_label("Until").fill("2027-03-28T05:00")
    page.get_by_role("button", name="How many?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Make 3 runs of sweep-hourly?")
    assert faults(page) == []
    page.get_by_role("button", name="Make 3 runs").click()
    expect(page.locator(".done")).to_contain_text("The runs of the backfill are in the queue.")
    expect(page.locator("#runs tbody tr").filter(has_text="backfill")).to_have_count(3)


def test_a_session_that_is_revoked_stops_listening(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/")
    expect(page.locator("#live-note")).to_be_visible()
    for row in visitor.scene.runtime.store.keys().keys(TENANT, limit=50):
        if row.kind == "session" and row.revoked_us is None:
            visitor.scene.runtime.store.keys().revoke_key(row.id, tenant=TENANT, by="test")

    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_text_that_would_like_to_be_a_script_stays_text(visitor: Visitor) -> None:
    """Agent names, branches, webhook fields, notes, summaries, log lines and answers come from elsewhere."""
    scene, runtime = visitor.scene, visitor.scene.runtime
    store = runtime.store
    agent = AgentDefinition("nasty-agent", command=("true",), prompt=NASTY, env={"BRANCH": NASTY})
    schedule = ScheduleDefinition(
        "nasty-schedule", "nasty-agent", cron="0 4 * * *", timezone="UTC", payload={NASTY: NASTY}
    )
    runtime.apply(agent, schedule)
    runtime.sql("UPDATE $schedule SET source = ? WHERE name = 'nasty-schedule'", NASTY)
    pause_schedule(store.registry(), "nasty-schedule", tenant=TENANT, until=None, note=NASTY, actor=NASTY)
    payload = {"branch": NASTY, "head_commit": {"message": NASTY, STEERING: NASTY}}
    request_run(store, tenant=TENANT, target="nasty-agent", payload=payload, new_run_id=new_id, by=NASTY)
    log = f"{NASTY}\n{STEERING}\n"
    leased = scene.run(settlement=DEAD, log=log, exit_code=1, summary=f"on branch {NASTY}", session=NASTY)
    runtime.sql("UPDATE $run SET agent = ? WHERE id = ?", NASTY, leased.run.id)
    visitor.log_in()
    pages = ("/", "/dead", "/runs", "/schedules/nasty-schedule", "/audit", f"/runs/{leased.run.id}", "/keys", "/queues")
    for path in pages:
        page = visitor.goes(path)
        page.wait_for_timeout(50)
        assert page.locator("img, main script, main [onerror], main [onload]").count() == 0, path
        assert page.locator("a[href^='javascript']").count() == 0, path
        assert visitor.errors == [], path

    page = visitor.goes(f"/runs/{leased.run.id}")
    expect(page.locator("#log")).to_contain_text(NASTY)
    expect(page.locator("main")).to_contain_text(f"on branch {NASTY}")
    assert json.loads(page.locator("pre[aria-label=Payload]").text_content() or "")["branch"] == NASTY
    page = visitor.goes("/schedules/nasty-schedule")
    expect(page.locator("#top")).to_contain_text(NASTY)


def test_fields_of_a_webhook_that_was_really_signed_stay_text(visitor: Visitor) -> None:
    """Whoever may push a branch chooses its name, and GitHub signs it."""
    scene = visitor.scene
    scene.secrets["env:GH_SECRET"] = secret = "a-secret-of-enough-length"
    agents = {"branch-reviewer": AgentDefinition("branch-reviewer", command=("true",))}
    hook = {"agent": "branch-reviewer", "scheme": "github", "secret": "env:GH_SECRET"}
    wanted = want(TENANT, "hooks.toml", agents=agents, schedules={}, hooks={"push": hook})
    scene.runtime.store.registry().apply(wanted, actor="test")
    content = {
        "ref": f"refs/heads/{NASTY}",
        "pusher": {"name": STEERING},
        NASTY: [NASTY],
        "commit": "javascript:alert(5)",
    }
    body = json.dumps(content).encode()
    shown = {
        "X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}",
        "X-GitHub-Delivery": NASTY,
        "X-GitHub-Event": NASTY,
    }
    answer = httpx.post(f"{scene.address}/hooks/{TENANT}/push", content=body, headers=shown)
    assert answer.status_code == 202, answer.text
    run_id = answer.json()["run_id"]

    visitor.log_in()
    for path in ("/", "/runs", "/queues", "/audit", f"/runs/{run_id}"):
        page = visitor.goes(path)
        page.wait_for_timeout(50)
        assert page.locator("img, main script, main [onerror], main [onload]").count() == 0, path
        assert page.locator("a[href^='javascript']").count() == 0, path
        assert visitor.errors == [], path
    told = json.loads(page.locator("pre[aria-label=Payload]").text_content() or "")
    assert (told["body"]["ref"], told["webhook"]["event"]) == (content["ref"], NASTY)
    assert "\u202e" not in (page.locator("main").text_content() or "")
