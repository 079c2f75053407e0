"""How each agent is led to the model gate; the facts are data, in recipes.toml."""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

PROVIDERS = ("anthropic", "openai", "gemini")


class Recipe(NamedTuple):
    """What leads one agent there: variables, arguments and files in the run's folder, with places to be filled in."""

    upstream: str
    key: str  # where the real one is, unless the agent says
    env: Mapping[str, str]
    args: tuple[str, ...]
    files: Mapping[str, str]

    def filled(self, **values: str) -> "Recipe":
        """Return it for one run: `{url}` of the gate, `{key}` of the run, its `{model}` and its `{folder}`."""
        quoted = {name: json.dumps(value)[1:-1] for name, value in values.items()}  # every file is JSON
        return self._replace(
            env={name: _put(value, values) for name, value in self.env.items()},
            args=tuple(_put(word, values) for word in self.args),
            files={name: _put(text, quoted) for name, text in self.files.items()},
        )


def recipe(provider: str, preset: str = "") -> Recipe:
    """Return the recipe for a provider, and for the CLI that speaks with it."""
    listed = _listed()
    said, cli = listed[provider], listed["cli"].get(preset, {}).get(provider, {})
    env = {**said["env"], **cli.get("env", {})}
    return Recipe(said["upstream"], said["key"], env, tuple(cli.get("args", ())), cli.get("files", {}))


def is_led(provider: str, preset: str) -> bool:
    """Tell whether a CLI can be led to the gate, to speak with this provider."""
    listed = _listed()
    return preset not in listed["unled"]["presets"] or provider in listed["cli"].get(preset, {})


def scrubbed(env: Mapping[str, str], key: str) -> dict[str, str]:
    """Return an environment without what would lead past the gate, and without the real key under any name."""
    names = frozenset(_listed()["scrub"]["names"])
    return {name: value for name, value in env.items() if name not in names and value != key}


def _put(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@cache
def _listed() -> dict[str, Any]:
    return tomllib.loads(files("fencepost.gates.model").joinpath("recipes.toml").read_text(encoding="utf-8"))
