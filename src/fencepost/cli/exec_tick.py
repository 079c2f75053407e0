"""`fencepost exec --tick`: a crontab line on several machines, each tick once."""

from __future__ import annotations

import os

from fencepost import wiring
from fencepost.cli import render
from fencepost.cli.exec_options import exit_code, one
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Busy, Invalid
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.tick_claim import (
    COALESCE,
    KEEP,
    RESTART,
    SKIP,
    SOON_US,
    TickOrder,
    TickOver,
    is_over,
    settled,
    what_became_of,
)

if TYPE_CHECKING:
    from fencepost.service.command_order import Order, Tools
    from fencepost.wiring.tick_memory import TickJournal

RETRY_MAX = 100
LOST_EXIT = 76
FOREVER_US = 1 << 62


def run_tick(options: dict[str, list[str]], order: Order, tools: Tools, url: str) -> int:
    """Claim the newest tick and run the command for it; try again as often as was asked for."""
    done_exit = exit_code(one(options, "--done-exit") or "75", "--done-exit")
    if "--lock" not in options:
        raise Invalid("--tick goes with --lock NAME: the record of the ticks is kept with the lock.")
    journal = wiring.tick_journal(url, order.tenant, order.resources[0])
    tools = tools._replace(keep_end=journal.keep_end, keep_unheard=journal.keep_unheard)
    call = _Call(order, tools, tick_order(options, tools), journal)
    try:
        return call.run()
    except TickOver as over:
        if os.isatty(2):  # cron mails what is printed
            render.tell(f"done: {over}")
        return done_exit
    except Busy as busy:
        render.tell(f"busy: {busy}")
        return order.busy_exit


class _Call:
    """One call of a crontab line."""

    def __init__(self, order: Order, tools: Tools, tick: TickOrder, journal: TickJournal) -> None:
        self._order = order
        self._tools = tools
        self._tick = tick
        self._journal = journal

    def run(self) -> int:
        """Run the newest tick, or raise TickOver; one that comes due in a moment is waited for."""
        try:
            self._ask_memory()
            code = self._once()
        except TickOver as over:
            wait_us = (over.next_us or FOREVER_US) - self._tick.wall_us()
            if wait_us > SOON_US:
                raise
            self._tools.clock.sleep(max(0, wait_us) / 1e6)
            code = self._once()
        return self._tried_again(code)

    def _tried_again(self, code: int) -> int:
        """Try a tick that failed again, for as long as the record says that it may be."""
        while code not in (0, LOST_EXIT) and self._tick.retry > 1:
            try:
                code = self._once()
            except Busy:  # all its attempts are used up, or another machine has it now
                break
        return code

    def _once(self) -> int:
        from fencepost.service.supervisor import guard_command

        return guard_command(self._order._replace(tick=self._informed()), self._tools)

    def _informed(self) -> TickOrder:
        """Return the order with what this machine alone knows of earlier calls."""
        job = self._tick.job
        return self._tick._replace(ended=self._journal.ended(job), unheard=self._journal.unheard(job))

    def _ask_memory(self) -> None:
        """Ask no store about what this machine knows to be done: an every-minute line costs no request."""
        tick, now_us = self._informed(), self._tick.wall_us()
        # An end that is kept here is for the store to hear.
        record = settled(self._journal.remembered(tick.job), tick._replace(ended=None))
        if record is not None and is_over(tick, record, now_us):
            words = f"{what_became_of(record, tick)}, as this machine has seen."
            raise TickOver(words, state=record.state, next_us=tick.next(now_us))


def tick_order(options: dict[str, list[str]], tools: Tools) -> TickOrder:
    """Read what a caller says about its ticks."""
    from fencepost.model.trigger import cron_trigger
    from fencepost.model.zoned_cron import ZonedCron

    cron = one(options, "--tick") or ""
    zone = one(options, "--timezone")
    if zone is None:
        raise Invalid("--tick needs --timezone, such as Europe/Berlin or UTC: machines may be in different zones.")
    trigger = cron_trigger(cron, zone)
    return TickOrder(
        job=_job(one(options, "--job") or one(options, "--lock") or ""),
        cron=trigger.cron.text,
        zone=trigger.zone.name,
        ticks=ZonedCron(trigger.cron, trigger.zone),
        wall_us=tools.clock.wall_us,
        grace_us=round(parse_duration(one(options, "--grace") or "60s") * 1e6),
        missed=_choice(options, "--missed", (COALESCE, SKIP)),
        retry=_number(one(options, "--retry") or "1"),
        on_lost=_choice(options, "--on-lost", (KEEP, RESTART)),
    )


def _job(name: str) -> str:
    from fencepost.model.lease import resource

    return resource("lock", name).partition(":")[2]  # the same letters as in the name of a lock


def _choice(options: dict[str, list[str]], name: str, choices: tuple[str, str]) -> str:
    value = one(options, name) or choices[0]
    if value not in choices:
        raise Invalid(f"{name} is {' or '.join(choices)}, not {value!r}.")
    return value


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= RETRY_MAX:
        raise Invalid(f"--retry says how often a tick is tried in all, from 1 to {RETRY_MAX}, not {text!r}.")
    return int(text)
