"""What each thing costs a PostgreSQL server, as `make bench-costs` and `make bench-history` measured it.

Taken on two quiet cores (load 1) with PostgreSQL 18 and a disk on the same machine; bytes kept, at a load of 5. Another
machine has other figures, and the same proportions. docs/explanation/scale.md shows the same numbers; a test compares.
"""

from typing import NamedTuple


class UnitCost(NamedTuple):
    """What one costs the server."""

    server_us: float
    transactions: float
    wal_bytes: int


TICK = UnitCost(75, 0.02, 2_973)  # decided, with its run put into the queue
RUN = UnitCost(3_450, 3.04, 4_811)  # of a process: leased, started, settled, sealed
RENEWAL = UnitCost(6.1, 0.0, 171)  # of one lease among those that a worker renews together
RENEWING = UnitCost(280, 1.0, 78)  # the transaction around them
IDLE_WORKER_SECOND = UnitCost(5_960, 7.0, 26)
IDLE_SCHEDULER_SECOND = UnitCost(5_040, 6.35, 211)

RUN_KEPT_BYTES = 3_328  # on record until it is pruned: run, tick, attempt, audit
TICK_KEPT_BYTES = 515  # of a tick without a run
RENEWED_TOGETHER = 250
WORKER_CONNECTIONS = 4
