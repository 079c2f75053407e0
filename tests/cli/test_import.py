"""`fencepost import`: what comes out is a file that our own checks accept, and what differs is said."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.load import Config, load
from fencepost.operations.crontab import import_crontab
from fencepost.operations.importing import Imported, import_claude, toml_of
from fencepost.operations.untether import import_untether
from tests.support.desk import Desk


def loaded(found: Imported, folder: Path) -> Config:
    """Read what was imported as a user's file would be."""
    (folder / "fencepost.toml").write_text(toml_of(found))
    return load(str(folder / "fencepost.toml"))


CRONTAB = r"""
# m h dom mon dow command
SHELL=/bin/sh
PATH = "/usr/local/bin:/usr/bin"
MAILTO=ann@example.org
*/15 * * * *   cd /srv/app && ./sync.sh --all >/dev/null 2>&1
@daily /usr/local/bin/backup
CRON_TZ=America/New_York
0 2 1 * *  close "the books"; echo 100\% done
30 4 * * 0 mail -s hi ann%line one%line two
@reboot /usr/bin/agent
61 * * * * never
0 0 30 2 * never
* * * * *
"""


def test_a_crontab_keeps_its_times_commands_variables_and_zones(tmp_path: Path) -> None:
    found = import_crontab(CRONTAB, timezone="Europe/Berlin")
    config = loaded(found, tmp_path)

    assert [(one.cron, one.timezone) for one in config.schedules.values()] == [
        ("*/15 * * * *", "Europe/Berlin"),
        ("@daily", "Europe/Berlin"),
        ("0 2 1 * *", "America/New_York"),
        ("30 4 * * 0", "America/New_York"),
    ]
    commands = [agent.command for agent in config.agents.values()]
    assert ("cd /srv/app && ./sync.sh --all >/dev/null 2>&1",) in commands
    assert ('close "the books"; echo 100% done',) in commands
    assert ("mail -s hi ann <<'END_OF_INPUT'\nline one\nline two\nEND_OF_INPUT",) in commands
    assert all(agent.env == {"SHELL": "/bin/sh", "PATH": "/usr/local/bin:/usr/bin"} for agent in config.agents.values())
    assert all(agent.shell for agent in config.agents.values())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /srv/app && ./sync.sh --all >/dev/null 2>&1", "sync"),
        ("/usr/bin/python3 /home/ann/nightly.py --full > /var/log/n.log", "nightly"),
        ("mail -s hi ann%Dear Ann%it is /done", "mail-hi-ann"),
        ("MODE=fast nice -n 10 /opt/shop/close daily", "close-daily"),
        ("pg_dump shop | gzip > /backup/$(date +\\%F).gz", "pg-dump-shop"),
        ("sleep 30; /home/me/bin/half-minute", "half-minute"),
        ("cd $HOME/repo && flock -n /tmp/r.lock claude -p 'Review open PRs'", "claude-review-open"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts-cron-daily"),
        ('close-month --period "$(date +\\%Y-\\%m)" >> /var/log/close.log 2>&1', "close-month"),
    ],
)
def test_a_schedule_is_named_after_the_program_that_its_line_runs(command: str, name: str) -> None:
    assert list(import_crontab(f"5 4 * * * {command}\n", timezone="UTC").schedules) == [name]


def test_input_after_a_percent_sign_is_that_of_the_whole_line(tmp_path: Path) -> None:
    line = "*/5 * * * * cat | tr a-z A-Z > out; cat >> out%first%100\\% END_OF_INPUT\n"
    (agent,) = loaded(import_crontab(line, timezone="UTC"), tmp_path).agents.values()
    subprocess.run(["/bin/sh", "-c", agent.command[0]], cwd=tmp_path, check=True, timeout=20)

    assert (tmp_path / "out").read_text() == "FIRST\n100% END_OF_INPUT\n".upper()


