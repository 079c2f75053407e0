"""The fence left out of each WHERE clause, in both dialects, one at a time."""

import os
import re
from collections.abc import Iterator

from fencepost.stores import sql
from tests.planted.change import SOURCES, Change, source
from tests.stores.test_fences import SAME

DIALECTS = {"sqlite": ("sqlite", "sqlite"), "postgres": ("postgresql", "PostgreSQL")}
GIVEN = r":fence|%\(fence\)s|excluded\.fence|freed\.fence|one\.fence|\(given\.\w+ -> (?:\([^)]*\)::int|[\w.]+) ->> 'fence'\)::bigint"
COMPARED = rf"(?<![\w.])\+?(?:\w+\.)?(?:asked_)?fence (?:=|<) (?:{GIVEN})(?!,)"
LISTED = {  # in one list of leases, where the fence is one of three columns
    "(id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 ": "(id, epoch) IN (SELECT value ->> 0, value ->> 2 ",
    "(id, fence, epoch) IN (SELECT * ": "(id, epoch) IN (SELECT id, epoch ",
}
CONDITION = "|".join([COMPARED, *map(re.escape, LISTED)])
TEST = "tests/stores/test_fences.py::"


def fences() -> Iterator[Change]:
    """Return every condition on a fence, turned into one that always holds."""
    for folder, (parameter, area) in DIALECTS.items():
        for path in [*_files(f"{folder}/sql"), *_files("sql")]:
            for name, text in sql.parse(source(path)):
                yield from _of_statement(path, name, text, parameter, area)


def _of_statement(path: str, name: str, text: str, parameter: str, area: str) -> Iterator[Change]:
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    head, where, rest = code.partition("WHERE")
    found = list(re.finditer(CONDITION, rest))
    tables = SAME.get(name, "").split()
    for number, match in enumerate(found):
        always = LISTED.get(match[0], "true")
        changed = f"{head}{where}{rest[: match.start()]}{always}{rest[match.end() :]}"
        tests = _tests(name, tables, number, parameter)
        yield Change(area, f"{name} {_words(name, tables, number)}", path, code, changed, tests)


def _words(name: str, tables: list[str], number: int) -> str:
    if name == "ledger_unreplayed":
        return "tells of what was asked again, too"
    return f"without the fence of the {tables[number].partition('+')[0]}" if tables else "lets a fence go down"


def _tests(name: str, tables: list[str], number: int, parameter: str) -> tuple[str, ...]:
    if name == "ledger_unreplayed":
        return ("tests/stores/test_ledger.py",)
    if not tables:
        return (f"{TEST}test_the_fence_of_a_resource_only_rises[{parameter}-{name}]",)
    return (f"{TEST}test_a_statement_touches_nothing_that_has_another_fence[{parameter}-{name}-{tables[number]}]",)


def _files(folder: str) -> list[str]:
    names = sorted(os.listdir(os.path.join(SOURCES, "fencepost", "stores", folder)))
    return [f"stores/{folder}/{name}" for name in names]
