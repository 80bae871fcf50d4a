"""A fleet of agents that write without pause, and repeat, out of order and at once, what they wrote before.

Time is compressed: an agent thinks for some seconds between two actions, on a clock of its own, and waits for none of
them. What it says is dated by that clock.
"""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from ingest.log.position import Token
from tests.chaos.ledger import Ledger

THINKS = timedelta(seconds=10)
"""Between two actions of an agent, on average."""
VIRTUAL_START = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
BREATH_S = 0.01
AGAIN_S = 0.1
TRIES = 900
_PATHS = {"observe": "observations", "remember": "memories", "lesson": "lessons", "session": "sessions"}
_RETRY = frozenset({429, 503})
"""What a client may be told while servers come and go; anything else is a fault."""


class RepeatAnsweredDifferently(AssertionError):
    """A repeat of an acknowledged write was not told what the first was told."""


class Agent:
    """Writes until told to stop, and sends each thing again with the same event id until it is acknowledged."""

    def __init__(self, number: int, seed: int, url: str, ledger: Ledger, stop: asyncio.Event) -> None:
        self._number, self._url, self._ledger, self._stop = number, url, ledger, stop
        self._random = random.Random(f"{seed}/{number}")
        self._n = self._session = 0
        self.clock = VIRTUAL_START

    async def run(self) -> None:
        """Act until stopped; raises AssertionError when something is answered that should not be."""
        async with httpx.AsyncClient(base_url=self._url, timeout=3.0, trust_env=False) as self._client:
            await self._next_session()
            while not self._stop.is_set():
                await self._act()
                self.clock += timedelta(seconds=self._random.expovariate(1 / THINKS.total_seconds()))
                await asyncio.sleep(BREATH_S)

    async def _act(self) -> None:
        kinds = ("one", "batch", "forget", "session", "repeat", "reordered", "twice")
        match self._random.choices(kinds, (8, 4, 1, 1, 2, 1, 1))[0]:
            case "batch":
                await self._batch([self._command() for _ in range(self._random.randrange(2, 25))])
            case "forget":
                await self._forget()
            case "session":
                await self._track("ended")
                await self._next_session()
            case "repeat":
                await self._repeat()
            case "reordered":
                await self._reordered()
            case "twice":
                await self._twice()
            case _:
                await self._one(self._command())

    def _common(self, kind: str) -> dict[str, Any]:
        self._n += 1
        return {
            "type": kind, "event_id": f"w{self._number}-{self._n}", "agent_id": f"agent{self._number}",
            "occurred_at": self.clock.isoformat(),
        }  # fmt: skip

    def _command(self) -> dict[str, Any]:
        kind = self._random.choices(("observe", "remember", "lesson"), (6, 3, 2))[0]
        if kind == "observe":
            return self._observation(f"run {self._word()}")
        if kind == "remember":
            return self._common(kind) | self._similar_memory()
        return self._common(kind) | {"project": "atlas", "content": f"lesson number {self._random.randrange(5)}"}

    def _observation(self, content: str) -> dict[str, Any]:
        return self._common("observe") | {"project": "atlas", "session_id": self._session_id, "content": content}

    def _similar_memory(self) -> dict[str, Any]:
        """Memories of a project state so much the same that each supersedes its agent's one before."""
        text = self._random.choice(["the port is {} on all machines", "The port is {} on ALL machines!"]).format(
            self._random.randrange(2)
        )
        return {"project": f"p{self._random.randrange(3)}", "content": text}

    def _word(self) -> str:
        return f"unique{self._number}x{self._n}"

    @property
    def _session_id(self) -> str:
        return f"s{self._number}-{self._session}"

    async def _next_session(self) -> None:
        self._session += 1
        await self._track("started")

    async def _track(self, status: str) -> None:
        session = {"status": status, "project": "atlas", "session_id": self._session_id}
        await self._one(self._common("session") | session)

    async def _forget(self) -> None:
        """Write something to forget, then something behind it, then forget the first."""
        forgettable: list[tuple[str, dict[str, Any]]] = [
            # what superseded another would make that current again
            ("memories", {**self._common("remember"), **self._similar_memory(), "keep_duplicates": True}),
            ("memories", {**self._common("remember"), "project": "secrets", "content": f"{self._word()} secret word"}),
            ("lessons", {**self._common("lesson"), "project": "secrets", "content": f"never say {self._word()}"}),
            ("observations", self._observation(f"a secret {self._word()}")),
        ]  # fmt: skip
        collection, command = self._random.choice(forgettable)
        answer = await self._one(command)
        if collection == "observations":
            await self._one(self._observation(f"then {self._word()}"))
        await self._delete(f"/v1/{collection}/{answer['id']}", answer["id"])
        self._ledger.forgotten[command["event_id"]] = answer["id"]

    async def _delete(self, path: str, name: str) -> None:
        """Until acknowledged. Once it was there, "not found" says that an earlier try was heard."""
        self._ledger.to_forget.add(name)
        there = False
        for _ in range(TRIES):
            try:
                answer = await self._ask("DELETE" if there else "GET", path)
            except httpx.HTTPError:
                pass
            else:
                if there and answer.status_code in (202, 404):
                    if answer.status_code == 202:
                        self._ledger.newest.extend(Token.parse(answer.json()["position"]).values())
                    return
                there = there or answer.status_code == 200
                assert answer.status_code in (200, 404, *_RETRY), f"{path}: {answer.status_code} {answer.text}"
            await asyncio.sleep(AGAIN_S)
        raise AssertionError(f"{path} cannot be forgotten")

    async def _one(self, command: dict[str, Any]) -> dict[str, Any]:
        path, body = _single(command)
        self._ledger.sent.add(command["event_id"])
        answer = await self._insist(path, body)
        ((partition, position),) = Token.parse(answer["position"]).items()
        self._ledger.exact[command["event_id"]] = partition, position
        self._ledger.told(path, body, answer["position"])
        return answer

    async def _batch(self, commands: list[dict[str, Any]]) -> None:
        self._ledger.sent |= {command["event_id"] for command in commands}
        answer = await self._insist("/v1/events", commands)
        assert answer["rejected"] == []
        assert answer["accepted"] + answer["duplicates"] == len(commands)
        token = Token.parse(answer["position"])
        self._ledger.covered |= {command["event_id"]: token for command in commands}
        self._ledger.told("/v1/events", commands, answer["position"])

    async def _repeat(self) -> None:
        """Something that anybody wrote before, as it was sent then."""
        if not self._ledger.history:
            return
        path, body, position = self._random.choice(self._ledger.history)
        self._ledger.counts["repeats"] += 1
        _must_be_a_repeat(await self._insist(path, body), position)

    async def _reordered(self) -> None:
        """Commands of several earlier writes, in another order, as one batch; then what they are must be unchanged."""
        some = self._random.sample(list(self._ledger.history), min(5, len(self._ledger.history)))
        commands = [one for path, body, _ in some for one in _as_batch(path, body)]
        self._random.shuffle(commands)
        if not commands:
            return
        self._ledger.counts["reordered"] += 1
        answer = await self._insist("/v1/events", commands)
        if (answer["accepted"], answer["rejected"]) != (0, []):
            raise RepeatAnsweredDifferently(f"of {len(commands)} repeats {answer['accepted']} were accepted as new")

    async def _twice(self) -> None:
        """One command, sent by two who do not know of each other."""
        command = self._command()
        path, body = _single(command)
        self._ledger.sent.add(command["event_id"])
        self._ledger.counts["twice"] += 1
        first, second = await asyncio.gather(self._insist(path, body), self._insist(path, body))
        if first["position"] != second["position"]:
            raise RepeatAnsweredDifferently(f"one command at {first['position']} and at {second['position']}")
        ((partition, position),) = Token.parse(first["position"]).items()
        self._ledger.exact[command["event_id"]] = partition, position
        self._ledger.told(path, body, first["position"])

    async def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        request = object()
        self._ledger.asking.add(request)
        try:
            return await self._client.request(method, path, json=body)
        finally:
            # behind this the answer is noted before anything else of this program runs
            self._ledger.asking.discard(request)

    async def _insist(self, path: str, body: Any) -> dict[str, Any]:
        for _ in range(TRIES):
            try:
                answer = await self._ask("POST", path, body)
            except httpx.HTTPError:
                self._ledger.counts["no answer"] += 1
            else:
                if answer.status_code == 202:
                    self._ledger.newest.extend(Token.parse(answer.json()["position"]).values())
                    return answer.json()
                assert answer.status_code in _RETRY, f"{path}: {answer.status_code} {answer.text}"
                self._ledger.counts[f"status {answer.status_code}"] += 1
            await asyncio.sleep(AGAIN_S)
        raise AssertionError(f"{path} is not acknowledged after {TRIES} tries")


def _single(command: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The route of a command, and what is sent there."""
    return f"/v1/{_PATHS[command['type']]}", {name: value for name, value in command.items() if name != "type"}


def _as_batch(path: str, body: Any) -> Sequence[dict[str, Any]]:
    if path == "/v1/events":
        return body
    kind = next(kind for kind, collection in _PATHS.items() if path == f"/v1/{collection}")
    return [{"type": kind, **body}]


def _must_be_a_repeat(answer: dict[str, Any], position: str) -> None:
    new = answer.get("accepted", 0) or answer.get("duplicate") is False
    if new or answer["position"] != position:
        raise RepeatAnsweredDifferently(f"a write at {position} was answered {answer} when it was repeated")
