#!/bin/sh
# A late run cannot book a journal, and neither can a client that never heard of fences. PostgreSQL works
# the same, with LEDGER_URL=postgresql://…
set -eu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

sqlite() { python3 -c 'import sqlite3, sys; d = sqlite3.connect("ledger.db"); print(*[r[0] for r in d.execute(sys.argv[1])], sep="\n"); d.commit()' "$1"; }
sqlite "CREATE TABLE journal (text TEXT)" > /dev/null
export LEDGER_URL="sqlite:$work/ledger.db"

fencepost gate raise sql:env:LEDGER_URL --resource lock:close --fence 1
echo "INSERT INTO journal VALUES ('by run 1');" | fencepost gate write-sql sql:env:LEDGER_URL --resource lock:close --fence 1
fencepost gate raise sql:env:LEDGER_URL --resource lock:close --fence 2
echo "INSERT INTO journal VALUES ('by run 2');" | fencepost gate write-sql sql:env:LEDGER_URL --resource lock:close --fence 2

code=0
echo "INSERT INTO journal VALUES ('late, by run 1');" |
    fencepost gate write-sql sql:env:LEDGER_URL --resource lock:close --fence 1 || code=$?
echo "the late booking ended with $code"

fencepost gate sql-guard sql:env:LEDGER_URL journal
stranger=0
sqlite "INSERT INTO journal VALUES ('by a stranger')" 2> said || stranger=$?
echo "a stranger was told: $(tail -n 1 said)"
sqlite "SELECT text FROM journal"
[ "$code" = 77 ] && [ "$stranger" != 0 ] && [ "$(sqlite 'SELECT count(*) FROM journal')" = 2 ]
