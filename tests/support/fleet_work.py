"""Weeks of work of a fleet of coding agents, made up from a seed: what hooks record of sessions, memories that are
said again in newer words, lessons, actions that wait for one another, slots, commits.

`commands` are those of the native API with the time each is said; `export` is the same as a file that
`POST /v1/admin/import` takes in one request, which keeps those times.
"""

import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from ingest.commands.decide import Caller, WriteCommand, decide
from ingest.events.envelope import Recorded
from ingest.ids import EventId
from ingest.log.position import Position
from ingest.nouns.command import Decision
from ingest.platform.clock import to_ms
from projections.operations.transfer import FORMAT, FORMAT_VERSION, End, ExportHeader, line_of

SEED = 20261124
TENANT = "default"
LONG_SESSION = "ledger-migration-night"
"""The session that is much longer than the others; it is the first of `PROJECTS[0]`."""


class Project(NamedTuple):
    """What a project is about: its folder, the language of its files, what it is made of and what is said of it."""

    name: str
    folder: str
    suffix: str
    test: str
    areas: tuple[str, ...]


PROJECTS = (
    Project("storefront", "services/storefront", "py", "pytest -q", (
        "checkout", "cart", "pricing", "invoice", "refund", "ledger", "stock", "coupon", "shipping", "tax",
    )),
    Project("telemetry", "crates/telemetry", "rs", "cargo test", (
        "collector", "sampler", "exporter", "span_buffer", "clock_skew", "retention", "sharding", "compaction",
    )),
    Project("mobile-app", "app/src", "ts", "npm test --", (
        "login", "offline_sync", "push", "camera", "onboarding", "settings", "deeplinks", "theme", "search",
    )),
    Project("data-platform", "pipelines", "sql", "dbt test --select", (
        "orders_daily", "customer_360", "churn_features", "ad_spend", "late_events", "backfill", "currency_rates",
    )),
)  # fmt: skip
AGENTS = ("ada", "bruno", "chiara", "dmitri", "elif", "farid")
SYMPTOMS = (
    "{area} fails once in a while with {error}", "{area} takes {ms} ms at p99 since release {release}",
    "customers see {area} twice when they press the button again", "the nightly run of {area} stops after {count} rows",
    "{area} shows yesterday's data until somebody restarts it", "{area} works on a laptop and fails in CI with {error}",
    "add a dry run to {area}, so that support can look before it changes anything",
    "move {area} away from the old client before it is switched off on Friday",
    "memory of {area} grows by {ms} MB an hour", "{area} rounds differently from the report of finance",
)  # fmt: skip
ERRORS = (
    "TimeoutError", "ConnectionResetError", "KeyError: 'tenant'", "DeadlockDetected", "429 Too Many Requests",
    "IntegrityError", "stale read", "ENOSPC", "SSL handshake failed", "InvalidSignature",
)  # fmt: skip
CAUSES = (
    "the retry reuses the connection that was just closed",
    "two workers take the same lease because their clocks differ by {ms} ms",
    "the cache key has no tenant in it",
    "the query has no index on ({area}_id, created_at) and reads {count} rows",
    "the timeout of the client is shorter than that of the pool",
    "the event is handled before the transaction that wrote it has ended",
    "half-even rounding happens per line instead of once for the sum",
    "the feature flag is read once, when the process starts",
    "the last page is dropped when it is exactly {count} rows long",
    "the lock is taken outside the transaction",
)
FIXES = (
    "give the pool a health check and drop a connection that fails it",
    "compare against the server's clock and add a fencing token",
    "put the tenant first in every key and clear the old ones",
    "add the index concurrently, then analyse",
    "derive both timeouts from one setting",
    "publish from the outbox, after the commit",
    "sum in cents and round once at the end",
    "listen for flag changes instead of reading them at start",
    "ask for one row more than the page and look whether it came",
    "move the lock into the transaction and order the keys",
)
PLANS = (
    "write a test that fails with {error}", "read {file} and its callers", "measure {area} before touching it",
    "reproduce it with {count} rows", "ask what finance expects of {area}",
)  # fmt: skip
FACTS = (
    "{area} keeps at most {count} rows in memory; {cause}, so do not raise the limit without an index.",
    "The owner of {area} is the {team} team; they want a note in their channel before {file} changes.",
    "{area} is deployed on Tuesdays and Thursdays, never on the day before a holiday; the freeze begins at {hour}:00.",
    "In {area}, {cause}. We decided to {fix}; release {release} has it.",
    "The staging database of {area} is a copy from {hour}:00; figures differ from production by up to {ms} rows.",
    "{file} is generated; change the template next to it and run the generator, or CI reverts the edit.",
    "Load tests of {area} run with {count} users for ten minutes; the budget at p99 is {ms} ms.",
)
LESSONS = (
    ("Run {test} before pushing a change to {area}: CI takes twenty minutes.", "warning", "Bash", "git push"),
    ("Never edit a migration of {area} that was released; write a new one.", "critical", "Edit", "migrations/"),
    ("Wait for the event instead of sleeping in tests of {area}.", "info", "Edit", "sleep"),
    ("Ask for the lock order before two rows of {area} are locked.", "warning", "", ""),
    ("When {area} fails with {error}, look at the pool first: it was that three times.", "", "", ""),
    ("Sum in cents and round once in {area}.", "critical", "", ""),
)  # fmt: skip
ACTIONS = (
    "Reproduce it: {symptom}", "Write the failing test of {area}", "{fix} ({area})", "Roll {area} out to five per cent",
    "Tell the {team} team what changed in {area}", "Remove the old client of {area}",
)  # fmt: skip
TEAMS = ("payments", "platform", "growth", "data", "mobile", "on-call")
SLOTS = (
    ("project_context", "{project}: {areas}. Tests run with `{test}`. The owners are the {team} team."),
    ("guidance", "Small commits. Tests first. Ask before a migration. Deploy on Tuesdays and Thursdays."),
    ("pending_items", "- {symptom}\n- {symptom2}\n- the runbook of {area} is older than release {release}"),
)  # fmt: skip


