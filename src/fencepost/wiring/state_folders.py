"""Says where this machine's runs, guards and workers keep their files."""

import os


def log_folder() -> str:
    """Return where the logs of this machine's runs are kept."""
    from fencepost.config.find import state_folder

    return os.path.join(state_folder(os.environ), "logs")


def guard_folder() -> str:
    """Return where guards are found, in a folder that agents are not shown; a socket's name has to be short."""
    from fencepost.config.find import state_folder
    from fencepost.service.run_folder import guards_below

    return guards_below(state_folder(os.environ))


def model_gate_folder() -> str:
    """Return where the model gate is found; a socket's name has to be short."""
    return os.path.join(os.path.dirname(guard_folder()), "model-gate")


def prices_file() -> str:
    """Return where the user may list prices of models."""
    from fencepost.config.find import config_folder

    return os.path.join(config_folder(os.environ), "prices.toml")


def workers_folder() -> str:
    """Return where each worker of this user holds a lock for as long as it lives."""
    from fencepost.config.find import state_folder

    return os.path.join(state_folder(os.environ), "workers")
