"""The real agent CLIs: what `make test-agents` has installed. Without it only what needs none of them is collected."""

import os

import pytest

from tests.agents.clis import CLIS
from tests.agents.install import absent

SWITCH = "FENCEPOST_TEST_AGENTS"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["test_real_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end which CLIs were not tried, where it cannot be overlooked."""
    if not os.environ.get(SWITCH):
        return
    for cli in absent():
        terminalreporter.write_line(
            f"NOT TRIED, for it is not installed: {cli.name} {cli.version}", red=True, bold=True
        )
    terminalreporter.write_line(f"tried {len(CLIS) - len(absent())} of {len(CLIS)} agent CLIs")
