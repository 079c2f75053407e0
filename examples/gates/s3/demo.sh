#!/bin/sh
# A late run cannot replace an object. The server is moto's, on loopback; Amazon S3 works the same without an endpoint.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) && cd "$work"
export AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo AWS_DEFAULT_REGION=us-east-1
port=${PORT:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
python3 "$here/serve.py" "$port" > log 2>&1 &
trap 'kill $!; wait $! 2>/dev/null || true; rm -rf "$work"' EXIT
export ENDPOINT="http://127.0.0.1:$port"
bucket='import boto3, os; boto3.client("s3", endpoint_url=os.environ["ENDPOINT"]).create_bucket(Bucket="reports")'
for _ in $(seq 30); do python3 -c "$bucket" 2> /dev/null && break; sleep 0.3; done
gate="s3:s3://reports/latest.txt#endpoint=$ENDPOINT"

fencepost gate raise "$gate" --resource lock:report --fence 1
printf 'by run 1' | fencepost gate write-s3 "$gate" --resource lock:report --fence 1
fencepost gate raise "$gate" --resource lock:report --fence 2
printf 'by run 2' | fencepost gate write-s3 "$gate" --resource lock:report --fence 2

code=0
printf 'late, by run 1' | fencepost gate write-s3 "$gate" --resource lock:report --fence 1 || code=$?
echo "the late write ended with $code"
echo "readers get: $(fencepost gate read-s3 "$gate")"
[ "$code" = 77 ] && [ "$(fencepost gate read-s3 "$gate")" = "by run 2" ]
