"""Turns a crontab into definitions: a line of shell for each, named after what it runs."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.model.zone import find_zone
from fencepost.operations.importing import MINUTE_FIELDS, Imported, checked, zone_of, zone_unless

ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
UNQUOTED_PERCENT = re.compile(r"(?<!\\)%")
LAUNCHERS = ("sh", "bash", "zsh", "env", "nice", "ionice", "nohup", "sudo", "exec",
             "python", "python3", "node", "ruby", "perl", "php")  # fmt: skip
SUFFIX = re.compile(r"\.(sh|py|js|mjs|ts|rb|pl|php)$")
NAME_WORDS = 3
MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def import_crontab(text: str, *, timezone: str, system: bool = False) -> Imported:
    """Read a crontab: of a user, or the system's own with a user on each line."""
    found = Imported(find_zone(timezone).name)
    env: dict[str, str] = {}
    zone = found.timezone
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assignment = ASSIGNMENT.match(line)
        if assignment and not line.lstrip().startswith("@"):
            name, value = assignment[1], assignment[2].strip("\"'")
            if name in ("CRON_TZ", "TZ"):
                zone = zone_of(found, where, value) or zone
            elif name == "MAILTO":
                found.warn(where, "MAILTO is left out; add [notifications] to hear of failures")
            else:
                env = {**env, name: value}
            continue
        _cron_line(found, where, line.strip(), zone=zone, env=env, system=system)
    if found.schedules:
        found.warn("all", "cron starts a job although the last one still runs; here it is skipped (overlap = 'forbid')")
        found.warn("all", "cron runs jobs in the home folder; here they run in the folder of fencepost.toml")
    return found


def _cron_line(found: Imported, where: str, line: str, *, zone: str, env: Mapping[str, str], system: bool) -> None:
    fields = 1 if line.startswith("@") else MINUTE_FIELDS
    parts = line.split(None, fields + (1 if system else 0))
    if len(parts) <= fields + (1 if system else 0):
        found.warn(where, f"left out: it has no command: {line}")
        return
    expression, command = " ".join(parts[:fields]), parts[-1]
    if expression.lower() not in MACROS and expression.startswith("@"):
        found.warn(where, f"left out: {expression} is no time; run 'fencepost service install' and use every or cron")
        return
    if not checked(found, where, expression, zone):
        return
    if system and parts[fields] != "root":
        found.warn(where, f"the user {parts[fields]} is left out: run Fencepost as that user")
    command = _without_percent(found, where, command)
    agent: dict[str, Any] = {"engine": "command", "command": command, "shell": True}
    if env:
        agent["env"] = dict(env)
    found.add(_name_of(command), agent, {"cron": expression, **zone_unless(found, zone)})


def _without_percent(found: Imported, where: str, command: str) -> str:
    """Spell out what a bare % means in a crontab: the command ends, and what follows is its standard input."""
    before, *after = UNQUOTED_PERCENT.split(command)
    if after:
        found.warn(where, "the text after % was the command's standard input; it is given by a here-document now")
        text = "\n".join(after)
        return f"{before.rstrip()} <<'END_OF_INPUT'\n{text}\nEND_OF_INPUT".replace("\\%", "%")
    return command.replace("\\%", "%")


def _name_of(command: str) -> str:
    """Name a line of shell after what it runs: the last program of a chain of `&&`, and its first plain words."""
    line = re.split(r"<<|%|[;|]", command, maxsplit=1)[0].rpartition("&&")[2]
    words = [word for word in re.sub(r"[0-9&]*>+\s*\S+", " ", line).split() if not ASSIGNMENT.match(word)]
    words = [word for word in words if not word.isdigit() and not word.startswith("-")]
    while len(words) > 1 and words[0].rpartition("/")[2] in LAUNCHERS:
        words = words[1:]
    plain = [SUFFIX.sub("", word.rpartition("/")[2]) for word in words]
    return "-".join(plain[:NAME_WORDS])
