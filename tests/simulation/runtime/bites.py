"""What must have happened at least once before a batch of seeds says anything."""

BITES = (
    *("ticks: run", "ticks: missed", "runs by cron", "runs by manual", "requests acknowledged", "refusals"),
    *("succeeded: done", "reaped", "checkpoints", "takeovers", "kills", "answer lost", "fails before"),
    *("transactions broken off", "effects", "effects answered", "grants of a project", "runs leased by lanes"),
    *("pruned", "seals", "heads exported", "notices that arrived"),
    *(f"ticks: {kind}" for kind in ("dst_gap", "coalesced", "paused", "calendar")),
    *(f"runs by {kind}" for kind in ("every", "webhook")),
    *(f"ready: {why}" for why in ("retry", "resume", "restart")),
    *("dead: lost", "dead: exit_code", "resumes", "drains", "deploys", "sleeps", "clock steps", "never returns"),
    *("caller dies before", "caller dies after", "operator: edit", "operator: halt", "operator: backfill"),
    *("lost tails", "effects in doubt", "probes", "resolved by a person", "started once", "sessions in a project"),
    *("grants of a key with slots", "deliveries: accepted", "deliveries: duplicate"),
)
