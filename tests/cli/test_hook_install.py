"""`fencepost hook install|uninstall` on real settings files, and what `doctor` says about them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from fencepost.model.agent_hook_settings import CLIS
from fencepost.operations.agent_hooks import carry_out, planned_install, standings
from tests.support.site import Site

THEIRS = '{\n  // mine\n  "theme": "dark"\n}\n'


@pytest.fixture
def home(site: Site) -> Path:
    for name in (".claude", ".codex", ".gemini"):
        (site.folder / name).mkdir()
    return site.folder


def findings(site: Site) -> dict[str, tuple[str, str]]:
    return {row["check"]: (row["status"], row["message"]) for row in rows(site) if "hooks" in row["check"]}


def rows(site: Site) -> list[dict[str, str]]:
    return [json.loads(line) for line in site.fencepost("doctor", "--json", code=None).splitlines()]


def test_hooks_go_into_every_cli_that_is_here_and_out_again(site: Site, home: Path) -> None:
    settings, link = home / "dotfiles.json", home / ".gemini/settings.json"
    settings.write_text(THEIRS)
    settings.chmod(0o640)
    link.symlink_to(settings)

    said = site.fencepost("hook", "install")

    assert said.count("created") == 2
    assert "/hooks in codex" in said
    assert link.is_symlink()
    assert settings.stat().st_mode & 0o777 == 0o640
    assert "// mine" in settings.read_text()
    claude = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert list(claude) == ["PreToolUse", "UserPromptSubmit", "Stop", "Notification", "SessionEnd"]
    assert json.loads((home / ".codex/hooks.json").read_text())["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 3
    assert site.fencepost("hook", "install").count("unchanged") == 3
    assert Path(f"{link}.before-fencepost").read_text() == THEIRS

    site.fencepost("hook", "uninstall")

    assert settings.read_text() == THEIRS
    assert not (home / ".claude/settings.json").exists()
    assert not (home / ".codex/hooks.json").exists()


def test_how_long_a_session_holds_its_project_can_be_chosen_and_chosen_anew(site: Site, home: Path) -> None:
    def lines() -> dict[str, list[str]]:
        hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
        return {event: [one["command"] for one in groups[0]["hooks"]] for event, groups in hooks.items()}

    site.fencepost("hook", "install", "claude", "--hold", "session")
    by_session = lines()
    site.fencepost("hook", "install", "claude", "--strict")
    strict = lines()
    site.fencepost("hook", "install", "claude")

    assert list(by_session) == ["PreToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd"]
    assert "hook session-start" in by_session["SessionStart"][0]
    assert "hook turn-check" in strict["PreToolUse"][1]
    assert "hook turn-start" in strict["UserPromptSubmit"][1]
    assert [len(handlers) for handlers in lines().values()] == [1, 2, 1, 1, 1]
    assert "hook turn-end" in lines()["Notification"][0]


def test_the_installed_check_lets_a_person_through_and_stops_a_stale_run(site: Site, home: Path) -> None:
    site.fencepost("hook", "install", "claude")
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    line = hooks["PreToolUse"][0]["hooks"][0]["command"]

    for more, code in (({}, 0), ({"FENCEPOST_RUN_ID": "r1"}, 2)):
        ran = subprocess.run(
            ["/bin/sh", "-c", line],
            env={"PATH": os.environ["PATH"], **more},
            input=b"{}",
            capture_output=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (code, b"")
        assert bool(ran.stderr) == bool(code)


def test_cline_gets_a_script_that_says_no_in_json(site: Site) -> None:
    script = site.folder / ".cline" / "hooks" / "PreToolUse.sh"
    assert "created" in site.fencepost("hook", "install", "cline")
    assert "unchanged" in site.fencepost("hook", "install", "cline")
    assert findings(site)["cline hooks"][0] == "ok"

    def said(**more: str) -> bytes:
        env = {"PATH": os.environ["PATH"], **more}
        return subprocess.run(["sh", script], env=env, input=b"{}", capture_output=True, check=True).stdout

    assert said() == b"", "a person goes on"
    refused = json.loads(said(FENCEPOST_RUN_ID='r"1\\\n'))
    assert refused["cancel"] is True
    assert refused["errorMessage"].startswith("fencepost: run r1: ")

    site.fencepost("hook", "uninstall", "cline")
    assert not script.exists()


def test_a_script_of_the_users_own_is_left_alone(site: Site) -> None:
    script = site.folder / ".cline" / "hooks" / "PreToolUse.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")

    site.fencepost("hook", "install", "cline", code=2)
    site.fencepost("hook", "uninstall", "cline")

    assert script.read_text() == "#!/bin/sh\n"


def test_a_project_gets_hooks_that_work_on_everybodys_machine(site: Site) -> None:
    site.fencepost("hook", "install", "claude", "--project")

    text = (site.folder / ".claude/settings.json").read_text()
    assert " fencepost hook check" in text
    assert str(Path(os.sys.executable).parent) not in text  # type: ignore[attr-defined]
    for line in [handler["hooks"][0]["command"] for (handler,) in json.loads(text)["hooks"].values()]:
        ran = subprocess.run(["/bin/sh", "-c", line], env={"PATH": "/bin:/usr/bin"}, capture_output=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b""), line


def test_a_dry_run_shows_the_lines_and_writes_nothing(site: Site, home: Path) -> None:
    said = site.fencepost("hook", "install", "claude", "--dry-run")

    assert "would be created" in said
    assert '+    "PreToolUse": [' in said
    assert list((home / ".claude").iterdir()) == []


@pytest.mark.parametrize("content", [b'{"a": 1', b"\xff\xfe", b"[]", b'{"hooks": 3}'])
def test_a_file_that_cannot_be_understood_is_left_alone_and_so_are_all_others(
    site: Site, home: Path, content: bytes
) -> None:
    (home / ".gemini/settings.json").write_bytes(content)

    site.fencepost("hook", "install", code=2)

    assert (home / ".gemini/settings.json").read_bytes() == content
    assert list((home / ".claude").iterdir()) == []


def test_doctor_tells_when_hooks_are_absent_switched_off_or_not_trusted(site: Site, home: Path) -> None:
    assert {status for status, _ in findings(site).values()} == {"warn"}
    assert "absent" in findings(site)["claude hooks"][1]

    site.fencepost("hook", "install")
    found = findings(site)
    assert (found["claude hooks"][0], found["gemini hooks"][0]) == ("ok", "ok")
    assert found["codex hooks"][0] == "warn"
    assert "trusted" in found["codex hooks"][1]

    (home / ".claude/settings.local.json").write_text('{"disableAllHooks": true}')
    (home / ".codex/config.toml").write_text('[features]\nhooks = false\n[hooks.state.x]\ntrusted_hash = "sha256:1"\n')
    found = findings(site)
    assert "switched off" in found["claude hooks"][1]
    assert "switched off" in found["codex hooks"][1]
    (home / ".codex/config.toml").write_text('[hooks.state.x]\ntrusted_hash = "sha256:1"\n')
    assert findings(site)["codex hooks"][0] == "ok"
    (home / ".gemini/settings.json").write_text("{")
    assert "line 1" in findings(site)["gemini hooks"][1]


def test_a_projects_hooks_are_skipped_for_want_of_trust_and_that_is_told(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home / ".codex", home / ".gemini", project):
        folder.mkdir(parents=True)
    environ = {"HOME": str(home), "PATH": ""}
    for name in ("codex", "gemini"):
        carry_out(planned_install(CLIS[name], str(project), environ))

    def distrust() -> list[str]:
        return [one.trust for one in standings(environ, str(project))]

    codex, gemini = home / ".codex/config.toml", home / ".gemini/trustedFolders.json"
    assert ["until you have trusted them" in one for one in distrust()] == [True, False]
    trusted_hook = '[hooks.state.x]\ntrusted_hash = "sha256:1"\n'
    codex.write_text(trusted_hook)
    assert ["is trusted" in one for one in distrust()] == [True, True]

    codex.write_text(f'{trusted_hook}[projects."{os.path.realpath(project)}"]\ntrust_level = "trusted"\n')
    gemini.write_text(json.dumps({f"{project}/below": "TRUST_PARENT"}))
    assert distrust() == ["", ""]
    gemini.write_text(json.dumps({str(project): "DO_NOT_TRUST"}))
    assert ["Gemini skips" in one for one in distrust()] == [False, True]
    environ["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    assert distrust() == ["", ""]


def test_an_unknown_cli_is_named_and_none_at_all_is_told(site: Site) -> None:
    site.fencepost("hook", "install", "cursor", code=2)
    assert not (site.folder / ".claude").exists()
