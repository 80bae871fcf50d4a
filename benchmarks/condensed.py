"""Is what the rules make of sessions worth reading? Topics, facts, insights, crystals, profiles, over HTTP.

    python -m benchmarks.condensed [--work AGENTWORK] [--url http://127.0.0.1:3111] [--show]

Written are the sessions of `benchmarks/coding.py`, with memories of what was found and decided in each, which the next
session says again, and a crystal of a finished action; the calls of five agents' tools (`tool_payloads.json`), each
four times; and the turns of `AGENTWORK` (see `benchmarks/relevance.py`). Then each project is consolidated and
reflected on. Of what is derived: how many names (topics, tags, concepts of profiles) are keys, tools, flags, paths, ids
or identifiers of the code; how many texts are calls or JSON; how many pairs claim nearly the same (Jaccard similarity
of terms from 0.6, no contradiction; a lesson and the crystal of its action aside); how many lines are said by none of
the sources, and how many sources say none of the lines of a topic.
"""

import argparse
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import uvloop

from benchmarks.coding import SESSIONS, STARTED, Session, events
from benchmarks.driving import Pool, fill, settled
from benchmarks.outcomes import end, told
from benchmarks.relevance import events_of
from projections.compression.accounts import is_call
from projections.compression.words import TOOLS
from projections.condensing.claims import SAME_CLAIM, Claim, says
from projections.condensing.topics import NAMES_IN_CAMEL_CASE

PAYLOADS = Path(__file__).parents[1] / "tests/unit/projections/compression/tool_payloads.json"
KEY = re.compile(r"\\?[\"']([\w.-]+)\\?[\"']\s*:")
IDENTIFIER = re.compile(r"\w*[a-z0-9][A-Z]\w*|\w+_\w+|\b(?=\w*\d)[A-Z0-9]{5,}\b")
UNNAMEABLE = re.compile(r"[_/\\=:;@<>{}\[\]()\"`]|\A-|\s-|\.\w|\d[a-z]")
COLLECTIONS = {"obs": "observations", "sum": "summaries", "mem": "memories", "lsn": "lessons", "act": "actions"}
DERIVED = frozenset(("consolidated", "crystal"))


def payloads(project: str) -> Iterator[dict[str, Any]]:
    """The calls of all agents, once a day for four days, in a session for each agent and day."""
    for day in range(4):
        for place, (who, tool, given, answered) in enumerate(json.loads(PAYLOADS.read_bytes())):
            yield {
                "type": "observe", "project": project, "session_id": f"{project}-{who.split()[0]}-{day}",
                "event_id": f"{project}-{day}-{place}", "kind": "post_tool_use",
                "occurred_at": (STARTED + timedelta(days=day, minutes=place)).isoformat(),
                "data": {
                    "tool_name": tool, "tool_input": json.dumps(given) if day % 2 else given, "tool_output": answered,
                },
            }  # fmt: skip


async def remember(pool: Pool, project: str, sessions: list[Session]) -> None:
    """What agents kept of each session (the next one says again what was decided), and a crystal of what was done."""
    for number, one in enumerate(sessions):
        kept = [
            (number, one.finding, "bug"),
            (number, one.decision, "decision"),
            (number + 1, one.decision, "decision"),
        ]
        for session, content, tag in kept:
            about = {"session_id": f"{project}-{session}", "tags": [tag, one.area, "Edit"], "keep_duplicates": True}
            concepts = [one.subject, one.function, one.file]
            await pool.post("/v1/memories", {"project": project, "content": content, "concepts": concepts, **about})
        done = (await pool.post("/v1/actions", {"project": project, "title": one.prompt}))["id"]
        over = {"project": project, "action": done, "status": "done", "result": one.decision}
        await pool.post("/v1/actions", over)
        await pool.post("/v1/crystals", {"action_ids": [done]})


async def listed(pool: Pool, path: str, project: str) -> AsyncIterator[dict[str, Any]]:
    """All documents of a listing."""
    query = {"project": project, "limit": "100"}
    while True:
        page = await pool.get(f"{path}?{urlencode(query)}")
        for one in page["items"]:
            yield one
        if not page.get("next"):
            return
        query["cursor"] = page["next"]


async def source(pool: Pool, name: str) -> str:
    """What a document says."""
    one = await pool.get(f"/v1/{COLLECTIONS[name.partition('_')[0]]}/{quote(name)}")
    if name.startswith("sum_"):
        return told(one)
    parts = [one.get("title"), one.get("content"), one.get("narrative"), one.get("description"), one.get("result")]
    return "\n".join(part for part in parts if part)


