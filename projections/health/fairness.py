"""Fair shares of what one server can take: who has written more lately than its part, so that it is refused first.

Each API process counts the events and bytes that it accepted of each tenant; a count halves every HALF_LIFE_S. With
the kernel or a load balancer dividing connections, each process sees about the same shares.
"""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

HALF_LIFE_S = 60.0
"""Long enough that a burst of some seconds does not make a tenant heavy, short enough that it is soon forgiven."""
ACTIVE = 1 / 32
"""Events: a tenant whose count is below this is not active any more: five minutes after its only event."""
MOST_TENANTS = 1_000
"""Tenants with a count of their own (some 200 bytes each); further ones share one, as if they were one tenant."""
OTHERS = ""
"""In the place of their names. No tenant has this name."""
SLACK = 1.1
"""A tenant is held back above so many times its fair share, until it is below the share: equal ones never are."""
EPSILON = 1e-9
"""What the sum of many numbers may be off by: all of them must never count as above their mean."""


class Work(NamedTuple):
    """What was accepted of a tenant: events, and the bytes that storing and projecting them may take."""

    events: float = 0.0
    size: float = 0.0


Shares = Mapping[str, Work]
"""By tenant."""


def above_fair_share(shares: Shares, unit: Literal["events", "size"], held: Collection[str] = ()) -> frozenset[str]:
    """The tenants with more than one part in as many as there are tenants; `held` are those that were before.

    Never all of them: with one tenant, nobody.
    """
    amounts = {name: getattr(work, unit) for name, work in shares.items()}
    fair = sum(amounts.values()) / max(1, len(amounts))
    return frozenset(
        name for name, amount in amounts.items() if amount > fair * (1 + EPSILON if name in held else SLACK)
    )


class RecentWork:
    """What one process accepted of each tenant. One event loop."""

    def __init__(self) -> None:
        self._of: dict[str, Work] = {}
        self._decayed_at: float | None = None

    def name_of(self, tenant: str) -> str:
        """Under which name a tenant is counted."""
        return tenant if tenant in self._of or len(self._of) < MOST_TENANTS else OTHERS

    def add(self, tenant: str, events: int, size: int) -> None:
        """Count accepted work."""
        name = self.name_of(tenant)
        before = self._of.get(name, Work())
        self._of[name] = Work(before.events + events, before.size + size)

    def shares(self, now_s: float) -> Shares:
        """What counts at a moment (monotonic seconds) of the tenants that are active; the others are dropped."""
        factor = 0.5 ** ((now_s - (self._decayed_at or now_s)) / HALF_LIFE_S)
        self._decayed_at = now_s
        decayed = {name: Work(one.events * factor, one.size * factor) for name, one in self._of.items()}
        self._of = {name: one for name, one in decayed.items() if one.events >= ACTIVE}
        return dict(self._of)
