"""The audit is sealed after the fact, and whatever was done to it since shows."""

import pytest

from fencepost.flow.notary import Notary, SealWitness
from fencepost.model.audit_chain import Seal, key_id, read_heads
from fencepost.model.definition import AgentDefinition
from fencepost.operations.audit_verification import VerifiedAudit, export_audit, verify_audit
from tests.stores.rig import PostgresRig
from tests.support.runtime import Runtime, together

KEY = b"the key that is not in the store"


def notary(runtime: Runtime, heads: list[Seal] | None = None, *, batch: int = 3) -> Notary:
    kept = heads if heads is not None else []
    store = runtime.another()  # its clock is asked over the same connection, as in a station
    return Notary(store.audit_chain(), KEY, store.clock_us, kept.append, batch=batch)


def seal(one: Notary) -> None:
    while one.step():
        pass


def decide(runtime: Runtime, count: int, *, tenant: str = "default") -> None:
    """Leave entries in the audit, as every decision does."""
    for number in range(count):
        runtime.apply(AgentDefinition(f"agent-{number}", command=("true", str(runtime.rig.now_us()))), tenant=tenant)
        runtime.pass_time(1)


def verify(runtime: Runtime, heads: list[Seal] | None = None, *, tenant: str = "default") -> VerifiedAudit:
    return verify_audit(runtime.store, tenant, keys={key_id(KEY): KEY}, heads=heads or [])


def tamper(runtime: Runtime, statement: str) -> None:
    if isinstance(runtime.rig, PostgresRig):
        runtime.rig._admin.execute(
            statement.replace("audit", "fencepost.audit").replace("seal", "fencepost.seal").encode()
        )
    else:
        dialect = runtime.store.dialect
        dialect.write(lambda tx: tx.tables()._connection.execute(statement))  # type: ignore[attr-defined]


