"""From a file to definitions: what is taken over, what is filled in, what an editor may do to it."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencepost.config.find import store_url_of, tenant_of
from fencepost.config.load import Config, load
from fencepost.config.read import BYTES_MAX
from fencepost.config.reference_page import page
from fencepost.config.sections import AGENTS, OPTIONS, SCHEDULES
from fencepost.config.template import TEMPLATE, guess_zone
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, agent_from_json, to_json
from fencepost.model.errors import Invalid
from tests.config.toml_texts import texts

ECHO = '[agents.echo]\ncommand = ["echo"]\n'
DAILY = '[schedules.daily]\nagent = "echo"\ncron = "0 9 * * *"\n'
DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = DOCS / "reference" / "configuration.md"
HOW_TO = DOCS / "how-to" / "write-a-schedule.md"


def loaded(tmp_path: Path, text: str | bytes, name: str = "fencepost.toml") -> Config:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(str(path))


def test_the_files_zone_is_taken_where_a_schedule_names_none(tmp_path: Path) -> None:
    other = DAILY.replace("daily", "other") + 'timezone = "America/New_York"\n'
    config = loaded(tmp_path, '[fencepost]\ntimezone = "Europe/Berlin"\n' + ECHO + DAILY + other)
    assert config.schedules["daily"].timezone == "Europe/Berlin"
    assert config.schedules["other"].timezone == "America/New_York"


def test_a_byte_order_mark_carriage_returns_and_tabs_do_no_harm(tmp_path: Path) -> None:
    text = '[fencepost]\ntimezone = "UTC"\n' + ECHO + DAILY
    plain = loaded(tmp_path, text)
    odd = loaded(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").replace(" = ", "\t=\t").encode())
    assert odd.schedules == plain.schedules
    assert odd.agents == plain.agents


def test_a_file_that_everybody_may_change_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fencepost.toml"
    path.write_text('[agents.a]\ncommand = ["true"]\n')
    path.chmod(0o666)
    with pytest.raises(Invalid, match="chmod o-w"):
        load(str(path))
    path.chmod(0o664)  # as a group of one's own has it
    assert load(str(path)).agents


def test_pyproject_holds_the_same_below_tool_fencepost(tmp_path: Path) -> None:
    text = '[tool.fencepost]\ntimezone = "UTC"\ntenant = "acme"\nstore = "sqlite:/x.db"\n'
    text += (ECHO + DAILY).replace("[", "[tool.fencepost.", 1).replace("[schedules", "[tool.fencepost.schedules")
    config = loaded(tmp_path, text, "pyproject.toml")
    assert config.schedules["daily"].timezone == "UTC"
    assert config.settings.tenant == "acme" == tenant_of(str(tmp_path / "pyproject.toml"), {})
    assert store_url_of(str(tmp_path / "pyproject.toml"), {}) == "sqlite:/x.db"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:state/s.db", "sqlite:{folder}/state/s.db"),
        ("sqlite:s.db", "sqlite:{folder}/s.db"),
        ("sqlite:/var/s.db", "sqlite:/var/s.db"),
        ("sqlite:~/s.db", "sqlite:~/s.db"),
        ("env:WHERE", "sqlite:{folder}/from/env.db"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_a_store_beside_the_configuration_is_the_same_from_everywhere(tmp_path: Path, written: str, meant: str) -> None:
    (tmp_path / "fencepost.toml").write_text(f'[fencepost]\nstore = "{written}"\n')
    (tmp_path / "link").symlink_to(tmp_path)

    for way in (tmp_path, tmp_path / "link"):
        found = store_url_of(str(way / "fencepost.toml"), {"WHERE": "sqlite:from/env.db"})
        assert found == meant.format(folder=tmp_path)


def test_a_problem_in_pyproject_is_found_at_its_own_line(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n\n[tool.fencepost.agents.echo]\ncomand = ["echo"]\n'
    with pytest.raises(Invalid, match=r"pyproject\.toml:5:1: agents\.echo\.comand"):
        loaded(tmp_path, text, "pyproject.toml")


def test_dates_may_stand_without_quotes(tmp_path: Path) -> None:
    text = ECHO + '[schedules.shot]\nagent = "echo"\nat = 2030-12-01T10:00:00+01:00\n'
    text += 'calendar = [2030-12-24, "SAT-SUN"]\n'
    shot = loaded(tmp_path, text).schedules["shot"]
    assert shot.at == "2030-12-01T09:00:00Z"
    assert shot.calendar == ("2030-12-24", "SAT-SUN")


def test_a_wall_time_needs_a_zone(tmp_path: Path) -> None:
    shot = ECHO + '[schedules.shot]\nagent = "echo"\nat = "2030-12-01T10:00"\n'
    with pytest.raises(Invalid, match="it has no offset"):
        loaded(tmp_path, shot)
    assert loaded(tmp_path, shot + 'timezone = "Europe/Berlin"\n').schedules["shot"].at == "2030-12-01T10:00"


def test_an_amount_is_kept_as_it_was_written(tmp_path: Path) -> None:
    config = loaded(tmp_path, ECHO + "budget_usd = 0.10\n")
    assert config.agents["echo"].budget_usd == "0.10"


def test_a_payload_is_kept_as_json(tmp_path: Path) -> None:
    payload = 'payload = { a = [1, 2.5, true, 2030-01-01], b = { c = "x" } }\n'
    config = loaded(tmp_path, ECHO + DAILY + 'timezone = "UTC"\n' + payload)
    kept = json.loads(to_json(config.schedules["daily"]))["payload"]
    assert kept == {"a": [1, 2.5, True, "2030-01-01"], "b": {"c": "x"}}


def test_a_gate_travels_with_the_agents_that_name_it(tmp_path: Path) -> None:
    text = ECHO + 'gates = ["db", "file:/tmp/x"]\n[gates.db]\nkind = "sql"\nurl = "env:DB"\n'
    agent = loaded(tmp_path, text).agents["echo"]
    assert agent.gates == ("db", "file:/tmp/x")
    assert agent.gate_definitions == {"db": {"kind": "sql", "url": "env:DB"}}
    assert loaded(tmp_path, text.replace("env:DB", "env:DB2")).agents["echo"] != agent


def test_what_only_an_engine_understands_becomes_its_options(tmp_path: Path) -> None:
    text = '[agents.ask]\nengine = "claude"\nprompt = "do"\nmodel = "best"\ntools = ["Read"]\noptions = { x = 1 }\n'
    agent = loaded(tmp_path, text).agents["ask"]
    assert agent.options == {"model": "best", "tools": ["Read"], "x": 1}
    assert agent_from_json(to_json(agent)) == agent


def test_an_agent_of_another_file_is_left_to_the_registry(tmp_path: Path) -> None:
    config = loaded(tmp_path, DAILY + 'timezone = "UTC"\n')
    assert config.places["daily"].endswith("fencepost.toml:2:1")


def test_the_owner_is_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text(ECHO)
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert load(str(tmp_path / "link.toml")).path == str((tmp_path / "real.toml").resolve())


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="larger than 10 MB"):
        loaded(tmp_path, b"#" * (BYTES_MAX + 1))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        load(str(tmp_path / "none.toml"))


NESTED = "[agents.x]\noptions = " + "[" * 5000 + "]" * 5000


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.text(max_size=200) | texts | texts.map(lambda text: ECHO + DAILY + text))
@example(NESTED)
@example("a" + ".a" * 5000 + " = 1")
@example("[agents.x]\ncommand = [1]\nlog_max = 0x" + "f" * 5000)
@example("[agents.x]\noptions = { a = 0x" + "f" * 5000 + " }")
@example("[agents.x]\nbudget_usd = 1e999999")
@example("[agents.x]\nbudget_usd = -nan")
@example('[agents.x]\ncommand = ["\\u0000"]')
@example("[schedules.x]\nat = 07:32:00")
@example("[agents.x]\nengine = []")
@example('[agents."\\U0010FFFF"]')
def test_any_text_is_a_configuration_or_invalid(tmp_path: Path, text: str) -> None:
    try:
        loaded(tmp_path, text.encode("utf-8", "surrogatepass"))
    except Invalid as refused:
        assert str(refused)  # noqa: PT017


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(section=st.sampled_from(["agents", "schedules"]), data=st.data())
def test_any_value_for_any_key_is_taken_or_invalid(tmp_path: Path, section: str, data: st.DataObject) -> None:
    known = AGENTS if section == "agents" else SCHEDULES
    values = st.sampled_from(
        ['"x"', '""', "0", "-1", "1.5", "true", "[]", '["a"]', "[1]", "{}", '{ A = "b" }', "2030-01-01", "07:32:00",
         '"5m"', '"0s"', '"UTC"', '"env:X"', '"2030-01-01T00:00:00Z"', "nan", '"* * * * *"']
    )  # fmt: skip
    keys = data.draw(st.dictionaries(st.sampled_from([key.name for key in known.keys]), values, max_size=6))
    body = "\n".join(f"{key} = {value}" for key, value in keys.items())
    try:
        loaded(tmp_path, f"[{section}.x]\n{body}\n")
    except Invalid as refused:
        assert str(refused)  # noqa: PT017


def test_every_field_of_a_definition_has_a_key_and_every_key_a_field() -> None:
    agent_fields = set(AgentDefinition.__dataclass_fields__) - {"name", "gate_definitions"}
    assert {key.name for key in AGENTS.keys} - OPTIONS == agent_fields
    assert {key.name for key in SCHEDULES.keys} == set(ScheduleDefinition.__dataclass_fields__) - {"name"}


def test_the_reference_page_is_written_from_the_code() -> None:
    renew = "renew it: python -c 'from fencepost.config.reference_page import page; print(page(), end=\"\")'"
    assert REFERENCE.read_text(encoding="utf-8") == page(), f"{renew} > docs/reference/configuration.md"


def test_the_examples_of_the_how_to_are_in_order(tmp_path: Path) -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert loaded(tmp_path, "\n".join(examples)).schedules["report-daily"].timezone == "Europe/Berlin"


def test_the_file_that_init_writes_is_in_order(tmp_path: Path) -> None:
    config = loaded(tmp_path, TEMPLATE.format(name="site", timezone="Europe/Berlin"))
    assert config.agents["hello"].command == ("echo", "hello from fencepost")
    assert config.schedules["hello-every-minute"].timezone == "Europe/Berlin"


def test_the_commented_lines_of_that_file_are_in_order_too(tmp_path: Path) -> None:
    lines = TEMPLATE.format(name="site", timezone="UTC").splitlines()
    bare = [line.removeprefix("# ") if " = " in line and line.startswith("# ") else line for line in lines]
    config = loaded(tmp_path, "\n".join(bare))
    assert config.schedules["hello-every-minute"].calendar
    assert config.agents["hello"].secrets == {"API_KEY": "env:MY_API_KEY"}


def test_the_zone_is_guessed_from_tz_the_link_or_the_file(tmp_path: Path) -> None:
    link, file, none = str(tmp_path / "localtime"), tmp_path / "timezone", str(tmp_path / "none")
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Kathmandu")
    file.write_text("America/St_Johns\n")
    assert guess_zone({"TZ": ":Europe/Paris"}, localtime=link, timezone=str(file)) == "Europe/Paris"
    assert guess_zone({"TZ": "CET-1CEST"}, localtime=link, timezone=str(file)) == "Asia/Kathmandu"
    assert guess_zone({}, localtime=none, timezone=str(file)) == "America/St_Johns"
    assert guess_zone({}, localtime=none, timezone=none) == "UTC"
