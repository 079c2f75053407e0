"""The timeline and the plots of a whole month, in a real browser: by pointer, keys and fingers, and without a script."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from fencepost.operations.run_requests import request_run
from tests.support.browser import faults
from tests.support.month import Month
from tests.support.month_cast import OTHERS
from tests.support.runtime import TENANT, new_id, open_runtime
from tests.support.scene import Scene, scene_on
from tests.web.browser.conftest import Visitor

NASTY = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>"
PAGES = (
    *("/timeline", "/timeline?span=30d", "/timeline?span=6h&by=worker", "/timeline?span=7d&by=project", "/"),
    *("/timeline?until=2027-03-28T04:00:00Z", "/schedules/inbox-triage", "/schedules/cache-sweep?span=30d"),
    *("/projects/checkout-api", "/projects/nowhere", "/skips", "/runs/TALK"),
)
# Words and hollow marks of each picture that lie on one another, and words that reach over its edge.
CROWDED = """() => [...document.querySelectorAll(".tl-box, .plot-box")].flatMap((box) => {
    const edge = box.getBoundingClientRect();
    const seen = [...box.querySelectorAll("text, .hollow")].map((one) => ({
        one, at: one.getBoundingClientRect(), word: one.textContent.trim() || one.parentNode.parentNode.textContent.trim(),
    })).filter(({ at }) => at.width);
    const over = seen.filter(({ at }) => at.left < edge.left - 1 || at.right > edge.right + 1);
    const crowded = seen.flatMap((a, place) => seen.slice(place + 1).filter((b) =>
        Math.min(a.at.right, b.at.right) - Math.max(a.at.left, b.at.left) > 2 &&
        Math.min(a.at.bottom, b.at.bottom) - Math.max(a.at.top, b.at.top) > 3).map((b) => `${a.word} | ${b.word}`));
    return [...over.map(({ word }) => `over the edge: ${word}`), ...crowded];
})"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("month")
    with open_runtime("sqlite", folder, throwaway=True) as runtime, scene_on(runtime, folder) as found:
        Month(runtime, lambda leased, text: found.write_log(leased, text).close()).play()
        yield found


def talk(scene: Scene) -> str:
    """Return the newest run that an agent has talked about."""
    found = scene.runtime.runs("checkout-review")
    return next(run.id for run in reversed(found) if run.state == "succeeded")


@pytest.fixture(scope="module", params=["light on a desk", "dark on a phone"])
def looker(request: pytest.FixtureRequest, browser: Browser, scene: Scene) -> Iterator[Visitor]:
    on_a_desk = request.param == "light on a desk"
    context = browser.new_context(
        viewport={"width": 1200 if on_a_desk else 360, "height": 800}, color_scheme="light" if on_a_desk else "dark"
    )
    found = Visitor(context, scene)
    found.log_in()
    yield found
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_picture_keeps_nobody_out_and_never_scrolls_sideways(looker: Visitor, path: str) -> None:
    page = looker.goes(path.replace("TALK", talk(looker.scene)))
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
    assert faults(page) == []
    assert looker.errors == []


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/projects/nowhere" and "/runs/" not in path])
@pytest.mark.parametrize("span", ["", "1h", "7d", "30d"])
def test_no_word_of_a_picture_lies_on_another_or_is_cut_off(looker: Visitor, path: str, span: str) -> None:
    page = looker.goes(f"{path}{'&' if '?' in path else '?'}span={span}" if span else path)
    assert page.evaluate(CROWDED) == []


# How far each word of the axis reaches over the edge, shown or not, and whether it is shown; on a phone
# every second one, a new day among them.
REACHES = """() => {
    const edge = document.querySelector(".tl-box").getBoundingClientRect().right;
    const all = [...document.querySelectorAll(".tl-box .axis")];
    const first = Math.max(0, all.findIndex((one) => one.classList.contains("strong"))) % 2;
    const words = all.filter((_, place) => innerWidth > 704 || place % 2 === first);
    return words.map((one) => {
        const shown = getComputedStyle(one).display !== "none";
        one.style.display = "inline";
        return [one.textContent, shown, one.getBoundingClientRect().right - edge];
    });
}"""


