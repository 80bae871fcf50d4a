"""The demo fleet: ten agents, three projects, nine days of work, as commands ready to be sent; and what to ask of it.

The commands are in `api/cli/stories`, one native command a line, dated as if today were `TODAY`. They depend on `now`
only in their dates: event ids are fixed, so playing the fleet twice stores it once.
"""

from datetime import date, datetime, timedelta
from importlib.resources import files
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

TODAY = date(2026, 1, 10)
"""The day after the last day of the stories."""
BATCH = 25
EVENT_KEY = "demo_event"
"""Metadata that a reader finds on every observation and memory: the event id it came from."""

SHOP, STATION, CLINIC = "shop-checkout", "ground-station", "clinic-scheduling"
_STORIES = ("checkout.jsonl", "ground_station.jsonl", "clinic.jsonl")


class Batch(Struct, frozen=True):
    """Commands of one agent on one day, to be sent together."""

    agent: str
    day: str
    commands: list[dict[str, Any]]


class Question(Struct, frozen=True):
    """A question of an agent, and what must be among the first answers."""

    text: str
    project: str
    asker: str
    event_id: str
    content: str

    def answered_by(self, result: dict[str, Any]) -> bool:
        """Whether a recalled document is the one expected; a lesson is known by its text, whoever said it first."""
        metadata: dict[str, str] = result.get("metadata") or {}
        return metadata.get(EVENT_KEY) == self.event_id or result.get("content") == self.content


class Fleet(Struct, frozen=True):
    """Everything the demo plays and asks."""

    batches: list[Batch]
    questions: list[Question]
    context: dict[str, Any]

    @property
    def commands(self) -> list[dict[str, Any]]:
        """All commands in the order in which they are sent."""
        return [command for batch in self.batches for command in batch.commands]

    @property
    def agents(self) -> set[tuple[str, str]]:
        """The agents, each with its project."""
        return {(command["agent_id"], command["project"]) for command in self.commands}


QUESTIONS = (
    ("why does the tax in the basket not add up to the tax on the bill?", SHOP, "dara", "demo-5"),
    ("how long do we wait for the card processor before giving up?", SHOP, "brook", "demo-129"),
    ("why was typed text lost on cheap phones?", SHOP, "cyrus", "demo-49"),
    ("how many pods should we plan for the next big sale?", SHOP, "ada", "demo-141"),
    ("which frequency shift made the receiver slow to lock on to the satellite?", STATION, "gus", "demo-162"),
    ("who disturbs our radio every Tuesday, and would they stop?", STATION, "eero", "demo-200"),
    ("what did we do with the antennas during the lightning?", STATION, "eero", "demo-292"),
    ("any advice before changing the receiver after a poor contact?", STATION, "gus", "demo-168"),
    ("after how many days are undecoded frames gone from the broker?", STATION, "fern", "demo-273"),
    ("why were imported visits not recognised as clashing with others?", CLINIC, "ivo", "demo-302"),
    ("what should strangers not learn when they read a patient's phone?", CLINIC, "juno", "demo-343"),
    ("after how much idle time does a ward computer lock itself?", CLINIC, "hana", "demo-427"),
)
"""Text, project, who asks, and the event that answers: in words other than the event's own."""

CONTEXT = {
    "project": SHOP,
    "agent_id": "ada",
    "session_id": "next-task",
    "query": "change how payments are retried",
    "token_budget": 5000,
}


def build_fleet(now: datetime) -> Fleet:
    """The fleet as it looks at `now`; the last of its days is yesterday (UTC)."""
    later = now.date() - TODAY
    commands = [_command(line, later) for name in _STORIES for line in _lines(name)]
    by_id = {command["event_id"]: command for command in commands}
    questions = [
        Question(text, project, asker, event_id, by_id[event_id]["content"])
        for text, project, asker, event_id in QUESTIONS
    ]
    return Fleet(_batches(commands), questions, CONTEXT)


def _lines(name: str) -> list[bytes]:
    return files("api.cli").joinpath("stories", name).read_bytes().splitlines()


def _command(line: bytes, later: timedelta) -> dict[str, Any]:
    command: dict[str, Any] = msgspec.json.decode(line)
    occurred_at = datetime.fromisoformat(command["occurred_at"]) + later
    return {**command, "occurred_at": occurred_at.isoformat()}


def _day_and_agent(command: dict[str, Any]) -> tuple[str, str]:
    return command["occurred_at"][:10], command["agent_id"]


def _batches(commands: list[dict[str, Any]]) -> list[Batch]:
    """Day by day and agent by agent, in order of time within both: what replaces a memory is sent after it."""
    ordered = sorted(commands, key=lambda command: (*_day_and_agent(command), command["occurred_at"]))
    batches: list[Batch] = []
    for (day, agent), group in groupby(ordered, key=_day_and_agent):
        together = list(group)
        batches += [Batch(agent, day, together[start : start + BATCH]) for start in range(0, len(together), BATCH)]
    return batches
