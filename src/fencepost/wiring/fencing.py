"""Builds what stands between a writer and its target: the fencing proxy and the MCP gateway."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.wiring import say as tell

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Callable
    from fencepost.service.gateway import Upstream
    from fencepost.service.tool_gate import Rules, ToolGate


def serve_proxy(
    listen: str, upstream: str, *, marks: str, key: str, allow: list[str], deadline: float, closed: float
) -> int:
    """Be a fencing proxy until asked to stop; requests in flight are waited for."""
    import signal
    from threading import Thread

    from fencepost.gates.http.door import ServiceDoor
    from fencepost.gates.target_secrets import resolved
    from fencepost.host.clock import SystemClock
    from fencepost.host.secrets import own_secret
    from fencepost.model.errors import Misconfigured
    from fencepost.service.proxy import Proxy, ProxyRules, parse_allow, parse_listen
    from fencepost.wiring.machine_facts import keep_to_ourselves

    if os.environ.get("FENCEPOST_RUN_ID"):
        raise Misconfigured("a fencing proxy that a run has started dies with it; start it outside, as a service.")
    keep_to_ourselves()
    clock = SystemClock()
    rules = ProxyRules(upstream, tuple(map(parse_allow, allow)), deadline_seconds=deadline, closed_seconds=closed)
    proxy = Proxy(
        parse_listen(listen), rules, ServiceDoor(marks, resolved(key, own_secret), clock=clock, name=upstream), clock
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: Thread(target=proxy.stop).start())
    tell(f"fencing {upstream} at {listen.rpartition(':')[0] or '127.0.0.1'}:{proxy.port}")
    proxy.serve()
    return 0


def gate_mcp_command(rules: Rules, command: list[str], *, outside: bool, say: Callable[[str], None]) -> int:
    """Stand between the agent on our standard input and output and a server that is started here."""
    from fencepost.service.mcp_child import ChildServer

    return _gate_mcp(rules, lambda _: ChildServer(command), outside=outside, say=say)


def gate_mcp_url(rules: Rules, url: str, headers: list[str], *, outside: bool, say: Callable[[str], None]) -> int:
    """Stand between the agent on our standard input and output and a server that is reached over HTTP."""
    from fencepost.service.mcp_http import RemoteServer, headers_of

    given = headers_of(headers, os.environ)
    return _gate_mcp(rules, lambda gate: RemoteServer(url, given, gate), outside=outside, say=say)


def _gate_mcp(rules: Rules, reach: Callable[[ToolGate], Upstream], *, outside: bool, say: Callable[[str], None]) -> int:
    from fencepost.host.clock import SystemClock
    from fencepost.model.lease_check import is_in_a_run
    from fencepost.operations.supervisor_client import ask, ask_outside
    from fencepost.service.gateway import Gateway
    from fencepost.service.signals import Mailbox
    from fencepost.service.tool_gate import ToolGate

    inside = is_in_a_run(os.environ)
    asked = ask if inside else None if outside else ask_outside
    gate = ToolGate(rules, asked, wait=SystemClock().sleep, say=say)
    mailbox = Mailbox()
    try:
        return Gateway(gate, reach(gate), mailbox, say).run(0, 1)
    finally:
        mailbox.close()
