"""Which pages there are."""

from fencepost.web.dashboard import (
    doubts,
    files,
    lines,
    now,
    records,
    run_acts,
    runs,
    schedule_acts,
    schedules,
    streams,
)

ROOMS = (files, now, schedules, schedule_acts, runs, run_acts, lines, records, doubts, streams)
