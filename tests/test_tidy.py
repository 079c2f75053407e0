"""The house stays tidy: what a stranger would trip over may become less, and never more."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fencepost"
LEFT = Path(__file__).parent / "untidy.txt"
DOORS_AND_DIALECTS = ("cli", "web", "mcp", "app", "ports", "stores/postgres", "stores/sqlite", "gates")
NOQA = re.compile(r"# noqa: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*(?P<why>.*)")
PEOPLE = re.compile(r"\b(?:no|some|any|every)body\b|\bwhoever\b|\bsomeone\b", re.IGNORECASE)
SPOKEN, TEXTS = ("src", "docs", "spec", "bench", "examples"), {".py", ".sql", ".md", ".html", ".toml", ".pml"}
BUILT_BY_WIRING = ("fencepost.host.clock", "fencepost.stores.")


@cache
def modules() -> dict[str, ast.Module]:
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def walked(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a module; several rules look at them, and walking is slow."""
    return list(ast.walk(tree))


def homes_of_classes() -> set[str]:
    homes = defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path)
    return {f"class {name}" for name, places in homes.items() if len(places) > 1}


def homes_of_modules() -> set[str]:
    homes = defaultdict(list)
    for path in modules():
        if not path.endswith("__init__.py") and not path.startswith(DOORS_AND_DIALECTS):
            homes[Path(path).stem].append(path)
    return {f"module {name}" for name, places in homes.items() if len(places) > 1}


def adapters_in_operations() -> set[str]:
    """Return where a store or a clock is built; a class that is only named, as in a type or in isinstance, is not."""
    return {
        f"adapter {path}: {name}"
        for path, tree in modules().items()
        if path.startswith("operations/")
        for name in classes_of_adapters(tree) & called(tree)
    }


def classes_of_adapters(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name
        for node in walked(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(BUILT_BY_WIRING)
        for alias in node.names
    }


def called(tree: ast.Module) -> set[str]:
    return {node.func.id for node in walked(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def circles() -> set[str]:
    """Return the modules that lead back to themselves, imports for types and those in functions counted."""
    names = {name_of(path) for path in modules()}
    arrows = {name_of(path): imported(tree) & names for path, tree in modules().items()}
    return {f"circle {name}" for name in names if name in reached_from(name, arrows)}


def name_of(path: str) -> str:
    return "fencepost." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def reached_from(start: str, arrows: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ways = [*arrows[start]]
    while ways:
        name = ways.pop()
        if name not in seen:
            seen.add(name)
            ways += arrows[name]
    return seen


def words_for_another() -> dict[str, str]:
    """Return the words that the glossary has another word for; one with a meaning in brackets may have that."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Glossary")[2]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    return {
        word.strip().replace(" ", "_").replace("-", "_"): right.strip()
        for right, _, wrong in rows
        for word in re.sub(r"[^,]+ \([^)]*\)", "", wrong).split(",")
        if re.search(r"\w", word)
    }


def synonyms() -> set[str]:
    """Return the names of modules, classes, functions, values and fields that say another word than the glossary's."""
    words = words_for_another()
    wrong = re.compile(f"_({'|'.join(words)})s?_")
    return {
        f"word {path}: {name}, say {words[found[1]]}"
        for path, tree in modules().items()
        for name in {Path(path).stem, *named(tree)}
        if (found := wrong.search(spelled(name)))
    }


def named(tree: ast.Module) -> set[str]:
    nodes = walked(tree)
    defined = {one.name for one in nodes if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    bound = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return defined | bound | {one.arg for one in nodes if isinstance(one, ast.arg)}


def spelled(name: str) -> str:
    """Return a name as small words between underscores."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_") + "_"


def rules_broken_without_a_reason() -> set[str]:
    return {f"noqa {path}" for path in modules() if any(map(lacks_reason, (SOURCE / path).read_text().splitlines()))}


def lacks_reason(line: str) -> bool:
    said = NOQA.search(line)
    return said is not None and re.search(r"\w{2}", said["why"]) is None


def people_for_things() -> set[str]:
    """Return the files that speak of people where they mean a worker, a lease or a caller; what was released stays."""
    paths = [path for folder in SPOKEN for path in sorted((ROOT / folder).rglob("*")) if path.suffix in TEXTS]
    return {
        f"people {path.relative_to(ROOT)}"
        for path in [*paths, *ROOT.glob("*.md")]
        if "migrations" not in path.parts and PEOPLE.search(path.read_text())
    }


def test_what_is_untidy_becomes_less_and_never_more() -> None:
    """Names with two homes, words for another, adapters built outside `wiring`, circles, rules broken without a reason."""
    allowed = {line.partition("  # ")[0] for line in LEFT.read_text().splitlines()}
    names = homes_of_classes() | homes_of_modules() | synonyms()
    found = names | adapters_in_operations() | circles() | rules_broken_without_a_reason() | people_for_things()
    assert sorted(found - allowed) == [], (
        "new: find a name that says what is inside, build it in wiring, turn an import round, or name the thing"
    )
    assert sorted(allowed - found) == [], "mended: take it out of untidy.txt"


def test_the_glossary_is_read() -> None:
    """Or a name with another word than the glossary's would pass."""
    words = words_for_another()
    assert (words["executor"], words["failed_job"]) == ("engine", "dead letter")
    assert "lock" not in words, "it has a meaning of its own"
    assert spelled("_FailedJobs") == "_failed_jobs_"
