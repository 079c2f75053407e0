"""Builds the site of the docs: gathers the pages in build/docs, turns the links that leave docs/, and has Sphinx do the rest.

The files in docs/ stay plain Markdown that a forge shows as it is; nothing in them is about this tool.
"""

import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fencepost
from scripts.site_http_api import page as http_api_page

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build/docs", ROOT / "build/site"
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "explanation": "Explanation",
    "reference": "Reference",
    "decisions": "Decisions",
    "project": "Project",
}
# Pages of the repository: where the site shows those that do not stand in docs/.
SHOWN = {
    "docs/README.md": "index.md",
    "docs/decisions/README.md": "decisions/index.md",
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "spec/README.md": "project/spec.md",
    "examples/gates/README.md": "project/examples-gates.md",
    "examples/mcp-gate/README.md": "project/examples-mcp-gate.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")
ELSEWHERE = re.compile(r"""(?:\bsrc=["']?|<link[^>]+href=["']?|url\(["']?|@import ["'])((?:https?:)?//[^"')\s>]+)""")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Build it; every warning is an error, and a link that leads nowhere is a warning."""
    from sphinx.cmd.build import main as sphinx  # noqa: PLC0415  # gathering needs nothing but the pages

    pages = gathered()
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs/images", PAGES / "images")
    for name, text in pages.items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(text)
    shutil.rmtree(SITE, ignore_errors=True)
    words = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(ROOT / "build/doctrees")]
    failed = sphinx([*words, "-c", str(ROOT / "scripts/site_settings"), str(PAGES), str(SITE)])
    strangers = sorted(fetched_from_elsewhere())
    for line in strangers:
        print(line, file=sys.stderr)
    return 1 if failed or strangers else 0


def fetched_from_elsewhere() -> Iterator[str]:
    """Yield what a reader's browser would fetch from another server: a reader may be offline, and is not to be watched."""
    for path in [*SITE.rglob("*.html"), *SITE.rglob("*.css")]:
        for address in ELSEWHERE.findall(path.read_text(errors="replace")):
            yield f"{path.relative_to(SITE)} fetches {address}"


def gathered() -> dict[str, str]:
    """Return every page by its place in the site."""
    paths = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    pages = {shown_at(path): turned(path) for path in dict.fromkeys([*paths, *SHOWN])}
    pages["reference/http-api.md"] = http_api_page()
    pages["reference/python-api.md"] = python_api()
    for section, title in SECTIONS.items():
        index = f"{section}/index.md"
        pages[index] = pages.get(index, f"# {title}\n") + contents(pages, section)
    pages["index.md"] += toctree([f"{section}/index" for section in SECTIONS], shown=False)
    return pages


def shown_at(path: str) -> str:
    """Return where the site shows a page of the repository."""
    return SHOWN.get(path) or path.removeprefix("docs/")


def turned(path: str) -> str:
    """Return a page whose links stay within the site; what is not in it is named by its path."""
    text = (ROOT / path).read_text()
    return outside_code(text, lambda part: LINK.sub(lambda link: turned_link(link, path), part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what is no code, neither a block nor a word."""
    parts: list[str] = []
    at = 0
    for code in CODE.finditer(text):
        if not text[: code.start()].endswith("["):  # the words of a link may be code
            parts += [change(text[at : code.start()]), code[0]]
            at = code.end()
    return "".join([*parts, change(text[at:])])


def turned_link(link: re.Match[str], path: str) -> str:
    """Turn one link."""
    picture, words, target, anchor = link[1], link[2], link[3], link[4] or ""
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    assert (ROOT / meant).exists(), f"{path} links to {meant}, which is not there"
    here = posixpath.dirname(shown_at(path)) or "."
    if picture:
        return f"![{words}]({posixpath.relpath(shown_at(meant), here)})"
    place = f"{meant.removeprefix('docs/')}/index.md" if meant.removeprefix("docs/") in SECTIONS else shown_at(meant)
    if not place.endswith(".md") or (meant not in SHOWN and not meant.startswith("docs/")):
        return f"`{meant}`" if words.strip("`") in meant else f"{words} (`{meant}`)"
    return f"[{words}]({posixpath.relpath(place, here)}{anchor})"


def contents(pages: dict[str, str], section: str) -> str:
    """List the pages of a section: decisions by number, the others by their titles."""
    names = [name for name in pages if name.startswith(f"{section}/") and name != f"{section}/index.md"]
    names.sort(key=lambda name: name if section == "decisions" else title_of(pages[name]).lower())
    return toctree([posixpath.basename(name).removesuffix(".md") for name in names], shown=section != "decisions")


def toctree(names: list[str], *, shown: bool) -> str:
    """Spell a list of pages for Sphinx."""
    options = [":maxdepth: 1"] if shown else [":hidden:"]
    return "\n".join(["", "```{toctree}", *options, "", *names, "```", ""])


def title_of(text: str) -> str:
    """Return the heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert found, f"a page without a title: {text[:60]!r}"
    return found[1]


def python_api() -> str:
    """Name every public object; Sphinx reads the docstrings."""
    return "\n".join(_python_lines())


def _python_lines() -> Iterator[str]:
    yield "# Python API\n\nEvery public name of `fencepost`, from its docstrings; [by task](python.md).\n"
    yield "```{eval-rst}"
    for name, home in sorted(fencepost._HOMES.items(), key=lambda one: (one[1], one[0])):  # noqa: SLF001  # the one list of them
        kind = "autoclass" if isinstance(getattr(fencepost, name), type) else "autofunction"
        yield (
            f".. {kind}:: fencepost.{home}.{name}\n   :members:\n"
            if kind == "autoclass"
            else f".. {kind}:: fencepost.{home}.{name}\n"
        )
    yield ".. automodule:: fencepost.testing\n   :members:\n```\n"


if __name__ == "__main__":
    sys.exit(main())
