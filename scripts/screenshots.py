"""Takes the pictures of the dashboard that the docs show: a store that a simulated month has filled, in a real browser."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.support.browser import running_browser
from tests.support.month import Month
from tests.support.runtime import open_runtime
from tests.support.scene import Scene, scene_on

FOLDER = Path(__file__).parents[1] / "docs" / "images"
DESK, TALL, PHONE = {"width": 1180, "height": 820}, {"width": 1180, "height": 1020}, {"width": 390, "height": 844}
FIRST = {"width": 1280, "height": 1250}  # down to the plots


def main() -> int:
    """Make every picture anew."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_runtime("sqlite", Path(folder), throwaway=True) as runtime,
        scene_on(runtime, Path(folder)) as scene,
        running_browser() as browser,
    ):
        Month(runtime, lambda leased, text: scene.write_log(leased, text).close()).play()
        talked = next(run.id for run in runtime.runs("checkout-review")[::-1] if run.state == "succeeded")
        take(browser, scene, "now", "/", size=FIRST)
        take(browser, scene, "timeline", "/timeline")
        take(browser, scene, "month-dark", "/timeline?span=30d", scheme="dark", size=TALL)
        take(browser, scene, "takeover", "/timeline?span=6h&by=worker", size={"width": 1180, "height": 660})
        take(browser, scene, "schedule", "/schedules/inbox-triage#timeline")
        take(browser, scene, "skips", "/skips")
        take(browser, scene, "run-dark", f"/runs/{talked}", scheme="dark")
        take(browser, scene, "phone-dark", "/timeline", scheme="dark", size=PHONE)
    return 0


def take(
    browser: Browser, scene: Scene, name: str, path: str, *, scheme: str = "light", size: dict[str, int] = DESK
) -> None:
    """Take one picture."""
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]  # its own literals
    page = context.new_page()
    page.goto(scene.link())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{scene.address}/")
    page.goto(f"{scene.address}{path}")
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / f"{name}.png")
    context.close()
    print(f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())
