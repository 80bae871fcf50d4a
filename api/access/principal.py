"""The caller of a request, according to its key or token; the gate puts it on the ASGI scope of every request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ingest.roles import ANYWHERE, ROLES, KeyScope, Needs, Role, allow

SCOPE_KEY = "mnemolog.principal"


class Rates(NamedTuple):
    """Requests a minute that a key, or a token subject, can send; 0 means no limit."""

    reads: int = 0
    writes: int = 0


class TokenRefused(Exception):
    """The token is refused; the text says why, and quotes only names from the token."""


class Principal(NamedTuple):
    """The caller of a request. `key_id` is public; empty for the server's secret and for callers of an open server.

    A token's is derived from its subject.
    """

    tenant: str
    roles: frozenset[Role]
    key_id: str = ""
    key_scope: KeyScope = ANYWHERE
    rates: Rates = Rates()
    named: bool = True
    """Whether the caller sent a key, a token or the server's secret; callers of an open server send none."""
    expires_ms: int = 0
    """When its access token expires, in ms since the epoch; 0 without a token."""

    def may(self, needs: Needs) -> bool:
        """Whether it has all roles that are needed."""
        return allow(self.roles, needs)

    @property
    def is_operator(self) -> bool:
        """Whether it has the operator role, which applies to the whole server and every tenant."""
        return "operator" in self.roles


def root(tenant: str) -> Principal:
    """The operator: the caller has the server's secret."""
    return Principal(tenant, frozenset(ROLES))


def anybody(tenant: str) -> Principal:
    """The caller of a server that is open to its own machine: an unnamed operator."""
    return Principal(tenant, frozenset(ROLES), named=False)


def open_caller(tenant: str) -> Principal:
    """The caller of a public path."""
    return Principal(tenant, frozenset())


def principal_of(scope: Mapping[str, Any]) -> Principal:
    """The caller of a request. Raises for a request that bypassed the gate, which is a bug."""
    return scope[SCOPE_KEY]
