"""A standby that is asked by mistake, and one that takes over without the primary's last commits."""

import psycopg
import pytest

from fencepost.model.errors import StoreUnavailable
from fencepost.stores.postgres.store import open_store
from tests.stores.rig import granted
from tests.support.postgres import PostgresServer
from tests.support.scratch import wait_until


def test_a_standby_is_refused_and_after_a_lossy_failover_no_fence_repeats(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database("kept")
    before = open_store(url, new_id="many", allow_lossy=True)
    granted(before, "lock:a")
    with private_postgres.standby() as standby:
        with pytest.raises(StoreUnavailable, match="is a standby"):
            open_store(standby.url("kept"), new_id="many", allow_lossy=True)

        stop_following(standby, private_postgres)
        lost = granted(before, "lock:b")
        before.close()
        private_postgres.stop("immediate")
        standby.promote()
        set_clock_back(standby.url("kept"), minutes=30)

        after = open_store(standby.url("kept"), new_id="many", allow_lossy=True)
        (notice,) = after.facts().notices
        assert "failed over or was restored" in notice
        assert lost.id not in {held.id for held in after.leases()}
        assert granted(after, "lock:b").fence > lost.fence
        after.close()

        again = open_store(standby.url("kept"), new_id="many", allow_lossy=True)
        assert again.facts().notices == ()
        again.close()


def stop_following(standby: PostgresServer, primary: PostgresServer) -> None:
    """Let the standby hear of nothing that comes later."""
    execute(standby.admin_url, "ALTER SYSTEM SET primary_conninfo = ''")
    execute(standby.admin_url, "SELECT pg_reload_conf()")
    with psycopg.connect(primary.admin_url, autocommit=True) as connection:
        followers = "SELECT pid FROM pg_stat_replication"
        wait_until(lambda: not connection.execute(followers).fetchall(), what="the standby follows no more")


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def set_clock_back(url: str, *, minutes: int) -> None:
    behind = f"clock_timestamp() - interval ''{minutes} minutes''"
    function = "CREATE OR REPLACE FUNCTION fencepost.clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS"
    execute(url, f"{function} 'SELECT (extract(epoch FROM {behind}) * 1000000)::bigint'")
