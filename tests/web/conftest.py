"""The web door over a real store; requests go straight into the application, without a socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime import Runtime, open_runtime
from tests.support.runtimes import any_runtime as both
from tests.support.runtimes import url
from tests.support.webdoor import WebDoor, web_door

__all__ = ["both", "url"]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime("sqlite", tmp_path, lambda: "") as found:
        yield found


@pytest.fixture
def web(runtime: Runtime, tmp_path: Path) -> Iterator[WebDoor]:
    with web_door(runtime, tmp_path) as found:
        yield found


@pytest.fixture
def web_on_both(both: Runtime, tmp_path: Path) -> Iterator[WebDoor]:
    with web_door(both, tmp_path) as found:
        yield found
