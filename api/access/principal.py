"""Who a request comes from, as far as its key says; the gate puts it on the ASGI scope of every request."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ingest.reach import ANYWHERE, Reach
from ingest.roles import ROLES, Needs, Role

SCOPE_KEY = "mnemolog.principal"


class Rates(NamedTuple):
    """Requests a minute that a key may send; 0 is any number."""

    reads: int = 0
    writes: int = 0


class Principal(NamedTuple):
    """Whose request it is. `key_id` is public; empty for the server's own secret, and for an open server's callers."""

    tenant: str
    roles: frozenset[Role]
    key_id: str = ""
    reach: Reach = ANYWHERE
    rates: Rates = Rates()

    def may(self, needs: Needs) -> bool:
        """Whether it has the roles; an admin has every one, since it could make itself a key with them."""
        return "admin" in self.roles or needs <= self.roles

    @property
    def is_root(self) -> bool:
        """Whether it is the operator of the server, whose word counts in every tenant."""
        return not self.key_id and "admin" in self.roles


def root(tenant: str) -> Principal:
    """The operator: who knows the server's secret, or calls a server that is open to its machine."""
    return Principal(tenant, frozenset(ROLES))


def nobody(tenant: str) -> Principal:
    """Who asks for what is open to all."""
    return Principal(tenant, frozenset())


def principal_of(scope: Mapping[str, Any]) -> Principal:
    """Whose request it is. A request that came past the gate has none, which is a fault of ours."""
    return scope[SCOPE_KEY]
