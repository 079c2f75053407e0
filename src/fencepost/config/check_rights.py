"""Looks early at what the worker decides later: whether the tenant may have what a file refers to."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fencepost.config.check_shape import Checker, NamedSection, Path
from fencepost.model.errors import Invalid
from fencepost.model.http_secrets import SECRET, URL, header_secret
from fencepost.model.secret_rights import Rights, is_ordinary, is_reference, is_referred_place, references_in, refusal
from fencepost.model.target import is_target, parse_target, target_of

Refused = Callable[[str], str | None]  # why a reference is not for the tenant
Asked = tuple[Path, str]  # where in an entry, and for what


def refused_by(rights: Rights, tenant: str) -> Refused:
    """Return how to ask whether a tenant may have something."""
    return partial(refusal, tenant=tenant, rights=rights, real=_real)


def check_asked_by_agent(checker: Checker, entry: NamedSection, gates: Mapping[str, Any], refused: Refused) -> None:
    """Complain about what an agent asks for and its tenant may not have."""
    _check(checker, entry.path, refused, [*_secrets(entry), *_passed(entry), *_gates(entry, gates)])


def check_asked(
    checker: Checker, path: Path, values: Mapping[str, Any], names: tuple[str, ...], refused: Refused
) -> None:
    """Complain about those of a section's references that its tenant may not have."""
    texts = {name: values.get(name) or "" for name in names}
    told = is_referred_place if "url" in names else is_reference
    _check(checker, path, refused, [((name,), text) for name, text in texts.items() if told(text)])


def _check(checker: Checker, path: Path, refused: Refused, asked: list[Asked]) -> None:
    for where, reference in asked:
        if (why := refused(reference)) is not None:
            checker.complain(why, *path, *where)


def _secrets(entry: NamedSection) -> Iterator[Asked]:
    """Yield the secrets; those of the http engine where they were written."""
    headers = {header_secret(place): name for place, name in enumerate(sorted(entry.values.get("headers") or {}))}
    for name, reference in entry.values.get("secrets", {}).items():
        if name in (URL, SECRET):
            yield ("url" if name == URL else "secret",), reference
        else:
            yield ("headers", headers[name]) if name in headers else ("secrets", name), reference


def _passed(entry: NamedSection) -> Iterator[Asked]:
    for place, name in enumerate(entry.values.get("pass_env", ())):
        if not is_ordinary(name):
            yield ("pass_env", place), f"env:{name}"


def _gates(entry: NamedSection, gates: Mapping[str, Any]) -> Iterator[Asked]:
    for place, gate in enumerate(entry.values.get("gates", ())):
        try:
            target = target_of(gates[gate]) if gate in gates else gate if is_target(gate) else ""
            references = references_in(parse_target(target)) if target else ()
        except (Invalid, KeyError):
            continue  # which was said already
        yield from ((("gates", place), reference) for reference in references)


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))