@pytest.mark.parametrize("width", [320, 360, 705, 1200])
def test_a_word_of_the_axis_is_hidden_only_where_it_would_be_cut(browser: Browser, scene: Scene, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    visitor = Visitor(context, scene)
    visitor.log_in()
    seen = []
    for time, span in (("13:20", "1d"), ("10:20", "1d"), ("11:00", "7d"), ("20:00", "7d"), ("00:00", "30d")):
        seen += visitor.goes(f"/timeline?until=2027-04-09T{time}:00Z&span={span}").evaluate(REACHES)
    context.close()
    assert [one for one in seen if one[1] and one[2] > 1] == []
    assert [one for one in seen if not one[1] and one[2] < -20] == []
    assert any(one[1] and one[2] > -80 for one in seen), "some stand close to the edge"


def test_a_phone_reads_where_a_day_begins(browser: Browser, scene: Scene) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 800})
    visitor = Visitor(context, scene)
    visitor.log_in()
    for time in ("10:20", "13:20"):
        page = visitor.goes(f"/timeline?until=2027-04-09T{time}:00Z&span=1d")
        expect(page.locator(".tl-box .axis.strong")).to_be_visible()
    context.close()


@pytest.mark.parametrize("path", ["/", "/schedules", "/runs", "/skips", "/calendar"])
def test_a_short_name_or_cron_stands_in_one_line(looker: Visitor, path: str) -> None:
    page = looker.goes(path)
    if page.viewport_size["width"] > 704:  # type: ignore[index]  # a phone may need two
        broken = "(all) => all.filter((one) => one.getClientRects().length > 1).map((one) => one.textContent)"
        assert page.locator(".whole").count()
        assert page.locator(".whole").evaluate_all(broken) == []


def told(page: Page) -> str:
    return page.locator("#told").text_content() or ""


def test_what_is_under_the_pointer_is_told_and_linked(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/timeline?span=6h&by=worker")
    page.locator(".k-lost rect").first.hover()
    expect(page.locator("#told a")).to_have_text(
        re.compile(r"lost attempt, Fri 9 Apr 08:\d\d UTC, .* on \w+, fence \d+")
    )
    page.locator(".k-takeover line").last.hover(force=True)
    expect(page.locator("#told a")).to_have_text(re.compile(r"takeover of r\d+: from \w+ \(fence \d+\) to \w+"))
    page.locator("#told a").click()
    expect(page.locator("#attempts tbody tr")).to_have_count(2)


def test_the_month_has_every_kind_of_mark(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/timeline?span=30d")
    for kind in ("paused", "budget", "missed", "coalesced", "calendar", "dst_gap", "overlap"):
        assert page.locator(f".tl .m-{kind}").count(), kind
    page = visitor.goes("/timeline?span=1d&until=2027-04-09T13:00:00Z")
    for kind in ("succeeded", "lost", "dead", "failed"):
        assert page.locator(f".tl .k-{kind}").count(), kind
    assert page.locator(".tl .post").count() > 20
    assert page.locator(".tl .lead").count() > 2


def test_keys_move_zoom_walk_and_open(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/timeline")
    keys = page.locator("#told .keys")
    expect(keys).to_be_hidden()  # they mean nothing while the focus is elsewhere
    page.locator(".chips a").last.focus()
    page.keyboard.press("Tab")
    expect(page.locator(".tl-box")).to_be_focused()
    expect(keys).to_be_visible()
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("span=12h"))
    expect(page.locator(".chips [aria-current]").first).to_have_text("12h")
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("until=2027-04-09T"))
    expect(page.locator(".tl .now")).to_have_count(0)
    page.keyboard.press("Home")
    expect(page.locator(".tl .now")).to_have_count(1)
    page.keyboard.press("n")
    first = told(page)
    page.keyboard.press("n")
    assert told(page) != first
    page.keyboard.press("p")
    assert told(page) == first
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/(runs|schedules)/"))


def test_buttons_change_the_picture_and_not_the_page(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/timeline")
    page.evaluate("window.kept = true")
    page.get_by_role("link", name="Zoom out").click()
    expect(page).to_have_url(re.compile("span=3d"))
    page.get_by_role("link", name="workers").click()
    expect(page.locator(".tl .label").first).to_have_text("cellar")
    assert page.evaluate("window.kept")


@pytest.fixture
def phone(browser: Browser, scene: Scene) -> Iterator[Visitor]:
    """A visitor whose screen knows fingers and nothing else."""
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    found = Visitor(context, scene)
    found.log_in()
    yield found
    context.close()
    assert found.errors == []


def slide(page: Page, *fingers: tuple[float, float], up: float = 0) -> None:
    """Move fingers over the timeline, each from one place to another, in parts of its width, and up by so many pixels."""
    box = page.locator(".tl-box").bounding_box()
    assert box
    screen = page.context.new_cdp_session(page)

    def touch(kind: str, part: float) -> None:
        places = [start + (end - start) * part for start, end in fingers]
        height = box["y"] + (up or 30) - up * part
        points = [{"x": box["x"] + place * box["width"], "y": height} for place in places]
        screen.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if kind != "touchEnd" else []})

    touch("touchStart", 0)
    for step in range(1, 9):
        touch("touchMove", step / 8)
    touch("touchEnd", 1)


