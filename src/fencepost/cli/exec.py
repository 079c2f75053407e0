"""`fencepost exec`: guard one command."""

from __future__ import annotations

import os
import sys

from fencepost import wiring
from fencepost.cli.exec_options import MODEL_OPTIONS, TICK_OPTIONS, exit_code, one, split
from fencepost.model.errors import Busy, Invalid
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease import TTL_DEFAULT_SECONDS, check_ttl, resource
from fencepost.service.command_order import Order

if TYPE_CHECKING:
    from fencepost.operations.project_lookup import ProjectGround
    from fencepost.service.command_order import ModelWish, Tools

HELP = """\
usage: fencepost exec [options] -- COMMAND [ARGUMENT ...]

Guard one command: it runs only while it holds the lease, never twice at once,
and it knows its fence. No configuration, no daemon; made for a crontab line.

options:
  --lock NAME         what to guard; default: this command in this folder
  --project WHAT      guard a project instead: its name, or a directory in it
  --ttl D             how long the lease lasts without renewal
                      (default 30s; 10m in a git remote, 2m in S3)
  --timeout D         end the command after this time (exit 124)
  --wait[=D]          queue if it is busy, for at most D
  --no-wait           do not stay to see whether a holder is alive (git, s3, …)
  --busy-exit N       exit code when busy (default 75)
  --holder ID         who you are, to take over from your own dead predecessor
  --gate KIND:TARGET  raise the fence there before the start; repeatable
  --model-gate WHOSE  its calls of a model (anthropic, openai, gemini) pass the
                      model gate, which has the key, while the lease holds
  --model-key REF     where the key is: env:NAME or file:/path
  --model-url URL     the provider's address (default: its public one)
  --budget-usd N      what its calls of the model may cost
  --store URL         sqlite:/path or postgresql://host/db; also a git remote,
                      S3, Redis, etcd or another Fencepost: see
                      docs/reference/stores.md
  --config FILE       the store and the tenant of this fencepost.toml; without
                      it none is read, and the store is this user's own

each tick once, whichever machine's cron comes first:
  --tick CRON         run for the newest tick of this line, once
  --timezone ZONE     where the line's times are from
  --job NAME          what the line is called (default: the lock's name)
  --missed P          a late tick: coalesce runs it (default), skip leaves it
  --grace D           later than this is late (default 60s)
  --retry N           try a tick that failed so often in all (default 1)
  --on-lost P         a tick that was lost under way: keep (default), restart
  --done-exit N       exit code when the tick is done (default 75)

It exits with the command's own code; 75 busy, 76 lease lost, 77 refused by a
gate, 124 timed out, 126 not executable, 127 not found, 69 store unavailable.

examples:
  */15 * * * *  fencepost exec --lock digest -- claude -p "write the digest"
  0 6 * * *  fencepost exec --tick '0 6 * * *' --timezone Europe/Berlin \\
                 --lock digest -- claude -p "write the digest"
  fencepost exec --wait=10m --lock deploy -- ./deploy.sh
  fencepost exec --wait --project . -- claude
  fencepost exec --lock site --gate file:site/index.html -- \\
      sh -c './build | fencepost gate write-file site/index.html'
"""

LABEL_MAX = 60


def main(argv: list[str]) -> int:
    """Parse, guard, and leave with the command's own exit code."""
    options, command = split(argv)
    if command is None:
        print(HELP, end="")
        return 0
    if not command:
        raise Invalid("there is no command to guard; write: fencepost exec [options] -- COMMAND")
    if config := one(options, "--config"):
        os.environ["FENCEPOST_CONFIG"] = (
            config  # where gates and projects are looked up, too; the command never sees it
        )
    project = one(options, "--project")
    ground = wiring.find_ground(project) if project is not None else None
    url = one(options, "--store") or (ground.store if ground else "") or usual_store(config)
    check_store(options, url)
    order = order_of(options, command, ground, ttl=wiring.default_ttl(url))
    tools = wiring.exec_tools(url)._replace(say=tell)
    if order.gates and os.isatty(2):  # cron mails what is printed, each time
        tell_of_copies(order.gates)
    if order.wait_seconds is not None:
        tools = on_a_terminal(tools)
    if "--tick" in options:
        from fencepost.cli.exec_tick import run_tick

        return run_tick(options, order, tools, url)
    refuse_tick_options(options)
    from fencepost.service.supervisor import guard_command

    try:
        return guard_command(order, tools)
    except Busy as busy:
        advice = " To queue for it, add --wait." if order.wait_seconds is None else ""
        tell(f"busy: {busy}{advice}")
        return order.busy_exit


def refuse_tick_options(options: dict[str, list[str]]) -> None:
    """Refuse options that say something about a tick where there is none."""
    for name in TICK_OPTIONS:
        if name in options:
            raise Invalid(f"{name} is about the ticks of a crontab line; add --tick, as in --tick '*/15 * * * *'.")


