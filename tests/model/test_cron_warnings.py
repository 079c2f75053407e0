"""What a cron line says and people mostly do not mean."""

import pytest

from fencepost.model.cron_warnings import cron_warnings


@pytest.mark.parametrize(
    ("line", "zone", "said"),
    [
        ("*/45 * * * *", "UTC", "*/45 in the minute field means 0, 45 and begins again: 45m apart, then 15m"),
        ("*/7 * * * * *", "UTC", 'every = "7s"'),
        ("0 */5 * * *", "Europe/Berlin", "then 4h"),
        ("0 9 13 * FRI", "UTC", "either of them, not both"),
        ("0 9 * * *", "EST", "America/New_York"),
        ("0 9 * * *", "Etc/GMT+5", "5 hours behind UTC"),
        ("0 9 * * *", "Etc/GMT-3", "3 hours ahead of UTC"),
    ],
)
def test_a_line_that_is_seldom_meant_is_told(line: str, zone: str, said: str) -> None:
    assert said in " ".join(cron_warnings(line, zone))


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        ("*/15 * * * *", "UTC"),
        ("0 */6 * * *", "Europe/Berlin"),
        ("0 0 */10 * *", "UTC"),
        ("0 9 */2 * FRI", "UTC"),
        ("0 9 13 * *", "Etc/UTC"),
        ("@daily", "Etc/GMT"),
        ("10-50/45 * * * *", "GMT"),
    ],
)
def test_a_line_that_means_what_it_says_is_left_alone(line: str, zone: str) -> None:
    assert list(cron_warnings(line, zone)) == []


def test_each_line_of_a_schedule_is_looked_at_and_its_zone_once() -> None:
    assert len(list(cron_warnings(("*/45 * * * *", "*/7 * * * *"), "EST"))) == 3