class Writer:
    """Says things in a project, each at its time, with names and figures drawn from the dice."""

    def __init__(self, dice: random.Random, project: Project) -> None:
        self.dice, self.project = dice, project
        self._count = 0

    def words(self, template: str, **existing: str) -> str:
        """The template with everything filled in; what is not `known` is drawn."""
        dice = self.dice
        area = existing.get("area") or dice.choice(self.project.areas)
        fields = {
            "area": area, "project": self.project.name, "areas": ", ".join(self.project.areas),
            "test": self.project.test, "file": self.file(area), "error": dice.choice(ERRORS),
            "ms": str(dice.randrange(20, 900)), "count": str(dice.randrange(2, 90) * 500),
            "release": f"2.{dice.randrange(4, 30)}", "team": dice.choice(TEAMS), "hour": str(dice.randrange(2, 18)),
            **existing,
        }  # fmt: skip
        for name, choices in (("cause", CAUSES), ("fix", FIXES), ("symptom", SYMPTOMS), ("symptom2", SYMPTOMS)):
            fields.setdefault(name, dice.choice(choices).format_map(fields))
        return template.format_map(fields)

    def file(self, area: str) -> str:
        """A file of an area: it has a dozen."""
        part = self.dice.choice(("client", "handlers", "models", "jobs", "api", "store", "rules", "cache", "views"))
        return f"{self.project.folder}/{area}/{part}.{self.project.suffix}"

    def say(self, at: datetime, agent: str, **command: Any) -> dict[str, Any]:
        """A command with its time and a name of its own."""
        self._count += 1
        name = f"{self.project.name}-{self._count}"
        return {"event_id": name, "project": self.project.name, "agent_id": agent, "occurred_at": at, **command}

    def session(self, name: str, start: datetime, turns: int) -> Iterator[dict[str, Any]]:
        """A session: a prompt, then rounds of reading, editing and testing, with what is thought in between."""
        dice, agent = self.dice, self.dice.choice(AGENTS)
        area = dice.choice(self.project.areas)
        symptom = self.words(dice.choice(SYMPTOMS), area=area)
        cause, fix = self.words(dice.choice(CAUSES), area=area), dice.choice(FIXES)
        at = start

        def said(**command: Any) -> dict[str, Any]:
            return self.say(at, agent, session_id=name, **command)

        yield said(
            type="session", status="started", title=symptom[0].upper() + symptom[1:], cwd=f"/work/{self.project.name}"
        )
        query = f"{symptom[0].upper()}{symptom[1:]}. Please find out why, and fix it with a test."
        yield said(type="observe", kind="prompt_submit", data={"prompt": query})
        for turn in range(1, turns):
            at += timedelta(seconds=dice.randrange(8, 90))
            if turn == turns // 2:
                yield said(type="observe", kind="assistant", content=f"Found it: {cause}.")
            elif turn == turns - 2:
                yield said(type="observe", kind="decision", content=f"Decided to {fix}, because {cause}.")
            elif turn == turns - 1:
                yield said(
                    type="observe", kind="assistant", content=f"Done: {area} now does that: {fix}. The tests pass."
                )
            elif turn % 40 == 39:
                more = self.words("Good. Now look at {area} as well: {symptom}.")
                yield said(type="observe", kind="prompt_submit", data={"prompt": more})
            else:
                yield said(type="observe", **self._step(area, turn, turns))
        if dice.random() < 0.6:
            commit = f"{dice.getrandbits(40):010x}"
            yield said(type="commit", commit=commit, message=f"{area}: {fix}", branch="main", files=[self.file(area)])
        if dice.random() < 0.85:
            outcome = "completed" if dice.random() < 0.85 else "failed"
            yield said(type="session", status="ended", outcome=outcome, reason="the agent finished")

    def _step(self, area: str, turn: int, turns: int) -> dict[str, Any]:
        dice, path = self.dice, self.file(area)
        passed = turn > turns * 0.7 or dice.random() < 0.3
        match dice.randrange(6):
            case 0:
                results = [f"{self.file(area)}:{dice.randrange(4, 400)}" for _ in range(dice.randrange(1, 6))]
                tool = ("Grep", {"pattern": area, "path": self.project.folder}, "\n".join(results))
            case 1:
                lines = [
                    f"{n:>5}  {self.words('{area} {error} {count}', area=area)}" for n in range(dice.randrange(3, 20))
                ]
                tool = ("Read", {"file_path": path}, "\n".join(lines))
            case 2:
                old, new = self.words("{cause}", area=area), dice.choice(FIXES)
                tool = ("Edit", {"file_path": path, "old_string": f"# {old}", "new_string": f"# {new}"}, "ok")
            case 3:
                command, seconds = f"{self.project.test} {area}", dice.randrange(2, 90)
                if not passed and dice.random() < 0.2:
                    return {"kind": "error", "content": f"`{command}`: {dice.choice(ERRORS)} after {seconds} s"}
                words = f"{dice.randrange(20, 200)} passed" if passed else f"{dice.randrange(1, 4)} failed"
                tool = ("Bash", {"command": command}, f"{words} in {seconds} s")
            case 4:
                return {"kind": "assistant", "content": self.words(f"Next: {dice.choice(PLANS)}.", area=area)}
            case _:
                return {"kind": "assistant", "content": self.words("In {file}: {cause}.", area=area)}
        name, given, output = tool
        return {"kind": "post_tool_use", "data": {"tool_name": name, "tool_input": given, "tool_output": output}}

    def memory(self, at: datetime, session: str) -> Iterator[dict[str, Any]]:
        """A memory, and for one in five a newer version of it some days later."""
        dice, agent = self.dice, self.dice.choice(AGENTS)
        area = dice.choice(self.project.areas)
        text = self.words(dice.choice(FACTS), area=area)
        fields: dict[str, Any] = {
            "type": "remember", "session_id": session, "importance": dice.randrange(3, 10), "files": [self.file(area)],
            "concepts": [area.replace("_", " "), dice.choice(TEAMS)],
            "tags": [dice.choice(("decision", "fact", "bug"))],
            "memory_type": dice.choice(("semantic", "semantic", "procedural", "episodic")),
        }  # fmt: skip
        yield self.say(at, agent, content=text, keep_duplicates=dice.random() < 0.7, **fields)
        if dice.random() < 0.2:
            newer = text.replace("Tuesdays", "Mondays").replace("at most", "no more than").removesuffix(".")
            at += timedelta(hours=dice.randrange(1, 72))
            yield self.say(at, agent, content=f"{newer} (checked again).", **fields)

    def lesson(self, at: datetime) -> Iterator[dict[str, Any]]:
        """A lesson, said again by others now and then."""
        template, severity, tool, pattern = self.dice.choice(LESSONS)
        text = self.words(template)
        for _ in range(self.dice.choice((1, 1, 1, 2, 4))):
            yield self.say(
                at, self.dice.choice(AGENTS), type="lesson", content=text, severity=severity, trigger_tool=tool,
                trigger_pattern=pattern, context=self.words("Learned from: {symptom}."),
            )  # fmt: skip
            at += timedelta(days=self.dice.random() * 4)

    def chain(self, at: datetime) -> Iterator[dict[str, Any]]:
        """Actions of which each waits for the one before."""
        area, done = self.dice.choice(self.project.areas), self.dice.randrange(4)
        before = ""
        for place, template in enumerate(ACTIONS[: self.dice.randrange(3, 7)]):
            status = "done" if place < done else "active" if place == done else "pending"
            title = self.words(template, area=area)
            item = self.say(
                at, self.dice.choice(AGENTS), type="action", title=title[0].upper() + title[1:], status=status,
                priority=self.dice.randrange(5), requires=[before] if before else [],
            )  # fmt: skip
            before = subject_of(item)
            yield item
            at += timedelta(minutes=self.dice.randrange(1, 40))

    def slots(self, at: datetime) -> Iterator[dict[str, Any]]:
        """What every agent of the project is told."""
        for label, template in SLOTS:
            yield self.say(at, self.dice.choice(AGENTS), type="slot", label=label, content=self.words(template))


