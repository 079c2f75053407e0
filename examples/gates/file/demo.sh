#!/bin/sh
# A late run cannot overwrite a file.
set -eu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

echo "by run 1" | fencepost gate write-file report.txt --resource lock:report --fence 1
fencepost gate raise file:report.txt --resource lock:report --fence 2
echo "by run 2" | fencepost gate write-file report.txt --resource lock:report --fence 2

code=0
echo "late, by run 1" | fencepost gate write-file report.txt --resource lock:report --fence 1 || code=$?
echo "the late write ended with $code; the file says: $(cat report.txt)"
[ "$code" = 77 ] && [ "$(cat report.txt)" = "by run 2" ]
