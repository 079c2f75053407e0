"""The days ahead, as the dashboard shows them."""

import pytest

from fencepost.operations.days_ahead import look_ahead
from tests.support.desk import Desk


@pytest.mark.parametrize(("cron", "apart"), [("0 18 * * *", True), ("* * * * *", False)])
def test_what_runs_once_stands_on_one_day_with_one_tick(desk: Desk, cron: str, apart: bool) -> None:  # noqa: FBT001
    desk.schedule("single", cron=cron, timezone="UTC", once=True)
    desk.schedule("steady", cron=cron, timezone="UTC")

    days = look_ahead(desk.store, "default").days

    found = {name: [one for day in days for one in day.coming if one.schedule == name] for name in ("single", "steady")}
    assert len(found["steady"]) == 7
    assert bool(found["steady"][1].ticks) is apart
    (single,) = found["single"]
    assert (single.count, [tick.note for tick in single.ticks]) == (1, ["once"])
