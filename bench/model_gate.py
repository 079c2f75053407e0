"""What the model gate adds to the first byte of an answer: the same streaming calls, straight to a provider and through the gate.

Both are asked in turn by one client that keeps its connections, so that a busy machine slows both. The provider is a process of its
own on loopback that answers at once. Exits with 1 if the gate adds more than its bound by two measures, the median and the best tenth:
the median of a busy machine says more about its other work.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from statistics import median, quantiles
from time import perf_counter, sleep

from fencepost.host.clock import SystemClock
from fencepost.model.own_program import own_program
from fencepost.service.model_gate_client import ModelOrder, keep_pass, open_pass

BOUND_MS = 3.0
WARM = 20
SHOWN = "fencepost-bench"
PROMPT_BYTES = 60_000  # of a conversation in the middle of some work
PROVIDER = """
import sys, time
from tests.support.model_provider import model_provider
with model_provider() as made:
    print(made.url, flush=True)
    sys.stdin.read()
"""


def main() -> int:
    """Measure and judge."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    provider = subprocess.Popen(
        [sys.executable, "-c", PROVIDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert provider.stdout
    url = provider.stdout.readline().strip()
    with tempfile.TemporaryDirectory() as folder:
        gate = subprocess.Popen([*own_program("fencepost.model_gate"), folder])
        try:
            straight, through = measured(url, folder, rounds)
        finally:
            gate.terminate()
            gate.wait()
            provider.communicate()
    added = [best(through) - best(straight), median(through) - median(straight)]
    for name, times in (("straight", straight), ("through the gate", through)):
        tail = quantiles(times, n=20)[-1]
        print(f"{name:18} p10 {best(times):6.2f} ms   p50 {median(times):6.2f} ms   p95 {tail:6.2f} ms")
    print(f"added to the first byte: p10 {added[0]:.2f} ms, p50 {added[1]:.2f} ms (bound {BOUND_MS:g} ms)")
    return 0 if min(added) <= BOUND_MS else 1


def best(times: list[float]) -> float:
    """Return the bound of the best tenth."""
    return quantiles(times, n=10)[0]


def measured(url: str, folder: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return how long the first bytes took, in milliseconds: straight, and through the gate."""
    while not os.path.exists(f"{folder}/port"):
        sleep(0.05)
    with open(f"{folder}/port", encoding="ascii") as file:
        port = int(file.read())
    terms = {"run_id": "r1", "provider": "anthropic", "upstream": url, "key": "k", "counts_sleep": False}
    order = ModelOrder(folder, port, SHOWN, {**terms, "budget_micro": 10**15})
    open_pass(order)
    keeper = keep_pass(order, SystemClock().awake_ns() + 10**13)
    assert keeper
    host = url.removeprefix("http://")
    straight, through = http.client.HTTPConnection(host), http.client.HTTPConnection("127.0.0.1", port)
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + WARM):
        for connection, found in zip((straight, through), times, strict=True):
            took = first_byte_ms(connection)
            if number >= WARM:  # the first ones open connections and fill caches
                found.append(took)
    keeper.close()
    return times


def first_byte_ms(connection: http.client.HTTPConnection) -> float:
    """Make one call and return how long its first byte took."""
    message = {"role": "user", "content": "x" * PROMPT_BYTES}
    body = json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 1, "stream": True, "messages": [message]})
    start = perf_counter()
    connection.request("POST", "/v1/messages", body, {"x-api-key": SHOWN, "content-type": "application/json"})
    answer = connection.getresponse()
    answer.read(1)
    took = (perf_counter() - start) * 1000
    answer.read()
    return took


if __name__ == "__main__":
    sys.exit(main())
