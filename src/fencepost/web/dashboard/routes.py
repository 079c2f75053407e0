"""Which pages there are."""

from fencepost.web.dashboard import (
    backfills,
    doubts,
    files,
    lines,
    notices,
    now,
    records,
    run_acts,
    runs,
    schedule_acts,
    schedules,
    streams,
    timeline,
)

ROOMS = (
    files,
    now,
    schedules,
    schedule_acts,
    backfills,
    runs,
    run_acts,
    lines,
    timeline,
    notices,
    records,
    doubts,
    streams,
)
