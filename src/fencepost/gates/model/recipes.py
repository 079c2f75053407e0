"""How each agent is led to the model gate; the facts are data, in recipes.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

PROVIDERS = ("anthropic", "openai", "gemini")


class Recipe(NamedTuple):
    """What leads one agent there: variables and arguments, with `{url}` and `{key}` to be put in."""

    upstream: str
    key: str  # where the real one is, unless the agent says
    env: Mapping[str, str]
    args: tuple[str, ...]

    def env_for(self, url: str, key: str) -> dict[str, str]:
        """Return the variables for a gate at this address and a run with this key."""
        return {name: _put(value, url, key) for name, value in self.env.items()}

    def args_for(self, url: str, key: str) -> tuple[str, ...]:
        """Return the further arguments."""
        return tuple(_put(word, url, key) for word in self.args)


def recipe(provider: str, preset: str = "") -> Recipe:
    """Return the recipe for a provider, and for the CLI that speaks with it."""
    listed = _listed()
    said, cli = listed[provider], listed["cli"].get(preset, {}).get(provider, {})
    return Recipe(said["upstream"], said["key"], {**said["env"], **cli.get("env", {})}, tuple(cli.get("args", ())))


def is_led(preset: str) -> bool:
    """Tell whether a CLI can be led to the gate at all."""
    return preset not in _listed()["unled"]["presets"]


def scrubbed(env: Mapping[str, str], key: str) -> dict[str, str]:
    """Return an environment without what would lead past the gate, and without the real key under any name."""
    names = frozenset(_listed()["scrub"]["names"])
    return {name: value for name, value in env.items() if name not in names and value != key}


def _put(text: str, url: str, key: str) -> str:
    return text.replace("{url}", url).replace("{key}", key)


@cache
def _listed() -> dict[str, Any]:
    return tomllib.loads(files("fencepost.gates.model").joinpath("recipes.toml").read_text(encoding="utf-8"))
