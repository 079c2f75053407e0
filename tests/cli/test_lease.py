"""`fencepost lease`: see who holds what, and take it away."""

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.cli.main import main
from fencepost.model.lease import Granted
from fencepost.model.process import Host, ProcessId
from tests.stores.rig import claim
from tests.support.ground import Ground
from tests.support.terminal import on_a_terminal

FIELDS = {"resource", "fence", "run_id", "host", "pid", "granted_at", "expires_at"}
SOMEWHERE = ProcessId(Host("cargo-7f9c", "machine-2", "boot-2", "pid:2"), 4711, "12345")
HOLDER = ["sh", "-c", "echo $FENCEPOST_FENCE > up; until [ -e enough ]; do sleep 0.02; done"]


def holding(ground: Ground, *words: str) -> subprocess.Popen[bytes]:
    holder = ground.start("exec", "--lock", "nightly", *words, "--", *HOLDER)
    ground.wait_for("up")
    return holder


def finish(ground: Ground, holder: subprocess.Popen[bytes]) -> None:
    Path(ground.path("enough")).touch()
    assert ground.told(holder).code == 0


def test_an_empty_store_says_so(ground: Ground) -> None:
    told = ground.run("lease", "list")
    assert (told.code, told.out.decode()) == (0, f"no leases in {ground.store_url}\n")
    assert ground.run("lease", "list", "--json").out == b""


def test_a_lease_is_listed_with_the_fields_that_scripts_rely_on(any_ground: Ground) -> None:
    holder = holding(any_ground)
    (lease,) = any_ground.leases()
    assert lease.keys() >= FIELDS
    assert lease["resource"] == "lock:nightly"
    assert lease["fence"] == int(any_ground.wait_for("up"))
    assert (lease["host"], lease["pid"]) == (os.uname().nodename, holder.pid)
    assert lease["granted_at"] < lease["expires_at"]
    assert lease["granted_at"].endswith("Z")
    finish(any_ground, holder)
    assert any_ground.leases() == []


def test_the_table_fits_a_terminal(ground: Ground) -> None:
    holder = holding(ground)
    table = on_a_terminal("lease", "list", cwd=ground.folder, env=ground.env).splitlines()
    assert table[0].split() == ["RESOURCE", "FENCE", "FOR", "HOLDER", "WHAT"]
    assert table[1].startswith("lock:nightly  1")
    assert all(len(line) <= 80 for line in table)
    finish(ground, holder)


def test_only_so_many_are_listed(ground: Ground) -> None:
    holder = holding(ground)
    assert ground.run("lease", "list", "--limit", "0", "--json").out == b""
    assert len(ground.run("lease", "list", "--limit=5", "--json").out.splitlines()) == 1
    finish(ground, holder)


def test_breaking_says_whose_it_was_and_ends_the_run(any_ground: Ground) -> None:
    holder = holding(any_ground, "--ttl", "3s")
    told = any_ground.run("lease", "break", "lock:nightly", "--note", "stuck")
    assert told.code == 0, told
    assert told.out.decode().startswith("broken: lock:nightly was held by r")
    assert any_ground.told(holder).code == 76
    assert any_ground.leases() == []


def test_a_control_character_in_a_commands_name_cannot_steer_the_terminal(ground: Ground) -> None:
    holder = ground.start("exec", "--lock", "nightly", "--", "sh", "-c", f"{HOLDER[2]} # \x1b[2J")
    ground.wait_for("up")
    assert b"\x1b" not in ground.run("lease", "list").out
    assert json.loads(ground.run("lease", "list", "--json").out)["label"]
    finish(ground, holder)


ELSEWHERE = ("lock:nightly", "lock:weekly")


@pytest.fixture
def lost(any_ground: Ground) -> Ground:
    """Leases of a container that is gone, met by a later start each."""
    store = any_ground.store()
    try:
        for name in ELSEWHERE:
            granted = store.acquire(claim(name, ttl=60.0)._replace(supervisor=SOMEWHERE))
            assert isinstance(granted, Granted)
            store.release(granted.lease, clean=False)
    finally:
        store.close()
    return any_ground


