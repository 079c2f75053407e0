"""Which pages there are."""

from fencepost.web.dashboard import (
    ambiguous_effects,
    backfills,
    files,
    front_page,
    notices,
    queue_pages,
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
    front_page,
    schedules,
    schedule_acts,
    backfills,
    runs,
    run_acts,
    queue_pages,
    timeline,
    notices,
    records,
    ambiguous_effects,
    streams,
)
