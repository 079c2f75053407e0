#!/bin/sh
# A late run cannot change anything at a service that compares fences.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) && cd "$work"
export GATE_KEY=only-for-this-demo
port=${PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
python3 "$here/service.py" "$port" "$work/fences" > log 2>&1 &
trap 'kill $!; wait $! 2>/dev/null || true; rm -rf "$work"' EXIT
gate="http:http://127.0.0.1:$port#key=env:GATE_KEY"
for _ in $(seq 100); do fencepost gate status "$gate" > /dev/null 2>&1 && break; sleep 0.1; done

fencepost gate raise "$gate" --resource lock:report --fence 1
printf 'by run 1' | fencepost gate send "$gate" PUT /report --resource lock:report --fence 1 --quiet
fencepost gate raise "$gate" --resource lock:report --fence 2
printf 'by run 2' | fencepost gate send "$gate" PUT /report --resource lock:report --fence 2 --quiet

code=0
printf 'late, by run 1' | fencepost gate send "$gate" PUT /report --resource lock:report --fence 1 || code=$?
echo "the late request ended with $code"
content=$(fencepost gate send "$gate" GET /report --resource lock:report --fence 2 < /dev/null)
echo "the service keeps: $content"
[ "$code" = 77 ] && [ "$content" = "by run 2" ]
