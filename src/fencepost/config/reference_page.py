"""The reference page on the configuration, written from the keys that the code checks."""

from collections.abc import Iterator

from fencepost.config.sections import SECTIONS, ConfigKey, Section

NOTE = "<!-- Written from fencepost.config.sections; a test compares them and says how to renew this page. -->"
INTRODUCTION = """\
`fencepost.toml` is found upwards from the current directory; `--config` and `FENCEPOST_CONFIG` name another one. In
`pyproject.toml` the same sections stand below `[tool.fencepost]`, and the general settings in it. Unknown keys are
errors. What `[fencepost]` leaves out may stand in a file of the user's own, `$XDG_CONFIG_HOME/fencepost/fencepost.toml` (else
below `~/.config`), for all configurations: command line before environment before this file before the user's before the
defaults. Nothing but `[fencepost]` stands there, and bare `exec` does not ask for it. Definitions get into the registry with `fencepost apply`, all of them or none; `fencepost plan` shows first what
would change.

What was found, and not named, must be out of the reach of other users, as for git's `safe.directory`: the file and every
folder from here up to it belong to you or to root, and no other user may write them. The group may be your own private
group (a umask of 002), and a sticky folder such as `/tmp` may stand on the way. `sudo` takes the files of the person who
called it. In a container that mounts another user's files, name the file with `FENCEPOST_CONFIG`.

Names of agents, schedules, projects, gates, hooks and tenants are made of `a-z`, `0-9`, dot, dash and underscore. An
agent and a schedule may not share a name."""
KINDS = """\
| kind | is written |
|---|---|
| duration | a number and a unit in quotes: `"300ms"`, `"3s"`, `"10m"`, `"4h"`, `"2d"`, `"1h30m"` |
| instant | RFC 3339 with its offset, in quotes or not: `2026-12-01T09:00:00Z` |
| wall time | the same without offset, in the schedule's zone: `"2026-12-01T09:00"` |
| IANA time zone | `"Europe/Berlin"`, `"UTC"`; an offset such as `UTC+2` is refused |
| dollars | a number: `2.50` |
| secret reference | where the secret is, never the secret: `"env:NAME"` or `"file:/path"` |"""


def page() -> str:
    """Return the page."""
    return "\n".join(["# Configuration", "", NOTE, "", INTRODUCTION, "", KINDS, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        yield from ("", f"## {_title(section)}", "", section.meaning, "")
        yield from ("| key | kind | default | meaning |", "|---|---|---|---|")
        yield from (_row(key) for key in section.keys)


def _title(section: Section) -> str:
    return f"`[{section.name}.NAME]`" if section.named else f"`[{section.name}]`"


def _row(key: ConfigKey) -> str:
    meaning = key.meaning
    if key.engines:
        meaning = f"{' and '.join(key.engines)}: {meaning}"
    return f"| `{key.name}` | {key.kind.name} | {_default(key)} | {meaning} |"


def _default(key: ConfigKey) -> str:
    match key.default:
        case _ if key.required:
            return "required"
        case "" | () | None | {}:
            return ""
        case bool() as value:
            return f"`{str(value).lower()}`"
        case int() as number:
            return f"`{number}`"
        case tuple() as words:
            return ", ".join(f'`"{word}"`' for word in words)
        case text:
            return f'`"{text}"`'
