"""Flat, low-volume read models are redis-om rows: one hash each. This is the one file that imports redis-om."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ingest.log.keys import row_key
from ingest.platform.connections import Transaction

if TYPE_CHECKING:  # what of redis-om is used here; its own annotations leave type checkers guessing
    from pydantic import BaseModel
    from pydantic import Field as PydanticField

    def Field(*, default: str, primary_key: bool) -> str:
        return PydanticField(default=default)

    class HashModel(BaseModel):
        def __init_subclass__(cls, *, index: bool = False) -> None: ...
        async def save(self, pipeline: Transaction) -> Any: ...

else:
    from aredis_om import Field, HashModel

UNPLACED = "-"
"""`pk` of a row that is not being saved (redis-om would replace an empty one by a random id)."""
SEPARATOR = "\x1f"
"""Between the values of a list: a hash holds text."""
RowT = TypeVar("RowT", bound="Row")


class Row(HashModel):
    """Base of a row. `pk` is the row's place among the keys of its partition and generation, given when it is saved.

    Rows are values: a fold makes a changed copy (`model_copy`) and leaves the old one alone. No field may be None or
    a list: a hash holds text, and saving does not remove a field that became None.
    """

    pk: str = Field(default=UNPLACED, primary_key=True)

    @classmethod
    def make_key(cls, part: str) -> str:
        """Every row's key has the same shape, whatever its class (redis-om would put the class's name in it)."""
        return row_key(part)


async def save_row(row: Row, pk: str, pipe: Transaction) -> None:
    """Queue the row's hash on a pipeline, under `row_key(pk)`."""
    await row.model_copy(update={"pk": pk}).save(pipeline=pipe)


def read_row(cls: type[RowT], stored: Mapping[bytes, bytes]) -> RowT | None:
    """The row in a hash's fields; None for no hash. Its `pk` is UNPLACED: a row's identity is its `id`."""
    if not stored:
        return None
    fields: dict[str, Any] = {name.decode(): value.decode() for name, value in stored.items()}
    fields["pk"] = UNPLACED
    return cls.model_validate(fields)


def joined(values: Iterable[str]) -> str:
    """The values in one text; a value's own U+001F becomes a space."""
    return SEPARATOR.join(value.replace(SEPARATOR, " ") for value in values)


def split(text: str) -> list[str]:
    """The values that `joined` put together."""
    return text.split(SEPARATOR) if text else []
