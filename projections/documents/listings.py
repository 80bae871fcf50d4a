"""Listings: sorted sets of document ids, named by what they list. The names that belong to no one type of document."""

from ingest.log.position import Position

_PART = "\x1d"


def of_user(tenant: str, user: str) -> str:
    """Listing of all documents and marks that name a user, in log order."""
    return f"user:{tenant}\0{user}"


def derived(source: str) -> str:
    """Listing of the documents that were derived from one."""
    return f"derived:{source}"


def of_tenant(name: str, tenant: str, project: str | None) -> str:
    """A listing of a tenant, or of one of its projects."""
    return f"{name}:{tenant}" if project is None else f"{name}:{tenant}\0{project}"


def part_of(listing: str, beginning: str) -> str:
    """What names those members of a listing that begin with a text, where members are asked for."""
    return f"{listing}{_PART}{beginning}"


def whole_of(name: str) -> tuple[str, str]:
    """The listing that a name of a listing or of a part is about, and what the members begin with."""
    listing, _, beginning = name.partition(_PART)
    return listing, beginning


def by_position(position: str, name: str) -> str:
    """The member of a listing in log order."""
    return f"{Position.parse(position).sort_key}|{name}"


def by_time(ms: int, name: str) -> str:
    """The member of a listing in the order of times."""
    return f"{ms:014d}|{name}"


def in_user_listing(tenant: str, user: str, member: str) -> set[tuple[str, str]]:
    """The `(listing, member)` pair of a document that names a user; nothing for one that names none."""
    return {(of_user(tenant, user), member)} if user else set()
