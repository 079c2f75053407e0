"""Turns a crontab into definitions: a line of shell for each, named after what it runs."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.warnings import looks_secret
from fencepost.model.zone import find_zone
from fencepost.operations.importing import MINUTE_FIELDS, Imported, checked, zone_of, zone_unless

ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
UNQUOTED_PERCENT = re.compile(r"(?<!\\)%")
LAUNCHERS = ("sh", "bash", "zsh", "env", "nice", "ionice", "nohup", "sudo", "exec", "timeout", "chronic",
             "python", "python3", "node", "ruby", "perl", "php")  # fmt: skip
BY_THE_WAY = ("cd", "sleep", "test", "[", "export", "source", ".", "set", "umask", "true", "echo", "flock")
SUFFIX = re.compile(r"\.(sh|py|js|mjs|ts|rb|pl|php)$")
STEPS = re.compile(r"<<|[;|&{}()\n]+|%")
REDIRECTION = re.compile(r"[0-9]*[<>]+&?\s*\S+")
NAME_WORDS = 3
MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
SHELL = "/bin/sh"
MARKER = "END_OF_INPUT"
LEFT_OUT = "\0"  # stands for a value that is not copied


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
            elif name in ("MAILTO", "MAILFROM"):
                if value:
                    found.warn(where, f"{name} is left out; add [notifications] to hear of failures")
            elif looks_secret(name):
                env = {**env, name: LEFT_OUT}
                found.warn(where, f"the value of {name} is left out: set it in the environment of 'fencepost up'")
            else:
                env = {**env, name: value}
            continue
        _cron_line(found, where, line.strip(), zone=zone, env=env, system=system)
    if found.schedules:
        found.warn("all", "cron starts a job although the last one still runs; here it is skipped (overlap = 'forbid')")
        found.warn(
            "all",
            "cron runs jobs in the home folder; here they run in the folder of fencepost.toml: write absolute paths, or "
            "begin with cd",
        )
    return found


def _cron_line(found: Imported, where: str, line: str, *, zone: str, env: Mapping[str, str], system: bool) -> None:
    fields = 1 if line.startswith("@") else MINUTE_FIELDS
    parts = line.split(None, fields + (1 if system else 0))
    if len(parts) <= fields + (1 if system else 0):
        found.warn(where, f"left out: it has no command: {line}")
        return
    expression, command = " ".join(parts[:fields]), parts[-1]
    if expression.lower() not in MACROS and expression.startswith("@"):
        found.warn(
            where,
            f"left out: {expression} is no time; what is to run once at boot belongs beside the service that "
            "'fencepost service install' writes",
        )
        return
    for warning in cron_warnings(expression, zone):
        found.warn(where, warning)
    if not checked(found, where, expression, zone):
        return
    if system and parts[fields] != "root":
        user = parts[fields]
        found.warn(
            where, f"it ran as {user}; here it runs as the user of Fencepost: let {user} run it, with a file apart"
        )
    agent = _agent(_without_percent(found, where, command), env)
    found.add(_name_of(command), agent, {"cron": expression, **zone_unless(found, zone)})


def _agent(command: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Run a line by the shell that the crontab names, as cron does."""
    shell = env.get("SHELL", SHELL)
    agent: dict[str, Any] = {"engine": "command", "command": command, "shell": True}
    if shell != SHELL:
        agent = {"engine": "command", "command": [shell, "-c", command]}
    plain = {name: value for name, value in env.items() if value != LEFT_OUT}
    secrets = {name: f"env:{name}" for name, value in env.items() if value == LEFT_OUT}
    return {**agent, **({"env": plain} if plain else {}), **({"secrets": secrets} if secrets else {})}


def _without_percent(found: Imported, where: str, command: str) -> str:
    """Spell out what a bare % means in a crontab: the command ends, and what follows is its standard input.

    It is the input of the whole line: of the first program of a pipe, and of each step after the other.
    """
    before, *after = UNQUOTED_PERCENT.split(command)
    if not after:
        return command.replace("\\%", "%")
    found.warn(where, "the text after % was the command's standard input; it is given by a here-document now")
    text, marker = "\n".join(after), MARKER
    while marker in text:
        marker += "_"
    one = before.rstrip() if STEPS.search(before) is None else f"{{\n{before.rstrip()}\n}}"
    return f"{one} <<'{marker}'\n{text}\n{marker}".replace("\\%", "%")


def _name_of(command: str) -> str:
    """Name a line of shell after what it runs: its first step that does something, and the first plain words of it."""
    steps = [_plain_words(step) for step in STEPS.split(REDIRECTION.sub(" ", command))]
    named = [words for words in steps if words]
    return "-".join(next((words for words in named if words[0] not in BY_THE_WAY), (named or [[]])[0])[:NAME_WORDS])


def _plain_words(step: str) -> list[str]:
    words = [word for word in step.split() if not ASSIGNMENT.match(word)]
    words = [word for word in words if not word.isdigit() and not word.startswith("-") and "$" not in word]
    if words and words[0].rpartition("/")[2] == "flock":
        words = words[2:] or words  # the lock's file is not what it does
    while len(words) > 1 and words[0].rpartition("/")[2] in LAUNCHERS:
        words = words[1:]
    return [SUFFIX.sub("", word.strip("\"'").rpartition("/")[2]) for word in words]
