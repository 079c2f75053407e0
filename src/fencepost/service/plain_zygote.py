"""The clean parent of plain guards: a program of its own that has loaded what a plain command's guard needs, and no more.

Everything that a guard has in memory it shares with its parent until it writes there, and it writes wherever a value is
as much as looked at. So a small parent makes small guards, and a fork that is quick. Its environment has nothing that an
agent may not see. Run as `python -I -S plain_zygote.py DESCRIPTOR`: without `site`, which would load more than all of this.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.host.spawn import close_others
from fencepost.host.unreadable_process import become_unreadable
from fencepost.service.message_pipe import MessageLine
from fencepost.service.run_guard import RunGuard
from fencepost.service.zygote import Become, Helper


def load() -> Become:
    """Load what is imported where it is needed, and return what turns a forked child into a plain guard."""
    import hmac  # noqa: F401  # the key that an agent shows
    import shutil  # noqa: F401  # removes a run's folder with all that its agent left there
    import traceback  # noqa: F401  # the last words of a guard that crashes

    import fencepost.model.gate  # an agent asks whether it has declared one
    import fencepost.service.secret_spellings  # noqa: F401  # secrets in the output

    clock = SystemClock()
    processes = system_processes(clock)
    return lambda listener, place: RunGuard(listener, place, clock, processes).serve()


def main(descriptor: int) -> None:
    """Fork guards for as long as the worker asks for them."""
    become_unreadable()
    close_others(descriptor)
    Helper(MessageLine(descriptor), load()).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
