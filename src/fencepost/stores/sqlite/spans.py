"""How SQLite writes about many runs of one batch: as one span of rows, where no other run lies between them.

Runs that were asked for together nearly always lie so, because ids follow each other in time. A span is changed in one
pass. For a list of ids, or where rows are to be returned, SQLite notes each row first and then looks it up again, which
for a thousand runs is a quarter of the time for which a turn has the file.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.stores import sql
from fencepost.stores.transaction import Row

RUNS_MIN = 32  # fewer are not worth a look at what lies between them
_FENCE, _NOW, _PLAIN = 20, 22, 23  # of a row that `lane_take` looks at
SPANS = dict(sql.parse(sql.read(os.path.join(os.path.dirname(__file__), "spans.sql"))))
Values = Mapping[str, Any]


class Pen(NamedTuple):
    """What a write needs of the open transaction: to carry out a text, and to know how many rows the last one changed."""

    execute: Callable[[str, Values], list[Row]]
    changed: Callable[[], int]


def lane_take(pen: Pen, text: str, values: Values) -> list[Row]:
    """Look at the next runs and take them, if all are plain: the file is locked, and what was seen stays so."""
    look, _, take = text.partition(";\n")
    rows = pen.execute(look, values)
    if not rows or not all(row[_PLAIN] for row in rows):
        return []
    ids = [row[0] for row in rows]
    given = {**values, "fence": rows[0][_FENCE], "now_us": rows[0][_NOW]}
    if span := _span(pen, ids):
        pen.execute(SPANS["lane_take"], {**given, **span})
    else:
        pen.execute(take, {**given, "ids": json.dumps(ids)})
    assert pen.changed() == len(rows), "the file was locked while they were ready"
    return rows


def settle_batch(pen: Pen, text: str, values: Values) -> list[Row]:
    """Settle runs of one lease; return as many rows as were still its own."""
    ids = json.loads(values["ids"])
    span = _span(pen, ids)
    if not span:
        return pen.execute(text, values)
    ((now_us,),) = pen.execute("SELECT wall_us()", {})
    pen.execute(SPANS["settle_batch"], {**values, **span, "now_us": now_us})
    ours = ids[: pen.changed()]  # fewer than all: the caller undoes it, whichever they are
    return [(run_id, now_us) for run_id in ours]


def end_batch(pen: Pen, text: str, values: Values) -> list[Row]:
    """Write down that the attempts of `settle_batch` are over."""
    span = _span(pen, json.loads(values["ids"]))
    return pen.execute(SPANS["end_batch"], {**values, **span}) if span else pen.execute(text, values)


def _span(pen: Pen, ids: Sequence[str]) -> dict[str, str]:
    """Return where these runs begin and end if all of them are there and no other run lies between; or nothing."""
    if len(ids) < RUNS_MIN:
        return {}
    span = {"first": min(ids), "last": max(ids)}
    ((found,),) = pen.execute(SPANS["between"], {**span, "limit": len(ids) + 1})
    return span if found == len(ids) else {}


WORKS = {"lane_take": lane_take, "settle_batch": settle_batch, "end_batch": end_batch}
