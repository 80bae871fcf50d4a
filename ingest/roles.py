"""The roles of API keys, and what routes and tools need of them. A declaration names one of these constants."""

from typing import Literal, TypeAlias, get_args

Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
Needs: TypeAlias = frozenset[Role]
"""The roles that a way in asks for, all of them; none: whoever has a key."""

ANY: Needs = frozenset()
"""It tells nothing of anybody, or asks for each of its calls."""
READ: Needs = frozenset({"read"})
"""It only asks."""
WRITE: Needs = frozenset({"write"})
"""It only acknowledges: it answers with nothing that others wrote. A hook that reports needs this alone."""
READ_WRITE: Needs = READ | WRITE
"""What is written, and answered with what others wrote."""
ADMIN: Needs = frozenset({"admin"})