def commands(
    until: datetime, *, sessions: int = 44, turns: int = 60, long: int = 3_000, memories: int = 600, seed: int = SEED
) -> list[dict[str, Any]]:
    """Three weeks of work up to a time, in the order of time: `sessions` of about so many `turns` each and one of
    `long`, `memories`, and with them lessons, actions, slots and commits."""
    dice = random.Random(seed)
    begin = until - timedelta(weeks=3)
    writers = [Writer(dice, project) for project in PROJECTS]
    texts: list[dict[str, Any]] = [*writers[0].session(LONG_SESSION, until - timedelta(days=4), long)]
    names = {writer.project.name: [""] for writer in writers}
    for number in range(sessions):
        writer = writers[number % len(writers)]
        name = f"{writer.project.name}-{number:03}"
        start = begin + (until - begin) * (number / sessions) * 0.99 + timedelta(minutes=dice.randrange(90))
        texts += writer.session(name, start, dice.randrange(turns // 2, turns * 3 // 2))
        names[writer.project.name].append(name)
    for writer in writers:
        moments = (begin + (until - begin) * dice.random() for _ in range(memories // len(writers)))
        texts += [item for at in moments for item in writer.memory(at, dice.choice(names[writer.project.name]))]
        for _ in range(12):
            texts += writer.lesson(begin + (until - begin) * dice.random())
        for _ in range(6):
            texts += writer.chain(begin + (until - begin) * dice.random())
        texts += writer.slots(begin)
    return sorted((item for item in texts if item["occurred_at"] < until), key=lambda item: item["occurred_at"])


def export(text: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The events of commands as the lines of an export, each recorded when it was said."""
    yield _line(ExportHeader(format=FORMAT, version=FORMAT_VERSION, tenant=TENANT, project=None))
    number = 0
    for number, item in enumerate(text, 1):
        at: datetime = item["occurred_at"]
        yield line_of(Recorded(Position(to_ms(at), number), *_decided(item).event))
    yield _line(End(end=True, events=number))


def subject_of(command: dict[str, Any]) -> str:
    """The id of the document that a command makes."""
    return _decided(command).subject


def _decided(command: dict[str, Any]) -> Decision:
    existing: WriteCommand = msgspec.convert(command, WriteCommand)
    return decide(existing, Caller(TENANT), EventId(command["event_id"]), command["occurred_at"])


def _line(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