def lines_of(text: str) -> list[str]:
    """What a derived text says, without its heading, its bullets, and titles and topics before what was said."""
    lines = [line.removeprefix("- ") for line in text.splitlines() if not line.startswith("About ")]
    return [piece for line in lines for piece in re.split(r"(?<=[.!?])\s+|(?<=[\w.!?]): ", line)]


def teaches(crystal: dict[str, Any], lesson: dict[str, Any]) -> bool:
    """Whether a lesson is one of a crystal's."""
    return (
        "crystal" in crystal["tags"]
        and lesson.get("origin") == "crystal"
        and not set(lesson["derived_from"]).isdisjoint(crystal["derived_from"])
    )


async def of_project(pool: Pool, project: str, shown: bool) -> dict[str, int]:
    """Consolidate and reflect, and count."""
    await pool.post("/v1/consolidate", {"project": project})
    await pool.post("/v1/reflect", {"project": project, "max_clusters": 20})
    await settled(pool)
    memories = [one async for one in listed(pool, "/v1/memories", project) if one["is_latest"]]
    made = [one for one in memories if one["derived_from"] and DERIVED.intersection(one["tags"])]
    made += [one async for one in listed(pool, "/v1/lessons", project) if one["derived_from"]]
    seen = [one async for one in listed(pool, "/v1/timeline", project)]
    profile = (await pool.get(f"/v1/profile?{urlencode({'project': project, 'refresh': 'true'})}"))["profile"]
    written = json.dumps(seen, ensure_ascii=False)
    code = {name.lower() for name in IDENTIFIER.findall(written)} - NAMES_IN_CAMEL_CASE
    code |= {name.lower() for name in KEY.findall(json.dumps([one["data"] for one in seen]))} | TOOLS
    names = [name for one in made for name in (*one.get("concepts", ()), *one["tags"]) if name not in DERIVED]
    names += [name for name, _ in profile["concepts"]]
    pairs = [
        (one, other)
        for one, other in combinations(made, 2)
        if Claim.of(one["content"]).is_said_by(Claim.of(other["content"]), SAME_CLAIM) and not teaches(one, other)
    ]
    unsaid = silent = 0
    for one in made:
        texts = [await source(pool, name) for name in one["derived_from"]]
        lines = lines_of(one["content"])
        unsaid += sum(not any(says(text, line) for text in texts) for line in lines)
        # a fact and an insight are in the words of one of those that state it
        silent += (
            "consolidated" in one["tags"]
            and "About " in one["content"]
            and sum(not any(says(text, line) for line in lines) for text in texts)
        )
        if shown:
            print(f"{', '.join(one['tags'])}\n{one['content']}\n")
    if shown:
        for one, other in pairs:
            print(f"nearly the same: {one['content']!r}, {other['content']!r}")
        print(json.dumps(profile, indent=1, ensure_ascii=False))
    return {
        "derived": len(made), "names": len(names),
        "names_of_code": sum(name.lower() in code or UNNAMEABLE.search(name.lower()) is not None for name in names),
        "calls_and_json": sum(is_call(line) or line[:1] in "{[" for one in made for line in one["content"].split("\n")),
        "near_duplicates": len(pairs),
        "lines_nobody_says": unsaid, "sources_that_say_nothing": silent,
    }  # fmt: skip


async def measure(options: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Write, end, condense, count."""
    run, pool = f"condensed-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    rows = [Session(*row) for row in json.loads(SESSIONS.read_bytes())]
    work: list[dict[str, Any]] = json.loads(options.work.read_bytes()) if options.work else []
    written = [*events(f"{run}-coding", rows), *payloads(f"{run}-tools")]
    written += [event for project in work for event in events_of(project, run)]
    await fill(pool, iter(written), batch=200, clients=1)
    await settled(pool)
    for project, session in sorted({(one["project"], one["session_id"]) for one in written}):
        await end(pool, project, session)
    await settled(pool)
    await remember(pool, f"{run}-coding", rows)
    await settled(pool)
    projects = list(dict.fromkeys(one["project"] for one in written))
    return {one.removeprefix(run)[1:]: await of_project(pool, one, options.show) for one in projects}


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--show", action="store_true", help="print all that is derived")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    figures = await measure(options)
    print(json.dumps(figures, indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
