"""The Python door: definitions in a program are checked, applied and run like those of a file."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import get_type_hints

import pytest

import fencepost
from fencepost import Busy, Fencepost, RunContext
from fencepost.app.options import AgentOptions, PolicyOptions
from fencepost.config.problems import InvalidConfig
from fencepost.config.sections import AGENTS, SCHEDULES
from fencepost.model.errors import Invalid, Misconfigured, Outdated, StoreUnavailable
from tests.support.site import Site

ROOT = Path(__file__).parents[2]
NOT_FOR_PYTHON = {"engine", "function"}


def work(run: RunContext) -> None:
    """Do nothing; a worker could import it."""


async def work_later(run: RunContext) -> None:
    """Do nothing, later."""


@pytest.fixture
def app(tmp_path: Path) -> Fencepost:
    return Fencepost(f"sqlite:{tmp_path}/state.db", timezone="UTC")


def test_a_decorated_function_is_a_schedule_with_an_agent(app: Fencepost) -> None:
    same = app.schedule(cron="0 2 1 * *", timezone="Europe/Berlin", missed="coalesce", timeout=timedelta(hours=4))(work)

    config = app.config()

    assert same is work
    assert config.schedules["work"].agent == "work-agent"
    assert (config.schedules["work"].timezone, config.schedules["work"].missed) == ("Europe/Berlin", "coalesce")
    agent = config.agents["work-agent"]
    assert (agent.engine, agent.function) == ("python", f"{__name__}:work")
    assert agent.timeout == "14400000ms"


def test_one_agent_may_have_several_schedules(app: Fencepost) -> None:
    app.agent(max_attempts=3)(work)
    app.schedule(every="15m")(work)
    app.schedule(cron="@daily", name="nightly")(work)

    config = app.config()

    assert {name: one.agent for name, one in config.schedules.items()} == {"work-every": "work", "nightly": "work"}
    assert config.agents["work"].max_attempts == 3


def test_a_schedule_may_have_several_triggers(app: Fencepost) -> None:
    app.schedule(cron=["0 2 * * *", "0 14 * * *"], at=datetime(2026, 12, 1, 9, tzinfo=UTC))(work)

    definition = app.config().schedules["work"]

    assert len(definition.cron) == 2
    assert "2026-12-01T09:00:00Z" in definition.at


def test_everything_that_is_wrong_is_said_at_once_with_its_line(app: Fencepost) -> None:
    app.schedule(cron="61 * * * *", timezone="Mars/Olympus")(work)
    line = sys._getframe().f_lineno - 1
    app.agent(gates=["nowhere"], tiemout="4h")(work_later)  # type: ignore[call-arg]

    with pytest.raises(InvalidConfig) as refused:
        app.config()

    text = str(refused.value)
    assert f"test_app.py:{line}:1: schedules.work.cron" in text
    assert f"test_app.py:{line}:1: schedules.work.timezone" in text
    assert f"test_app.py:{line + 2}:1: agents.work-later.gates.0" in text
    assert 'Did you mean "timeout"?' in text


def test_cron_without_a_zone_is_refused_as_in_a_file(tmp_path: Path) -> None:
    app = Fencepost(f"sqlite:{tmp_path}/state.db")
    app.schedule(cron="0 2 * * *")(work)

    with pytest.raises(InvalidConfig, match="timezone"):
        app.config()


def test_what_no_worker_could_import_is_refused(app: Fencepost) -> None:
    def inner(run: RunContext) -> None: ...

    for function in (inner, lambda _: None):
        with pytest.raises(Invalid, match="a worker could not import"):
            app.schedule(every="1m")(function)


def test_a_name_may_be_given_once(app: Fencepost) -> None:
    app.agent(name="same")(work)

    with pytest.raises(Invalid, match="two agents called 'same', the first on line"):
        app.agent(name="same")(work_later)


def test_options_of_an_agent_are_said_where_it_is_defined(app: Fencepost) -> None:
    app.agent()(work)

    with pytest.raises(Invalid, match="say timeout there"):
        app.schedule(every="1m", timeout="4h")(work)


def test_the_typed_keys_are_the_schemas_keys() -> None:
    agents = {key.name for key in AGENTS.keys if not key.engines or "python" in key.engines} - NOT_FOR_PYTHON
    schedules = {key.name for key in SCHEDULES.keys} - {"agent", "cron", "every", "at", "timezone"}

    assert set(get_type_hints(AgentOptions)) == agents
    assert set(get_type_hints(PolicyOptions)) == schedules
    assert not agents & schedules


def test_apply_is_idempotent_and_retires_what_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/state.db"

    def kinds(app: Fencepost) -> dict[str, str]:
        return {change.name: change.kind.value for change in app.apply().plan.schedules}

    first = Fencepost(url)
    first.schedule(every="15m")(work)
    first.schedule(every="1h")(work_later)
    assert kinds(first) == {"work": "added", "work-later": "added"}
    assert kinds(first) == {"work": "unchanged", "work-later": "unchanged"}

    second = Fencepost(url)
    second.schedule(every="15m")(work)
    assert kinds(second) == {"work": "unchanged", "work-later": "retired"}


def test_a_trigger_is_durable_and_idempotent_by_its_key(app: Fencepost) -> None:
    app.agent()(work)
    app.apply()

    made = app.trigger(work, payload={"n": 1}, key="k")
    same = app.trigger("work", key="k")

    assert (made.state, made.trigger, made.earlier) == ("ready", "manual", False)
    assert (same.id, same.earlier) == (made.id, True)
    assert [run.id for run in app.runs(agent="work")] == [made.id]
    assert app.show(made.id[:12]).ready_at.tzinfo is UTC
    with pytest.raises(Busy, match="has not ended"):
        app.wait(made.id, timeout="10ms")
    assert app.cancel(made.id).state == "cancelled"
    assert app.wait(made.id).ended


def test_async_code_awaits_the_same_verbs(app: Fencepost) -> None:
    app.agent()(work_later)

    async def ask() -> list[str]:
        await app.aio.apply()
        made = await app.aio.trigger(work_later)
        await app.aio.cancel(made.id)
        ended = await app.aio.wait(made.id, timeout="10s")
        return [ended.state, *(run.state for run in await app.aio.runs())]

    assert asyncio.run(ask()) == ["cancelled", "cancelled"]


def test_what_is_no_target_is_said(app: Fencepost) -> None:
    app.apply()

    with pytest.raises(Invalid, match="neither a schedule nor an agent"):
        app.trigger(work)
    with pytest.raises(Invalid, match="nothing"):
        app.trigger("nothing")


def test_serving_belongs_in_the_main_thread_and_outside_of_runs(
    app: Fencepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def elsewhere() -> None:
        try:
            app.up()
        except Invalid as error:
            said.append(str(error))

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "main thread" in said[0]

    monkeypatch.setenv("FENCEPOST_SOCKET", "/x")
    with pytest.raises(Misconfigured, match="__main__"):
        app.up()


def test_an_explicit_store_wins_and_the_environment_comes_next(
    app: Fencepost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_STORE", "sqlite:/elsewhere.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert app.store_url == f"sqlite:{tmp_path}/state.db"
    assert Fencepost().store_url == "sqlite:/elsewhere.db"
    monkeypatch.delenv("FENCEPOST_STORE")
    assert Fencepost().store_url.startswith(f"sqlite:{tmp_path}/fencepost/")
    monkeypatch.setenv("MY_STORE", "sqlite:/mine.db")
    assert Fencepost("env:MY_STORE").store_url == "sqlite:/mine.db"


def test_a_program_that_looks_or_acts_at_a_mistyped_path_is_told_and_plans_without_making_a_store(
    app: Fencepost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.agent(name="work")(work)
    asking = (app.runs, lambda: app.show("r1"), lambda: app.cancel("r1"), lambda: app.trigger("work"))
    for ask in asking:
        with pytest.raises(
            StoreUnavailable, match=r"there is no store at .*/state\.db, which Fencepost\('sqlite:"
        ) as told:
            ask()
        assert "app.apply() or app.up()" in str(told.value)
    monkeypatch.setenv("FENCEPOST_STORE", f"sqlite:{tmp_path}/typo.db")
    with pytest.raises(StoreUnavailable, match="FENCEPOST_STORE names"):
        Fencepost().runs()

    assert [change.name for change in app.plan().plan.agents] == ["work"]
    assert list(tmp_path.iterdir()) == []
    app.apply()
    assert app.runs() == []


def test_importing_fencepost_loads_none_of_it() -> None:
    code = "import sys, fencepost; print(*[m for m in sys.modules if m.startswith('fencepost.')])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == ""
    assert all(getattr(fencepost, name) for name in fencepost.__all__)


@pytest.fixture
def example(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """The example, started the way a person does."""
    shutil.copy(ROOT / "examples/python/books.py", site.folder)
    program = subprocess.Popen(
        [sys.executable, "books.py"],
        cwd=site.folder,
        env={**site.environment(), "FENCEPOST_STORE": site.store},
        stderr=subprocess.PIPE,
    )
    with program:
        yield program
        if program.poll() is None:
            program.kill()


def test_the_example_applies_itself_runs_and_drains(site: Site, example: subprocess.Popen[bytes]) -> None:
    assert example.stderr is not None
    assert any(b"room for 2 runs" in line for line in example.stderr)
    app = Fencepost(site.store)

    for _ in range(2):
        ended = app.wait(app.trigger("close-books", payload={"month": "2026-10"}).id, timeout="60s")
        assert ended.succeeded, ended

    assert (site.folder / "sent.txt").read_text() == "2026-10\n"
    assert (site.folder / "report.json").read_text() == '{"month": "2026-10", "invoice": "INV-2026-10"}'
    site.until(lambda: any(run.succeeded for run in app.runs(schedule="sweep")))
    example.send_signal(signal.SIGTERM)
    assert example.wait(30) == 0


def test_the_tick_is_an_aware_instant(app: Fencepost) -> None:
    app.schedule(cron="0 2 * * *")(work)
    app.apply()

    with pytest.raises(Invalid, match="did not exist at"):
        app.trigger(work, tick=datetime(2020, 1, 1, 2, tzinfo=UTC))


SWEEP = {"agent": "sweeper", "cron": "0 * * * *", "timezone": "UTC"}


def test_a_platforms_screen_puts_and_retires_one_definition_at_a_time(app: Fencepost) -> None:
    app.schedule(cron="@daily", name="nightly")(work)
    app.apply()
    app.put_agent("sweeper", {"engine": "command", "command": ["true"]})
    first = app.put_schedule("sweep", SWEEP, tag="absent")

    second = app.put_schedule("sweep", {**SWEEP, "cron": "30 * * * *"}, tag=first)

    assert first != second
    for stale in (first, "absent"):
        with pytest.raises(Outdated, match="not what you have seen"):
            app.put_schedule("sweep", SWEEP, tag=stale)
    with pytest.raises(Invalid, match="unknown agent"):
        app.put_schedule("other", {**SWEEP, "agent": "nobody"})
    with pytest.raises(Invalid, match="runs it"):
        app.delete_agent("sweeper")
    assert not any(one.kind == "retired" for one in app.plan().plan.schedules)  # what is put alone is not the program's

    app.delete_schedule("sweep", tag=second)
    app.delete_agent("sweeper")
    with pytest.raises(Invalid, match="retired already"):
        app.delete_schedule("sweep")
    with pytest.raises(Busy, match="defined by"):
        app.delete_schedule("nightly")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"cron": "*/45 * * * *"}, "begins again"),
        ({"timezone": "EST"}, "EST"),
        ({"cron": "0 8 1 * mon"}, "day"),
    ],
)
def test_a_schedule_that_probably_means_something_else_is_put_with_a_warning(
    app: Fencepost, keys: dict[str, str], says: str
) -> None:
    app.apply()
    app.put_agent("sweeper", {"engine": "command", "command": ["true"]})

    with pytest.warns(UserWarning, match=f"schedule sweep: .*{says}") as told:
        tag = app.put_schedule("sweep", {**SWEEP, **keys})

    assert tag
    assert {one.filename for one in told} == {__file__}


def test_what_exec_ran_is_a_list_of_its_own(app: Fencepost) -> None:
    app.apply()
    for code in (0, 3):
        words = ["fencepost", "exec", "--store", app.store_url, "--lock", "digest", "--", "sh", "-c", f"exit {code}"]
        assert subprocess.run([sys.executable, "-m", *words], check=False).returncode == code

    failed, well = app.commands()
    assert (failed.state, failed.exit_code, failed.resource) == ("failed", 3, "lock:digest")
    assert well.started_at < failed.started_at
    assert failed.fence > well.fence
    assert app.commands(state="succeeded") == [well]
    assert asyncio.run(app.aio.commands(limit=1)) == [failed]
    assert app.runs() == []


def test_single_definitions_have_the_same_names_in_async_code(app: Fencepost) -> None:
    app.apply()

    async def put() -> None:
        await app.aio.put_agent("sweeper", {"engine": "command", "command": ["true"]})
        tag = await app.aio.put_schedule("sweep", SWEEP)
        await app.aio.delete_schedule("sweep", tag=tag)
        await app.aio.delete_agent("sweeper")

    asyncio.run(put())
