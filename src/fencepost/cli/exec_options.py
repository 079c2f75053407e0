"""The options of `fencepost exec`: told from the command that they stand before, each at most once."""

from __future__ import annotations

from fencepost.model.errors import Invalid

TICK_OPTIONS = ("--timezone", "--job", "--missed", "--grace", "--retry", "--on-lost", "--done-exit")
MODEL_OPTIONS = ("--model-key", "--model-url", "--budget-usd")
VALUED = (
    *("--lock", "--project", "--ttl", "--timeout", "--busy-exit", "--holder", "--gate", "--store", "--config"),
    *("--model-gate", *MODEL_OPTIONS),
    "--tick",
    *TICK_OPTIONS,
)
BARE = ("--wait", "--no-wait")
EXIT_MAX = 255


def split(argv: list[str]) -> tuple[dict[str, list[str]], list[str] | None]:
    """Separate our options from the command; everything after `--` or the first plain word is the command's."""
    options: dict[str, list[str]] = {}
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name == "--":
            break
        if name in ("-h", "--help"):
            return {}, None
        if name in BARE:
            options[name] = [value]
            continue
        if name not in VALUED:
            raise Invalid(f"exec has no option {name!r}.{suggestion(name)} See 'fencepost exec --help'.")
        if not equals and not rest:
            raise Invalid(f"{name} needs a value; see 'fencepost exec --help'.")
        options.setdefault(name, []).append(value if equals else rest.pop(0))
    return options, rest


def suggestion(name: str) -> str:
    """Offer the nearest option, if there is one."""
    from fencepost.model.nearest_name import nearest

    near = nearest(name, (*VALUED, *BARE))
    return f" Did you mean {near}?" if near else ""


def one(options: dict[str, list[str]], name: str) -> str | None:
    """Return the value of an option that may be given once."""
    values = options.get(name, [])
    if len(values) > 1:
        raise Invalid(f"{name} may be given once.")
    return values[0] if values else None


def exit_code(text: str, name: str = "--busy-exit") -> int:
    """Return an exit code that a shell can see."""
    if not text.isascii() or not text.isdigit() or int(text) > EXIT_MAX:
        raise Invalid(f"{name} is a number from 0 to {EXIT_MAX}, not {text!r}.")
    return int(text)
