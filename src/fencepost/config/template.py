"""The file that `init` writes, and a guess at this machine's time zone."""

import os
from collections.abc import Mapping

from fencepost.config.value_kinds import NAME_MAX
from fencepost.model.zone import zone_names

LOCALTIME = "/etc/localtime"
TIMEZONE = "/etc/timezone"
ZONEINFO = "zoneinfo/"

TEMPLATE = """\
# Fencepost runs agents on a schedule: no tick twice, no overlap, no zombie writes.
# See what this file would do:  fencepost plan
# Put it into force and run it: fencepost up

[fencepost]
name = "{name}"  # whose definitions these are: the same on every machine that has this file
timezone = "{timezone}"         # the zone of the schedules below; each may name its own
# store = "postgresql://db.example/fencepost"   # for several machines; default: a file of its own
# tenant = "default"

# An agent is what is run. This one is a command: a list of words, no shell.
[agents.hello]
engine = "command"
command = ["echo", "hello from fencepost"]
timeout = "5m"
writes = false                  # it changes nothing, so running it again does no harm
on_lost = "restart"             # when its machine dies half-way; default: "triage", a person decides
# max_attempts = 3
# env = {{ LANG = "C.UTF-8" }}
# secrets = {{ API_KEY = "env:MY_API_KEY" }}   # by reference only: env:NAME or file:/path

# A schedule says when, and under which policies.
[schedules.hello-every-minute]
agent = "hello"
cron = "* * * * *"              # or every = "15m", or at = "2030-12-01T09:00:00Z"
overlap = "forbid"              # or "queue", "allow_parallel", "cancel_previous"
missed = "skip"                 # or "coalesce" (one run for all missed ticks), "replay" (each, in order)
# grace = "60s"                 # how late a tick may be before it counts as missed
# calendar = ["SAT-SUN", "2030-12-24..2031-01-02"]   # when not to run
"""


def name_for(folder: str) -> str:
    """Return a name for the file of a folder: the folder's own, as far as its letters may stand in a name."""
    base = os.path.basename(os.path.realpath(folder)).lower()
    letters = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in base)
    return letters.strip("._-")[:NAME_MAX] or "fencepost"


def guess_zone(environ: Mapping[str, str], *, localtime: str = LOCALTIME, timezone: str = TIMEZONE) -> str:
    """Return this machine's zone by name: TZ, the link /etc/localtime, /etc/timezone, else UTC."""
    for guess in (environ.get("TZ", "").lstrip(":"), _link(localtime), _line(timezone)):
        name = guess.rpartition(ZONEINFO)[2].removeprefix("Etc/")
        if name in zone_names():
            return name
    return "UTC"


def _link(path: str) -> str:
    return os.path.realpath(path) if os.path.islink(path) else ""


def _line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return ""
