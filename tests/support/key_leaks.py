"""No key without a written lifetime: every key in Redis must be a row of the table in ingest/log/keys.py.

A row whose lifetime begins with `TTL` says that its keys expire; every other row says that they do not. arq's own keys
(`arq:`) are its business.
"""

import re
from typing import Any, NamedTuple, cast

from ingest.log import keys
from ingest.platform.connections import Client

_TYPES = {"sorted set": "zset", "counter": "string"}
_PLACEHOLDERS = {
    re.escape("{pNN}"): r"\{p\d{2,}\}", "gN": r"g\d+", "ID": r"[a-z]+_[0-9a-f]{20}(-\d+)?", "SHA": r"[0-9a-f]{64}",
    "TENANT": r".+", "DAY": r"\d{4}-\d\d-\d\d", re.escape("..."): r".+",
}  # fmt: skip


class Rule(NamedTuple):
    """One key pattern of the table: which keys, of what type, and whether they must expire."""

    pattern: re.Pattern[str]
    type: str
    expires: bool


def _pattern(name: str) -> re.Pattern[str]:
    shape = re.escape(name)
    for placeholder, expression in _PLACEHOLDERS.items():
        shape = shape.replace(placeholder, expression)
    return re.compile(rf"(?:{keys.PREFIX}:)?{shape}", re.DOTALL)


def table(text: str) -> list[Rule]:
    """The rules in a docstring's `| key | type | lifetime |` table."""
    rules: list[Rule] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or cells[0] == "key" or set(cells[0]) == {"-"}:
            continue
        kind = cells[1].split(" (")[0]
        rules += (
            Rule(_pattern(name.strip()), _TYPES.get(kind, kind), cells[2].startswith("TTL"))
            for name in cells[0].split(",")
        )
    return rules


RULES = table(keys.__doc__ or "")


class KeyLeaks:
    """Checks a server's keys against the table. `allow` excuses a pattern for one test, which says why."""

    def __init__(self) -> None:
        self._allowed = [re.compile("arq:.*")]

    def allow(self, pattern: str) -> None:
        """Keys that match this regular expression in full are not checked."""
        self._allowed.append(re.compile(pattern))

    async def found(self, redis: Client) -> list[str]:
        """One line for each key that breaks its rule or has none."""
        faults: list[str] = []
        unfinished = await redis.hget(keys.MANIFEST, keys.RESTORING) is not None
        server = cast(Any, redis)  # a Client names only the commands that the project itself uses
        async for raw in redis.scan_iter(match="*", count=1000):
            name = raw.decode()
            if any(pattern.fullmatch(name) for pattern in self._allowed):
                continue
            if unfinished and name.endswith((":dedup", ":dedup:previous")):  # their window begins at the end
                continue
            fault = _fault(name, (await server.type(name)).decode(), await server.pttl(name))
            if fault:
                faults.append(f"{name}: {fault}")
        return sorted(faults)

    async def check(self, redis: Client) -> None:
        """Fails the test when a key breaks its rule or has none."""
        faults = await self.found(redis)
        assert not faults, "keys that ingest/log/keys.py does not account for:\n" + "\n".join(faults)


def _fault(name: str, kind: str, ttl_ms: int) -> str:
    """What is wrong with a key; empty for a good one. A key that went meanwhile (-2) is good."""
    if ttl_ms == -2:
        return ""
    rules = [rule for rule in RULES if rule.pattern.fullmatch(name)]
    if not rules:
        return "no row of the table describes it"
    if all(rule.type != kind for rule in rules):
        return f"is a {kind}, the table says {rules[0].type}"
    if all(rule.expires != (ttl_ms >= 0) for rule in rules):
        return "never expires, the table gives it a TTL" if rules[0].expires else f"expires in {ttl_ms} ms"
    return ""
