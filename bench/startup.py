"""How long it takes to start: the commands that crontabs and agents call, against a Python that does nothing.

Each round runs every command once, one after the other, so that a busy machine slows all of them. Reported are
medians of wall time, and of the processor time of the command and all that it waited for. Exits with 1 if a
command is above its bound by both measures: wall time alone says more about the machine's other work. `ps` asks a
PostgreSQL on the same machine, and its wall time has a bound.

With `--beside`, the same `exec -- true` of another installation takes its turn in each round: ours may take 5 % longer.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep
from types import MappingProxyType
from typing import NamedTuple

from bench.ground import stores

FENCEPOST = os.path.join(sys.prefix, "bin", "fencepost")
BARE = "python -c pass"
ROUNDS_MIN = 30
OTHER, OURS = "exec, the other", "exec"
SLOWER_MAX = 1.05  # than the other installation


class Command(NamedTuple):
    """What is measured, and how many times a bare Python it may cost."""

    name: str
    argv: tuple[str, ...]
    bound: float | None
    env: Mapping[str, str] = MappingProxyType({})  # beyond what all of them see
    wall_max_ms: float | None = None


class Cost(NamedTuple):
    """What one run cost, in milliseconds."""

    wall: float
    cpu: float


def main() -> int:
    """Measure and judge."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--beside", metavar="FENCEPOST", help="the program of another installation, to compare with")
    args = parser.parse_args()
    rounds = max(ROUNDS_MIN, args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # away from configuration files, which only some callers have
        env = environment(folder)
        with a_run(folder, env) as inside, a_server() as url:
            commands = commands_in(folder, inside, url)
            if args.beside:
                own = {name: os.path.join(folder, "other") for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME")}
                os.mkdir(own["HOME"], 0o700)
                commands.append(Command(OTHER, (os.path.abspath(args.beside), "exec", "--", "true"), None, own))
            for command in commands:
                cost_of(command.argv, {**env, **command.env})  # the first time compiles and creates
            costs: dict[str, list[Cost]] = {command.name: [] for command in commands}
            for number in range(rounds):
                for command in commands if number % 2 else reversed(commands):
                    costs[command.name].append(cost_of(command.argv, {**env, **command.env}))
    return report(commands, {name: medians(found) for name, found in costs.items()}, rounds)


@contextmanager
def a_run(folder: str, env: dict[str, str]) -> Iterator[dict[str, str]]:
    """Let a real run wait meanwhile, for commands that ask its supervisor; yield what they see of it."""
    path = os.path.join(folder, "env")
    line = f"env > {path}.draft && mv {path}.draft {path}; cat"
    run = subprocess.Popen(
        [FENCEPOST, "exec", "--lock", "bench-run", "--", "sh", "-c", line],
        env=env,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with run:
        while not os.path.exists(path):
            assert run.poll() is None, "the run did not start"
            sleep(0.01)
        with open(path) as file:
            seen = dict(one.rstrip("\n").partition("=")[::2] for one in file)
        yield {name: value for name, value in seen.items() if name.startswith("FENCEPOST_")}
        run.communicate()


@contextmanager
def a_server() -> Iterator[str]:
    """Start a PostgreSQL with a store in which nothing happens."""
    with stores(["postgresql"]) as found:
        for _, url in found:
            yield url


def commands_in(folder: str, inside: dict[str, str], url: str) -> list[Command]:
    """Return what is measured; the bare Python first."""
    target = os.path.join(folder, "out")
    proof = ("--resource", "lock:bench", "--fence", "1")
    return [
        Command(BARE, (sys.executable, "-c", "pass"), None),
        Command("exec --lock", (FENCEPOST, "exec", "--lock", "bench", "--", "true"), 3.0),
        Command(OURS, (FENCEPOST, "exec", "--", "true"), None),
        Command("lease list", (FENCEPOST, "lease", "list"), 2.5),
        Command("gate write-file", (FENCEPOST, "gate", "write-file", target, *proof), None),
        Command("hook check", (FENCEPOST, "hook", "check"), 2.5, inside),
        Command("ps, PostgreSQL", (FENCEPOST, "ps", "--store", url), None, wall_max_ms=150.0),
    ]


def environment(folder: str) -> dict[str, str]:
    """Keep the measured commands away from the caller's own store, and let them keep what they compiled."""
    ours = {"XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder, "HOME": folder}
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "PYTHON"))}
    return {**theirs, **ours}


def cost_of(argv: tuple[str, ...], env: dict[str, str]) -> Cost:
    """Run a command to its end."""
    null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    quiet = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
    before = perf_counter()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[null, *quiet])
    _, status, used = os.wait4(pid, 0)
    wall = perf_counter() - before
    assert os.waitstatus_to_exitcode(status) == 0, f"{argv} ended with {status}"
    return Cost(wall * 1000, (used.ru_utime + used.ru_stime) * 1000)


def medians(found: Sequence[Cost]) -> Cost:
    """Return the middle of each measure."""
    return Cost(median(cost.wall for cost in found), median(cost.cpu for cost in found))


def report(commands: Sequence[Command], costs: dict[str, Cost], rounds: int) -> int:
    """Print a table and one line of JSON; return 1 if a bound does not hold."""
    bare = costs[BARE]
    above = []
    print(f"{'':18}{'wall':>9}{'ratio':>8}{'cpu':>10}{'ratio':>8}{'bound':>8}")
    for command in commands:
        cost = costs[command.name]
        wall, cpu = cost.wall / bare.wall, cost.cpu / bare.cpu
        if command.bound is not None and min(wall, cpu) > command.bound:
            above.append(command.name)
        bound = f"{command.bound:.1f}x" if command.bound else ""
        if command.wall_max_ms is not None:
            bound = f"{command.wall_max_ms:.0f} ms"
            above += [command.name] if cost.wall > command.wall_max_ms else []
        print(f"{command.name:18}{cost.wall:6.1f} ms{wall:7.2f}x{cost.cpu:7.1f} ms{cpu:7.2f}x{bound:>8}")
    if OTHER in costs:
        wall, cpu = (ours / other for ours, other in zip(costs[OURS], costs[OTHER], strict=True))
        print(f"exec beside the other: {wall:.3f}x wall, {cpu:.3f}x processor")
        above += [f"{OURS} beside the other"] if min(wall, cpu) > SLOWER_MAX else []
    figures = {name: {"wall_ms": round(cost.wall, 2), "cpu_ms": round(cost.cpu, 2)} for name, cost in costs.items()}
    print(json.dumps({"bench": "startup", "rounds": rounds, "above": above, "medians": figures}))
    for name in above:
        print(f"{name} is above its bound", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
