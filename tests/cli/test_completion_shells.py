"""Tab in real shells: bash, zsh and fish, each on a terminal."""

from collections.abc import Iterator

import pytest

from tests.support.shell import Shell
from tests.support.site import Site

CONFIG = """
[agents.digest]
engine = "command"
command = ["true"]

[schedules.nightly]
agent = "digest"
cron = "0 2 * * *"
"""


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, site: Site) -> Iterator[Shell]:
    site.configure(CONFIG)
    (site.folder / "somewhere.toml").touch()
    made = Shell(request.param, site.folder, site.environment())
    yield made
    made.close()


def test_tab_completes_commands_options_names_and_files(shell: Shell) -> None:
    for typed, complete in (
        ("fencepost dst", "fencepost dst-check"),
        ("fencepost schedule skip", "fencepost schedule skip-next"),
        ("fencepost schedule pause --unt", "fencepost schedule pause --until"),
        ("fencepost schedule pause ni", "fencepost schedule pause nightly"),
        ("fencepost runs --agent dig", "fencepost runs --agent digest"),
        ("fencepost ledger list --state comp", "fencepost ledger list --state completed"),
        ("fencepost ledger list --state=comp", "fencepost ledger list --state=completed"),
        ("fencepost plan some", "fencepost plan somewhere.toml"),
        ("fencepost exec -- fencepos", "fencepost exec -- fencepost"),
    ):
        assert shell.completed(typed) == complete
