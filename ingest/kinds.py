"""The kinds of documents, and what their ids begin with; a row for each that can be read by id, from which look-ups,
collections and commands follow."""

from typing import Literal, NamedTuple, TypeAlias, get_args

OBSERVATION = "obs"
MEMORY = "mem"
LESSON = "lsn"
SLOT = "slot"
ACTION = "act"
RELATION = "rel"
COMMIT = "cmt"
SESSION = "ses"
SUMMARY = "sum"

SearchedKind: TypeAlias = Literal["observation", "memory", "lesson", "summary"]
"""The kinds that recall searches."""
SubjectKind: TypeAlias = Literal[
    "observation", "memory", "lesson", "slot", "action", "relation", "commit", "session", "user", "project"
]
"""What can be forgotten."""
SEARCHED_KINDS: tuple[SearchedKind, ...] = get_args(SearchedKind)


class Kind(NamedTuple):
    """A kind of document: its name, what its ids begin with, and its collection in the API's paths."""

    name: str
    prefix: str
    collection: str


KINDS = (
    Kind("observation", OBSERVATION, "observations"),
    Kind("memory", MEMORY, "memories"),
    Kind("lesson", LESSON, "lessons"),
    Kind("action", ACTION, "actions"),
    Kind("relation", RELATION, "relations"),
    Kind("commit", COMMIT, "commits"),
    Kind("summary", SUMMARY, "summaries"),
)
"""Without sessions: their ids are given by agents, and have no prefix."""
KIND_NAMES = {kind.prefix: kind.name for kind in KINDS}
COLLECTIONS = {kind.prefix: kind.collection for kind in KINDS}
SEARCHED_BY_PREFIX: dict[str, SearchedKind] = {
    prefix: name for prefix, of in KIND_NAMES.items() for name in SEARCHED_KINDS if name == of
}
