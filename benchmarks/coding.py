"""Does recall answer with statements rather than with the output of tools? Claude Code's sessions, over HTTP.

    python -m benchmarks.coding [--url http://127.0.0.1:3111]

`coding_sessions.json` has a row a session: area, subject, file, function, prompt, what was found out, what was decided,
and a question for each of the two. Around them stands what hooks record of such a session: searches, files read,
edits, test runs, in the shape and with the words of the session. Measured: how often the statement is among the first
1, 3 and 5 results, the share of the first five that is output of a tool, and for questions with an exact string (a
file, a function) how often a tool's record that names it is among the first three; and what ten results of the MCP tool
`recall` cost a model, in tokens of four characters: `text` or `structured`, whichever its host shows.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.driving import Pool, fill, settled

SESSIONS = Path(__file__).parent / "coding_sessions.json"
TOOLS = frozenset(("Grep", "Read", "Edit", "Bash", "WebFetch"))
STARTED = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Session(NamedTuple):
    """A row of SESSIONS."""

    area: str
    subject: str
    file: str
    function: str
    prompt: str
    finding: str
    decision: str
    asks_finding: str
    asks_decision: str


def calls(one: Session) -> list[tuple[str, dict[str, Any], Any]]:
    """Name, input and output of the tools that were used, as Claude Code's hooks report them."""
    path = f"/repo/{one.file}"
    lines = [
        f"# {one.area}: {one.subject}",
        f"import {one.area}_settings, {one.area}_client",
        "",
        f"{one.function}(request, options):",
        f"    # TODO {one.prompt}",
        *(f"    {one.area}_client.step_{n}(options['{word}'])" for n, word in enumerate(one.finding.lower().split())),
        f"    return {one.function}_result",
    ]
    source = "\n".join(lines)
    numbered = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(lines, 1))
    old, new = lines[3], f"{lines[3]}\n    # {one.subject}\n    {one.area}_client.prepare(options)"
    found = "\n".join(f"{path}:{n}:{line}" for n, line in enumerate(lines, 1) if one.area in line)
    test = f"tests/test_{one.area}.py"
    return [
        ("Grep", {"pattern": one.function, "path": "/repo", "output_mode": "content"}, found),
        ("Grep", {"pattern": one.subject, "path": "/repo", "-i": True}, f"Found 2 files\n{path}\n/repo/{test}"),
        ("Read", {"file_path": path}, json.dumps({"type": "text", "file": {"filePath": path, "content": numbered}})),
        ("Read", {"file_path": f"/repo/{test}"}, f"def test_{one.subject.replace(' ', '_')}():\n    # {one.prompt}\n"),
        (
            "Edit",
            {"file_path": path, "old_string": old, "new_string": new},
            {"filePath": path, "oldString": old, "newString": new, "originalFile": source, "userModified": False},
        ),
        ("Bash", {"command": f"pytest {test} -q"}, {"stdout": "12 passed in 1.40s", "stderr": ""}),
        ("WebFetch", {"url": f"https://example.org/{one.area}", "prompt": one.subject}, f"{one.prompt} " * 8),
    ]  # fmt: skip


def events(run: str, sessions: list[Session]) -> Iterator[dict[str, Any]]:
    """What the hooks of all sessions send."""
    for number, one in enumerate(sessions):
        about = {"project": run, "agent_id": "claude", "session_id": f"{run}-{number}"}
        used = [
            {"kind": "post_tool_use", "data": {"tool_name": name, "tool_input": tool_input, "tool_output": output}}
            for name, tool_input, output in calls(one)
        ]
        turns = [
            {"kind": "prompt_submit", "data": {"prompt": one.prompt}},
            *used[:4],
            {"kind": "assistant", "content": one.finding},
            *used[4:],
            {"kind": "assistant", "content": one.decision},
        ]
        for place, event in enumerate(turns):
            at = (STARTED + timedelta(days=number, minutes=2 * place)).isoformat()
            yield {
                "type": "observe", **about, **event, "occurred_at": at, "event_id": f"{run}-{number}-{place}",
            }  # fmt: skip


async def tokens(pool: Pool, question: str, project: str) -> tuple[float, float]:
    """What the MCP tool's answer with ten results costs: its text, its structured content."""
    arguments = {"query": question, "project": project, "limit": 10, "min_confidence": 0}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "recall", "arguments": arguments}}
    result = (await pool.post("/mcp", call))["result"]
    return len(result["content"][0]["text"]) / 4, len(json.dumps(result["structuredContent"], ensure_ascii=False)) / 4


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write, wait, ask."""
    sessions = [Session(*row) for row in json.loads(SESSIONS.read_bytes())]
    run, pool = f"coding-{datetime.now(UTC):%Y%m%d%H%M%S}", Pool(options.url, options.secret)
    await fill(pool, events(run, sessions), batch=200, clients=1)
    await settled(pool, embedded=True)
    await asyncio.sleep(1.0)  # the last vectors are on their way through the feed
    found_at = list[int]()
    dumps = shown = exact = 0
    costs = list[tuple[float, float]]()
    for one in sessions:
        for question, answer in ((one.asks_finding, one.finding), (one.asks_decision, one.decision)):
            body = {"query": question, "project": run, "limit": 5, "kinds": ["observation"]}
            results = (await pool.post("/v1/recall", body))["results"]
            places = [place for place, result in enumerate(results) if result["content"] == answer]
            found_at.append(places[0] if places else 99)
            dumps += sum(result["title"].split(" `")[0] in TOOLS for result in results)
            shown += len(results)
            costs.append(await tokens(pool, question, run))
            if options.show and found_at[-1] > 2:
                print(question, *(f"  {result['title']}" for result in results), sep="\n")
        for wanted in (one.function, one.file):
            body = {"query": f"where is {wanted} used?", "project": run, "limit": 3}
            results = (await pool.post("/v1/recall", body))["results"]
            exact += any(wanted in json.dumps(result) for result in results)
    text, structured = (round(sum(column) / len(costs)) for column in zip(*costs, strict=True))
    share = {f"r@{k}": round(sum(at < k for at in found_at) / len(found_at), 3) for k in (1, 3, 5)}
    return {
        "questions": len(found_at), **share, "tool_output_in_first_five": round(dumps / shown, 3),
        "exact@3": round(exact / (2 * len(sessions)), 3),
        "tokens_of_ten": {"text": text, "structured": structured},
    }  # fmt: skip


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("MNEMOLOG_URL", "http://127.0.0.1:3111"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="questions whose statement is not among the first three")
    options = parser.parse_args()
    options.secret = os.environ.get("MNEMOLOG_SECRET")
    print(json.dumps(await measure(options), indent=None if options.json else 1))


if __name__ == "__main__":
    uvloop.run(main())
