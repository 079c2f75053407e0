"""The MCP door: an agent looks after schedules and runs, within the rights of whoever let it in."""
