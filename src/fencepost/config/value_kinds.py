"""The kinds of values that a key may have: each checks what was written and returns it in the form that is kept."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from fencepost.model.allowed_addresses import networks_of
from fencepost.model.budget import parse_usd
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant, parse_instant, shown
from fencepost.model.json_path import parse_path
from fencepost.model.nearest_name import nearest
from fencepost.model.overlap import parse_overlap
from fencepost.model.retention import check_retention
from fencepost.model.retry import RETRIABLE
from fencepost.model.slots import check_key
from fencepost.model.zone import find_zone

INTEGER_MAX = 2**63 - 1
NAME = re.compile(r"[a-z0-9._-]+", re.ASCII)
NAME_MAX = 200
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
RESERVED = "FENCEPOST_"
STORES = ("sqlite", "postgresql", "postgres", "env")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
OUR_HEADERS = ("host", "content-length", "content-type", "transfer-encoding", "idempotency-key", "traceparent")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name in the reference, and how it is read."""

    name: str
    read: Callable[[Any], Any]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f"expected text in quotes, not {said(value)}.")
    if "\0" in value:
        raise Invalid("it contains a NUL character, which no program takes; remove it.")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"expected true or false, without quotes, not {said(value)}.")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid(f'expected a list of texts, such as ["one", "two"], not {said(value)}.')
    return tuple(_text(item) for item in value)


def _integers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise Invalid(f"expected a list of whole numbers, such as [1, 2], not {said(value)}.")
    return tuple(_integer(item) for item in value)


def _exit_codes(value: object) -> tuple[int, ...]:
    codes = _integers(value)
    if wrong := sorted(set(codes) - RETRIABLE):
        raise Invalid(f"{wrong[0]} cannot be retried; give codes from 1 to 255 other than 76 and 77.")
    return codes


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(f"expected a whole number, without quotes, not {said(value)}.")
    if abs(value) > INTEGER_MAX:
        raise Invalid("the number does not fit 64 bits.")
    return value


def integer(low: int, high: int = INTEGER_MAX) -> Kind:
    """Return the kind of whole numbers within limits."""

    def read(value: object) -> int:
        number = _integer(value)
        if not low <= number <= high:
            limits = f"at least {low}" if high == INTEGER_MAX else f"from {low} to {high}"
            raise Invalid(f"expected a whole number {limits}, not {number}.")
        return number

    return Kind("integer", read)


def one_of(*words: str) -> Kind:
    """Return the kind of a choice between words."""

    def read(value: object) -> str:
        word = _text(value)
        if word not in words:
            raise Invalid(f"{shown(word)} is none of {', '.join(words)}.{did_you_mean(word, words)}")
        return word

    return Kind(" \\| ".join(f'"{word}"' for word in words), read)


def some_of(*words: str) -> Kind:
    """Return the kind of a list of words out of these."""
    one = one_of(*words)
    return Kind(f"list of {one.name}", lambda value: tuple(one.read(word) for word in _texts(value)))


def _duration(value: object) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        raise Invalid(f'a duration has a unit and stands in quotes; did you mean "{value}s"?')
    return _checked_duration(_text(value))


def _retention(value: object) -> str:
    text = _duration(value)
    check_retention(timedelta(seconds=parse_duration(text)))
    return text


@lru_cache(maxsize=1024)
def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def _instant(value: object) -> str:
    """Read an instant with its offset; TOML has them without quotes too."""
    if isinstance(value, datetime) and value.tzinfo:
        return format_instant(value)
    if isinstance(value, date | time):
        raise Invalid(
            f"{value} has no offset, so it could be any of several instants; write it like 2026-12-01T09:00:00Z."
        )
    text = _text(value)
    parse_instant(text)
    return text