def test_what_is_sealed_and_left_alone_is_good(runtime: Runtime) -> None:
    decide(runtime, 5)
    heads: list[Seal] = []
    assert verify(runtime).seals == 0
    loose = verify(runtime).loose
    assert loose.entries >= 5

    seal(notary(runtime, heads))
    decide(runtime, 1)
    report = verify(runtime, heads)

    assert (report.good, report.fault, report.entries) == (True, None, loose.entries)
    assert report.seals == len(heads) == -(-loose.entries // 3)
    assert report.loose.entries >= 1
    seal(notary(runtime, heads))
    assert verify(runtime, heads).loose.entries == 0
    assert verify(runtime, heads).good


def test_a_seal_is_made_once_however_many_notaries_there_are(runtime: Runtime) -> None:
    decide(runtime, 12)
    notaries = [notary(runtime, batch=2) for _ in range(4)]

    together(seal, notaries)
    seal(notaries[0])

    report = verify(runtime)
    assert report.good
    assert report.loose.entries == 0


def test_tenants_have_chains_of_their_own(runtime: Runtime) -> None:
    decide(runtime, 3)
    decide(runtime, 2, tenant="other")
    seal(notary(runtime))
    tamper(runtime, "UPDATE audit SET actor = 'eve' WHERE tenant = 'other'")

    assert verify(runtime).good
    assert not verify(runtime, tenant="other").good


@pytest.mark.parametrize(
    ("statement", "kind", "where"),
    [
        ("UPDATE audit SET actor = 'eve' WHERE place = 5", "integrity", "entry "),
        ("UPDATE audit SET detail = '{}', hash = 'x' WHERE place = 5", "integrity", "entry "),
        ("DELETE FROM audit WHERE place = 5", "completeness", "place 5"),
        ("UPDATE audit SET place = NULL, hash = NULL WHERE place = 5", "completeness", "place 5"),
        ("DELETE FROM seal WHERE number = 2", "completeness", "seal 2"),
        ("UPDATE seal SET at_us = 0 WHERE number = 2", "integrity", "seal 2"),
        ("DELETE FROM seal WHERE number = (SELECT max(number) FROM seal)", "completeness", "place "),
    ],
)
def test_the_first_thing_that_is_wrong_is_named(runtime: Runtime, statement: str, kind: str, where: str) -> None:
    decide(runtime, 8)
    seal(notary(runtime))
    assert verify(runtime).good

    tamper(runtime, statement)

    fault = verify(runtime).fault
    assert fault is not None
    assert fault.kind == kind
    assert fault.where.startswith(where)


def test_an_end_that_was_cut_off_shows_against_the_exported_heads(runtime: Runtime) -> None:
    decide(runtime, 9)
    heads: list[Seal] = []
    seal(notary(runtime, heads))
    tamper(runtime, "DELETE FROM audit WHERE place > 3")
    tamper(runtime, "DELETE FROM seal WHERE number > 1")

    assert verify(runtime).good  # nothing that is there is wrong
    fault = verify(runtime, heads).fault
    assert fault is not None
    assert (fault.kind, fault.where) == ("completeness", f"seal {heads[-1].number}")


def test_a_chain_that_was_cut_off_and_went_on_otherwise_shows_against_a_head(runtime: Runtime) -> None:
    """A fork, even by somebody who has the key: the store was set back, and sealed anew."""
    decide(runtime, 9)
    heads: list[Seal] = []
    seal(notary(runtime, heads))
    tamper(runtime, "DELETE FROM audit WHERE place > 3")
    tamper(runtime, "DELETE FROM seal WHERE number > 1")
    decide(runtime, 9)
    later: list[Seal] = []
    seal(notary(runtime, later))

    assert verify(runtime).good, "each chain is whole by itself"
    fault = verify(runtime, heads).fault
    assert fault is not None
    assert (fault.kind, fault.where) == ("completeness", "seal 2")
    both = verify(runtime, [*heads[:1], *later, *heads[1:]]).fault
    assert both is not None
    assert (both.kind, both.where) == ("completeness", "seal 2")
    assert verify(runtime, [*heads[:1], *later]).good


class Remembering:
    """What a machine knows of the chain, and what it was told when it would not seal."""

    def __init__(self) -> None:
        self.seals: dict[str, Seal] = {}
        self.refused: list[Exception] = []

    def notary(self, runtime: Runtime) -> Notary:
        def keep(one: Seal) -> None:
            self.seals[one.tenant] = one

        store = runtime.another()
        witness = SealWitness(self.seals.get, keep, self.refused.append)
        return Notary(store.audit_chain(), KEY, store.clock_us, lambda _: None, witness, batch=3)


@pytest.mark.parametrize(
    ("cuts", "state"),
    [
        (("DELETE FROM seal", "DELETE FROM audit WHERE seq < 3"), "has it no more: there is none"),
        (("DELETE FROM seal", "UPDATE audit SET place = NULL, hash = NULL"), "has it no more: there is none"),
        (("DELETE FROM audit WHERE place > 3", "DELETE FROM seal WHERE number > 1"), "the newest there is 1"),
        (("UPDATE seal SET mac = 'x' WHERE number = 3",), "has another seal with this number"),
    ],
)
def test_a_chain_that_lost_what_a_machine_remembers_is_not_sealed_anew(
    runtime: Runtime, cuts: tuple[str, ...], state: str
) -> None:
    decide(runtime, 8)
    machine = Remembering()
    seal(machine.notary(runtime))
    kept = machine.seals["default"]
    for statement in cuts:
        tamper(runtime, statement)
    decide(runtime, 4)

    seal(machine.notary(runtime))

    (error,) = machine.refused
    assert state in str(error)
    assert "fencepost audit accept" in str(error)
    assert machine.seals["default"] == kept, "it still remembers what was there"
    fault = verify(runtime, [kept]).first("completeness")
    assert fault is not None
    assert fault.where == f"seal {kept.number}"


def test_a_chain_that_another_machine_went_on_with_is_sealed(runtime: Runtime) -> None:
    decide(runtime, 4)
    one, other = Remembering(), Remembering()
    for machine in (one, other, other, one):
        seal(machine.notary(runtime))
        decide(runtime, 2)

    assert one.refused == other.refused == []
    assert one.seals["default"].number > other.seals["default"].number
    assert verify(runtime, [*one.seals.values(), *other.seals.values()]).good


def test_one_tenants_cut_chain_does_not_keep_the_others_from_being_sealed(runtime: Runtime) -> None:
    decide(runtime, 3)
    decide(runtime, 3, tenant="other")
    machine = Remembering()
    seal(machine.notary(runtime))
    tamper(runtime, "DELETE FROM seal WHERE tenant = 'default'")
    decide(runtime, 1)
    decide(runtime, 1, tenant="other")

    seal(machine.notary(runtime))

    assert [str(one).startswith("seal 1 of the audit of tenant default") for one in machine.refused] == [True]
    assert verify(runtime, tenant="other").loose.entries == 0
    assert verify(runtime).loose.entries > 0


def test_an_export_holds_every_entry_and_its_heads_can_be_compared(runtime: Runtime) -> None:
    decide(runtime, 4)
    seal(notary(runtime))
    decide(runtime, 1)

    lines = list(export_audit(runtime.store, "default"))
    heads = list(read_heads(lines))

    report = verify(runtime, heads)
    assert report.good
    assert report.heads == report.seals
    assert len(lines) == report.entries + report.loose.entries + report.seals


def test_the_chain_goes_with_a_backup(runtime: Runtime) -> None:
    """Every table and column is in it, so a restored store verifies as the old one did."""
    decide(runtime, 4)
    heads: list[Seal] = []
    seal(notary(runtime, heads))
    rows = runtime.rig.store.care().export(lambda snapshot: list(snapshot.rows))
    runtime.rig.store.care().replace(lambda: rows, store_id="moved", above=0)

    assert verify(runtime, heads).good
