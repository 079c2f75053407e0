"""What a script sees of `fencepost exec`: exit codes, streams, environment, messages."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ground import Ground, Told

ENVIRONMENT = {
    "FENCEPOST_RUN_ID",
    "FENCEPOST_TENANT",
    "FENCEPOST_AGENT",
    "FENCEPOST_SCHEDULE",
    "FENCEPOST_SCHEDULE_VERSION",
    "FENCEPOST_TRIGGER",
    "FENCEPOST_TICK",
    "FENCEPOST_PERIOD_START",
    "FENCEPOST_PERIOD_END",
    "FENCEPOST_BACKFILL_FROM",
    "FENCEPOST_LAST_SUCCESS",
    "FENCEPOST_IDEMPOTENCY_KEY",
    "FENCEPOST_ATTEMPT",
    "FENCEPOST_FENCE",
    "FENCEPOST_RESOURCE",
    "FENCEPOST_PAYLOAD",
    "FENCEPOST_SOCKET",
    "FENCEPOST_RUN_KEY",
    "FENCEPOST_RUN_PROOF",
    "FENCEPOST_EXE",
    "FENCEPOST_STORE_ID",
}
FENCEPOST = f"{sys.executable} -m fencepost"


def variables(told: Told) -> dict[str, str]:
    assert told.code == 0, told
    return dict(line.split("=", 1) for line in told.out.decode().splitlines() if "=" in line)


@pytest.mark.parametrize("code", [0, 1, 75, 76, 124, 255])
def test_the_childs_own_code_passes_through(ground: Ground, code: int) -> None:
    assert ground.run("exec", "--", "sh", "-c", f"exit {code}").code == code


def test_a_configuration_that_is_named_says_where_the_lease_is_kept_and_whose_it_is(ground: Ground) -> None:
    Path(ground.path("fencepost.toml")).write_text('[fencepost]\nstore = "sqlite:team.db"\ntenant = "team"\n')
    Path(ground.path("elsewhere")).mkdir()
    environ = {name: value for name, value in ground.env.items() if name != "FENCEPOST_STORE"}
    words = ("exec", "--config", "../fencepost.toml", "--lock", "z", "--", "env")

    found = variables(ground.run(*words, cwd=ground.path("elsewhere"), env=environ))

    assert found["FENCEPOST_TENANT"] == "team"
    assert "FENCEPOST_CONFIG" not in found
    assert Path(ground.path("team.db")).exists()
    listed = ground.run("lease", "list", "--config", "../fencepost.toml", cwd=ground.path("elsewhere"), env=environ)
    assert listed.out.decode() == f"no leases in sqlite:{Path(ground.path('team.db')).resolve()}\n"


def test_a_configuration_that_is_only_there_is_not_read(ground: Ground) -> None:
    Path(ground.path("fencepost.toml")).write_text("this is no configuration")
    assert variables(ground.run("exec", "--", "env"))["FENCEPOST_TENANT"] == "default"
    refused = ground.run("exec", "--config", "fencepost.toml", "--", "env")
    assert (refused.code, refused.out) == (2, b"")
    assert "is not valid TOML" in refused.err
    assert ground.run("exec", "--config", "nowhere.toml", "--", "env").code == 2


def test_a_command_killed_by_a_signal_is_128_plus_its_number(ground: Ground) -> None:
    assert ground.run("exec", "--", "sh", "-c", "kill -KILL $$").code == 137


def test_a_command_that_is_not_there_is_127(ground: Ground) -> None:
    told = ground.run("exec", "--", "no-such-command")
    assert (told.code, told.out) == (127, b"")
    assert told.err.endswith("cannot run 'no-such-command': No such file or directory.\n")


def test_a_command_that_is_not_executable_is_126(ground: Ground) -> None:
    Path(ground.path("plain")).write_text("text")
    assert ground.run("exec", "--", "./plain").code == 126
    assert ground.run("exec", "--", ground.path("")).code == 126


def test_a_command_that_takes_too_long_is_ended_with_124(ground: Ground) -> None:
    told = ground.run("exec", "--timeout", "200ms", "--", "sleep", "600")
    assert told.code == 124
    assert told.err.endswith("timed out after 200ms; the run was ended.\n")


def test_busy_is_75_or_what_was_asked_and_says_who_holds_it(any_ground: Ground) -> None:
    holder = holding(any_ground)
    told = any_ground.run("exec", "--lock", "z", "--", "touch", "never")
    assert told.code == 75
    assert "busy: lock:z is held by r" in told.err
    assert f"pid {holder.pid} on {os.uname().nodename}" in told.err
    assert any_ground.run("exec", "--lock=z", "--busy-exit=0", "--", "touch", "never").code == 0
    assert not os.path.exists(any_ground.path("never"))
    finish(any_ground, holder)


def test_another_lock_is_not_busy(ground: Ground) -> None:
    holder = holding(ground)
    assert ground.run("exec", "--lock", "y", "--", "true").code == 0
    finish(ground, holder)


def test_without_a_lock_the_same_words_in_the_same_folder_are_busy(ground: Ground) -> None:
    os.mkfifo(ground.path("go"))
    words = ("exec", "--", "sh", "-c", "echo > up; cat go")
    holder = ground.start(*words)
    ground.wait_for("up")
    os.mkdir(ground.path("elsewhere"))
    told = ground.run(*words)
    assert told.code == 75
    assert "lock:" in told.err
    os.mkfifo(ground.path("elsewhere/go"))
    other = ground.start(*words, cwd=ground.path("elsewhere"))
    ground.wait_for("elsewhere/up")
    for fifo in ("go", "elsewhere/go"):
        Path(ground.path(fifo)).write_text("")
    assert (ground.told(holder).code, ground.told(other).code) == (0, 0)


def test_waiting_for_a_time_ends_in_75(ground: Ground) -> None:
    holder = holding(ground)
    told = ground.run("exec", "--lock", "z", "--wait=150ms", "--", "true")
    assert told.code == 75
    assert "Waited 150ms." in told.err
    finish(ground, holder)


def test_a_gate_that_has_seen_a_newer_fence_of_another_store_refuses_with_77(ground: Ground) -> None:
    target = ground.path("report")
    foreign = {**ground.env, "FENCEPOST_STORE_ID": "another"}
    raised = ground.run(
        "gate", "raise", f"file:{target}", "--resource", "lock:z", "--fence", str(4 * 10**15), env=foreign
    )
    assert raised.code == 0, raised
    told = ground.run("exec", "--lock", "z", "--gate", f"file:{target}", "--", "touch", ground.path("never"))
    assert told.code == 77, told
    assert "fenced by store another" in told.err
    assert not os.path.exists(ground.path("never"))
    assert ground.leases() == []


def test_a_store_that_went_back_in_time_is_78_and_says_how_to_lift_it(ground: Ground) -> None:
    target = f"file:{ground.path('report')}"
    script = f'{FENCEPOST} gate raise "$0" --resource lock:z --fence {4 * 10**15}'
    assert ground.run("exec", "--lock", "y", "--gate", target, "--", "sh", "-c", script, target).code == 0
    told = ground.run("exec", "--lock", "z", "--gate", target, "--", "touch", ground.path("never"))
    assert told.code == 78, told
    assert f"fencepost store bump --to {4 * 10**15}" in told.err
    assert not os.path.exists(ground.path("never"))
    assert ground.leases() == []


def test_from_inside_a_target_that_was_not_declared_is_78_and_names_the_flag(ground: Ground) -> None:
    told = ground.run("exec", "--", "sh", "-c", f"echo x | {FENCEPOST} gate write-file out")
    assert told.code == 78
    assert f"add --gate file:{os.path.realpath(ground.path('out'))}" in told.err
    assert not os.path.exists(ground.path("out"))


def test_from_inside_a_declared_target_takes_the_write(any_ground: Ground) -> None:
    words = ["--lock", "z", "--gate", "file:out", "--", "sh", "-c", f"echo x | {FENCEPOST} gate write-file out"]
    told = any_ground.run("exec", *words)
    assert told.code == 0, told
    assert Path(any_ground.path("out")).read_text() == "x\n"


def test_a_store_that_cannot_be_reached_is_69(ground: Ground) -> None:
    Path(ground.path("file")).write_text("")
    for url in (
        f"sqlite:{ground.path('file')}/state.db",
        "sqlite:/proc/nowhere/state.db",
        "postgresql://127.0.0.1:1/x",
    ):
        told = ground.run("exec", "--store", url, "--lock", "z", "--", "touch", ground.path("never"))
        assert told.code == 69, told
        assert told.err.startswith("fencepost: ")
        assert "Traceback" not in told.err
    assert not os.path.exists(ground.path("never"))


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/x", "git+file:///nowhere.git", "redis://127.0.0.1:1"])
def test_a_store_that_machines_share_wants_a_name_for_what_is_guarded(ground: Ground, url: str) -> None:
    told = ground.run("exec", "--store", url, "--", "true")

    assert told.code == 2
    assert "name what is guarded with --lock NAME" in told.err


def test_a_password_in_the_stores_url_is_never_said(ground: Ground) -> None:
    told = ground.run("exec", "--store", "postgresql://me:hush@127.0.0.1:1/x", "--lock", "z", "--", "true")
    assert told.code == 69
    assert "hush" not in told.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no command to guard"),
        (["--lock", "z", "--"], "there is no command to guard"),
        (["--lok", "z", "--", "true"], "Did you mean --lock?"),
        (["--lock"], "--lock needs a value"),
        (["--lock", "a", "--lock", "b", "--", "true"], "--lock may be given once"),
        (["--lock", "a b", "--", "true"], "use letters, digits"),
        (["--lock", "", "--", "true"], "has 1 to 512 characters"),
        (["--ttl", "30", "--", "true"], "did you mean '30s'"),
        (["--ttl", "1ms", "--", "true"], "a ttl is between"),
        (["--timeout", "soon", "--", "true"], "is no duration"),
        (["--wait=ever", "--", "true"], "is no duration"),
        (["--busy-exit", "256", "--", "true"], "a number from 0 to 255"),
        (["--gate", "site", "--", "true"], "write kind:where, for example file:site"),
        (["--store", "mysql://x", "--", "true"], "is no store"),
    ],
)
def test_a_line_that_cannot_work_is_2_and_says_what_to_write(ground: Ground, words: list[str], said: str) -> None:
    told = ground.run("exec", *words)
    assert told.code == 2, told
    assert said in told.err
    assert told.out == b""
    assert not os.path.exists(ground.path("state"))


def test_streams_pass_through_byte_for_byte(ground: Ground) -> None:
    data = bytes(range(256)) * 4096
    told = ground.run("exec", "--lock", "z", "--", "sh", "-c", "tee /dev/stderr", stdin=data, stderr=subprocess.STDOUT)
    assert told.code == 0
    assert len(told.out) == 2 * len(data) + len(
        "fencepost: guards this machine; for several, set FENCEPOST_STORE=postgresql://…\n".encode()
    )
    assert ground.run("exec", "--lock", "z", "--", "cat", stdin=data).out == data


def test_the_first_use_says_that_it_guards_this_machine_and_later_ones_do_not(ground: Ground) -> None:
    assert "guards this machine" in ground.run("exec", "--", "true").err
    assert ground.run("exec", "--", "true").err == ""


def test_closed_standard_descriptors_do_no_harm(ground: Ground) -> None:
    line = f"{FENCEPOST} exec --lock z -- sh -c 'echo > ran' <&- >&- 2>&-"
    program = ground.spawn(["sh", "-c", line])
    assert ground.told(program).code == 0
    assert os.path.exists(ground.path("ran"))


def test_the_agent_knows_its_run_and_nothing_of_the_store(any_ground: Ground) -> None:
    env = {**any_ground.env, "FENCEPOST_STORE": any_ground.store_url, "FENCEPOST_CONFIG": "/x", "FENCEPOST_NOISE": "1"}
    told = any_ground.run("exec", "--lock", "z", "--", "env", env=env)
    seen = variables(told)
    ours = {name for name in seen if name.startswith("FENCEPOST_")}
    assert ours == ENVIRONMENT
    assert seen["FENCEPOST_RESOURCE"] == "lock:z"
    assert seen["FENCEPOST_TRIGGER"] == "exec"
    assert seen["FENCEPOST_TENANT"] == "default"
    assert seen["FENCEPOST_ATTEMPT"] == "1"
    assert int(seen["FENCEPOST_FENCE"]) > 1_700_000_000_000_000
    assert seen["TRACEPARENT"].startswith("00-")
    assert any_ground.store_url.encode() not in told.out


def test_the_stores_url_is_neither_in_the_agents_environ_nor_in_its_argv(ground: Ground) -> None:
    url = f"sqlite:{ground.path('secret-place')}/s.db"
    script = "tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/$$/cmdline; env"
    told = ground.run("exec", "--lock", "z", "--store", url, "--", "sh", "-c", script)
    assert told.code == 0
    assert b"secret-place" not in told.out


def test_odd_bytes_in_environment_and_arguments_arrive_unchanged(ground: Ground) -> None:
    env = {**{name.encode(): value.encode() for name, value in ground.env.items()}, b"ODD": b"\xff\xfe x"}
    program = ground.spawn(
        [*FENCEPOST.encode().split(), b"exec", b"--", b"sh", b"-c", b'printf %s "$ODD$0"', b"\xfd\n"],  # type: ignore[list-item]
        env=env,
    )
    assert ground.told(program).out == b"\xff\xfe x\xfd\n"


def test_a_nested_run_replaces_the_outer_runs_variables(ground: Ground) -> None:
    inner = f"{FENCEPOST} exec --lock inner -- sh -c 'echo \"$FENCEPOST_RESOURCE $FENCEPOST_RUN_ID $FENCEPOST_SOCKET\"'"
    told = ground.run(
        "exec",
        "--lock",
        "outer",
        "--",
        "sh",
        "-c",
        f'echo "$FENCEPOST_RESOURCE $FENCEPOST_RUN_ID $FENCEPOST_SOCKET"; {inner}',
    )
    first, second = (line.split() for line in told.out.decode().splitlines())
    assert (first[0], second[0]) == ("lock:outer", "lock:inner")
    assert first[1] != second[1]
    assert first[2] != second[2]


def test_the_payload_is_for_the_agents_user_alone_and_gone_afterwards(ground: Ground) -> None:
    told = ground.run(
        "exec", "--", "sh", "-c", 'echo "$FENCEPOST_PAYLOAD"; stat -c %a "$FENCEPOST_PAYLOAD"; cat "$FENCEPOST_PAYLOAD"'
    )
    path, mode, text = told.out.decode().split()
    assert (mode, text) == ("600", "{}")
    assert not os.path.exists(os.path.dirname(path))


def test_whatever_the_agent_leaves_in_the_run_folder_goes_too(ground: Ground) -> None:
    told = ground.run(
        "exec", "--", "sh", "-c", 'cd "$(dirname "$FENCEPOST_PAYLOAD")"; mkdir -p a/b; echo > a/b/c; rm socket; exit 5'
    )
    assert told.code == 5, told
    assert ground.run_folders() == []


def test_a_long_temporary_folder_does_not_make_the_sockets_path_too_long(ground: Ground) -> None:
    long = ground.path("x" * 120)
    os.mkdir(long)
    env = {**ground.env, "XDG_RUNTIME_DIR": long, "TMPDIR": long}
    told = ground.run("exec", "--", "sh", "-c", 'printf %s "$FENCEPOST_SOCKET"; test -S "$FENCEPOST_SOCKET"', env=env)
    assert told.code == 0, told
    assert len(told.out) <= 100
    assert not os.path.exists(os.path.dirname(told.out))


def test_help_shows_options_and_examples_and_changes_nothing(ground: Ground) -> None:
    told = ground.run("exec", "--help")
    assert told.code == 0
    assert all(len(line) <= 90 for line in told.out.decode().splitlines())
    assert b"examples:" in told.out
    assert not os.path.exists(ground.path("state"))


def holding(ground: Ground) -> subprocess.Popen[bytes]:
    """Start a run that holds lock:z until `finish` lets it end."""
    os.mkfifo(ground.path("go"))
    holder = ground.start("exec", "--lock", "z", "--", "sh", "-c", "echo > up; cat go")
    ground.wait_for("up")
    return holder


def finish(ground: Ground, holder: subprocess.Popen[bytes]) -> None:
    Path(ground.path("go")).write_text("")
    assert ground.told(holder).code == 0


def test_a_parent_with_a_thousand_open_files_is_no_trouble(ground: Ground) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        words = [sys.executable, "-m", "fencepost", "exec", "--lock", "z", "--", "sh", "-c", "exit 3"]
        told = subprocess.run(words, env=ground.env, pass_fds=held, capture_output=True, check=False)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert told.returncode == 3, told.stderr.decode()
