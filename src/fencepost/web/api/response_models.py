"""What the API gives: a model for each record, made of the record itself, and the few answers that only this door has."""

from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model, model_validator

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.operations.doctor_finding import CheckFinding
from fencepost.operations.records import as_json
from fencepost.operations.records.preview_record import PreviewedTickRecord
from fencepost.operations.records.schedule_record import PauseRecord, VersionRecord
from fencepost.operations.records.tick_record import AnswerRecord
from fencepost.operations.tenants import TenantFigures

T = TypeVar("T")
Kind = Any  # a Record's or a NamedTuple's class
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC")]
SPELLED = {datetime: Instant, Decimal: float, object: JsonValue}  # as `as_json` spells them


class ResponseModel(BaseModel):
    """What an answer looks like. A field that it does not name is an error, where it would be dropped without a word."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:  # noqa: ANN401  # a record, or what was spelled already
        return as_json(value) if hasattr(value, "_fields") else value


class Page(ResponseModel, Generic[T]):
    """Part of a listing; `next` is the cursor of the part after it, and null at the end."""

    items: list[T]
    next: str | None = None


@cache
def model_of(record: Kind, name: str = "") -> type[ResponseModel]:
    """Return the model of a record, or of a named tuple that stands in one."""
    hints = get_type_hints(record, include_extras=True)
    given: dict[str, Any] = {name: _shaped(hints[name]) for name in record._fields}
    return _made(name or getattr(record, "_noun", record.__name__), record.__doc__, given)


def page_of(*records: Kind) -> type[BaseModel]:
    """Return the model of a listing of records, which may be of several kinds."""
    name = f"Page[{model_of(records[0]).__name__}]"
    page: Any = Page[any_of(*records)]  # type: ignore[misc]  # made here
    return create_model(name, __base__=page, __doc__=Page.__doc__)


def any_of(*records: Kind) -> Any:  # noqa: ANN401  # a type that is made here
    """Return the model of an answer that is one of several records."""
    return Union[tuple(model_of(one) for one in records)]  # noqa: UP007  # likewise


@cache
def _as_written(of: type[AgentDefinition | ScheduleDefinition]) -> type[ResponseModel]:
    """Return the model of a definition as it is kept: what has its default is left out."""
    given = {one.name: (one.type | None, None) for one in fields(of)}  # type: ignore[operator]
    return _made(f"Written{of.__name__.removesuffix('Definition')}", of.__doc__, given)


def _made(name: str, doc: str | None, given: dict[str, Any]) -> type[ResponseModel]:
    return create_model(name, __base__=ResponseModel, __doc__=(doc or "").partition("\n")[0], **given)


def _shaped(hint: Any) -> Any:  # noqa: ANN401  # a type in, a type out
    """Return how a type is shown in the document."""
    if get_origin(hint) is Annotated:
        of, said = get_args(hint)
        return Annotated[_shaped(of), Field(description=said)] if isinstance(said, str) else _as_written(said)
    if get_origin(hint) in (UnionType, Union):
        return Union[tuple(map(_shaped, get_args(hint)))]  # noqa: UP007  # of parts that are known here only
    if isinstance(hint, GenericAlias):
        kind: Any = list if get_origin(hint) is tuple else get_origin(hint)
        return kind[*(_shaped(one) for one in get_args(hint) if one is not Ellipsis)]
    return model_of(hint) if hasattr(hint, "_fields") else SPELLED.get(hint, hint)


class Done(ResponseModel):
    """It is done."""

    done: bool = True


class Triggered(ResponseModel):
    """The run that answers one request of a batch."""

    id: str
    earlier: bool = Field(description="it was there already")


class Batch(ResponseModel):
    """The runs of a batch, in the order of their payloads."""

    runs: list[Triggered]


class RunLog(ResponseModel):
    """What an attempt has printed."""

    run_id: str
    attempt: int | None
    host: str | None
    complete: bool = Field(description="all that is left of it; else only the last lines, which the store has")
    text: str


class Tenants(ResponseModel):
    """The tenants that a key may look at."""

    items: list[model_of(TenantFigures, "Tenant")]  # type: ignore[valid-type]  # made above


class Examination(ResponseModel):
    """Everything that doctor looked at."""

    findings: list[model_of(CheckFinding, "Examined")]  # type: ignore[valid-type]  # likewise


class Answers(ResponseModel):
    """All that there is to say about an instant."""

    answers: list[model_of(AnswerRecord)]  # type: ignore[valid-type]  # likewise


class History(ResponseModel):
    """Versions and pauses of a schedule, newest first."""

    versions: list[model_of(VersionRecord)]  # type: ignore[valid-type]  # likewise
    pauses: list[model_of(PauseRecord)]  # type: ignore[valid-type]  # likewise
    next: str | None = Field(description="`cursor` of the next part; null: this is the last")


class Skips(ResponseModel):
    """The ticks that are left out."""

    name: str
    skips: list[Instant]


class Preview(ResponseModel):
    """Ticks to come, oldest first."""

    ticks: list[model_of(PreviewedTickRecord)]  # type: ignore[valid-type]  # likewise
    warnings: list[str] = Field(description="what the expression says and people mostly do not mean")


class Tried(ResponseModel):
    """How a test of a target went."""

    name: str
    told: bool
    error: str | None = Field(description="why it could not be told")


class CellNames(ResponseModel):
    """The cells that are kept for other machines."""

    names: list[str]


class Swapped(ResponseModel):
    """A cell was changed."""

    tag: str = Field(description="of the new document; also in ETag")
