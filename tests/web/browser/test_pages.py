"""Every page in a real browser: readable by everybody, in light and dark, on a desk and on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.support.browser import faults
from tests.support.scene import Scene
from tests.web.browser.conftest import Visitor

PAGES = (
    *("/", "/schedules", "/schedules/sweep-hourly", "/schedules/weekly-report", "/schedules/nightly-digest/why"),
    *("/schedules/sweep-hourly/pause", "/calendar", "/runs", "/runs/RUNNING", "/runs/DEAD", "/runs/DEAD/replay"),
    *("/queues", "/dead", "/leases", "/audit?verify=1", "/doctor", "/keys", "/keys/new", "/halt", "/runs?state=ready"),
    *("/skips", "/notices", "/audit?prove=1", "/schedules/inbox-triage", "/schedules/sweep-hourly/backfill"),
    *("/timeline", "/projects/none"),
    *("/nowhere", "/runs/nothing"),
)


@pytest.fixture(scope="module", params=["light on a desk", "dark on a phone"])
def looker(request: pytest.FixtureRequest, browser: Browser, scene: Scene) -> Iterator[Visitor]:
    on_a_desk = request.param == "light on a desk"
    size: ViewportSize = {"width": 1200 if on_a_desk else 360, "height": 800}
    context = browser.new_context(viewport=size, color_scheme="light" if on_a_desk else "dark")
    found = Visitor(context, scene)
    found.log_in()
    yield found
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_keeps_nobody_out_and_never_scrolls_sideways(looker: Visitor, path: str) -> None:
    running, dead = looker.scene.begun[0].run.id, looker.scene.dead()[0]
    page = looker.goes(path.replace("RUNNING", running).replace("DEAD", dead))

    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert page.locator("h1").count() == 1
    if path not in ("/nowhere", "/runs/nothing"):
        assert page.locator("main").count() == 1
        assert page.locator("nav[aria-label=Main] [aria-current=page]").count() == 1
    assert looker.errors == []


def test_the_link_that_up_prints_leads_to_a_sentence(visitor: Visitor) -> None:
    visitor.log_in()

    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("2 runs need a person.")
    expect(visitor.page.locator("#headline")).to_contain_text("2 running, 1 waiting, next in 19m40s")
    expect(visitor.page.locator("#waiting")).to_contain_text("behind")


def test_a_used_link_and_a_strangers_page_say_what_to_do(visitor: Visitor, browser: Browser) -> None:
    link = visitor.scene.link()
    for _ in range(2):
        visitor.page.goto(link)
    visitor.page.get_by_role("button", name="Log in").click()
    with browser.new_context() as other:
        page = other.new_page()
        page.goto(link)
        expect(page.locator("main")).to_contain_text("it was used, or its hour is over")
        assert faults(page) == []
        page.goto(visitor.scene.address)
        expect(page.locator("main")).to_contain_text("fencepost key link")
        page.get_by_label("Or log in with a key").fill(visitor.scene.key("by hand", "read").secret.text)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{visitor.scene.address}/")
        expect(page.locator("main")).not_to_contain_text("Halt everything")


def test_the_keyboard_gets_everywhere_and_shows_where_it_is(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.page
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_schedule_tells_every_tick_and_why_it_made_no_run(visitor: Visitor) -> None:
    visitor.log_in()
    ticks = visitor.goes("/schedules/sweep-hourly").locator("#ticks tbody tr")

    expect(ticks.filter(has_text="overlap").first).to_contain_text("It was skipped because of overlap: run")
    expect(ticks.filter(has_text="missed").first).to_contain_text("6 ticks")
    expect(visitor.goes("/schedules/nightly-digest").locator("#ticks")).to_contain_text("02:30 did not exist")
    expect(visitor.goes("/calendar").locator(".day").first).to_contain_text("clocks go forward by 60 min at 02:00")


def test_states_are_told_by_word_and_shape_and_not_by_colour_alone(visitor: Visitor) -> None:
    visitor.log_in()
    marks = visitor.goes("/runs").locator(".mark")

    assert marks.count() > 5
    for one in marks.all():
        assert (one.text_content() or "").strip()
        assert one.locator("svg use").count() == 1
    shapes = {(one.text_content(), one.locator("use").get_attribute("href")) for one in marks.all()}
    assert len({shape for _, shape in shapes}) == len(shapes)


def test_times_are_told_twice_with_their_zone(visitor: Visitor) -> None:
    visitor.log_in()
    first = visitor.goes("/schedules").locator("tbody tr").filter(has_text="nightly-digest")

    expect(first.locator("time").first).to_have_text(re.compile(r"in 16h"))
    expect(first).to_contain_text("Mon 29 Mar 02:30 Europe/Berlin")
