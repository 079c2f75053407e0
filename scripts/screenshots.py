"""Takes the pictures of the dashboard that the docs show: a store with a life behind it, in a real browser."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.support.browser import running_browser
from tests.support.runtime import open_runtime
from tests.support.scene import Scene, live_a_life, scene_on

FOLDER = Path(__file__).parents[1] / "docs" / "images"
DESK, TALL, PHONE = {"width": 1080, "height": 720}, {"width": 1080, "height": 940}, {"width": 360, "height": 720}


def main() -> int:
    """Make every picture anew."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_runtime("sqlite", Path(folder), lambda: "") as runtime,
        scene_on(runtime, Path(folder)) as scene,
        running_browser() as browser,
    ):
        live_a_life(scene)
        take(browser, scene, "now", "/", size=TALL)
        take(browser, scene, "schedule", "/schedules/sweep-hourly#ticks")
        take(browser, scene, "run-dark", f"/runs/{scene.begun[0].run.id}", scheme="dark")
        take(browser, scene, "phone-dark", "/", scheme="dark", size=PHONE)
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
