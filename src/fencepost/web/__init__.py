"""The web door: HTTP API, webhooks, completion of HTTP agents, metrics; parse, call one operation, render."""
