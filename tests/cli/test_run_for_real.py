"""`fencepost run --wait` with a real worker: the agent's output on stdout, its code as ours."""

import signal
from pathlib import Path

from tests.support.ground import Ground, send

CONFIG = """
[fencepost]
timezone = "Europe/Berlin"

[agents.talk]
command = ["sh", "-c", "echo one; echo two; exit 5"]

[agents.absent]
command = ["no-such-program"]

[agents.plain]
command = ["./fencepost.toml"]

[agents.sleep]
command = ["sleep", "600"]
"""


def test_a_run_is_followed_to_its_end_or_to_its_missing_program_or_cancelled_on_the_way(ground: Ground) -> None:
    Path(ground.path("fencepost.toml")).write_text(CONFIG)
    up = ground.start("up", "--no-web", "--workers", "2")
    assert up.stderr is not None
    while b"Ctrl-C" not in up.stderr.readline():
        assert up.poll() is None

    failed = ground.run("run", "talk", "--wait")
    assert failed.code == 5, failed
    first, second, run_id = failed.out.decode().splitlines()
    assert (first, second) == ("one", "two")
    assert ground.run("logs", run_id, "-n", "1").out == b"two\n"

    absent, plain = ground.run("run", "absent", "--wait"), ground.run("run", "plain", "--wait")
    assert (absent.code, plain.code) == (127, 126), "as under exec: not found, not executable"
    assert "cannot run 'no-such-program'" in absent.out.decode()

    waiting = ground.start("run", "sleep", "--wait")
    assert waiting.stderr is not None
    while b"running" not in waiting.stderr.readline():
        assert waiting.poll() is None
    slow = ground.run("ps", "--json").out.decode().split('"id": "')[1].split('"')[0]
    assert ground.run("cancel", slow).code == 0
    told = ground.told(waiting)
    assert told.code == 1, told
    assert "cancelled: a person cancelled it" in told.err

    send(up.pid, signal.SIGTERM)
    assert ground.told(up).code == 0
