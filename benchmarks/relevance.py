"""Whether recall finds the right turns of conversations and of agents' work, over HTTP."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, cast

from api.agents.payloads import HOSTS
from api.agents.recording import command_of
from benchmarks.driving import Pool, fill_in_order, percentile
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server
from ingest.events.envelope import Envelope, Recorded
from ingest.ids import DocumentId
from ingest.log.position import Position
from ingest.nouns.observation import ObservationRecorded
from projections.nouns.observation import Observation, observation

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""LoCoMo's numbers; its fifth has no evidence to find."""
APART = frozenset(("event_ordering", "instruction_following", "summarization", "preference_following"))
"""Categories whose evidence is most of a conversation; they are reported, but are not part of the overall figure."""
CUTS = (1, 5, 10, 20)
OVERALL, TENANT = "overall", "benchmark"
TURN_S = 30  # between two turns that have no times; in LoCoMo a second, so that the date stays the same


class Question(NamedTuple):
    """A question about one conversation; `evidence` are ids of its turns, none for what was never said.

    Each of the turns in `also` would answer in place of the evidence; `stale` ones state what was replaced later. It is
    asked of what occurred until `to`, if that is given.
    """

    sample: str
    text: str
    category: str
    evidence: frozenset[str]
    also: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    to: str = ""

    def share(self, turns: Sequence[str]) -> float:
        """The share of the evidence among these turns; 1 if one of `also` is."""
        return 1.0 if self.also.intersection(turns) else len(self.evidence.intersection(turns)) / len(self.evidence)


class History(NamedTuple):
    """The observations of a conversation or project, as commands, and the questions about it."""

    name: str
    events: list[dict[str, Any]]
    questions: list[Question]


def histories(path: Path, run: str) -> list[History]:
    """Those of a JSON file, of a folder of such files, or of a folder with the events of a coding agent's hooks."""
    if (path / "events.jsonl").exists():
        return _recorded_by_hooks(path, run)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    groups = list[dict[str, Any]]()
    for file in files:
        read: Any = json.loads(file.read_bytes())
        groups += cast("list[dict[str, Any]]", read) if isinstance(read, list) else [read]
    return [History(group["sample_id"], events_of(group, run), questions(group)) for group in groups]


def _recorded_by_hooks(folder: Path, run: str) -> list[History]:
    """What the hook that agents run makes of its payloads."""
    asked = [Question(
        it["project"], it["question"], it["kind"], frozenset(it["evidence"]), frozenset(it.get("also", ())),
        frozenset(it.get("stale", ())), it["asked_at"],
    ) for it in json.loads((folder / "questions.json").read_bytes())]  # fmt: skip
    events: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / "events.jsonl").read_text().splitlines():
        payload: dict[str, Any] = json.loads(line)
        name, at, user = (payload.pop(field) for field in ("id", "at", "user"))
        project = Path(payload["cwd"]).name
        command = command_of(
            HOSTS["claude-code"].event(payload),
            project=f"{run}:{project}",
            occurred_at=at,
            event_id=name,
            agent_id=user,
        )
        if command and command["type"] == "observe":
            events[project].append(command | {"event_id": f"{run}:{name}", "metadata": {"turn": name}})
    return [History(name, of, [it for it in asked if it.sample == name]) for name, of in events.items()]


