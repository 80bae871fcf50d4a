"""The kinds of documents: one row each, from which look-ups, collections, listings, commands and forgetting follow."""

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
SUBJECT_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)


class Kind(NamedTuple):
    """A kind of document: its name, what its ids begin with, and its collection, in the API's paths and in listings.

    `by_id`: a path of the API names one. `of_project`: it is recorded in its project's stream, not in a session's.
    """

    name: str
    prefix: str
    collection: str
    by_id: bool = True
    of_project: bool = True


KINDS = (
    Kind("observation", OBSERVATION, "observations", of_project=False),
    Kind("memory", MEMORY, "memories"),
    Kind("lesson", LESSON, "lessons"),
    Kind("slot", SLOT, "slots", by_id=False),
    Kind("action", ACTION, "actions"),
    Kind("relation", RELATION, "relations"),
    Kind("commit", COMMIT, "commits"),
    Kind("session", SESSION, "sessions", by_id=False, of_project=False),
    Kind("summary", SUMMARY, "summaries", of_project=False),
)
KIND_NAMES = {kind.prefix: kind.name for kind in KINDS if kind.by_id}
COLLECTIONS = {kind.prefix: kind.collection for kind in KINDS if kind.by_id}
SEARCHED_BY_PREFIX: dict[str, SearchedKind] = {
    kind.prefix: name for kind in KINDS for name in SEARCHED_KINDS if name == kind.name
}
SUBJECT_BY_PREFIX: dict[str, SubjectKind] = {
    kind.prefix: name for kind in KINDS for name in SUBJECT_KINDS if name == kind.name
}
"""Without summaries: one goes with its session."""
FORGETTABLE = {prefix: collection for prefix, collection in COLLECTIONS.items() if prefix in SUBJECT_BY_PREFIX}
"""The collections whose documents can be forgotten alone."""
OF_A_PROJECT = tuple(kind for kind in KINDS if kind.of_project)