def test_a_finger_pans_back_and_ahead(phone: Visitor) -> None:
    page = phone.goes("/timeline")
    slide(page, (0.2, 0.7))
    expect(page).to_have_url(re.compile("until=2027-04-0"))
    expect(page.locator(".tl .now")).to_have_count(0)
    slide(page, (0.9, 0.1))
    expect(page.locator(".tl .now")).to_have_count(1)


def test_a_finger_that_goes_up_scrolls_the_page_and_leaves_the_picture_alone(phone: Visitor) -> None:
    page = phone.goes("/timeline")
    address, shown = page.url, page.locator(".tl").inner_html()
    assert page.evaluate("scrollY") == 0
    slide(page, (0.5, 0.5), up=250)
    page.wait_for_function("scrollY > 150")
    slide(page, (0.4, 0.5), up=200)  # never quite straight
    page.wait_for_function("scrollY > 250")
    assert (page.url, page.locator(".tl").inner_html()) == (address, shown)
    assert page.locator(".tl").evaluate("one => one.style.transform") == ""


def test_two_fingers_zoom_in_and_out(phone: Visitor) -> None:
    page = phone.goes("/timeline")
    slide(page, (0.4, 0.1), (0.6, 0.9))
    expect(page).to_have_url(re.compile("span=12h"))
    expect(page.locator(".chips [aria-current]").first).to_have_text("12h")
    slide(page, (0.1, 0.4), (0.9, 0.6))
    expect(page).to_have_url(re.compile("span=1d"))
    assert page.evaluate("visualViewport.scale") == 1, "the page itself is left as it was"


def test_a_finger_that_taps_opens_what_is_there(phone: Visitor) -> None:
    page = phone.goes("/timeline?span=6h&by=worker")
    page.locator(".tl .tell[href] rect").first.tap(force=True)
    page.wait_for_url(re.compile("/(runs|schedules)/"))


