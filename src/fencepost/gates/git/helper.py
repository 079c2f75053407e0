"""Speaks with git as a remote helper: `list for-push` and `push`, line by line, on standard input and output."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TextIO

WORDS_ALWAYS = ("option", "push", "object-format")
SHA256_LENGTH = 64


class Spec(NamedTuple):
    """One ref that git wants moved: from an object of the clone, or from nothing to delete it."""

    source: str
    ref: str
    force: bool

    @property
    def text(self) -> str:
        """Spell it as git does."""
        return f"{'+' if self.force else ''}{self.source}:{self.ref}"


class Options(NamedTuple):
    """What git was asked besides."""

    dry_run: bool = False
    atomic: bool = False
    progress: bool = False
    quiet: bool = False
    verbose: bool = False
    signed: str = ""
    includes: bool = False
    expected: tuple[str, ...] = ()  # ref:object, as --force-with-lease has it
    push_options: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """Spell them for a push of git's own."""
        flags = (
            ("--dry-run", self.dry_run),
            ("--atomic", self.atomic),
            ("--progress", self.progress),
            ("--quiet", self.quiet),
            ("--verbose", self.verbose),
            ("--force-if-includes", self.includes),
        )
        return (
            *(word for word, is_set in flags if is_set),
            *([f"--signed={self.signed}"] if self.signed else []),
            *(f"--force-with-lease={one}" for one in self.expected),
            *(f"--push-option={one}" for one in self.push_options),
        )


class Side(Protocol):
    """The remote, as a helper needs it."""

    def refs(self) -> dict[str, str]:
        """Return what it has."""
        ...

    def push(self, specs: list[Spec], options: Options) -> dict[str, str | None]:
        """Move refs; return for each why it was not moved, None if it was."""
        ...


def serve(side: Side, commands: TextIO, answers: TextIO) -> None:
    """Answer git until it has no more to ask."""
    options = Options()
    lines = (line.rstrip("\n") for line in commands)
    for line in lines:
        verb, _, rest = line.partition(" ")
        if verb == "capabilities":
            _answer(answers, *WORDS_ALWAYS, "")
        elif verb == "option":
            known = with_option(options, rest)
            options = known or options
            _answer(answers, "ok" if known else "unsupported")
        elif verb == "list":
            _answer(answers, *_listed(side.refs()), "")
        elif verb == "push":
            specs = [_spec(rest), *_more(lines)]
            results = side.push(specs, options)
            _answer(answers, *(_result(spec.ref, results.get(spec.ref)) for spec in specs), "")
        elif not line:
            return


def with_option(options: Options, said: str) -> Options | None:
    """Return the options with one more, None if it is none that we know."""
    name, _, text = said.partition(" ")
    value = _unquoted(text)
    change = CHANGES.get(name)
    return options._replace(**change(options, value)) if change else None


CHANGES: dict[str, Callable[[Options, str], dict[str, Any]]] = {
    "verbosity": lambda _, value: {"quiet": value == "0", "verbose": value.isdigit() and int(value) > 1},
    "progress": lambda _, value: {"progress": value == "true"},
    "dry-run": lambda _, value: {"dry_run": value == "true"},
    "atomic": lambda _, value: {"atomic": value == "true"},
    "force-if-includes": lambda _, value: {"includes": value == "true"},
    "pushcert": lambda _, value: {"signed": "" if value == "false" else value},
    "cas": lambda before, value: {"expected": (*before.expected, value)},
    "push-option": lambda before, value: {"push_options": (*before.push_options, value)},
    "object-format": lambda _, __: {},  # it is seen from the objects' names
}


def _listed(refs: dict[str, str]) -> Iterator[str]:
    if any(len(value) == SHA256_LENGTH for value in refs.values()):
        yield ":object-format sha256"
    yield from (f"{value} {ref}" for ref, value in refs.items())


def _more(lines: Iterable[str]) -> Iterator[Spec]:
    """Read the rest of a batch, which a blank line ends."""
    for line in lines:
        if not line:
            return
        yield _spec(line.removeprefix("push "))


def _spec(text: str) -> Spec:
    source, _, ref = text.removeprefix("+").partition(":")
    return Spec(source, ref, text.startswith("+"))


def _result(ref: str, why: str | None) -> str:
    return f"ok {ref}" if why is None else f"error {ref} {' '.join(why.split())}"


def _unquoted(value: str) -> str:
    """Read a value as git's C style has it."""
    if not (value.startswith('"') and value.endswith('"') and len(value) > 1):
        return value
    return value[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace").decode(errors="replace")


def _answer(answers: TextIO, *lines: str) -> None:
    answers.write("".join(f"{line}\n" for line in lines))
    answers.flush()
