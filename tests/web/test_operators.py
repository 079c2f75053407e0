"""An operator's key looks at every tenant, changes only what it names, and is made by nobody over the network."""

import pytest

from fencepost.model.access import Role
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import Invalid
from fencepost.operations.web_keys import create_key
from tests.support.webdoor import API, WebDoor

PAYLOAD = {"target": "digest", "payload": {}}


@pytest.fixture
def shared(web: WebDoor) -> WebDoor:
    """Give a store of two tenants with an agent of the same name each."""
    for tenant in ("default", "acme", "harbor"):
        web.runtime.apply(AgentDefinition("digest", command=("true",)), tenant=tenant)
    return web


def operator(web: WebDoor, role: Role = Role.READ) -> dict[str, str]:
    made = create_key(web.store.keys(), tenant="default", name="on-call", role=role, by="test", all_tenants=True)
    return {"Authorization": f"Bearer {made.secret.text}"}


def named(headers: dict[str, str], tenant: str) -> dict[str, str]:
    return {**headers, "X-Fencepost-Tenant": tenant}


def test_an_operators_key_lists_all_tenants_and_looks_at_each(shared: WebDoor) -> None:
    shared.ask("POST", f"{API}/runs", json=PAYLOAD, headers=shared.bearer("trigger", "acme"))
    key = operator(shared)

    found = shared.ask("GET", f"{API}/tenants", headers=key).json()["items"]

    waiting = {one["tenant"]: one["waiting"] for one in found}
    assert (waiting["acme"], waiting["harbor"]) == (1, 0)
    runs = shared.ask("GET", f"{API}/runs", headers=named(key, "acme")).json()["items"]
    assert [run["tenant"] for run in runs] == ["acme"]
    assert shared.ask("GET", f"{API}/runs", headers=named(key, "harbor")).json()["items"] == []
    assert shared.ask("GET", f"{API}/runs", headers=named(key, "nosuch")).status_code == 404
    text = shared.ask("GET", "/metrics", headers=key).text
    assert 'fencepost_dead_letters{tenant="acme"}' in text
    assert 'fencepost_dead_letters{tenant="harbor"}' in text
    assert text.count("# TYPE fencepost_dead_letters gauge") == 1
    assert "harbor" not in shared.ask("GET", "/metrics", headers=named(key, "acme")).text


def test_every_other_key_sees_its_own_tenant_whatever_it_names(shared: WebDoor) -> None:
    for role in ("read", "trigger", "admin"):
        key = shared.bearer(role, "acme")
        assert [one["tenant"] for one in shared.ask("GET", f"{API}/tenants", headers=key).json()["items"]] == ["acme"]
        for path in (f"{API}/runs", "/metrics", f"{API}/tenants"):
            assert shared.ask("GET", path, headers=named(key, "harbor")).status_code == 403
        assert shared.ask("GET", f"{API}/runs", headers=named(key, "acme")).status_code == 200


def test_an_operators_change_takes_its_role_names_one_tenant_and_is_on_that_tenants_record(shared: WebDoor) -> None:
    reader, admin = operator(shared), operator(shared, Role.ADMIN)
    assert shared.ask("POST", f"{API}/runs", json=PAYLOAD, headers=named(reader, "acme")).status_code == 403
    assert shared.ask("POST", f"{API}/runs", json=PAYLOAD, headers=admin).json()["code"] == "no_tenant"

    made = shared.ask("POST", f"{API}/halt", json={"note": "rent"}, headers=named(admin, "acme"))

    assert made.status_code < 300, made.text
    entries = shared.ask("GET", f"{API}/audit?verb=halt", headers=shared.bearer("admin", "acme")).json()["items"]
    assert "on-call" in entries[0]["actor"]
    assert shared.ask("GET", f"{API}/audit?verb=halt", headers=shared.bearer("admin", "harbor")).json()["items"] == []


def test_an_operators_key_is_not_for_mcp_nor_for_leases_and_no_browser_gets_its_reach(shared: WebDoor) -> None:
    key = operator(shared, Role.ADMIN)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert shared.ask("POST", "/mcp", json=asked, headers=named(key, "acme")).status_code == 403
    with pytest.raises(Invalid, match="one tenant"):
        create_key(shared.store.keys(), tenant="default", name="x", role=Role.LEASE, by="test", all_tenants=True)
    wanted = {"name": "mine", "role": "admin", "all_tenants": True}
    made = shared.ask("POST", f"{API}/keys", json=wanted, headers=named(key, "acme"))
    assert made.status_code == 422
    plain = shared.ask("POST", f"{API}/keys", json={"name": "mine", "role": "admin"}, headers=named(key, "acme")).json()
    assert (plain["tenant"], plain["all_tenants"]) == ("acme", False)