def test_all_of_it_is_there_without_a_script(browser: Browser, scene: Scene) -> None:
    context = browser.new_context(java_script_enabled=False)
    visitor = Visitor(context, scene)
    visitor.log_in()
    page = visitor.goes("/timeline")
    assert page.locator(".tl .bar").count() > 50
    page.locator("summary", has_text="The same as a table").click()
    table = page.locator(".as-table")
    expect(table.locator("tr").filter(has_text="inbox-triage").first).to_contain_text("budget")
    expect(table).to_contain_text(re.compile("takeover of r"))
    page.get_by_role("link", name="Earlier").click()
    expect(page.locator("main")).to_contain_text("to Fri 9 Apr 01:")
    visitor.goes(f"/runs/{talk(scene)}")
    expect(page.locator("#talk")).to_contain_text("The retry has no upper bound")
    context.close()


def test_a_timeline_learns_by_itself_what_has_begun(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes("/timeline?span=1h")
    expect(page.locator("#live-note")).to_be_visible()
    before = page.locator(".tl .k-running").count()
    runtime = visitor.scene.runtime
    request_run(runtime.store, tenant=TENANT, target="digest", new_run_id=new_id, by="ada")
    runtime.leased(start=True, ttl=3600)
    expect(page.locator(".tl .k-running")).to_have_count(before + 1)


def test_a_conversation_folds_tools_and_keeps_the_raw_log_one_click_away(visitor: Visitor) -> None:
    visitor.log_in()
    page = visitor.goes(f"/runs/{talk(visitor.scene)}")
    call = page.locator(".turn-call").first
    expect(call.locator("pre").first).to_be_hidden()
    call.locator("summary").click()
    expect(call.locator("pre").first).to_contain_text("gh pr list")
    expect(call.locator("pre").nth(1)).to_contain_text("#412 Retry refunds")
    expect(page.locator(".turn-end")).to_contain_text("One comment on #412")
    expect(page.locator(".turn-end .so-far")).to_contain_text("so far")
    expect(page.locator("#log")).to_be_hidden()
    page.locator(".raw > summary").click()
    expect(page.locator("#log")).to_contain_text('"type": "tool_use"')


def test_another_tenant_sees_none_of_it(visitor: Visitor) -> None:
    visitor.log_in("read", OTHERS)
    for path in ("/timeline?span=30d", "/timeline?span=30d&by=project", "/projects/checkout-api", "/", "/skips"):
        text = visitor.goes(path).locator("main").text_content() or ""
        for theirs in ("inbox-triage", "gardener", "cache-sweep", "reviewer"):
            assert theirs not in text, path
    assert "matter-intake" in (visitor.goes("/timeline?span=30d").locator("main").text_content() or "")


def test_text_that_would_like_to_be_a_script_stays_text_in_pictures_too(visitor: Visitor) -> None:
    runtime = visitor.scene.runtime
    run = runtime.runs("checkout-review")[-1]
    runtime.sql("UPDATE $run SET schedule = ?, project = ?, agent = ? WHERE id = ?", NASTY, NASTY, NASTY, run.id)
    runtime.sql("UPDATE $attempt SET worker = ?, session = ? WHERE run_id = ?", f"{NASTY}:1", NASTY, run.id)
    runtime.sql("UPDATE $tick SET schedule = ? WHERE disposition = 'missed' AND schedule = 'nightly-digest'", NASTY)
    log = f'{{"type": "assistant", "message": {{"content": [{{"type": "text", "text": "{NASTY[:28]}"}}]}}}}\n{NASTY}\n'
    spoken = talk(visitor.scene)
    for file in visitor.scene.logs.glob(f"{spoken}.*"):
        file.write_text(log)
    visitor.log_in()
    paths = (
        "/timeline?span=30d",
        "/timeline?by=worker&span=30d",
        "/timeline?by=project&span=30d",
        f"/runs/{spoken}",
        "/",
    )
    for path in paths:
        page = visitor.goes(path)
        page.wait_for_timeout(50)
        assert page.locator("img, main script, main [onerror], main [onload]").count() == 0, path
        assert visitor.errors == [], path
    expect(visitor.goes(f"/runs/{spoken}").locator("#talk")).to_contain_text(NASTY[:28])
    expect(visitor.goes("/timeline?span=30d").locator(".tl")).to_contain_text(NASTY)
