"""What a disk may hold after the power went: everything that was synced, and any part of the rest.

Between two syncs of a file, a disk may keep what was written to it, lose it, tear it at a sector, or keep later writes and
lose earlier ones. Files that were created are there: the product syncs their folder.
"""

import random  # noqa: TID251  # seeded
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.simulation.crash.recorder import Step

SECTOR = 512
WAYS = ("dropped", "kept", "torn", "reordered")


class Image(NamedTuple):
    """The files as they were found after a crash."""

    step: int  # how many steps had been done
    way: str
    files: dict[str, bytes]


def images(steps: Sequence[Step], *, ways: Sequence[str] = WAYS, seed: int = 0) -> Iterator[Image]:
    """Yield the images of a crash right before and right after each sync, and after all of it."""
    rng = random.Random(seed)
    durable: dict[str, bytearray] = {}
    loose: dict[str, list[Step]] = {}
    for number, step in enumerate(steps):
        if step.kind == "sync":
            for way in ways:
                if way == "dropped" or any(loose.values()):
                    yield Image(number, way, _crashed(durable, loose, way, rng))
            for one in loose.pop(step.file, []):
                _do(durable.setdefault(step.file, bytearray()), one)
            yield Image(number + 1, "synced", _crashed(durable, loose, "dropped", rng))
        elif step.kind == "delete":
            durable.pop(step.file, None)
            loose.pop(step.file, None)
        elif step.kind in ("write", "cut"):
            durable.setdefault(step.file, bytearray())
            loose.setdefault(step.file, []).append(step)
    for way in ways:  # and at the very end: one who never syncs would else never be looked at
        yield Image(len(steps), way, _crashed(durable, loose, way, rng))


def _crashed(
    durable: dict[str, bytearray], loose: dict[str, list[Step]], way: str, rng: random.Random
) -> dict[str, bytes]:
    files = {}
    for name, content in durable.items():
        found = bytearray(content)
        for one in _left(loose.get(name, []), way, rng):
            _do(found, one)
        files[name] = bytes(found)
    return files


def _left(steps: list[Step], way: str, rng: random.Random) -> list[Step]:
    """Return what a disk did of the steps that nobody had it sync."""
    if way == "dropped" or not steps:
        return []
    if way == "kept":
        return steps
    if way == "torn":
        kept = rng.randrange(len(steps))
        return [*steps[:kept], *_sectors(steps[kept])[: rng.randint(0, 8)]]
    pieces = [piece for step in steps for piece in _sectors(step)]
    return [piece for piece in rng.sample(pieces, len(pieces)) if rng.random() < 0.5]


def _sectors(step: Step) -> list[Step]:
    if step.kind != "write":
        return [step]
    ends = range(0, len(step.data), SECTOR)
    return [step._replace(at=step.at + start, data=step.data[start : start + SECTOR]) for start in ends]


def _do(content: bytearray, step: Step) -> None:
    if step.kind == "cut":
        del content[step.at :]
        return
    if len(content) < step.at:
        content.extend(bytes(step.at - len(content)))
    content[step.at : step.at + len(step.data)] = step.data
