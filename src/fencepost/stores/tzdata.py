"""Follows a new release of tzdata: has every schedule looked at once more, a page at a time.

What comes next may lie at another instant by the new release. The release that the store follows, and how far a
scheduler has come for a newer one, stand in the store: a scheduler that dies is followed up by another.
"""

import json

from fencepost.stores.transaction import Transaction

FOLLOWED, UNDERWAY = "tzdata", "tzdata_underway"
PAGE = 200  # schedules that are woken at once: what comes due meanwhile waits for them


def follow(tx: Transaction, release: str) -> int:
    """Wake the next page; return how many schedules it has, 0 when all have been looked at by this release or a later one.

    Releases are named so that a later one sorts after.
    """
    if _kept(tx, FOLLOWED) >= release:
        return 0
    wanted, tenant, name = json.loads(_kept(tx, UNDERWAY) or '["", "", ""]')
    if wanted > release:
        return 0  # a scheduler with newer tables is at it
    place = {"tenant": tenant, "name": name} if wanted == release else {"tenant": "", "name": ""}
    page = tx.rows("page_of_schedules", **place, limit=PAGE)
    if not page:
        tx.rows("set_meta", key=FOLLOWED, value=release)
        return 0
    tx.rows("wake_for_tzdata", schedules=json.dumps(page))
    tx.rows("set_meta", key=UNDERWAY, value=json.dumps([release, *page[-1]]))
    return len(page)


def _kept(tx: Transaction, key: str) -> str:
    rows = tx.rows("meta", key=key)
    return str(rows[0][0]) if rows else ""