def test_a_lease_that_is_lost_for_good_is_shown_and_forgotten_by_hand(lost: Ground) -> None:
    assert lost.run("lease", "list", "--json").out == b""
    assert b"lost, and not listed here: 2; see them with 'fencepost lease list --lost'" in lost.run("lease", "list").out
    table = lost.run("lease", "list", "--lost").out.decode().splitlines()
    assert [line.split()[0] for line in table] == ["RESOURCE", *ELSEWHERE]
    assert "4711@cargo-7f9c" in table[1]
    rows = [json.loads(line) for line in lost.run("lease", "list", "--lost", "--json").out.splitlines()]
    assert [(row["resource"], row["host"], row["lost"]) for row in rows] == [
        (name, "cargo-7f9c", True) for name in ELSEWHERE
    ]

    broken = lost.run("lease", "break", "lock:nightly")
    assert (broken.code, "fencepost lease forget lock:nightly" in broken.err) == (2, True)
    forgotten = lost.run("lease", "forget", "lock:nightly")
    assert forgotten.out.decode().startswith("forgotten: lock:nightly was lost by r")
    assert lost.run("exec", "--lock", "nightly", "--", "true").err == ""
    assert lost.run("lease", "forget", "lock:nightly").code == 2
    assert lost.run("lease", "list", "--lost").out.decode().splitlines()[1].startswith("lock:weekly")


def test_all_that_a_machine_has_lost_is_forgotten_at_once(lost: Ground) -> None:
    assert "fencepost lease forget --host cargo-7f9c" in lost.run("doctor").out.decode().replace("\n        ", " ")
    assert lost.run("lease", "forget", "--host", "another").code == 2

    told = lost.run("lease", "forget", "--host", "cargo-7f9c")

    assert len(told.out.splitlines()) == len(ELSEWHERE)
    assert lost.run("lease", "list", "--lost").out.startswith(b"no lost leases in ")
    assert b"nothing is left of lost leases" in lost.run("doctor").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["break"], "lease break RESOURCE"),
        (["brek", "lock:x"], "lease break RESOURCE"),
        (["break", "nightly"], "for example lock:nightly"),
        (["break", "lock:nightly"], "there is no lease on lock:nightly"),
        (["forget"], "lease forget RESOURCE"),
        (["forget", "--host"], "--host needs a value"),
        (["list", "--limit", "many"], "--limit is a whole number"),
        (["list", "--limit"], "--limit needs a value"),
        (["list", "--verbose"], "no option '--verbose'"),
    ],
)
def test_a_line_that_cannot_work_is_2_and_says_what_to_write(ground: Ground, words: list[str], said: str) -> None:
    told = ground.run("lease", *words)
    assert told.code == 2, told
    assert said in told.err


def test_help_fits_and_shows_examples(ground: Ground) -> None:
    told = ground.run("lease", "--help")
    assert told.code == 0
    assert b"examples:" in told.out


