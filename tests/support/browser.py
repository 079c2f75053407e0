"""A real browser for tests, without a window: Chromium of the system, or installed where that may be done."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support import debian

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"),
)
AXE_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# What is right is neither described nor handed over: on a page with a picture that takes as long as looking for faults.
VIOLATIONS = """async rules => {
    const options = { runOnly: { type: "tag", values: rules }, resultTypes: ["violations"] };
    return (await axe.run(document, options)).violations;
}"""
PATIENCE_MS = 20_000


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start a browser, with a profile that is new and empty, and end it afterwards."""
    path = program()
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        environment: dict[str, str | float | bool] = {**os.environ, "HOME": home}
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS), env=environment)
        try:
            yield browser
        finally:
            browser.close()


def program() -> str:
    """Find Chromium, or install it on a machine that lets us; a machine without one fails the tests that want it."""
    return debian.program(*NAMES, packages=("chromium", "fonts-dejavu-core"))


def faults(page: Page) -> list[str]:
    """Return what axe has to say against a page, one line each."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(_axe())
    found: list[dict[str, Any]] = page.evaluate(VIOLATIONS, list(AXE_RULES))
    return [
        f"{fault['id']} ({fault['impact']}): {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for fault in found
        for node in fault["nodes"]
    ]


def _axe() -> str:
    found = find_spec("axe_playwright_python")
    assert found, "the test group's axe-playwright-python brings axe"
    assert found.origin, "it is an ordinary package"
    return (Path(found.origin).parent / "axe.min.js").read_text("utf-8")
