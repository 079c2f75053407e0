"""What is promised about an agent's effects, and what is not."""

from fencepost.model.definition import AgentDefinition
from fencepost.model.effects import effects_of

LEDGER = {"ledger": {"kind": "sql", "url": "env:LEDGER"}}


def test_an_agent_without_gates_is_promised_nothing() -> None:
    assert effects_of(AgentDefinition("a")).words() == "ungated: all that it changes"


def test_gates_are_named_with_their_targets_and_the_rest_stays_ungated() -> None:
    agent = AgentDefinition("a", gates=("ledger", "file:out"), gate_definitions=LEDGER)

    assert effects_of(agent).words() == ("gated: ledger (sql:env:LEDGER), file:out · ungated: all else that it changes")


def test_an_agent_that_says_it_writes_nothing_is_believed() -> None:
    assert effects_of(AgentDefinition("a", writes=False)).words() == "it says that it changes nothing (writes = false)"


def test_checks_are_no_gates() -> None:
    agent = AgentDefinition("a", engine="claude")

    assert effects_of(agent).words() == "checked: hook · ungated: all else that it changes"
    assert effects_of(AgentDefinition("a", engine="claude", options={"checks": False})).checked == ()
    assert effects_of(AgentDefinition("a", engine="cli")).checked == ()


def test_the_gateway_is_named_for_each_server_that_it_stands_before() -> None:
    servers = {"mail": {"command": "mail-server"}, "far": {"type": "http", "url": "https://example.org/mcp"}}
    agent = AgentDefinition("a", engine="claude", options={"mcp_servers": servers})

    assert effects_of(agent).checked == ("hook", "mcp-gate mail", "mcp-gate far")
