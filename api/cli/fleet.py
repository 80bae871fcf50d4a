"""The demo fleet: ten agents, three projects, nine days of work, as commands ready to be sent; and what to ask of it.

Guarantee: a function of `now` alone. Event ids are `demo-<n>` and do not depend on `now`, so playing the fleet twice
stores it once. What was said is written down in `api/cli/stories`, one script a project:

    ## session | agent | days ago HH:MM | title
    > a prompt    - a note    = a decision    ! an error    $ tool | input | output    x tool | input | error
    * tags | a memory (first tag `private`: its agent's own)    + a lesson ~ where it was learned

A line that is indented continues the one above. `@name` names a step for the questions below; `^name` in a memory says
which older one it replaces.
"""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from msgspec import Struct

from api.cli.stories import checkout, clinic, ground_station

SEED = 20_240_229
BATCH = 25
EVENT_KEY = "demo_event"
"""Metadata that a reader finds on every observation and memory: the event id it came from."""

SHOP, STATION, CLINIC = "shop-checkout", "ground-station", "clinic-scheduling"
_SCRIPTS = {SHOP: checkout.SCRIPT, STATION: ground_station.SCRIPT, CLINIC: clinic.SCRIPT}
_INPUT_FIELDS = {"Bash": "command", "Grep": "pattern", "WebFetch": "url"}
_KINDS = {"-": "note", "=": "decision", "!": "error"}


class Agent(Struct, frozen=True):
    """A member of the fleet."""

    name: str
    role: str
    project: str


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
    """Everything the demo plays and asks. `supersedes` maps the event id of a memory to the one it replaces."""

    agents: tuple[Agent, ...]
    batches: list[Batch]
    questions: list[Question]
    context: dict[str, Any]
    supersedes: dict[str, str]

    @property
    def commands(self) -> list[dict[str, Any]]:
        """All commands in the order in which they are sent."""
        return [command for batch in self.batches for command in batch.commands]


AGENTS = (
    Agent("ada", "backend engineer", SHOP),
    Agent("brook", "test engineer", SHOP),
    Agent("cyrus", "site reliability", SHOP),
    Agent("dara", "frontend engineer", SHOP),
    Agent("eero", "data pipeline engineer", STATION),
    Agent("fern", "signal processing", STATION),
    Agent("gus", "night operator", STATION),
    Agent("hana", "scheduling engineer", CLINIC),
    Agent("ivo", "integration engineer", CLINIC),
    Agent("juno", "security and privacy", CLINIC),
)

QUESTIONS = (
    ("why does the tax in the basket not add up to the tax on the bill?", SHOP, "dara", "rounding-cause"),
    ("how long do we wait for the card processor before giving up?", SHOP, "brook", "timeout-v2"),
    ("why was typed text lost on cheap phones?", SHOP, "cyrus", "address-cause"),
    ("how many pods should we plan for the next big sale?", SHOP, "ada", "replicas-v2"),
    ("which frequency shift made the receiver slow to lock on to the satellite?", STATION, "gus", "doppler-cause"),
    ("who disturbs our radio every Tuesday, and would they stop?", STATION, "eero", "airfield-cause"),
    ("what did we do with the antennas during the lightning?", STATION, "eero", "lightning"),
    ("any advice before changing the receiver after a poor contact?", STATION, "gus", "raw-samples"),
    ("after how many days are undecoded frames gone from the broker?", STATION, "fern", "retention-v2"),
    ("why were imported visits not recognised as clashing with others?", CLINIC, "ivo", "overlap-cause"),
    ("what should strangers not learn when they read a patient's phone?", CLINIC, "juno", "sms-content"),
    ("after how much idle time does a ward computer lock itself?", CLINIC, "hana", "session-v2"),
)
"""Text, project, who asks, and the step that answers: in words other than the step's own."""

CONTEXT = {
    "project": SHOP,
    "agent_id": "ada",
    "session_id": "next-task",
    "query": "change how payments are retried",
    "token_budget": 5000,
}


def build_fleet(now: datetime) -> Fleet:
    """The fleet as it looks at `now`; the last of its days is yesterday (UTC)."""
    told = [step for project, script in _SCRIPTS.items() for step in _steps(project, script, now)]
    steps = [step.numbered(number) for number, step in enumerate(told, start=1)]
    named = {step.name: step.command for step in steps if step.name}
    questions = [
        Question(text, project, asker, named[name]["event_id"], named[name]["content"])
        for text, project, asker, name in QUESTIONS
    ]
    supersedes = {step.command["event_id"]: named[step.replaces]["event_id"] for step in steps if step.replaces}
    return Fleet(AGENTS, _batches(steps), questions, CONTEXT, supersedes)


