"""The site shows every page, and its references name all there is. `make docs` builds it, and checks each link and anchor."""

import re
from pathlib import Path

import pytest

import fencepost
from scripts import site
from scripts.site import ELSEWHERE, ROOT, gathered, turned
from scripts.site_http_api import METHODS, document


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return gathered()


def test_every_page_of_the_docs_is_shown_and_listed(pages: dict[str, str]) -> None:
    there = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    for path in there:
        name = "index.md" if path.name == "README.md" else path.name
        section = path.parent / "index.md"
        assert str(path.parent / name) in pages
        assert name == "index.md" or f"\n{path.stem}\n" in pages[str(section)]


def test_links_lead_to_pages_of_the_site(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for target in re.findall(
            r"\]\((?!https?:|#)([^)#\s]+\.md)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        ):
            place = (Path("/") / name).parent / target
            assert str(place.resolve().relative_to("/")) in pages, f"{name} links to {target}"


def test_a_link_to_a_file_that_is_not_in_the_site_becomes_its_path() -> None:
    assert "(src/fencepost/service/supervisor.py)" not in turned("ARCHITECTURE.md")
    assert "`src/fencepost/service/supervisor.py`" in turned("ARCHITECTURE.md")
    assert "(../reference/figures.md)" in turned("docs/explanation/which-store.md")
    assert "(../explanation/which-store.md)" in turned("README.md")


def test_a_picture_is_found_from_wherever_its_page_is_shown(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for target in re.findall(r"!\[[^\]]*\]\((?!https?:)([^)\s]+)\)", text):
            place = (Path("/") / name).parent / target
            assert (ROOT / "docs" / place.resolve().relative_to("/")).is_file(), f"{name} shows {target}"


def test_the_reference_of_the_http_api_has_every_operation(pages: dict[str, str]) -> None:
    found = [
        f"## {method.upper()} {path}\n"
        for path, operations in document()["paths"].items()
        for method in METHODS
        if method in operations
    ]

    assert len(found) > 20
    assert [line for line in found if line not in pages["reference/http-api.md"]] == []


def test_the_reference_of_the_python_api_has_every_public_name(pages: dict[str, str]) -> None:
    named = re.findall(
        r"^\.\. auto(?:class|function):: fencepost\.[\w.]+\.(\w+)$", pages["reference/python-api.md"], re.MULTILINE
    )

    assert sorted(named) == sorted(fencepost.__all__)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ('<script src="https://example.com/a.js">', "https://example.com/a.js"),
        ("<img src='//example.com/a.png'>", "//example.com/a.png"),
        ('<link rel="stylesheet" href="https://example.com/a.css">', "https://example.com/a.css"),
        ("src: url(https://example.com/a.woff2)", "https://example.com/a.woff2"),
    ],
)
def test_what_a_page_would_fetch_from_elsewhere_is_found(text: str, address: str) -> None:
    assert ELSEWHERE.findall(text) == [address]


def test_a_site_that_would_fetch_a_font_from_elsewhere_is_not_built_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "SITE", tmp_path)
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="_static/own.css">')
    assert list(site.fetched_from_elsewhere()) == []

    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/own.css").write_text('@font-face { src: url("https://fonts.example.com/a.woff2") }')
    assert list(site.fetched_from_elsewhere()) == ["_static/own.css fetches https://fonts.example.com/a.woff2"]


def test_a_link_that_a_person_may_follow_is_no_such_thing() -> None:
    assert ELSEWHERE.findall('<a href="https://example.com">there</a> <img src="_images/a.png">') == []
