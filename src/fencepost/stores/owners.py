"""Which owner the definitions of a file belong to, inside of an apply: the registry is compared in the owner's name."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from fencepost.model.instants import to_us
from fencepost.model.ownership import FileId, Member, Owner, Owners, Replaced, owner_of
from fencepost.model.registry_plan import KnownAgent, KnownDefinitions, KnownHook, KnownSchedule, Wanted, joins
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.lease_rows import storable
from fencepost.stores.transaction import Transaction

CONTENTS_KEPT = 1000  # of one owner
RENAMES = ("rename_agents", "rename_schedules", "rename_hooks", "rename_members", "rename_contents")


class Meeting(NamedTuple):
    """What an apply meets: the file in its owner's name, and what is there."""

    wanted: Wanted
    known: KnownDefinitions
    owner: Owner
    replaced: Replaced | None
    is_first: bool  # no content of this owner was ever noted
    is_settled: bool  # this file is known to belong to this owner, by this name


def meet(tx: Transaction, wanted: Wanted) -> Meeting:
    """Find out which owner a file has, and which definitions of the registry it may touch."""
    if wanted.file is None:
        known = _known(tx, wanted, wanted.source)
        return Meeting(wanted, known, Owner(wanted.source), None, is_first=False, is_settled=True)
    owners = _owners(tx, wanted.tenant, wanted.file)
    owner = owner_of(wanted.file, owners)
    mine = wanted.owned_by(owner)
    known = _known(tx, mine, owner.renamed or owner.source).renamed(owner.renamed, owner.source)
    if owner.is_new and not wanted.file.named and (other := _joined(tx, wanted, known)):
        owner, known = other
        mine = wanted.owned_by(owner)
    replaced, is_first = _content(tx, mine, owner)
    member = Member(wanted.file.machine, storable(wanted.file.path), owner.source)
    is_settled = member in owners.members and not owner.renamed
    return Meeting(mine, known, owner, replaced, is_first, is_settled)


class Membership:
    """Notes which file applies whose definitions, and each content once it is in force."""

    def __init__(self, tx: Transaction, meeting: Meeting, now: datetime, actor: str) -> None:
        self._tx = tx
        self._meeting = meeting
        self._wanted = meeting.wanted
        self._now_us = to_us(now)
        self._actor = storable(actor)

    def write(self) -> None:
        """Write what is new: nothing at all for the same file with the same content."""
        file, owner = self._wanted.file, self._meeting.owner
        if file is None:
            return
        if owner.renamed:
            self._rename(owner)
        member = {"machine": file.machine, "path": storable(file.path), "owner": owner.source}
        self._tx.rows("put_member", tenant=self._wanted.tenant, **member)
        before, after = self._meeting.known.digest_of(owner.source), self._wanted.digest
        if before != after:
            if self._meeting.is_first and self._meeting.known.names_of(owner.source):
                self._note(before)
            self._note(after)

    def _rename(self, owner: Owner) -> None:
        for name in RENAMES:
            self._tx.rows(name, tenant=self._wanted.tenant, old=owner.renamed, new=owner.source)
        subject, detail = f"file:{owner.source}", {"before": owner.renamed}
        write_audit(self._tx, self._wanted.tenant, actor=self._actor, verb="name_file", subject=subject, detail=detail)

    def _note(self, digest: str) -> None:
        common = {"tenant": self._wanted.tenant, "owner": self._wanted.source}
        self._tx.rows("put_content", **common, digest=digest, now_us=self._now_us, actor=self._actor)
        self._tx.rows("trim_contents", **common, kept=CONTENTS_KEPT)


def _owners(tx: Transaction, tenant: str, file: FileId) -> Owners:
    place = {"machine": file.machine, "path": storable(file.path)}
    rows = tx.rows("members", tenant=tenant, **place, owners=json.dumps(file.candidates))
    members = [Member(*row) for row in rows]
    names = sorted({*file.candidates, *(one.owner for one in members)})
    in_use = [str(name) for (name,) in tx.rows("owners_in_use", tenant=tenant, owners=json.dumps(names))]
    return Owners(members, in_use)


def _joined(tx: Transaction, wanted: Wanted, known: KnownDefinitions) -> tuple[Owner, KnownDefinitions] | None:
    """Return the owner of a file with the very same content, if there is one."""
    source = joins(known, wanted)
    if source is None:
        return None
    theirs = _known(tx, wanted, source)
    return (Owner(source), theirs) if theirs.digest_of(source) == wanted.digest else None


def _content(tx: Transaction, wanted: Wanted, owner: Owner) -> tuple[Replaced | None, bool]:
    """Return when this content was in force, if a later one has replaced it; and whether none was ever noted."""
    named = owner.renamed or owner.source
    rows = tx.rows("contents", tenant=wanted.tenant, owner=named, digest=wanted.digest)
    replaced = next((Replaced(int(at_us), str(by)) for digest, at_us, by in rows if digest == wanted.digest), None)
    is_newest = bool(rows) and rows[0][0] == wanted.digest
    return None if is_newest else replaced, not rows


def _known(tx: Transaction, wanted: Wanted, source: str) -> KnownDefinitions:
    agents = {row[0]: KnownAgent(*row) for row in tx.rows("known_agents", tenant=wanted.tenant)}
    common = {"tenant": wanted.tenant, "source": source}
    schedules = {row[0]: KnownSchedule(*row) for row in tx.rows("own_schedules", **common)}
    others = tx.rows(
        "known_schedules",
        **common,
        names=json.dumps([name for name in (*wanted.schedules, *wanted.agents) if name not in schedules]),
        agents=json.dumps(sorted(_touched(agents, wanted, source))),
        keyed=any(one.definition.concurrency_key for one in wanted.schedules.values()),
    )
    hooks = {row[0]: KnownHook(*row) for row in tx.rows("hooks", tenant=wanted.tenant)}
    return KnownDefinitions(agents, schedules | {row[0]: KnownSchedule(*row) for row in others}, hooks)


def _touched(agents: Mapping[str, KnownAgent], wanted: Wanted, source: str) -> set[str]:
    """Return the agents whose schedules an apply may concern: those that change, and those that it would retire."""
    same = {name for name, one in wanted.agents.items() if name in agents and agents[name].hash == one.hash}
    gone = {one.name for one in agents.values() if one.source == source and one.name not in wanted.agents}
    return gone | (wanted.agents.keys() - {name for name in same if not agents[name].retired})
