"""What must have happened at least once before a batch of seeds says anything."""

BITES = (
    *(f"ticks: {kind}" for kind in ("run", "missed", "dst_gap", "coalesced", "paused")),
    *(f"runs by {kind}" for kind in ("cron", "every", "manual", "webhook")),
    *(f"ready: {why}" for why in ("retry", "resume", "restart")),
    *("succeeded: done", "dead: lost", "dead: exit_code", "takeovers", "reaped", "resumes", "checkpoints"),
    *("drains", "deploys", "kills", "sleeps", "clock steps", "answer lost", "never returns", "fails before"),
    *("caller dies before", "caller dies after", "transactions broken off", "requests acknowledged"),
    *("operator: edit", "operator: halt", "operator: backfill", "refusals", "lost tails"),
    *("effects", "effects in doubt", "effects answered", "probes", "resolved by a person", "started once"),
    *("grants of a project", "sessions in a project", "grants of a key with slots", "runs leased by lanes"),
    *("pruned", "seals", "heads exported", "notices that arrived", "deliveries: accepted", "deliveries: duplicate"),
)
