"""A command or an event without secrets, in whatever field they stand: text is redacted, names are refused.

A name (of a project, a session, an agent, an event, ...) says what belongs together and is asked for again, so a secret
in one cannot be cut out unnoticed: the write is refused, and the field named. Where a caller would never see that (the
hooks of other systems) the name is replaced: what is left of it, and a digest that tells it from others.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import fields, replace

from ingest.errors import CommandRejected
from ingest.names import fields_reader
from ingest.secrets.scrub import gather, is_clean, scrub, scrub_text

Names: TypeAlias = Literal["refuse", "replace", "keep"]
"""What happens to a name that contains a secret. `keep` is for commands that end or delete something with that name."""
S = TypeVar("S", bound=Struct)

NAMES = frozenset(
    ("event_id", "project", "agent_id", "session_id", "user_id", "tenant", "owner", "creator", "shared_with", "memory",
     "lesson", "action", "actions", "token", "holder", "observation", "session", "parent", "assigned_to", "source",
     "target", "relation", "commit", "label", "originals", "derived_from", "subject", "documents", "requires", "edges",
     "crystallized_into", "causation", "document", "recall_id")
)  # fmt: skip
"""Fields of commands and events that contain names. All others are text."""
_REFUSED_EVERYWHERE = "label"
"""Fields whose character set does not allow a replacement."""
_REPLACED = ("requires", "edges")
"""An action can wait for anything, even an action that does not exist yet."""
DIGEST_BYTES = 4


def cleaned(struct: S, names: Names, field: str = "") -> S:
    """`struct` without secrets; the same object when it holds none. Raises CommandRejected with the field at fault: for
    a name that holds a secret, unless `names` says otherwise, and for data that cannot be stored."""
    texts: list[str] = []
    if _gather(struct, texts) and is_clean(texts):
        return struct
    changed: dict[str, Any] = {}
    for name in _field_names(type(struct)):
        value = getattr(struct, name)
        if isinstance(value, dict):
            try:
                new = scrub(value)
            except ValueError as error:
                raise CommandRejected(str(error), name) from None
        elif name in NAMES:
            new = _clean(value, name, "replace" if name in _REPLACED else names, field)
        else:
            new = _clean_text(value)
        if new is not value and new != value:
            changed[name] = new
    return replace(struct, **changed) if changed else struct


def are_clean(struct: Iterable[Struct]) -> bool:
    """Whether `cleaned` would return all of these as they are."""
    # one question about all texts: the rules stay in the processor's caches, which takes a fraction of the time
    texts: list[str] = []
    return all(_gather(item, texts) for item in struct) and is_clean(texts)


def clean_name(name: str, names: Names, field: str) -> str:
    """The name without secrets; raises CommandRejected when `names` is "refuse" and there is one."""
    if names == "keep" or (stripped := scrub_text(name)) == name:
        return name
    if names == "refuse" or field == _REFUSED_EVERYWHERE:
        raise CommandRejected("this looks like it contains a secret, and names are stored unchanged", field)
    return f"{stripped}-{blake2b(name.encode(errors='replace'), digest_size=DIGEST_BYTES).hexdigest()}"


@lru_cache(1024)
def clean_agent(name: str, names: Names) -> str:
    """Like clean_name, for the agent that a key, a header or the settings name: few, and with every write."""
    return clean_name(name, names, "agent_id")


def _clean(value: Any, name: str, names: Names, prefix: str) -> Any:
    if isinstance(value, str):
        return clean_name(value, names, f"{prefix}{name}")
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_clean(item, name, names, prefix) for item in items]
    if isinstance(value, Struct):
        return cleaned(value, names, f"{prefix}{name}.")
    return value


def _clean_text(value: Any) -> Any:
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        return [_clean_text(item) for item in cast("list[Any]", value)]
    return value


def _gather(struct: Struct, texts: list[str]) -> bool:
    """Collect the texts of a struct and of what is in it; False when some of it asks for a closer look."""
    plain = True
    for value in _values_of(type(struct))(struct):
        if not value:
            continue
        kind = cast("type[Any]", type(value))
        if kind is str:
            texts.append(value)
        elif kind is dict:
            plain = gather(value, texts) and plain
        elif kind is list:
            for item in cast("list[Any]", value):
                if isinstance(item, str):
                    texts.append(item)
                elif isinstance(item, Struct):
                    plain = _gather(item, texts) and plain
    return plain


@lru_cache
def _values_of(cls: type[Struct]) -> Callable[[Struct], tuple[Any, ...]]:
    """What reads all fields in one call: every write pays for it."""
    return fields_reader(_field_names(cls))


@lru_cache
def _field_names(cls: type[Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))