class _Step(Struct, frozen=True):
    at: datetime
    command: dict[str, Any]
    name: str = ""
    replaces: str = ""

    def numbered(self, number: int) -> "_Step":
        event_id = f"demo-{number}"
        metadata = {**self.command["metadata"], EVENT_KEY: event_id}
        command = {**self.command, "event_id": event_id, "metadata": metadata}
        return _Step(self.at, command, self.name, self.replaces)


def _batches(steps: list[_Step]) -> list[Batch]:
    """Day by day and agent by agent, in order of time within both: what replaces a memory is sent after it."""
    ordered = sorted(steps, key=lambda step: (step.at.date(), step.command["agent_id"], step.at))
    batches: list[Batch] = []
    for (day, agent), group in groupby(ordered, key=lambda step: (step.at.date(), step.command["agent_id"])):
        commands = [step.command for step in group]
        batches += [
            Batch(agent, day.isoformat(), commands[start : start + BATCH]) for start in range(0, len(commands), BATCH)
        ]
    return batches


def _steps(project: str, script: str, now: datetime) -> Iterator[_Step]:
    """The steps of a project's script, in its order, each session opened and closed."""
    roles = {agent.name: agent.role for agent in AGENTS}
    for chapter in script.strip().split("\n\n"):
        heading, *lines = _unfolded(chapter)
        session, agent, when, title = heading.removeprefix("## ").split(" | ")
        gaps = random.Random(f"{SEED} {project} {session}")
        at = _start(when, now)
        common = {"project": project, "agent_id": agent, "session_id": session, "metadata": {"role": roles[agent]}}

        def said(at: datetime, fields: dict[str, Any], common: dict[str, Any] = common) -> dict[str, Any]:
            return {**common, "occurred_at": at.isoformat(), **fields}

        yield _Step(at, said(at, {"type": "session", "status": "started", "title": title}))
        for line in lines:
            at += timedelta(seconds=gaps.randint(40, 420))
            fields, name, replaces = _step(line)
            yield _Step(at, said(at, fields), name, replaces)
        at += timedelta(seconds=gaps.randint(20, 90))
        yield _Step(at, said(at, {"type": "session", "status": "ended", "reason": "done"}))


def _unfolded(chapter: str) -> list[str]:
    lines: list[str] = []
    for line in chapter.splitlines():
        if line.startswith("  "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return lines


def _start(when: str, now: datetime) -> datetime:
    days, _, clock = when.partition(" ")
    hour, minute = map(int, clock.split(":"))
    return (now - timedelta(days=int(days))).replace(hour=hour, minute=minute, second=0, microsecond=0)


def _step(line: str) -> tuple[dict[str, Any], str, str]:
    """The command of a script's line, its name and the name of what it replaces (both may be empty)."""
    sign, rest = line[0], line[1:]
    name = replaces = ""
    if rest.startswith(" @"):
        name, _, rest = rest[2:].partition(" ")
    if rest.lstrip().startswith("^"):
        replaces, _, rest = rest.lstrip()[1:].partition(" ")
    return _fields(sign, rest.strip()), name, replaces


def _fields(sign: str, text: str) -> dict[str, Any]:
    if sign == "*":
        return _memory(text)
    if sign == "+":
        content, _, context = text.partition(" ~ ")
        return {"type": "lesson", "content": content, "context": context}
    if sign == ">":
        return {"type": "observe", "kind": "conversation", "content": text}
    if sign in _KINDS:
        return {"type": "observe", "kind": _KINDS[sign], "content": text}
    return _tool_call(text, failed=sign == "x")


def _memory(text: str) -> dict[str, Any]:
    tags, _, content = text.partition(" | ")
    names = [tag.strip() for tag in tags.split(",")]
    private = names[0].startswith("private")
    names = [name.removeprefix("private").strip() for name in names]
    fields: dict[str, Any] = {"type": "remember", "content": content, "tags": names, "importance": 7}
    return {**fields, "visibility": "private"} if private else fields


def _tool_call(text: str, *, failed: bool) -> dict[str, Any]:
    tool, _, rest = text.partition(" | ")
    argument, _, result = rest.rpartition(" | ")
    data = {
        "tool_name": tool,
        "tool_input": {_INPUT_FIELDS.get(tool, "file_path"): argument},
        "error" if failed else "tool_output": result,
    }
    return {"type": "observe", "kind": "post_tool_failure" if failed else "post_tool_use", "data": data}