def events_of(conversation: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """One observation per turn: its time is the session's date plus its place in the session."""
    sample, events = conversation["sample_id"], list[dict[str, Any]]()
    for session in conversation["sessions"]:
        began, name = parse_date(session["date_time"]), str(session["session"])
        for place, turn in enumerate(session["turns"]):
            chat = "dia_id" in turn
            if chat:
                caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                who = {"agent_id": turn["speaker"], "content": f"{turn['speaker']}: {turn['text']}{caption}"}
            else:
                author = turn.get("actor") or session["agent"]
                who = {"agent_id": author, "kind": turn["kind"], "content": turn["text"]}
            events.append(
                {
                    "type": "observe",
                    "event_id": f"{run}:{sample}:{_id(turn)}",
                    "project": f"{run}:{sample}",
                    "session_id": f"{sample}:{name}" if chat else f"{run}:{name}",
                    "occurred_at": (began + timedelta(seconds=place * (1 if chat else TURN_S))).isoformat(),
                    "metadata": {"turn": _id(turn)},
                    **who,
                }
            )
    return events


def observed(event: dict[str, Any], number: int) -> Observation:
    """Return the document of an observation, as the projection makes it."""
    data = ObservationRecorded(
        kind=event.get("kind", "message"), content=event.get("content", ""), data=event.get("data", {})
    )
    envelope = Envelope(
        event_id=event["event_id"],
        type=data.TYPE,
        version=data.VERSION,
        tenant=TENANT,
        project=event["project"],
        session_id=event["session_id"],
        agent_id=event["agent_id"],
        occurred_at=datetime.fromisoformat(event["occurred_at"]),
    )
    recorded = Recorded(Position(number, 0), envelope, data)
    return observation(recorded, data, DocumentId(f"ses_{event['session_id']}"))


def _id(turn: dict[str, Any]) -> str:
    return turn["dia_id"] if "dia_id" in turn else turn["id"]


def parse_date(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` and ISO 8601, as UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y")
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def questions(conversation: dict[str, Any]) -> list[Question]:
    """The questions; ids of evidence that are not ids of turns are ignored."""
    turns = {_id(turn) for session in conversation["sessions"] for turn in session["turns"]}
    asked: list[Question] = []
    for item in conversation["qa"]:
        category = item["category"]
        name = CATEGORIES.get(category, "") if isinstance(category, int) else category
        evidence = frozenset(part for text in item["evidence"] for part in re.split(r"[;,\s]+", text)) & turns
        also, stale = (frozenset(item.get(field, ())) for field in ("also", "stale"))
        asked.append(
            Question(conversation["sample_id"], item["question"], name, evidence, also, stale, item.get("to", ""))
        )
    return asked


def answerable(asked: Iterable[Question]) -> list[Question]:
    """Those that have evidence."""
    return [question for question in asked if question.category and question.evidence]


async def turns_found(pool: Pool, run: str, question: Question, limit: int, options: Mapping[str, Any]) -> list[str]:
    """Ids of the recalled turns, in order."""
    body = {"query": question.text, "project": f"{run}:{question.sample}", "limit": limit, **options}
    body |= {"kinds": ["observation"]} | ({"to": question.to} if question.to else {})
    return [result["metadata"]["turn"] for result in (await pool.post("/v1/recall", body))["results"]]


def figures_of(asked: Sequence[Question], shares: Sequence[dict[int, float]]) -> dict[str, dict[str, float]]:
    """Recall at every cut in percent: overall, by conversation, and by category."""
    groups: defaultdict[str, list[dict[int, float]]] = defaultdict(list)
    for question, share in zip(asked, shares, strict=True):
        groups[question.category].append(share)
        if question.category not in APART:
            groups[OVERALL].append(share)
            groups[question.sample].append(share)
    samples = sorted({question.sample for question in asked} & set(groups))
    categories = sorted({question.category for question in asked}, key=lambda name: (name in APART, name))
    return {
        name: {"questions": len(groups[name])}
        | {f"recall@{k}": round(100 * fmean(share[k] for share in groups[name]), 2) for k in CUTS}
        for name in (OVERALL, *samples, *categories)
    }


@benchmark(
    Row("LoCoMo recall@5", "locomo.recall.overall.recall@5", "%", at_least=75.0),
    Row("LoCoMo recall@10", "locomo.recall.overall.recall@10", "%", at_least=83.0),
    Row("agent work recall@10", "agentwork.recall.overall.recall@10", "%", at_least=77.0),
    Row("BEAM recall@10, categories with a fact to find", "beam.recall.overall.recall@10", "%", at_least=72.2),
    quick={"conversations": 1, "now": True},
    needs_data=True,
    apart=True,
)
async def relevance(
    server: Server, data: Mapping[str, Path], mode: str = "", conversations: int = 0, now: bool = False
) -> Figures:
    """How much of the evidence for a question is among the first turns that recall returns?

    Evidence-turn recall@k: for each question the share of its evidence turns among the first k results, then the mean
    over questions. Every conversation is a project, every turn an observation. `--mode` is `hybrid`, `lexical` or
    `vector`, `--conversations` takes only the first ones, and `--now` asks without waiting for contextual vectors.

    Data is JSON: a list of `{sample_id, sessions: [{session, date_time, turns}], qa: [{question, evidence,
    category}]}`. A turn is `{id, kind, actor, text}`, with the session's `agent`, or, in LoCoMo, `{dia_id, speaker,
    text, blip_caption?}`. A path may also be a folder of such files, or one of `benchmarks/data/`.
    """
    pool, figures = server.pool(), dict[str, Any]()
    for name, path in data.items():
        run = f"relevance-{datetime.now(UTC):%Y%m%d%H%M%S}"
        chosen = histories(path, run)[: conversations or None]
        turns = await fill_in_order(pool, (event for it in chosen for event in it.events), embedded=not now)
        asked = [question for it in chosen for question in answerable(it.questions)]
        shares, times = list[dict[int, float]](), list[float]()
        for question in asked:
            began = time.perf_counter()
            found = await turns_found(pool, run, question, max(CUTS), {"mode": mode} if mode else {})
            times.append((time.perf_counter() - began) * 1000)
            shares.append({k: question.share(found[:k]) for k in CUTS})
        latency = {f"p{share}_ms": round(percentile(times, share / 100), 1) for share in (50, 99)}
        figures[name] = {"turns": turns, **latency, "recall": figures_of(asked, shares)}
    return figures
