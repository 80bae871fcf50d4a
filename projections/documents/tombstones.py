"""What stays without a document: the tombstone of a forgotten one, and the mark of an applied event."""

from typing import ClassVar

from msgspec import Struct

from ingest.ids import DocumentId
from projections.documents.rows import by_position, in_user_listing


class Tombstone(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In the place of a forgotten observation or memory: a late repeat of its event must not bring it back.

    `position` is that of the forgetting, empty while a replay has only met the erased event. The rest is what a
    forgotten memory leaves to its neighbors: which version it was and whose, what superseded it, what it superseded and
    whether that was a memory of its own, what it had condensed; and, in a replay, its `heir`, which will supersede it
    but has not been met.
    """

    LETTER: ClassVar[bytes] = b"t"

    id: DocumentId
    position: str = ""
    memory_version: int = 1
    author: str = ""
    parent_id: str = ""
    separate_parent: bool = False
    superseded_by: str = ""
    condensed: list[str] = []
    successor: str = ""

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        return {(inheritance(self.successor), self.id)} if self.successor else set()


class SupersededEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event without a document of its own was applied, at `position`: a late repeat of it changes nothing.

    `subject` is the document it was about, `was` its type; `tenant`, `project` and `user_id` say whose it is, so that
    it is erased with them; once it is, the mark stays without its user.
    """

    LETTER: ClassVar[bytes] = b"k"

    id: DocumentId
    position: str
    subject: str = ""
    was: str = ""
    tenant: str = ""
    project: str = ""
    user_id: str = ""
    erased: bool = False

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        if not self.subject:
            return set()
        member = by_position(self.position, self.id)
        return {
            (entries(self.subject), member),
            (marks(self.tenant, self.project), member),
            *in_user_listing(self.tenant, self.user_id, member),
        }


def entries(subject: str) -> str:
    """Listing of the marks of a document's events, in log order: what is erased when it is forgotten."""
    return f"entries:{subject}"


def marks(tenant: str, project: str) -> str:
    """Listing of all marks of a project, in log order."""
    return f"marks:{tenant}\0{project}"


def inheritance(memory: str) -> str:
    """Listing of the forgotten memory that this one will have superseded, once a replay has come so far."""
    return f"inheritance:{memory}"
