"""Who a request comes from, as far as its key or token says; the gate puts it on the ASGI scope of every request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ingest.roles import ANYWHERE, ROLES, KeyScope, Needs, Role, allow

SCOPE_KEY = "mnemolog.principal"


class Rates(NamedTuple):
    """Requests a minute that a key, or a subject of tokens, may send; 0 is any number."""

    reads: int = 0
    writes: int = 0


class Principal(NamedTuple):
    """Whose request it is. `key_id` is public; empty for the server's own secret, and for an open server's callers.

    A token's is made of its subject.
    """

    tenant: str
    roles: frozenset[Role]
    key_id: str = ""
    key_scope: KeyScope = ANYWHERE
    rates: Rates = Rates()
    named: bool = True
    """Whether it showed a key, a token or the server's secret; callers of an open server show nothing."""
    expires_ms: int = 0
    """When the access token it showed ends, in ms since the epoch; 0: it showed none."""

    def may(self, needs: Needs) -> bool:
        """Whether its roles are enough."""
        return allow(self.roles, needs)

    @property
    def is_operator(self) -> bool:
        """Whether the server as a whole is its business, and its word counts in every tenant."""
        return "operator" in self.roles


def root(tenant: str) -> Principal:
    """The operator, who knows the server's secret."""
    return Principal(tenant, frozenset(ROLES))


def anybody(tenant: str) -> Principal:
    """The caller of a server that is open to its machine: an operator without a name."""
    return Principal(tenant, frozenset(ROLES), named=False)


def open_caller(tenant: str) -> Principal:
    """The caller of a path that is open to all."""
    return Principal(tenant, frozenset())


def principal_of(scope: Mapping[str, Any]) -> Principal:
    """Whose request it is. A request that came past the gate has none, which is a bug."""
    return scope[SCOPE_KEY]
