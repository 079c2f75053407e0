"""The S3 gate: a pointer that moves on condition, what it leaves behind, and servers that cannot keep one."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.gates.s3.gate import S3Gate
from fencepost.host.clock import SystemClock
from fencepost.host.secrets import own_secret
from fencepost.model.errors import FencepostError, FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.target import parse_target
from fencepost.operations.gate_probe import target_problems
from tests.gates.harness import S3Harness
from tests.gates.proofs import proof
from tests.support.s3 import S3Server
from tests.support.scratch import free_port


@pytest.fixture
def harness(s3_server: S3Server, tmp_path: Path) -> Iterator[S3Harness]:
    with S3Harness.made(tmp_path, lambda _: s3_server) as made:
        yield made


@pytest.fixture
def gate(harness: S3Harness) -> S3Gate:
    return opened(harness.target)


@pytest.fixture
def objects(harness: S3Harness, s3_server: S3Server) -> Any:  # noqa: ANN401
    bucket = harness.place.rpartition("/")[2]

    def listed() -> list[str]:
        found = s3_server.client().list_objects_v2(Bucket=bucket).get("Contents", [])
        return [str(one["Key"]) for one in found]

    return listed


def opened(target: str) -> S3Gate:
    return S3Gate(parse_target(target), clock=SystemClock(), fetch=own_secret)


def test_readers_follow_the_pointer_to_any_bytes(gate: S3Gate, harness: S3Harness) -> None:
    data = bytes(range(256))
    gate.raise_fence(proof(5))
    assert gate.read() is None

    gate.write(proof(5), data)

    assert opened(harness.target).read() == data


def test_the_command_line_reads_what_was_written(
    gate: S3Gate, harness: S3Harness, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    gate.raise_fence(proof(5))
    assert main(["gate", "read-s3", harness.target]) == 1
    gate.write(proof(5), b"text")

    assert main(["gate", "read-s3", harness.target]) == 0
    assert capfdbinary.readouterr().out == b"text"


def test_old_data_is_cleared_away_but_for_the_last_that_somebody_may_be_reading(gate: S3Gate, objects: Any) -> None:  # noqa: ANN401
    gate.raise_fence(proof(5))
    for number in range(5):
        gate.write(proof(5), b"%d" % number)

    assert len(objects()) == 3, "the pointer, the newest data and those before"


def test_a_refused_writer_leaves_nothing_behind(gate: S3Gate, harness: S3Harness, objects: Any) -> None:  # noqa: ANN401
    gate.raise_fence(proof(5))
    before = objects()

    with pytest.raises(FenceRefused):
        gate.write(proof(5), b"late", meanwhile=lambda: opened(harness.target).raise_fence(proof(6)))

    assert objects() == before


def test_a_raise_by_the_same_content_again_cannot_bring_an_old_etag_back(
    gate: S3Gate, harness: S3Harness, s3_server: S3Server
) -> None:
    bucket = harness.place.rpartition("/")[2]
    gate.raise_fence(proof(5))
    etags = set()
    for _ in range(4):
        gate.write(proof(5), b"same")
        etags.add(s3_server.client().head_object(Bucket=bucket, Key="reports/latest.txt")["ETag"])

    assert len(etags) == 4


def test_of_writers_that_race_each_is_told_the_truth(gate: S3Gate, harness: S3Harness) -> None:
    gate.raise_fence(proof(5))
    landed: list[str] = []

    def write(text: str) -> None:
        with suppress(FencepostError):
            opened(harness.target).write(proof(5), text.encode())
            landed.append(text)

    threads = [threading.Thread(target=write, args=(f"writer-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert harness.content() in landed


def test_an_object_that_is_no_pointer_is_never_replaced(gate: S3Gate, harness: S3Harness, s3_server: S3Server) -> None:
    bucket = harness.place.rpartition("/")[2]
    s3_server.client().put_object(Bucket=bucket, Key="reports/latest.txt", Body=b"somebody's report")

    for attempt in (lambda: gate.raise_fence(proof(5)), lambda: gate.write(proof(5), b"x")):
        with pytest.raises(Misconfigured, match="no pointer"):
            attempt()
    assert s3_server.client().get_object(Bucket=bucket, Key="reports/latest.txt")["Body"].read() == b"somebody's report"


def test_without_marks_nobody_writes(gate: S3Gate, harness: S3Harness, s3_server: S3Server, objects: Any) -> None:  # noqa: ANN401
    bucket = harness.place.rpartition("/")[2]
    gate.raise_fence(proof(6))
    s3_server.client().delete_object(Bucket=bucket, Key="reports/latest.txt")

    with pytest.raises(Misconfigured, match="has no marks"):
        gate.write(proof(5), b"unfenced")
    assert objects() == []


def test_a_server_that_ignores_conditions_is_found_out_before_the_first_mark(
    harness: S3Harness, tmp_path: Path
) -> None:
    with S3Server.running("careless") as server, S3Harness.made(tmp_path, lambda _: server) as careless:
        assert harness.target != careless.target
        with pytest.raises(Misconfigured, match="ignores If-Match"):
            opened(careless.target).raise_fence(proof(5))
        [problem] = target_problems(careless.target)

    assert "ignores If-Match" in problem


def test_a_server_or_a_bucket_that_is_not_there_is_told_apart(harness: S3Harness) -> None:
    away = f"s3:s3://bucket/key#endpoint=http://127.0.0.1:{free_port()}"
    missing = harness.target.replace("s3://bucket", "s3://no-bucket")

    with pytest.raises(GateUnreachable):
        opened(away).raise_fence(proof(5))
    with pytest.raises(Misconfigured, match="NoSuchBucket"):
        opened(missing).raise_fence(proof(5))


@pytest.mark.parametrize("where", ["s3://bucket", "s3://bucket/", "s3:///key", "s3://bucket/folder/", "https://host/x"])
def test_a_place_that_is_no_object_is_refused(where: str) -> None:
    with pytest.raises(Invalid, match="s3://bucket/key"):
        opened(f"s3:{where}")


def test_the_pointer_is_plain_json_for_readers_that_know_only_s3(
    gate: S3Gate, harness: S3Harness, s3_server: S3Server
) -> None:
    bucket = harness.place.rpartition("/")[2]
    gate.raise_fence(proof(5))
    gate.write(proof(5), b"text")

    pointer = json.load(s3_server.client().get_object(Bucket=bucket, Key="reports/latest.txt")["Body"])
    assert pointer["data"].startswith("reports/latest.txt/5-")
    assert pointer["marks"]["default lock:z"]["fence"] == 5
