"""Gives a run with a git gate the road on which its own `git push` comes to it."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterable
    from fencepost.service.command_order import Tools

KIND = "git:"


def led_to_gates(
    env: dict[str, str], targets: Iterable[str], tenant: str, tools: Tools, program: str = ""
) -> dict[str, str]:
    """Return a run's environment in which git, below a program, pushes to its gated branches through their gates."""
    wanted = [target for target in targets if target.startswith(KIND)]
    if not wanted:
        return env
    from contextlib import suppress

    from fencepost.config.find import state_folder
    from fencepost.gates.git.gate import GitGate
    from fencepost.gates.git.push_settings import FOLDER, led, road
    from fencepost.model.errors import FencepostError

    gates = []
    for target in dict.fromkeys(wanted):
        with suppress(FencepostError):  # owed to an earlier version, and not to be opened here any more
            gate = tools.open_gate(target, tenant)
            assert isinstance(gate, GitGate), "its kind says so"
            gates.append((gate.target, gate.remote))
    return led(env, road(gates, env).laid(os.path.join(state_folder(os.environ), FOLDER)), program)
