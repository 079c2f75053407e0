"""The MCP door: an agent looks after schedules and runs, within the rights of the user or key that let it in."""
