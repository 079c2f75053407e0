"""What the host lets one process have."""

import resource


def raise_descriptor_limit() -> None:
    """Take as many descriptors as this user may have: a thousand guards are a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS names a limit that it does not grant
            return
