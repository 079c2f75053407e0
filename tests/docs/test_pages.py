"""The pages are run: what they show is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOW_TOS = (
    "guard-a-crontab-line",
    "preview-ticks",
    "try-to-break-in",
    "two-macs-no-server",
    "write-a-schedule",
)  # need nothing but git
PAGES = [
    "README.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/tutorial/*.md"))),
    *(f"docs/how-to/{name}.md" for name in HOW_TOS),
]
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARK = "----8<---- end of step, which left with"
VARIABLE = re.compile(r"\d{12,}|tzdata \d{4}[a-z]")


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page, each with the output that it shows; a piece of TOML goes into the file."""
    found: list[tuple[str, list[str]]] = []
    into = ">"
    for kind, block in BLOCK.findall((ROOT / page).read_text()):
        if kind == "toml":
            found.append((f"cat {into} fencepost.toml <<'EOF'\n{block}EOF", []))
            into = ">>"
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            else:
                found[-1][1].append(line)
    return found


def replay(commands: list[str], folder: Path) -> list[tuple[str, int]]:
    """Run the commands in one shell and return what each printed on standard output, and its code."""
    # A command must not change the exit code that the next one asks for with $?.
    body = "\n".join(f"{command}\n__code=$?; echo '{MARK}' $__code; (exit $__code)" for command in commands)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
        "HOME": str(folder),
    }
    ran = subprocess.run(
        ["bash", "-c", body], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=False
    )
    return [(out, int(code)) for out, code in re.findall(rf"(.*?){MARK} (\d+)\n", ran.stdout, re.DOTALL)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_happens(page: str, tmp_path: Path) -> None:
    shown = steps(page)
    assert shown, f"{page} has commands to run"

    printed = replay([command for command, _ in shown], tmp_path)

    assert len(printed) == len(shown)
    asked = [*("$?" in command for command, _ in shown[1:]), False]
    for (command, expected), (output, code), is_asked in zip(shown, printed, asked, strict=True):
        assert is_asked or code == 0, f"{page}: $ {command}\nleft with {code}"
        if expected:
            assert _same("\n".join(expected), output), f"{page}: $ {command}\nshows {expected}\nprinted {output!r}"


def _same(expected: str, printed: str) -> bool:
    """Compare, taking any fence for any other, and the time zone tables of any release."""
    return VARIABLE.sub("N", expected).strip() == VARIABLE.sub("N", printed).strip()


def test_every_promise_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (P\d+) \|.*\| (.+) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == [f"P{number}" for number in range(1, 13)]
    for name, proofs in rows:
        named = re.findall(r"`(tests/[^`]+)`", proofs)
        assert named, f"{name} names no test"
        assert [path for path in named if not any(ROOT.glob(path.rstrip("/")))] == [], name


def test_links_between_pages_lead_somewhere() -> None:
    link = re.compile(r"\]\((?!https?:|#)([^)#]+)")
    pages = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md")]
    pages += sorted(ROOT.glob("docs/**/*.md"))
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]

    assert not broken
