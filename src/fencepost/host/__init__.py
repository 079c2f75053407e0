"""What it runs on: processes, clocks, identity, files."""
