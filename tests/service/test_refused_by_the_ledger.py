"""A run that the ledger refuses an effect dies of that, and not as if a gate had refused it; whatever kind of agent it is."""

import pytest

from tests.support.site import Site

WORK = """
def pay(ctx):
    def effect():
        with open("effects", "a") as file:
            file.write("tried\\n")
        raise OSError("the line went dead")
    ctx.once("pay", effect)
"""
LINE = "fencepost ledger once pay -- sh -c 'echo tried >> effects; exit 9'"
PYTHON = 'engine = "python"\nfunction = "work:pay"\n'
AGENTS = {
    "command": f'command = ["sh", "-c", "{LINE}"]\n',
    "python": PYTHON,
    "lane": f"{PYTHON}in_process = true\n",
}


def run(site: Site) -> str:
    """Run the agent once and return the id of that run."""
    before = {one.id for one in site.runs()}
    site.fencepost("run", "payer")
    site.until(lambda: [one for one in site.runs(state="dead") if one.id not in before], seconds=60)
    return next(one.id for one in site.runs() if one.id not in before)


@pytest.mark.parametrize("kind", AGENTS)
def test_a_second_run_that_meets_an_effect_in_doubt_says_so(site: Site, kind: str) -> None:
    (site.folder / "work.py").write_text(WORK)
    site.configure(f"[agents.payer]\n{AGENTS[kind]}")
    site.up()
    run(site)

    second = run(site)

    [refused] = [one for one in site.runs() if one.id == second]
    assert refused.reason == "in_doubt"
    assert (site.folder / "effects").read_text() == "tried\n"
    shown = " ".join(site.fencepost("show", second).split())
    assert "in doubt in the ledger" in shown
    assert "newer fence" not in shown
    assert site.try_fencepost("run", "payer", "--wait").returncode == 77


ANOTHER_WAY = """
from fencepost.operations.supervisor_client import ask

def pay(ctx):
    fields = {"entry": f"step-{ctx.attempt}", "call": "c", "scope": "run", "strict": "1"}
    ask("ledger_begin", **fields)
    ask("ledger_complete", **fields, answer="1")
    raise SystemExit(3)
"""


def test_a_restarted_run_that_wants_another_effect_is_diverged(site: Site) -> None:
    (site.folder / "work.py").write_text(ANOTHER_WAY)
    site.configure(f'[agents.payer]\n{PYTHON}max_attempts = 2\nbackoff = "0s"\n')
    site.up()

    died = run(site)

    assert [(one.id, one.attempt, one.reason) for one in site.runs()] == [(died, 2, "diverged")]


def test_an_exit_code_of_77_without_the_ledger_stays_a_refused_fence(site: Site) -> None:
    site.configure('[agents.payer]\ncommand = ["sh", "-c", "fencepost ledger once fine -- true; exit 77"]\n')
    site.up()
    run(site)

    assert [one.reason for one in site.runs()] == ["fence_refused"]
