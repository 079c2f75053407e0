"""Stand-ins for agent CLIs on a PATH of their own, and sites where they run under the real daemon."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import wiring
from fencepost.config.presets import shipped
from fencepost.operations.records import as_json
from fencepost.operations.records.run_record import detail_record
from fencepost.operations.run_queries import show
from tests.support.site import Site

STANDINS = Path(__file__).parent / "standins"


def install(folder: Path) -> str:
    """Put every stand-in on a PATH under its CLI's name, and return that PATH."""
    place = folder / "bin"
    place.mkdir()
    for script in STANDINS.glob("*.py"):
        program = place / shipped(script.stem)["argv"][0]
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        program.chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


class Bench(Site):
    """A site with stand-ins."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = install(folder)

    def shown(self, run_id: str) -> dict[str, Any]:
        """Return what `show --json` says of a run, without a process for it."""
        store = wiring.open_runtime(self.store)
        try:
            return dict(as_json(detail_record(show(store, "default", run_id), None)))
        finally:
            store.close()

    def environment(self) -> dict[str, str]:
        made = super().environment()
        return {**made, "PATH": f"{self.folder}/bin:{made['PATH']}"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()
