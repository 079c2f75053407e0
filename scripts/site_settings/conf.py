"""Settings of Sphinx for the site of the docs: nothing is fetched from elsewhere, neither when it is built nor when it is read."""

project = "Fencepost"
html_title = "Fencepost"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
default_role = "code"  # single backticks in docstrings
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
suppress_warnings = ["misc.highlighting_failure"]  # JSON with a … in it
html_theme = "furo"  # with the fonts of the reader's system
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
html_theme_options = {"source_repository": "", "footer_icons": []}


def spell_examples(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Let indented lines of a docstring be an example: for Sphinx the line before has to end with two colons."""
    for number in range(len(lines) - 1, 1, -1):
        begins = lines[number].startswith("    ") and not lines[number - 1].strip()
        if begins and not lines[number - 2].startswith("    "):
            lines[number - 1 : number] = ["", "::", ""]


def setup(app) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # Sphinx calls it
    """Take part in the reading of docstrings."""
    app.connect("autodoc-process-docstring", spell_examples)