def test_tenants_have_leases_of_their_own_and_share_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FENCEPOST_STORE", "FENCEPOST_TENANT", "FENCEPOST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "fencepost.toml").write_text(f'[fencepost]\ntenant = "acme"\nstore = "sqlite:{tmp_path}/state.db"\n')
    monkeypatch.chdir(tmp_path)
    store = wiring.open_store(f"sqlite:{tmp_path}/state.db")
    for tenant, resource in (("acme", "schedule:close"), ("other", "schedule:close"), ("other", "project:scout")):
        store.acquire(claim(resource, tenant=tenant))
    store.close()

    def listed(*words: str) -> list[tuple[str, str]]:
        capsys.readouterr()
        assert main(["lease", "list", "--json", *words]) == 0
        rows = map(json.loads, capsys.readouterr().out.splitlines())
        return sorted((row["tenant"], row["resource"]) for row in rows)

    assert listed() == [("acme", "schedule:close"), ("other", "project:scout")]
    assert len(listed("--all-tenants")) == 3
    assert main(["lease", "list", "--all-tenants"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["TENANT", "RESOURCE"]
    assert main(["lease", "break", "schedule:close"]) == 0
    assert main(["lease", "break", "schedule:close"]) == 2
    assert "there is no lease of tenant acme on schedule:close" in capsys.readouterr().err
    assert main(["lease", "break", "project:scout"]) == 0
    assert listed("--tenant", "other") == [("other", "schedule:close")]


def test_a_folder_with_a_configuration_shows_the_machines_own_store_too(ground: Ground) -> None:
    holder = holding(ground)
    project = ground.folder / "project"
    project.mkdir()
    (project / "fencepost.toml").write_text(f'[fencepost]\nstore = "sqlite:{project}/own.db"\n')
    assert ground.run("store", "migrate", cwd=project).code == 0
    told = ground.run("lease", "list", cwd=project).out.decode()
    assert told.startswith(f"no leases in sqlite:{project}/own.db\n")
    assert f"of commands without a configuration, in {ground.store_url}:" in told
    assert "lock:nightly" in told
    (lease,) = ground.run("lease", "list", "--json", cwd=project).out.splitlines()
    assert json.loads(lease)["resource"] == "lock:nightly"
    for asked in (["--store", f"sqlite:{project}/own.db"], ["--limit", "0"]):
        assert "lock:nightly" not in ground.run("lease", "list", *asked, cwd=project).out.decode()
    assert "under lock:nightly" in " ".join(ground.run("why", "nightly", cwd=project).out.decode().split())
    finish(ground, holder)
    assert "of commands" not in ground.run("lease", "list", cwd=project).out.decode()


@pytest.fixture
def project(ground: Ground) -> Path:
    """A folder with a configuration, whose store is not the one of bare `exec`."""
    folder = ground.folder / "project"
    folder.mkdir()
    (folder / "fencepost.toml").write_text(f'[fencepost]\ntenant = "acme"\nstore = "sqlite:{folder}/own.db"\n')
    assert ground.run("store", "migrate", cwd=folder).code == 0
    return folder


@pytest.fixture
def both(ground: Ground, project: Path) -> dict[str, str]:
    """Leases of a container that is gone, in both stores that a folder with a configuration lists."""
    urls = {"acme": f"sqlite:{project}/own.db", "default": ground.store_url}
    for tenant, url in urls.items():
        store = wiring.open_leases(url)
        for name in ("lock:shared", f"lock:of-{tenant}"):
            granted = store.acquire(claim(name, ttl=60.0, tenant=tenant)._replace(supervisor=SOMEWHERE))
            assert isinstance(granted, Granted)
            store.release(granted.lease, clean=False)
        store.close()
    return urls


def test_a_lease_is_broken_in_the_store_that_holds_it(ground: Ground, project: Path) -> None:
    holder = holding(ground, "--ttl", "3s")

    told = ground.run("lease", "break", "lock:nightly", cwd=project)

    assert (told.code, told.out.decode().endswith(f", in {ground.store_url}\n")) == (0, True), told
    assert ground.told(holder).code == 76
    nowhere = ground.run("lease", "break", "lock:nightly", cwd=project)
    assert (nowhere.code, "there is no lease of tenant acme on lock:nightly" in nowhere.err) == (2, True)


@pytest.mark.parametrize("words", [("--store", "own"), ("--tenant", "acme")])
def test_a_lease_is_not_looked_for_beyond_the_store_or_tenant_that_is_named(
    ground: Ground, project: Path, words: tuple[str, str]
) -> None:
    holder = holding(ground)
    option, value = words
    value = f"sqlite:{project}/own.db" if option == "--store" else value

    assert ground.run("lease", "break", "lock:nightly", option, value, cwd=project).code == 2
    finish(ground, holder)


def test_a_lost_lease_is_forgotten_in_the_store_that_has_it(
    ground: Ground, project: Path, both: dict[str, str]
) -> None:
    for tenant, url in both.items():
        told = ground.run("lease", "forget", f"lock:of-{tenant}", cwd=project)
        assert (told.code, told.out.decode().endswith(f", in {url}\n")) == (0, True), told
    assert ground.run("lease", "forget", "lock:of-default", cwd=project).code == 2


def test_of_a_lease_that_both_stores_have_the_configurations_goes_first(
    ground: Ground, project: Path, both: dict[str, str]
) -> None:
    for url in both.values():
        assert ground.run("lease", "forget", "lock:shared", cwd=project).out.decode().endswith(f", in {url}\n")


def test_a_host_that_is_gone_is_forgotten_in_both_stores(ground: Ground, project: Path, both: dict[str, str]) -> None:
    told = ground.run("lease", "forget", "--host", "cargo-7f9c", cwd=project).out.decode().splitlines()

    assert [line.rpartition(", in ")[2] for line in told] == [url for url in both.values() for _ in range(2)]
    assert ground.run("lease", "list", "--lost", "--json", cwd=project).out == b""
    assert ground.run("lease", "forget", "--host", "cargo-7f9c", cwd=project).code == 2


def test_a_debt_and_a_tick_are_forgotten_in_the_store_that_has_them(ground: Ground, project: Path) -> None:
    assert ground.run("exec", "--lock", "nightly", "--tick", "* * * * *", "--timezone", "UTC", "--", "true").code == 0
    with closing(ground.store()) as store:
        granted = store.acquire(claim("lock:owing", gates=("file:/gone",)))
        assert isinstance(granted, Granted)
        store.release(granted.lease, clean=False)

    told = ground.run("lease", "reset-tick", "nightly", cwd=project)
    assert (told.code, told.out.decode()) == (
        0,
        f"forgotten: what was known of the ticks of nightly, in {ground.store_url}\n",
    )
    told = ground.run("lease", "forget", "lock:owing", "file:/gone", cwd=project)
    assert (told.code, told.out.decode().endswith(f"its fence, in {ground.store_url}\n")) == (0, True), told
    assert ground.run("lease", "forget", "lock:owing", "file:/gone", cwd=project).code == 2
