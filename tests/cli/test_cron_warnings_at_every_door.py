"""What a cron line says and people mostly do not mean is told wherever schedules are written or looked at."""

import pytest

from tests.support.seldom_meant import CRON, TOML, ZONE, tells
from tests.support.site import Site

COMMANDS = {
    "ticks": ("ticks", "--cron", CRON, "--timezone", ZONE, "-n", "1"),
    "ticks SCHEDULE": ("ticks", "s", "-n", "1"),
    "ticks SCHEDULE --json": ("ticks", "s", "-n", "1", "--json"),
    "crontab": ("crontab", "--cron", CRON, "--timezone", ZONE, "--lock", "a", "--", "true"),
    "import": ("import", "crontab", "--file", "lines", "--timezone", ZONE),
    "plan": ("plan",),
    "plan --json": ("plan", "--json"),
    "apply": ("apply",),
    "simulate": ("simulate", "--for", "7d"),
    "simulate --json": ("simulate", "--for", "7d", "--json"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_uneven_steps_two_kinds_of_days_and_fixed_offsets_are_told(site: Site, command: str) -> None:
    (site.folder / "lines").write_text(f"{CRON} /bin/true\n")
    site.configure("[agents.a]\ncommand = ['true']\n" + TOML)

    ran = site.try_fencepost(*COMMANDS[command])

    assert ran.returncode == 0, ran
    assert tells(ran.stdout + ran.stderr), ran


def test_a_crontab_line_in_the_machines_own_zone_is_looked_at_too(site: Site) -> None:
    ran = site.try_fencepost("crontab", "--cron", CRON, "--lock", "a", "--", "true")

    assert ran.returncode == 0, ran
    assert tells(ran.stderr, zone=False)


def test_a_schedule_whose_agent_is_in_another_file_is_looked_at_as_well(site: Site) -> None:
    site.configure("[agents.a]\ncommand = ['true']\n")
    (site.folder / "other.toml").write_text(TOML)

    assert tells(site.fencepost("plan", "other.toml", "--store", site.store))
