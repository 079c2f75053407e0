#!/bin/sh
# A late run cannot switch a published directory back.
set -eu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"

mkdir old new
echo "by run 1" > old/index.html
echo "by run 2" > new/index.html
fencepost gate publish-dir old site --resource lock:site --fence 1
fencepost gate raise dir:site --resource lock:site --fence 2
fencepost gate publish-dir new site --resource lock:site --fence 2

code=0
fencepost gate publish-dir old site --resource lock:site --fence 1 || code=$?
echo "the late publication ended with $code; the site says: $(cat site/index.html)"
[ "$code" = 77 ] && [ "$(cat site/index.html)" = "by run 2" ]