def test_the_shell_that_a_crontab_names_runs_its_lines(tmp_path: Path) -> None:
    text = "0 1 * * * one\nSHELL=/bin/bash\n0 2 * * * [[ -e x ]] && two\n"
    config = loaded(import_crontab(text, timezone="UTC"), tmp_path)

    first, second = config.agents.values()
    assert (first.command, first.shell) == (("one",), True)
    assert (second.command, second.shell) == (("/bin/bash", "-c", "[[ -e x ]] && two"), False)


def test_a_secret_in_a_crontab_is_not_copied(tmp_path: Path) -> None:
    found = import_crontab("OPENAI_API_KEY=sk-abc123\nMODE=fast\n0 1 * * * one\n", timezone="UTC")
    (agent,) = loaded(found, tmp_path).agents.values()

    assert "sk-abc123" not in toml_of(found)
    assert (agent.env, agent.secrets) == ({"MODE": "fast"}, {"OPENAI_API_KEY": "env:OPENAI_API_KEY"})
    assert "line 1: the value of OPENAI_API_KEY is left out: set it in the environment" in "\n".join(found.warnings)


def test_what_has_no_counterpart_is_left_out_and_told() -> None:
    warnings = "\n".join(import_crontab(CRONTAB, timezone="Europe/Berlin").warnings)

    assert "line 5: MAILTO is left out" in warnings
    assert "line 11: left out: @reboot is no time" in warnings
    assert "line 12: left out: '61 * * * *'" in warnings
    assert "line 13: left out: '0 0 30 2 *'" in warnings
    assert "never fires" in warnings
    assert "line 14: left out: it has no command" in warnings
    assert "here it is skipped (overlap = 'forbid')" in warnings


def test_a_system_crontab_has_a_user_on_each_line(tmp_path: Path) -> None:
    found = import_crontab("17 * * * * root cd / && run-parts\n0 1 * * * ann job\n", timezone="UTC", system=True)

    assert [agent.command for agent in loaded(found, tmp_path).agents.values()] == [("cd / && run-parts",), ("job",)]
    assert "line 2: it ran as ann; here it runs as the user of Fencepost" in "\n".join(found.warnings)


def test_claudes_tasks_become_runs_of_their_own_in_the_project(tmp_path: Path) -> None:
    tasks = [
        {"id": "a1b2c3d4", "cron": "0 9 * * 1-5", "prompt": "Review {open} PRs", "createdAt": 1, "recurring": True},
        {"id": "e5", "cron": "30 14 3 3 *", "prompt": "Remind me", "createdAt": 1, "recurring": False},
        {"id": "bad", "cron": "nonsense", "prompt": "x"},
        "not a task",
    ]
    found = import_claude(json.dumps({"tasks": tasks}), timezone="Europe/Berlin", project=str(tmp_path))
    config = loaded(found, tmp_path)

    review, remind = config.schedules.values()
    assert (review.cron, review.once, remind.once) == ("0 9 * * 1-5", False, True)
    assert config.agents[review.agent].prompt == "Review {{open}} PRs"
    assert config.agents[review.agent].project == "here"
    warnings = "\n".join(found.warnings)
    assert "task a1b2c3d4: it would have expired seven days after it was made" in warnings
    assert "task bad: left out" in warnings
    assert "task 4: left out" in warnings


UNTETHER = """
[projects.myapp]
path = "/srv/myapp"
worktrees_dir = ".worktrees"
chat_id = -100
[triggers]
enabled = true
default_timezone = "Australia/Melbourne"
[[triggers.crons]]
id = "daily-review"
schedule = "0 9 * * 1-5"
project = "myapp"
engine = "claude"
chat_id = -100123
prompt = "Review"
permission_mode = "auto"
[[triggers.crons]]
id = "month"
schedule = "0 9 1 * 1"
engine = "codex"
prompt = "Look"
timezone = "Europe/London"
run_once = true
project = "gone"
[[triggers.crons]]
id = "fetched"
schedule = "0 9 * * *"
prompt_template = "{{a}}"
[[triggers.crons]]
id = "strange"
schedule = "0 9 * * *"
engine = "pi"
prompt = "x"
[[triggers.webhooks]]
id = "w"
"""


