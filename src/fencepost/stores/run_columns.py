"""The columns of runs, taken from the fields of their rows: a statement says `{run_fact}`, and no list is written twice.

Old programs read views of these names with `SELECT *`, so that the views stay as they are. These lists may grow.
"""

from types import NoneType, UnionType
from typing import get_args

from fencepost.model.new_run import NewRun
from fencepost.ports.alike_runs import TAKEN
from fencepost.ports.runs import RunRow

TYPES = {str: "text", int: "bigint", bool: "boolean"}
NOT_KEPT = "queue_for_us"  # a length of time, from which the store counts when to give up
# What runs that are made together do not have, or have each for itself.
NOT_OF_BATCH = (
    *("schedule", "version", "occurrence", "tick_us", "period_start_us", "period_end_us", "backfill_from_us"),
    *("last_success_us", "origin", "lines_up"),
    *("id", "idempotency_key", "request_key", "payload", "resources", "ready_us", "counted_us"),
)
MANIFEST = """CASE WHEN manifest <> '' THEN manifest
            ELSE (SELECT definition FROM fencepost.manifest WHERE manifest.tenant = run.tenant AND hash = manifest_hash)
        END AS manifest"""

NEW = tuple(name for name in NewRun._fields if name != NOT_KEPT)
BATCH = tuple(name for name in NEW if name not in NOT_OF_BATCH)


def _type_of(name: str) -> str:
    kind = NewRun.__annotations__[name]
    (plain,) = {*get_args(kind)} - {NoneType} if isinstance(kind, UnionType) else {kind}
    return TYPES[plain]


def _listed(names: tuple[str, ...], form: str) -> str:
    return ", ".join(form.format(name=name, type=_type_of(name) if "{type}" in form else "") for name in names)


_ROW = ", ".join(RunRow._fields)
_FACTS = ", ".join(MANIFEST if name == "manifest" else name for name in RunRow._fields)

COLUMNS = {
    "run_fact": f"(SELECT {_FACTS} FROM fencepost.run) AS run_fact",  # noqa: S608  # of names that stand in our code
    "lane_row": f"(SELECT {_ROW} FROM fencepost.run WHERE in_process) AS lane_row",  # noqa: S608  # likewise
    "taken_run": _listed(TAKEN, "run.{name}"),
    "new_run": _listed(NEW, "{name}"),
    "new_run_types": _listed(NEW, "{name} {type}"),
    "new_run_values": _listed(NEW, "value ->> '{name}'"),
    "batch_run": _listed(BATCH, "{name}"),
    "batch_run_values": _listed(BATCH, ":{name}::{type}"),
}
