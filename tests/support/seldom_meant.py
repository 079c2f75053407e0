"""A cron line that says three things which people mostly do not mean, and how each of them is told."""

CRON, ZONE = "*/45 9 13 * FRI", "EST"
DEFINITION = {"agent": "a", "cron": CRON, "timezone": ZONE}
TOML = f"[schedules.s]\nagent = 'a'\ncron = '{CRON}'\ntimezone = '{ZONE}'\n"
ABOUT_LINE = ("begins again: 45m apart, then 15m", "either of them, not both")
ABOUT_ZONE = ("EST is a fixed offset",)


def tells(text: str, *, zone: bool = True) -> bool:
    """Tell whether a text says all of it, however its lines are folded."""
    flat = " ".join(text.replace("#", " ").split())
    return all(words in flat for words in ABOUT_LINE + (ABOUT_ZONE if zone else ()))
