"""An agent of one tenant and the secret of another, with a real worker: the three ways that once led to it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost import wiring
from fencepost.ports.runs import RunRow
from tests.support.site import Site, greeted

KEY = "key-of-the-harbor"
LISTS = '[tenants.acme]\nsecrets = ["env:ACME_KEY"]\n[tenants.harbor]\nsecrets = ["env:HARBOR_KEY"]\n'
PASSES = """[agents.{name}]
command = ["sh", "-c", "env > {name}.env"]
pass_env = ["{variable}"]
"""
GRANTS_ITSELF = '[tenants.acme]\nsecrets = ["env:HARBOR_KEY", "env:ACME_KEY"]\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("HARBOR_KEY", KEY)
    monkeypatch.setenv("ACME_KEY", "key-of-acme")
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.close()


def elsewhere(site: Site, name: str, text: str) -> Site:
    """Return a folder of a tenant's own, with the same store."""
    folder = site.folder / name
    folder.mkdir()
    other = Site(folder, site.store)
    other.configure(f'tenant = "acme"\n{text}')
    return other


def ended(site: Site, agent: str, tenant: str = "acme") -> RunRow:
    """Run an agent to its end, however it ends."""
    site.fencepost("run", agent, "--tenant", tenant, "--wait", code=None)
    store = wiring.open_runtime(site.store)
    try:
        return next(run for run in store.runs(tenant=tenant, limit=100) if run.agent == agent)
    finally:
        store.close()


def demand_refused(site: Site, run: RunRow) -> None:
    assert (run.state, run.reason, run.started_us) == ("dead", "misconfigured", None)
    assert not (site.folder / f"{run.agent}.env").exists(), "it never began"
    said = site.fencepost("logs", run.id, "--tenant", run.tenant)
    assert "not started" in said
    assert "HARBOR_KEY" in said
    assert "the worker's own file" in said
    assert KEY not in said


def test_a_tenant_gets_its_own_secret_and_not_the_one_that_its_file_grants_to_itself(site: Site) -> None:
    site.configure(LISTS)
    theirs = GRANTS_ITSELF + PASSES.format(name="nosy", variable="HARBOR_KEY")
    elsewhere(site, "acme", theirs + PASSES.format(name="fine", variable="ACME_KEY"))
    site.up("--workers", "2")

    assert ended(site, "fine").state == "succeeded"
    assert "ACME_KEY=key-of-acme" in (site.folder / "fine.env").read_text()
    assert KEY not in (site.folder / "fine.env").read_text()
    demand_refused(site, ended(site, "nosy"))


def test_a_tenant_gets_no_secret_that_was_applied_over_http_at_a_door_that_lists_nobody(site: Site) -> None:
    site.configure(LISTS)
    door = elsewhere(site, "door", "")
    door.up("--port", "0", command="web")
    key = site.fencepost("key", "create", "applier", "--role", "admin", "--tenant", "acme").split()[-1]
    port, _ = greeted(door)
    sent = {"definitions": PASSES.format(name="nosy", variable="HARBOR_KEY"), "name": "ops"}
    head = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"http://127.0.0.1:{port}/api/v1/apply", json=sent, headers=head)
    assert answer.status_code == httpx.codes.OK, answer.text
    door.close()
    site.up("--workers", "1")

    demand_refused(site, ended(site, "nosy"))


def test_a_restriction_holds_for_what_was_applied_before_it(site: Site) -> None:
    site.configure("")
    elsewhere(site, "acme", PASSES.format(name="old", variable="HARBOR_KEY"))
    site.configure(LISTS)
    site.up("--workers", "1")

    demand_refused(site, ended(site, "old"))


def test_a_worker_that_lists_others_gives_an_unlisted_tenant_nothing(site: Site) -> None:
    site.configure('[tenants.harbor]\nsecrets = ["env:HARBOR_KEY"]\n')
    elsewhere(site, "acme", PASSES.format(name="nosy", variable="HARBOR_KEY"))
    site.up("--workers", "1")

    demand_refused(site, ended(site, "nosy"))


def test_a_worker_that_lists_nobody_gives_what_is_asked_for(site: Site) -> None:
    site.configure("")
    elsewhere(site, "acme", PASSES.format(name="free", variable="HARBOR_KEY"))
    site.up("--workers", "1")

    assert ended(site, "free").state == "succeeded"
    assert KEY in (site.folder / "free.env").read_text()


LANE = """[agents.lane]
engine = "python"
function = "work:touch"
in_process = true
gates = ["sql:env:HARBOR_KEY"]
"""


def test_a_lane_raises_no_gate_by_a_secret_that_is_not_the_tenants(site: Site) -> None:
    (site.folder / "work.py").write_text("def touch(context):\n    open('lane.env', 'w').close()\n")
    site.configure(LISTS)
    elsewhere(site, "acme", GRANTS_ITSELF + LANE)
    site.up("--workers", "1")

    run = ended(site, "lane")
    assert (run.state, run.reason) == ("dead", "misconfigured")
    assert not (site.folder / "lane.env").exists()