def _moment(value: object) -> str:
    """Read an instant, or a wall time of the schedule's zone."""
    if isinstance(value, datetime):
        return format_instant(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return _text(value)


def _dates(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid(f'expected a list of entries, such as ["2026-12-25", "SAT-SUN"], not {said(value)}.')
    return tuple(item.isoformat() if type(item) is date else _text(item) for item in value)


def one_or_more(read: Callable[[Any], str]) -> Callable[[object], str | tuple[str, ...]]:
    """Read a single value, or a list of them; a list of one is kept as that one."""

    def several(value: object) -> str | tuple[str, ...]:
        if not isinstance(value, list):
            return read(value)
        found = tuple(read(one) for one in value)
        if not found or "" in found:
            raise Invalid("it is empty." if not found else "one of the list is empty; remove it.")
        twice = next((one for one in found if found.count(one) > 1), None) if len(found) > len(set(found)) else None
        if twice is not None:
            raise Invalid(f"{shown(twice)} is there twice; remove one.")
        return found if len(found) > 1 else found[0]

    return several


def _zone(value: object) -> str:
    return find_zone(_text(value)).name


def _usd(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise Invalid(f"expected an amount of dollars, such as 2.50, not {said(value)}.")
    try:
        parse_usd(str(value), name="it")
    except (ValueError, ArithmeticError):  # a number with thousands of digits
        raise Invalid("the amount is out of all proportion.") from None
    return str(value)


def _overlap(value: object) -> str:
    text = _text(value)
    parse_overlap(text)
    return text


def _key(value: object) -> str:
    return check_key(_text(value))


def _reference(value: object) -> str:
    text = _text(value)
    scheme, _, rest = text.partition(":")
    if scheme not in ("env", "file") or not rest:
        raise Invalid('a secret is never written down here; say where it is: "env:NAME" or "file:/path".')
    if scheme == "env" and not VARIABLE.fullmatch(rest):
        raise Invalid(f"{shown(rest)} is no name of an environment variable.")
    return text


def _location(value: object) -> str:
    text = _text(value)
    if re.search(r"://[^/@\s]*:[^/@\s]+@", text):
        raise Invalid('a password is never written down here; put the whole URL elsewhere and write "env:NAME".')
    return text


def _store(value: object) -> str:
    text = _location(value)
    if text.partition(":")[0] not in STORES or not text.partition(":")[2]:
        raise Invalid(f"{shown(text)} is no store; write sqlite:/path/state.db or postgresql://host/database.")
    return text


def _stores(value: object) -> dict[str, str]:
    found = _table(value)
    for tenant in found:
        check_name(tenant)
    return {tenant: _store(one) for tenant, one in found.items()}


def _variables(value: object) -> dict[str, str]:
    return {_variable(name): _text(one) for name, one in _table(value).items()}


def _headers(value: object) -> dict[str, str]:
    found = {name: _text(one) for name, one in _table(value).items()}
    for name, text in found.items():
        if not HEADER.fullmatch(name):
            raise Invalid(f"{shown(name)} is no name of a header.")
        if name.lower() in OUR_HEADERS or name.lower().startswith(("fencepost-", "webhook-")):
            raise Invalid(f"the header {name} is set by Fencepost itself.")
        if any(ord(one) < ord(" ") for one in text):
            raise Invalid(f"the header {name} has line breaks or other control characters in it.")
    return found


def _networks(value: object) -> tuple[str, ...]:
    texts = _texts(value)
    networks_of(texts)
    return texts


def _secrets(value: object) -> dict[str, str]:
    return {_variable(name): _reference(one) for name, one in _table(value).items()}


def _names_of_variables(value: object) -> tuple[str, ...]:
    return tuple(_variable(name) for name in _texts(value))


def _variable(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        raise Invalid(f"{shown(name)} is no name of an environment variable: letters, digits and _.")
    if name.upper().startswith(RESERVED):
        raise Invalid(f"{name}: names that begin with {RESERVED} are set by Fencepost itself.")
    return name


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f'expected a table, such as {{ NAME = "value" }}, not {said(value)}.')
    return value


def _function(value: object) -> str:
    text = _text(value)
    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise Invalid(f"{shown(text)} is no function; write module:function, such as reports.weekly:run.")
    return text


def _command(value: object) -> tuple[str, ...]:
    """Read an argv, or for `shell = true` one text; which of the two it must be is checked with the section."""
    return (_text(value),) if isinstance(value, str) else _texts(value)


def _paths_within(value: object) -> tuple[str, ...]:
    """Read paths that stay below the project's directory; `*` and `?` stand for what they do in a shell."""
    paths = _texts(value)
    for path in paths:
        parts = path.split("/")
        if not path or path.startswith("/") or "\n" in path or any(part in ("..", ".git") for part in parts):
            raise Invalid(f"{shown(path)} does not stay in the project; write a path below it, without .. and .git.")
    return paths


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - JSON of any shape, one line for each
    """Return a value of TOML as JSON has it."""
    match value:
        case dict():
            return {_text(name): plain(one) for name, one in value.items()}
        case list():
            return [plain(one) for one in value]
        case bool():
            return value
        case int():
            return _integer(value)
        case Decimal():
            return _finite(value)
        case datetime() if value.tzinfo:
            return format_instant(value)
        case date() | time():
            return value.isoformat()
        case _:
            return _text(value)


def _finite(value: Decimal) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise Invalid(f"{value} cannot be handed over as JSON; leave it out, or write it as text.")
    return number


def _paths(value: object) -> dict[str, str]:
    """Read a table of values by path."""
    found = {path: _text(one) for path, one in _table(value).items()}
    for path in found:
        parse_path(path)
    return found


def _paths_of(value: object) -> dict[str, str]:
    """Read a table of paths by name."""
    found = {name: _text(one) for name, one in _table(value).items()}
    if "webhook" in found:
        raise Invalid("the name webhook is taken: under it the run gets the facts of the delivery.")
    for path in found.values():
        parse_path(path)
    return found


TEXT = Kind("text", _text)
PATHS = Kind("table of texts by path", _paths)
PATHS_OF = Kind("table of paths", _paths_of)
TEXTS = Kind("list of texts", _texts)
PATHS_WITHIN = Kind("list of paths below the project", _paths_within)
BOOLEAN = Kind("true \\| false", _boolean)
EXIT_CODES = Kind("list of exit codes", _exit_codes)
DURATION = Kind("duration", _duration)
RETENTION = Kind("duration", _retention)
CRON = Kind("cron expression, or a list of them", one_or_more(_text))
INSTANT = Kind("instant", _instant)
MOMENT = Kind("instant or wall time, or a list of them", one_or_more(_moment))
CALENDAR = Kind("list of dates, ranges, weekly windows", _dates)
ZONE = Kind("IANA time zone", _zone)
USD = Kind("dollars", _usd)
OVERLAP = Kind('"forbid" \\| "queue" \\| "allow_parallel" \\| "cancel_previous"', _overlap)
KEY = Kind("name", _key)
REFERENCE = Kind("secret reference", _reference)
REFERENCES = Kind("list of secret references", lambda value: tuple(_reference(one) for one in _texts(value)))
LOCATION = Kind("text or secret reference", _location)
STORE = Kind("text or secret reference", _store)
STORES_OF = Kind("table of stores by tenant", _stores)
VARIABLES = Kind("table of texts", _variables)
HEADERS = Kind("table of texts or secret references", _headers)
NETWORKS = Kind("list of addresses and networks", _networks)
SECRETS = Kind("table of secret references", _secrets)
VARIABLE_NAMES = Kind("list of variable names", _names_of_variables)
FUNCTION = Kind("module:function", _function)
COMMAND = Kind("list of texts, or text with `shell`", _command)
JSON = Kind("table", lambda value: plain(_table(value)))


def check_name(name: str) -> None:
    """Refuse a name that could not stand in a command line, a file name and a URL."""
    if NAME.fullmatch(name) and len(name) <= NAME_MAX:
        return
    better = re.sub(r"[^a-z0-9._-]+", "-", name.lower(), flags=re.ASCII).strip("-")[:NAME_MAX]
    hint = f' Did you mean "{better}"?' if better else ""
    raise Invalid(f"{shown(name)} is no name: a-z, 0-9, dot, dash and underscore, at most {NAME_MAX}.{hint}")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a suggestion with a blank before it, or nothing."""
    near = nearest(word.lower(), words)
    return f' Did you mean "{near}"?' if near else ""


def said(value: object) -> str:  # noqa: PLR0911 - one line for each type
    """Name what was written, for an error."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > INTEGER_MAX:
            return "a huge number"
        case int() | Decimal():
            return f"the number {value}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"the date or time {value}"
