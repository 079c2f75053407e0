"""One browser and one server with a life behind it, for the tests of a file."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import PATIENCE_MS, running_browser
from tests.support.runtime import open_runtime
from tests.support.scene import Scene, live_a_life, scene_on

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    with open_runtime("sqlite", folder, lambda: "") as runtime, scene_on(runtime, folder) as found:
        live_a_life(found)
        yield found


class Visitor:
    """Somebody with a browser of their own."""

    def __init__(self, context: BrowserContext, scene: Scene) -> None:
        self.context = context
        self.scene = scene
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(f"a script asked: {dialog.message}"))
        self.page.on("console", lambda said: self.errors.append(said.text) if "Content Security" in said.text else None)

    def log_in(self, role: str = "admin", tenant: str = "default") -> None:
        self.page.goto(self.scene.link(role, tenant))
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(f"{self.scene.address}/")

    def goes(self, path: str) -> Page:
        self.page.goto(f"{self.scene.address}{path}")
        return self.page


@pytest.fixture
def visitor(browser: Browser, scene: Scene) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    found = Visitor(context, scene)
    yield found
    context.close()
    assert found.errors == []