def tell(text: str) -> None:
    """Tell a person; most runs have nothing to say."""
    from fencepost.cli import render

    render.tell(text)


def tell_of_copies(gates: tuple[str, ...]) -> None:
    """Tell of gates whose folder a service copies to other machines: there, the file is written past the gate."""
    from fencepost.model.target import PATHS

    for target in gates:
        kind, _, place = target.partition(":")
        if kind in PATHS and (service := wiring.synced_by(place)):
            tell(f"{target}: {service} copies this folder to other machines, where the gate guards nothing.")


def on_a_terminal(tools: Tools) -> Tools:
    """Keep one line current where a person looks at it; elsewhere each change is a line."""
    if not os.isatty(2):
        return tools
    from fencepost.cli.status_line import StatusLine

    line = StatusLine()
    return tools._replace(say=line.say, show=line.show)


def usual_store(config: str | None) -> str:
    """Return the store that is meant where none is named."""
    if not config:
        return wiring.exec_store_url(None)
    from fencepost.wiring.store_choice import store_url

    return store_url(None)


def usual_tenant(config: str | None) -> str:
    """Return whose lease it is: the configuration's tenant, or the default one."""
    if not config:
        return "default"
    from fencepost.wiring.store_choice import tenant_name

    return tenant_name(None)


def check_store(options: dict[str, list[str]], url: str) -> None:
    """Refuse what a store that several machines share cannot guard."""
    if not wiring.is_shared(url):
        return
    if "--lock" not in options and "--project" not in options:
        from fencepost.config.find import without_password

        raise Invalid(
            f"{without_password(url)} is shared by several machines, and this folder is another one on each: name what is "
            "guarded with --lock NAME."
        )
    if "--project" in options and wiring.is_cells(url):
        raise Invalid(
            "a project is a directory of one machine and needs a runtime store: sqlite:/path or postgresql://…"
        )


def order_of(
    options: dict[str, list[str]],
    command: list[str],
    ground: ProjectGround | None = None,
    *,
    ttl: float = TTL_DEFAULT_SECONDS,
) -> Order:
    """Turn options into what the supervisor is asked."""
    lock = one(options, "--lock")
    if lock is not None and ground is not None:
        raise Invalid("--lock and --project are two ways to say what is guarded; give one of them.")
    named = ground.resource if ground else resource("lock", lock) if lock is not None else this_command(command)
    named_ttl, timeout = one(options, "--ttl"), one(options, "--timeout")
    wait = one(options, "--wait")
    return Order(
        argv=tuple(command),
        tenant=usual_tenant(one(options, "--config")),
        resources=(named,),
        label=label_of(command),
        ttl_seconds=check_ttl(ttl if named_ttl is None else seconds_of(named_ttl)),
        timeout_seconds=seconds_of(timeout) if timeout is not None else None,
        wait_seconds=None if wait is None else seconds_of(wait) if wait else float("inf"),
        busy_exit=exit_code(one(options, "--busy-exit") or "75"),
        holder=one(options, "--holder"),
        gates=tuple(dict.fromkeys(wiring.open_gate(target).target for target in options.get("--gate", []))),
        slots=ground.slots if ground else 1,
        what=ground.words if ground else "",
        watch="--no-wait" not in options,
        model=model_of(options),
    )


def model_of(options: dict[str, list[str]]) -> ModelWish | None:
    """Return what is asked of the model gate, if anything."""
    provider = one(options, "--model-gate")
    if provider is None:
        for name in MODEL_OPTIONS:
            if name in options:
                raise Invalid(f"{name} is about the model gate; add --model-gate, as in --model-gate anthropic.")
        return None
    from fencepost.wiring.exec_model_gate import model_wish

    key, url, budget = (one(options, name) for name in MODEL_OPTIONS)
    return model_wish(provider, key=key, url=url, budget=budget)


def seconds_of(text: str) -> float:
    """Read a duration; most command lines have none."""
    from fencepost.model.duration import parse_duration

    return parse_duration(text)


def this_command(command: list[str]) -> str:
    """Name the lock of a command that was given none: the same words in the same folder."""
    if sys.version_info >= (3, 12):  # hashlib would load all of OpenSSL
        from _sha2 import sha256
    else:
        from _sha256 import sha256  # type: ignore[import-not-found]  # it stood alone before

    try:
        words = [os.path.realpath(os.curdir), *command]
    except OSError as error:
        raise Invalid(
            f"the current folder is gone ({error.strerror}), so it cannot name the lock; use --lock."
        ) from None
    return resource("lock", sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest())


def label_of(command: list[str]) -> str:
    """Show a command to people who wait for it."""
    text = " ".join([os.path.basename(command[0]), *command[1:]])
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= LABEL_MAX else f"{shown[: LABEL_MAX - 1]}…"
