"""Cuts the power at every sync of several workloads: `python -m tests.simulation.crash.run --rounds 12`."""

# ruff: noqa: T201  # this is a command

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

from tests.simulation.crash.check import faults_of
from tests.simulation.crash.images import images
from tests.simulation.crash.recorder import Step, recording
from tests.simulation.crash.workload import Workload
from tests.simulation.simulate import MEMORY

CHECKPOINTS = (5, 20, 40, 100, 1000)  # pages after which the log is moved into the file


def main() -> int:
    """Try all images of each workload; return whether one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began, number, facts, wrong = time.perf_counter(), 0, 0, 0
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        for every in CHECKPOINTS:
            with recording() as tape:
                workload = Workload(os.path.join(folder, f"{every}.db"), tape, checkpoint_every=every)
                workload.run(arguments.rounds)
            place = os.path.join(folder, "image")
            for image in images(_renamed(tape.steps, f"{every}.db"), seed=arguments.seed):
                os.mkdir(place)
                faults = faults_of(image, workload.facts, place)
                shutil.rmtree(place)
                number, wrong = number + 1, wrong + bool(faults)
                if faults:
                    print(f"checkpoints every {every} pages, step {image.step}, {image.way}: {faults}")
            facts += len(workload.facts)
    seconds = time.perf_counter() - began
    print(
        f"{number} crash images of {len(CHECKPOINTS)} workloads, {facts} acknowledged facts, {seconds:.0f} s: {wrong} wrong"
    )
    if not wrong:
        print(f"0 of {number}, so fewer than 1 in {number // 3}")
    return int(wrong > 0)


def _renamed(steps: Sequence[Step], name: str) -> list[Step]:
    return [step._replace(file=step.file.replace(name, "state.db")) for step in steps]


if __name__ == "__main__":
    sys.exit(main())
