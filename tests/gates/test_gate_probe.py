"""Gates are tried at plan, apply and by the doctor: a service that is away or is no gate is told before the night does it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.gates.sql.gate import SqlGate
from fencepost.integrations.wsgi import FenceMiddleware
from fencepost.operations.gate_kinds import open_gate
from fencepost.operations.gate_probe import standing_problems, target_problems
from tests.support.scratch import free_port
from tests.support.services import GATE_KEY, Report, wsgi_app, wsgi_served
from tests.support.site import Site


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", GATE_KEY)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    with wsgi_served(FenceMiddleware(wsgi_app(Report()), marks=str(tmp_path / "marks"), key=GATE_KEY)) as url:
        yield url


def problems(url: str) -> list[str]:
    return list(target_problems(f"http:{url}#key=env:GATE_KEY"))


def test_a_service_with_its_gate_is_fine_and_was_not_changed(service: str) -> None:
    assert problems(service) == []
    assert open_gate(f"http:{service}#key=env:GATE_KEY").status().marks == {}


def test_a_service_that_is_away_is_told() -> None:
    [told] = problems(f"http://127.0.0.1:{free_port()}")
    assert "cannot status" not in told
    assert "Connection refused" in told


def test_a_service_without_a_gate_is_told() -> None:
    with wsgi_served(wsgi_app(Report())) as url:
        [told] = problems(url)
    assert "Is the middleware or the proxy there" in told


def test_a_wrong_key_is_told(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_KEY", "another-key-than-that-of-the-gate")
    [told] = problems(service)
    assert "the gate's key is missing or wrong" in told


def test_plan_and_doctor_try_the_gates_of_agents(site: Site) -> None:
    database = site.folder / "app.db"
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE report (text)")
    site.configure(
        f'[agents.worker]\ncommand = ["true"]\ngates = ["shop", "books"]\n'
        f'[gates.shop]\nkind = "http"\nurl = "http://127.0.0.1:{free_port()}"\nkey = "env:GATE_KEY"\n'
        f'[gates.books]\nkind = "sql"\nurl = "sqlite:{database}"\n'
    )
    planned, doctor = site.fencepost("plan"), site.fencepost("doctor", code=None)

    assert "gate shop: cannot ask http:http://127.0.0.1" in planned
    assert "books" not in planned.partition("warning")[2]
    assert "shop: cannot ask" in doctor
    assert "books: no table is guarded" in doctor


def test_a_database_that_is_not_there_is_told_and_a_guarded_table_is_enough_for_the_doctor(tmp_path: Path) -> None:
    target = f"sql:sqlite:{tmp_path}/app.db"
    [told] = target_problems(target)
    assert "there is no database" in told

    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE report (text)")
    assert [told.partition(",")[0] for told in standing_problems(target)] == ["no table is guarded"]
    gate = open_gate(target)
    assert isinstance(gate, SqlGate)
    gate.install(gate.guard("report"))
    assert gate.guarded_tables() == ["report"]
    assert list(standing_problems(target)) == []


def test_postgres_knows_its_guarded_tables_too(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATED_URL", postgres_url)
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    with gate._database.connected() as connection:
        connection.execute("CREATE TABLE report (text text)")
    assert gate.guarded_tables() == []

    gate.install(gate.guard("report"))
    assert gate.guarded_tables() == ["report"]
