"""Which secrets a tenant may have: what the machine's own lists say, and nothing else."""

import os.path

import pytest

from fencepost.model.secret_rights import NO_LISTS, Rights, is_ordinary, references_in, refusal, rights_of
from fencepost.model.target import parse_target

LINKS = {"/srv/acme/link": "/run/harbor.key", "/run/secrets/acme": "/run/..data/acme"}
ACME = Rights((("acme", ("env:ACME_KEY", "file:/run/acme.key")),))


def real(path: str) -> str:
    whole = os.path.normpath(path)
    return LINKS.get(whole, whole)


def refused(reference: str, tenant: str = "acme", rights: Rights = ACME) -> str | None:
    return refusal(reference, tenant=tenant, rights=rights, real=real)


@pytest.mark.parametrize("reference", ["env:ACME_KEY", "file:/run/acme.key", "file:/run/../run/./acme.key"])
def test_a_tenant_may_have_what_is_listed_for_it(reference: str) -> None:
    assert refused(reference) is None


@pytest.mark.parametrize("reference", ["env:HARBOR_KEY", "env:acme_key", "file:/run/acme.key.old", "file:ACME_KEY"])
def test_a_tenant_may_have_nothing_else(reference: str) -> None:
    said = refused(reference)
    assert said is not None
    assert f"do not list {reference}" in said
    assert "[tenants.acme] of the worker's own file" in said


def test_a_link_stands_for_the_file_it_leads_to() -> None:
    rights = Rights((("acme", ("file:/srv/acme/own.key", "file:/run/secrets/acme")),))
    assert refused("file:/srv/acme/link", rights=rights) is not None
    assert refused("file:/run/..data/acme", rights=rights) is None, "the list itself may name a link, as mounts do"


def test_once_a_tenant_is_listed_the_others_get_none() -> None:
    said = refused("env:ACME_KEY", "globex")
    assert said is not None
    assert "Write [tenants.globex]" in said
    assert refused("env:ACME_KEY", "acme", Rights((("acme", ()),))) is not None


def test_where_nobody_is_listed_everybody_may_have_everything() -> None:
    assert refused("env:HARBOR_KEY", rights=NO_LISTS) is None
    assert rights_of({}) == NO_LISTS
    assert rights_of({"acme": {"secrets": ("env:ACME_KEY", "file:/run/acme.key")}}) == ACME


@pytest.mark.parametrize("rights", [NO_LISTS, Rights((("acme", ("env:FENCEPOST_STORE",)),))])
@pytest.mark.parametrize("name", ["FENCEPOST_STORE", "FENCEPOST_CONFIG", "fencepost_store"])
def test_what_is_fenceposts_own_is_handed_to_nobody(name: str, rights: Rights) -> None:
    assert "never handed out" in (refused(f"env:{name}", rights=rights) or "")


def test_a_gate_refers_by_its_place_and_by_its_options() -> None:
    def found(target: str) -> list[str]:
        return list(references_in(parse_target(target)))

    assert found("http:env:SERVICE_URL#key=env:GATE_KEY") == ["env:SERVICE_URL", "env:GATE_KEY"]
    assert found("sql:file:/run/url") == ["file:/run/url"]
    assert found("git:file:///srv/site.git#branch=main") == [], "which is an address"
    assert found("file:/srv/env:NAME") == []


def test_every_agent_gets_the_ordinary_variables() -> None:
    assert is_ordinary("PATH")
    assert is_ordinary("LC_ALL")
    assert not is_ordinary("HARBOR_KEY")
