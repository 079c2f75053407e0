"""Whether the kernel has had to end processes for want of memory."""


def kills_for_memory() -> int:
    """Return how many processes the kernel of this machine has ended for want of memory since it booted; 0: unknown."""
    try:
        with open("/proc/vmstat", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)