def test_untethers_crons_keep_engine_project_and_zone(tmp_path: Path) -> None:
    found = import_untether(UNTETHER, timezone="UTC")
    config = loaded(found, tmp_path)

    daily, month = config.schedules["daily-review"], config.schedules["month"]
    assert (daily.timezone, month.timezone, month.once) == ("Australia/Melbourne", "Europe/London", True)
    assert config.agents[daily.agent].engine == "claude"
    assert config.agents[daily.agent].project == "myapp"
    assert config.agents[month.agent].engine == "cli"
    warnings = "\n".join(found.warnings)
    assert "cron month: day of month and day of week both had to match there" in warnings
    assert (daily.enabled, month.enabled) == (True, False), "it would run more often than it was meant to"
    assert "cron month: it runs once from now on, also if it had run there already" in warnings
    assert "project myapp: its runs went side by side there" in warnings
    assert "project myapp: worktrees_dir left out: its triggers worked in the directory itself" in warnings
    assert "worktrees_dir = '/srv/myapp/.worktrees'" in warnings
    assert "project myapp: its chat is left out" in warnings
    assert "cron month: its project gone is not in the file" in warnings
    assert "cron fetched: left out" in warnings
    assert "cron strange: left out: there is no preset pi" in warnings
    assert "webhook w: left out: it has no prompt_template" in warnings


PROJECTS = """
[transports.telegram]
bot_token = "secret"
[projects.trees]
path = "trees"
worktrees_dir = "wt"
worktree_base = "master"
trigger_worktree = true
concurrent = false
[projects.crowd]
path = "~/crowd"
concurrent = true
strange = 1
[triggers]
server = { port = 9 }
[[triggers.crons]]
id = "x"
schedule = "0 9 * * *"
project = "trees"
prompt = "Look"
colour = "red"
"""


def test_untethers_worktrees_and_queues_are_kept_and_nothing_goes_without_a_word(tmp_path: Path) -> None:
    found = import_untether(PROJECTS, timezone="UTC", folder="/etc/untether")
    projects = loaded(found, tmp_path).projects

    trees = {name: projects["trees"][name] for name in ("path", "isolation", "worktrees_dir", "worktree_base")}
    assert trees == {
        "path": "/etc/untether/trees",
        "isolation": "worktree",
        "worktrees_dir": "/etc/untether/trees/wt",
        "worktree_base": "master",
    }
    assert (projects["trees"]["concurrency"], projects["crowd"]["concurrency"]) == (1, 1000)
    assert projects["crowd"]["path"] == "~/crowd"
    for said in (
        "project crowd: concurrent = true: its runs go side by side",
        "project crowd: strange: left out",
        "cron x: colour: left out",
        "triggers: server: left out",
        "all: transports: left out",
    ):
        assert said in "\n".join(found.warnings)


WEBHOOKS = """
[projects.app]
path = "/srv/app"
[[triggers.webhooks]]
id = "push"
path = "/push"
project = "app"
auth = "hmac-sha256"
secret = "do-not-copy-me"
event_filter = "push"
prompt_template = "Review {{ref}} of {{commits.0.author-name}}"
[[triggers.webhooks]]
id = "plain"
path = "/plain"
secret = "do-not-copy-me"
prompt_template = "Look {around}"
[[triggers.webhooks]]
id = "old"
auth = "hmac-sha1"
prompt_template = "x"
[[triggers.webhooks]]
id = "writes"
action = "file_write"
prompt_template = "x"
[[triggers.webhooks]]
id = "filtered"
event_filter = "push"
prompt_template = "x"
"""


