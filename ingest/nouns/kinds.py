"""The kinds of documents that can be read by id: one row each, from which look-ups, collections and commands follow."""

from typing import Literal, NamedTuple, TypeAlias, get_args

from ingest.ids import ACTION, COMMIT, LESSON, MEMORY, OBSERVATION, RELATION, SUMMARY

SearchedKind: TypeAlias = Literal["observation", "memory", "lesson", "summary"]
"""The kinds that recall searches."""
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
