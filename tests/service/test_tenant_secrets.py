"""What a tenant may have is decided where it is handed over, for every kind of reference, whatever was applied."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import fencepost
from fencepost import send_notices
from fencepost.config.load import check
from fencepost.config.read import read_text
from fencepost.host.secrets import hand_over
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Misconfigured, Withheld
from fencepost.model.http_secrets import SECRET, URL, header_secret
from fencepost.model.secret_rights import NO_LISTS, Rights
from fencepost.service.agent_secrets import given_to
from fencepost.service.notifier import Post
from fencepost.wiring.tenant_secrets import fetch_secret, gate_opener
from tests.support.services import asgi_served

VALUE = "s3cret-of-harbor"
STANDINGS = {  # who is listed with what -> whether acme gets `env:THING`
    "listed with it": (Rights((("acme", ("env:OTHER", "env:THING")), ("harbor", ()))), True),
    "listed without it": (Rights((("acme", ("env:OTHER",)), ("harbor", ("env:THING",)))), False),
    "not listed": (Rights((("harbor", ("env:THING",)),)), False),
    "nobody is listed": (NO_LISTS, True),
}


class Asked(NamedTuple):
    """A tenant that asks for the value of a variable on a machine with these rights."""

    rights: Rights
    tenant: str = "acme"

    def given(self, definition: str) -> dict[str, str]:
        """Return what an agent gets by a definition that nobody has refused when it was applied."""
        agent = check(read_text("t", f"[agents.a]\n{definition}\n", {}), "t").agents["a"]
        found = given_to(agent, self.tenant, self.rights, {"THING": VALUE, "PATH": "/bin"})
        return {**found.passed, **found.secrets}

    def opens(self, target: str) -> bool:
        """Open a gate as a worker does; each kind follows its reference at once, the key of http at the first question."""
        gate = gate_opener(self.rights)(target, self.tenant)
        return gate.target == target


def notice_reads(asked: Asked) -> str:
    post = Post(asked.tenant, "file.toml", {}, (), asked.rights)
    return send_notices.fetcher(json.loads(post.batch([])))("env:THING")


COMMAND = 'command = ["true"]\n'
HTTP = 'engine = "http"\n'
KINDS: dict[str, tuple[str, Callable[[Asked], object]]] = {
    "secret": (VALUE, lambda asked: asked.given(COMMAND + 'secrets = { X = "env:THING" }')["X"]),
    "pass_env": (VALUE, lambda asked: asked.given(COMMAND + 'pass_env = ["THING"]')["THING"]),
    "http url": (VALUE, lambda asked: asked.given(HTTP + 'url = "env:THING"')[URL]),
    "http secret": (VALUE, lambda asked: asked.given(HTTP + 'url = "https://x.test/"\nsecret = "env:THING"')[SECRET]),
    "http header": (
        VALUE,
        lambda asked: asked.given(HTTP + 'url = "https://x.test/"\nheaders = { A = "env:THING" }')[header_secret(0)],
    ),
    "an agent's gate": ("", lambda asked: "".join(asked.given(COMMAND + 'gates = ["sql:env:THING"]'))),
    "hook and completion": (VALUE, lambda asked: fetch_secret("env:THING", asked.tenant, asked.rights)),
    "notice": (VALUE, notice_reads),
    "sql gate": ("sqlite:/srv/app.db", lambda asked: asked.opens("sql:env:THING")),
    "redis gate": ("redis://127.0.0.1:1/0", lambda asked: asked.opens("redis:env:THING")),
    "s3 gate": ("s3://bucket/key", lambda asked: asked.opens("s3:env:THING")),
    "git gate": ("ssh://git@x.test/site", lambda asked: asked.opens("git:env:THING#branch=main")),
    "http gate": ("http://127.0.0.1:1", lambda asked: asked.opens("http:env:THING#key=env:OTHER")),
}


@pytest.mark.parametrize("standing", STANDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_of_each_kind_is_followed_for_those_who_may_have_it(
    kind: str, standing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, ask = KINDS[kind]
    rights, is_given = STANDINGS[standing]
    monkeypatch.setenv("THING", value)
    if is_given:
        assert ask(Asked(rights)) in (value, True)
        return
    with pytest.raises(Withheld) as refused:
        ask(Asked(rights))
    assert "env:THING" in str(refused.value)
    assert "the worker's own file" in str(refused.value)
    assert not value or value not in str(refused.value)


OWN = "env:FENCEPOST_THING"
STORED = {  # as an older program may have stored it
    "secret": AgentDefinition("a", command=("true",), secrets={"X": OWN}),
    "pass_env": AgentDefinition("a", command=("true",), pass_env=("FENCEPOST_THING",)),
    "gate": AgentDefinition("a", command=("true",), gates=(f"http:http://127.0.0.1:1#key={OWN}",)),
}


@pytest.mark.parametrize("rights", [NO_LISTS, Rights((("acme", (OWN,)),))])
@pytest.mark.parametrize("kind", STORED)
def test_what_is_fenceposts_own_is_handed_to_nobody(kind: str, rights: Rights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_THING", VALUE)
    with pytest.raises(Withheld, match="never handed out"):
        given_to(STORED[kind], "acme", rights, {"FENCEPOST_THING": VALUE})
    with pytest.raises(Withheld, match="never handed out"):
        fetch_secret(OWN, "acme", rights)
    with pytest.raises(Withheld, match="never handed out"):
        gate_opener(rights)(f"sql:{OWN}", "acme")


@pytest.mark.parametrize("standing", STANDINGS)
def test_the_key_of_an_http_gate_goes_to_a_service_only_if_it_is_the_tenants(
    standing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights, is_given = STANDINGS[standing]
    monkeypatch.setenv("THING", VALUE)
    seen: list[bytes] = []

    async def app(scope: dict[str, object], _: object, send: Callable[..., object]) -> None:
        headers = dict(scope["headers"])  # type: ignore[call-overload]
        seen.append(headers.get(b"authorization", b""))
        await send({"type": "http.response.start", "status": 404, "headers": []})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[misc]

    with asgi_served(app) as url:
        gate = gate_opener(rights)(f"http:{url}#key=env:THING", "acme")
        with pytest.raises(Misconfigured) as refused:
            gate.status()
    assert isinstance(refused.value, Withheld) is not is_given
    assert seen == ([f"Bearer {VALUE}".encode()] if is_given else [])


# Who else reads `env:NAME`: what checks its spelling, and what a process looks up for itself and hands to nobody.
FOR_ITSELF = {
    "config/find.py": "where a machine's own store is",
    "config/value_kinds.py": "how a reference is spelled",
    "host/audit_key.py": "the key that seals the audit, which no tenant names",
    "service/mcp_http.py": "a header of the gateway in the agent's own tree, from the agent's own variables",
}


def test_no_other_place_follows_references() -> None:
    follows = re.compile(r"""startswith\(\(?["']env:|== ["']env["']""")
    source = Path(fencepost.__file__).parent
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if follows.search(path.read_text())}
    assert found == {"host/secrets.py", "model/secret_rights.py", *FOR_ITSELF}


def test_a_file_is_compared_by_where_its_links_lead(tmp_path: Path) -> None:
    ours, theirs, link = tmp_path / "acme.key", tmp_path / "harbor.key", tmp_path / "link"
    ours.write_text("ours\n")
    theirs.write_text("theirs\n")
    rights = Rights((("acme", (f"file:{ours}",)), ("harbor", (f"file:{theirs}",))))

    def got(path: Path | str) -> str:
        return hand_over(f"file:{path}", tenant="acme", rights=rights, what="x")

    assert got(ours) == "ours"
    link.symlink_to(ours)
    assert got(link) == "ours"
    assert got(f"{tmp_path}/../{tmp_path.name}/acme.key") == "ours"
    link.unlink()
    link.symlink_to(theirs)
    for path in (theirs, link, f"{tmp_path}/./harbor.key"):
        with pytest.raises(Withheld):
            got(path)


def test_a_variable_that_is_not_the_tenants_is_refused_whether_it_is_set_or_not() -> None:
    agent = AgentDefinition("a", command=("true",), pass_env=("HARBOR_KEY",))
    rights = Rights((("acme", ()),))
    for inherited in ({}, {"HARBOR_KEY": VALUE}):
        with pytest.raises(Withheld, match="agent a, pass_env HARBOR_KEY"):
            given_to(agent, "acme", rights, inherited)


def test_the_ordinary_variables_need_no_list() -> None:
    agent = AgentDefinition("a", command=("true",), pass_env=("PATH", "LC_ALL"))
    assert given_to(agent, "acme", Rights((("acme", ()),)), {"PATH": "/bin"}).passed == {}


def test_a_secret_that_is_nowhere_is_told_from_one_that_is_not_the_tenants(tmp_path: Path) -> None:
    for reference, words in (("env:NOT_SET_HERE", "is not set here"), (f"file:{tmp_path}/none", "No such file")):
        with pytest.raises(Misconfigured, match=words) as refused:
            hand_over(reference, tenant="acme", rights=NO_LISTS, what="x")
        assert not isinstance(refused.value, Withheld)
