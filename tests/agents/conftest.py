"""The real agent CLIs: what `make test-agents` has installed. Without it only what needs none of them is collected."""

import os
from collections.abc import Iterator

import pytest

from tests.agents.clis import CLIS, SWITCH, is_whole, tried
from tests.agents.install import absent
from tests.agents.model.server import Model, model_server

collect_ignore_glob = [] if os.environ.get(SWITCH) and len(absent()) < len(tried()) else ["test_real_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark of what not every change has to show."""
    config.addinivalue_line("markers", "whole: a part of the whole story of a CLI, not of its main one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for."""
    if not is_whole():
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("whole")])
        items[:] = [item for item in items if not item.get_closest_marker("whole")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end which CLIs were not tried, where it cannot be overlooked."""
    if not os.environ.get(SWITCH):
        return
    for cli in absent():
        terminalreporter.write_line(
            f"NOT TRIED, for it is not installed: {cli.name} {cli.version}", red=True, bold=True
        )
    story = "all of" if is_whole() else "the main story of"
    terminalreporter.write_line(f"tried: {story} {len(tried()) - len(absent())} of {len(CLIS)} agent CLIs")


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with model_server() as found:
        yield found
