"""Whether the kernel has had to end processes for want of memory."""


def kills_for_memory() -> int:
    """Return how many processes the kernel of this machine has ended for want of memory since it booted; 0: unknown."""
    try:
        with open("/proc/vmstat", "rb") as file:
            text = file.read()
    except OSError:
        return 0
    return int(text.partition(b"\noom_kill ")[2].partition(b"\n")[0] or 0)
