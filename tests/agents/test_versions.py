"""Each version that is run for real is one that its definition says it was tried with, and the other way round."""

from fencepost.config.presets import shipped
from tests.agents.clis import CLIS


def test_a_definition_says_exactly_the_versions_that_are_run() -> None:
    run: dict[str, list[str]] = {}
    for cli in CLIS:
        run.setdefault(cli.preset, []).append(cli.version)

    assert {name: sorted(versions) for name, versions in run.items()} == {
        name: sorted(shipped(name)["tried"]) for name in run
    }
