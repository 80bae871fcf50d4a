"""Numbers for clients that know documents by integers (agent-memory's): from 1 up, given on first sight, for ever.

Guarantee: within a tenant and a noun no two names share a number and no name changes its own, however many processes
ask at once. Numbers are no projection: no rebuild touches them, and an import into another log does not take them
along. A forgotten document keeps its number, which then leads to an id that nobody finds.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from ingest.log.keys import NumberKeys
from ingest.log.scripts import number
from ingest.platform.connections import Client
from ingest.secrets.clean import clean_name

Noun = Literal["observation", "lesson", "session", "project"]
MAX_KNOWN = 50_000
"""Numbers kept in the process, which saves asking: they never change."""
AT_ONCE = 2_000
"""Names in one call of the script: Lua unpacks twice as many values, and 8,000 is its limit."""


class IntegerIds:
    """The numbers of one noun in one tenant. A name is a document id, or what the noun goes by."""

    def __init__(self, redis: Client, tenant: str, noun: Noun) -> None:
        self._redis, self._keys = redis, NumberKeys(tenant, noun)
        self._known: OrderedDict[str, int] = OrderedDict()

    async def numbers(self, ids: Sequence[str]) -> list[int]:
        """The number of each, in the order asked for; new ones get the next numbers in that order."""
        found = {name: known for name in ids if (known := self._known.get(name))}
        missing = [name for name in dict.fromkeys(ids) if name not in found]
        for start in range(0, len(missing), AT_ONCE):
            asked = missing[start : start + AT_ONCE]
            clean = [clean_name(name, "replace", "name") for name in asked]  # as events have it
            found |= zip(asked, await number(self._redis, self._keys, clean), strict=True)
        self._known.update((name, found[name]) for name in missing)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return [found[name] for name in ids]

    async def ids(self, numbers: Sequence[int]) -> list[str | None]:
        """What goes by each number, in the order asked for; None where nothing does."""
        if not numbers:
            return []
        found: list[bytes | None] = await self._redis.hmget(self._keys.by_number, [str(one) for one in numbers])
        return [None if name is None else name.decode() for name in found]

    async def count(self) -> int:
        """How many names have a number."""
        return int(await self._redis.hlen(self._keys.by_name))


class IntegerIdsOf:
    """The registries of all tenants and nouns."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._registries: dict[tuple[str, Noun], IntegerIds] = {}

    def __call__(self, tenant: str, noun: Noun) -> IntegerIds:
        """The integers by which clients that know no other ids call a tenant's documents."""
        return self._registries.setdefault((tenant, noun), IntegerIds(self._redis, tenant, noun))
