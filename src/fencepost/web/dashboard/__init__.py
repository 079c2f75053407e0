"""The dashboard: pages that a server makes, which work without a script and get livelier with one."""
