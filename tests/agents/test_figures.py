"""The figures page says which versions of which CLIs were run, and they are the ones that the suite runs."""

from tests.agents.clis import CLIS, ROOT


def test_the_table_of_the_figures_has_every_cli_that_is_tried_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "figures.md").read_text()
    table = page.partition("## Agents")[2].partition("\n## ")[0]
    rows = [line.split("|")[2].strip() for line in table.splitlines() if line.startswith("| ")][1:]

    assert sorted(rows) == sorted(cli.version for cli in CLIS)
