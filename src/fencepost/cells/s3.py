"""Cells in a bucket: one object each, put only in the place of the one with a certain ETag."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from fencepost.cells.time_limit import within
from fencepost.model.cell import SIZE_MAX
from fencepost.model.errors import Invalid, Misconfigured, StoreUnavailable
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TTL_SECONDS, POLL_SECONDS = 120.0, 5.0
LOST = (404, 409, 412)  # another caller was first, or is just now, or has deleted it
MISSING = 404
SERVER_TROUBLE = 500  # and above


class S3Cells:
    """Objects below a prefix."""

    def __init__(self, bucket: str, prefix: str, *, options: Mapping[str, str], shown: str) -> None:
        if not bucket:
            raise Invalid(f"{shown} names no bucket; write s3://bucket/prefix.")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._endpoint = options.get("endpoint_url", "")
        self._region = options.get("region", "")
        self._clients: dict[float, Any] = {}
        self.facts = CellFacts("s3", shown, TTL_SECONDS, POLL_SECONDS)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Get each object."""
        return {name: self._read(name, seconds) for name in names}

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Put, or delete, an object in the place of the one with this ETag, or of none."""
        where = {"Bucket": self._bucket, "Key": f"{self._prefix}{name}"}
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
        client, errors = self._client(seconds), _errors()
        try:
            if document is None:
                # A probe's own cell, which no other process knows.
                within(seconds, lambda: client.delete_object(**where))
                return SwapOutcome("")
            put = within(seconds, lambda: client.put_object(**where, Body=document, **condition))
            return SwapOutcome(str(put["ETag"]))
        except errors.ClientError as error:
            status, said = _status(error.response)
            if status in LOST and "NoSuchBucket" not in said:
                return SwapOutcome(None, Answer.CONFLICT, said)
            if status >= SERVER_TROUBLE and "NotImplemented" not in said:
                return SwapOutcome(None, Answer.UNKNOWN, said)
            raise Misconfigured(f"{self.facts.url}: cannot write: {said}.") from None
        except (errors.ConnectTimeoutError, errors.EndpointConnectionError) as error:
            raise StoreUnavailable(f"{self.facts.url} cannot be reached: {_first(error)}.") from None
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.NoRegionError) as error:
            raise Misconfigured(f"{self.facts.url}: {_first(error)}.") from None
        except (errors.BotoCoreError, OSError) as error:
            return SwapOutcome(None, Answer.UNKNOWN, _first(error))

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the keys below the prefix."""
        names: list[str] = []
        more: dict[str, str] = {}
        while True:
            wanted = {"Bucket": self._bucket, "Prefix": f"{self._prefix}{prefix}", **more}
            page = self._asked(lambda: self._client(seconds).list_objects_v2(**wanted), seconds)  # noqa: B023  # called at once
            names += [one["Key"].removeprefix(self._prefix) for one in page.get("Contents", [])]
            if not page.get("IsTruncated"):
                return names
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Return nothing: a bucket that took the probe keeps what it has taken."""
        del seconds
        return ()

    def close(self) -> None:
        """Let go of connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _read(self, name: str, seconds: float) -> Read:
        def ask() -> Read:
            found = self._client(seconds).get_object(Bucket=self._bucket, Key=f"{self._prefix}{name}")
            return Read(found["Body"].read(SIZE_MAX + 1), str(found["ETag"]), _date(found))

        return self._asked(ask, seconds, missing=Read(None, None))  # type: ignore[no-any-return]

    def _asked(self, ask: Any, seconds: float, *, missing: Read | None = None) -> Any:  # noqa: ANN401  # the library has no types
        errors = _errors()
        try:
            return within(seconds, ask)
        except errors.ClientError as error:
            status, said = _status(error.response)
            if missing is not None and status == MISSING and "NoSuchBucket" not in said:
                return missing
            kind = StoreUnavailable if status >= SERVER_TROUBLE else Misconfigured
            raise kind(f"{self.facts.url}: cannot read: {said}.") from None
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.NoRegionError) as error:
            raise Misconfigured(f"{self.facts.url}: {_first(error)}.") from None
        except (errors.BotoCoreError, OSError) as error:
            raise StoreUnavailable(f"{self.facts.url} cannot be reached: {_first(error)}.") from None

    def _client(self, seconds: float) -> Any:  # noqa: ANN401  # boto3 makes its classes as it goes
        if seconds not in self._clients:
            boto3, config = _library()
            self._clients[seconds] = boto3.client(
                "s3",
                endpoint_url=self._endpoint or None,
                region_name=self._region or None,
                config=config(
                    connect_timeout=seconds,
                    read_timeout=seconds,
                    retries={"total_max_attempts": 1},  # a second try by the library turns a success into a conflict
                    request_checksum_calculation="when_required",  # what other servers than Amazon's understand
                    response_checksum_validation="when_required",
                    max_pool_connections=32,
                    s3={"addressing_style": "path" if self._endpoint else "auto"},
                ),
            )
        return self._clients[seconds]


def _library() -> tuple[Any, Any]:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise Misconfigured("a store in S3 needs the boto3 library: pip install 'fencepost[s3]'.") from None
    return boto3, Config


def _errors() -> Any:  # noqa: ANN401  # the library has no types
    _library()
    from botocore import exceptions

    return exceptions


def _status(response: Any) -> tuple[int, str]:  # noqa: ANN401  # the library has no types
    error = response.get("Error", {})
    said = f"{error.get('Code', '')}: {error.get('Message', '')}".rstrip(" .:")
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)), said


def _date(response: Any) -> int | None:  # noqa: ANN401  # the library has no types
    said = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return round(parsedate_to_datetime(said).timestamp()) * 1_000_000 if said else None
    except ValueError:
        return None


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
