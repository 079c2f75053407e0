"""The bucket behind an S3 gate: few verbs, each with a condition, and errors in sentences."""

from collections.abc import Callable
from typing import Any

from fencepost.model.errors import FencepostError, GateUnreachable, Misconfigured

WAIT_SECONDS = 10
LOST = (409, 412)  # another writer was first, or is just now
MISSING = 404
SERVER_TROUBLE = 500  # and above


class ChangedMeanwhile(Exception):  # no error: another writer was first
    """The condition did not hold: look again, and compare again."""


class Bucket:
    """Objects under their keys."""

    def __init__(self, name: str, *, endpoint: str = "", region: str = "") -> None:
        self._name = name
        self._endpoint = endpoint
        self._region = region
        self._opened: Any = None

    def get(self, key: str) -> tuple[bytes, str] | None:
        """Return an object and its ETag, None if there is none."""

        def ask() -> tuple[bytes, str]:
            found = self._client().get_object(Bucket=self._name, Key=key)
            return found["Body"].read(), found["ETag"]

        try:
            return self._explained(f"read s3://{self._name}/{key}", ask)  # type: ignore[no-any-return]
        except ChangedMeanwhile:
            return None

    def put(self, key: str, content: bytes, *, etag: str | None) -> None:
        """Put an object in the place of the one with this ETag, or of none, or raise Moved."""
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        self._explained(
            f"write s3://{self._name}/{key}",
            lambda: self._client().put_object(Bucket=self._name, Key=key, Body=content, **condition),
        )

    def delete(self, key: str) -> None:
        """Delete an unused object; what cannot be deleted now is only litter."""
        try:
            self._explained("delete", lambda: self._client().delete_object(Bucket=self._name, Key=key))
        except (FencepostError, ChangedMeanwhile):
            return

    def _client(self) -> Any:  # noqa: ANN401  # the library has no types
        if self._opened is None:
            boto3, config = _library()
            self._opened = boto3.client(
                "s3",
                endpoint_url=self._endpoint or None,
                region_name=self._region or None,
                config=config(
                    connect_timeout=WAIT_SECONDS,
                    read_timeout=WAIT_SECONDS,
                    # A second try is safe: each edition is unique, and its condition holds only once.
                    retries={"total_max_attempts": 3, "mode": "standard"},
                    request_checksum_calculation="when_required",  # what other servers than Amazon's understand
                    response_checksum_validation="when_required",
                    s3={"addressing_style": "path" if self._endpoint else "auto"},
                ),
            )
        return self._opened

    def _explained(self, doing: str, ask: Callable[[], Any]) -> Any:  # noqa: ANN401  # the library has no types
        _library()
        from botocore import exceptions

        try:
            return ask()
        except exceptions.ClientError as error:
            raise _meaning(error.response, doing) from None
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.NoRegionError) as error:
            raise Misconfigured(f"cannot {doing}: {error}.") from None
        except (exceptions.BotoCoreError, OSError) as error:
            unknown = " Whether it was written is not known." if doing.startswith("write") else ""
            raise GateUnreachable(f"cannot {doing}: {_first(error)}.{unknown}") from None


def _meaning(response: Any, doing: str) -> Exception:  # noqa: ANN401  # the library has no types
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = response.get("Error", {}).get("Code", "")
    said = f"{code}: {response.get('Error', {}).get('Message', '')}".rstrip(" .:")
    if code != "NoSuchBucket" and (status == MISSING or status in LOST):
        return ChangedMeanwhile(said)
    if status >= SERVER_TROUBLE and code != "NotImplemented":
        return GateUnreachable(f"cannot {doing}: {said}.")
    return Misconfigured(f"cannot {doing}: {said}.")


def _library() -> tuple[Any, Any]:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise Misconfigured("gates of kind s3 need the boto3 library: pip install 'fencepost[s3]'.") from None
    return boto3, Config


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
