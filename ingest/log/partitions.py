"""Which partition an event belongs to. Stable for ever: a change would split streams between partitions."""

from zlib import crc32


def session_route(tenant: str, project: str, session_id: str) -> str:
    """Routing key of observations and session events: one session is one ordered stream."""
    return f"{tenant}\0{project}\0{session_id}"


def project_route(tenant: str, project: str) -> str:
    """Routing key of memories, lessons, slots, actions and relations: one project is one ordered stream."""
    return f"{tenant}\0{project}"


def partition_of(routing_key: str, partitions: int) -> int:
    """The partition of a routing key: CRC-32 of its UTF-8 bytes, modulo the partition count fixed at creation."""
    return crc32(routing_key.encode()) % partitions