def test_untethers_webhooks_become_hooks_without_their_secrets(tmp_path: Path) -> None:
    found = import_untether(WEBHOOKS, timezone="UTC")
    config = loaded(found, tmp_path)

    push, plain = config.hooks["push"], config.hooks["plain"]
    assert (push["scheme"], push["secret"], list(push["events"])) == ("github", "env:PUSH_SECRET", ["push"])
    assert push["payload"] == {"ref": "ref", "commits_0_author_name": "commits.0.author-name"}
    assert (plain["scheme"], plain["secret"]) == ("bearer", "env:PLAIN_SECRET")
    agent = config.agents[push["agent"]]
    assert agent.project == "app"
    assert agent.prompt == "Review payload.ref of payload.commits_0_author_name\n\n{payload}"
    assert config.agents[plain["agent"]].prompt == "Look {{around}}\n\n{payload}"
    assert "do-not-copy-me" not in toml_of(found)
    assert sorted(config.hooks) == ["plain", "push"]
    for said in (
        "webhook push: its secret is not copied: set PUSH_SECRET",
        "webhook push: senders now post to /hooks/TENANT/push",
        "webhook old: left out: auth = 'hmac-sha1' has no counterpart",
        "webhook writes: left out: action = 'file_write' has no counterpart",
        "webhook filtered: left out: its event_filter looks at a header",
    ):
        assert said in "\n".join(found.warnings)


def test_no_text_of_the_other_file_becomes_a_line_of_ours(tmp_path: Path) -> None:
    text = '[[triggers.crons]]\nid = "a\\n[agents.evil]\\ncommand = [\'true\']"\nschedule = "0 9 * * *"\nprompt = "x"\ncolour = 1\n'
    config = loaded(import_untether(text, timezone="UTC"), tmp_path)
    assert "evil" not in config.agents


def test_an_untether_cron_without_an_engine_has_its_projects_or_the_files(tmp_path: Path) -> None:
    cron = '[[triggers.crons]]\nid = "{0}"\nschedule = "0 9 * * *"\nprompt = "x"\nproject = "{0}"\n'
    projects = '[projects.one]\npath = "/one"\ndefault_engine = "gemini"\n[projects.two]\npath = "/two"\n'
    text = f'default_engine = "codex"\n{projects}{cron.format("one")}{cron.format("two")}'
    config = loaded(import_untether(text, timezone="UTC"), tmp_path)

    presets = {name: config.agents[one.agent].options["preset"] for name, one in config.schedules.items()}
    assert presets == {"one": "gemini", "two": "codex"}


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(words, max_size=5))
def test_no_text_makes_the_import_stumble(lines: list[str]) -> None:
    found = import_crontab("\n".join(lines), timezone="UTC")
    assert len(found.agents) == len(found.schedules)


@given(st.lists(words.filter(lambda text: text.strip()), min_size=1, max_size=4))
def test_whatever_a_command_or_prompt_says_is_read_back_as_it_was(texts: list[str]) -> None:
    tasks = [{"cron": "0 9 * * *", "prompt": text} for text in texts]
    found = import_claude(json.dumps(tasks), timezone="UTC")
    read = tomllib.loads(toml_of(found))
    assert [agent["prompt"] for agent in read["agents"].values()] == [
        agent["prompt"] for agent in found.agents.values()
    ]


def test_it_prints_or_writes_and_never_over_a_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text("0 1 * * * job\n")
    told = desk.cli_plain("import", "crontab", "--file", "tab", "--timezone", "UTC")
    assert told.code == 0
    assert b'command = "job"' in told.out
    assert "warning: all: cron starts a job although" in told.err

    words = ("import", "crontab", "--file", "tab", "--timezone", "UTC", "--write", "fencepost.toml")
    assert b"wrote fencepost.toml: 1 schedule." in desk.cli_plain(*words).out
    assert desk.cli_plain(*words).code == 2


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("claude", "nonsense", "this is no JSON"),
        ("claude", '{"tasks": 3}', "it has no list of tasks"),
        ("untether", "= 3", "this is no untether.toml"),
        ("untether", "triggers = 3", "[triggers] is not a table"),
    ],
)
def test_a_file_of_another_kind_is_refused(desk: Desk, tmp_path: Path, kind: str, text: str, why: str) -> None:
    (tmp_path / "file").write_text(text)
    told = desk.cli_plain("import", kind, "--file", "file", "--timezone", "UTC")
    assert (told.code, why in told.err) == (2, True)
    assert desk.cli_plain("import", kind, "--file", "missing").code == 2
