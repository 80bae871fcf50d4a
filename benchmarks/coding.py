"""What recall answers about coding sessions: statements or tool output.

`coding_sessions.json` has a row per session: area, subject, file, function, prompt, finding, decision, and a question
about each of the two. Around them is what hooks record of such a session: searches, files read, edits and test runs,
in the format of Claude Code and with the words of the session.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.driving import Pool, fill_in_order
from benchmarks.figures import Figures, Row, benchmark
from benchmarks.servers import Server

FOLDER = Path(__file__).parent
TOOLS = frozenset(("Grep", "Read", "Edit", "Bash", "WebFetch"))
STARTED = datetime(2026, 3, 2, 9, tzinfo=UTC)
UNFOUND = 99


class Session(NamedTuple):
    """A row of `coding_sessions.json`."""

    area: str
    subject: str
    file: str
    function: str
    prompt: str
    finding: str
    decision: str
    asks_finding: str
    asks_decision: str


def sessions() -> list[Session]:
    """All of them."""
    return [Session(*row) for row in json.loads((FOLDER / "coding_sessions.json").read_bytes())]


def calls(it: Session) -> list[tuple[str, dict[str, Any], Any]]:
    """Name, input and output of the tools that were used, as Claude Code's hooks report them."""
    path, test = f"/repo/{it.file}", f"tests/test_{it.area}.py"
    lines = [
        f"# {it.area}: {it.subject}",
        f"import {it.area}_settings, {it.area}_client",
        "",
        f"{it.function}(request, options):",
        f"    # TODO {it.prompt}",
        *(f"    {it.area}_client.step_{n}(options['{word}'])" for n, word in enumerate(it.finding.lower().split())),
        f"    return {it.function}_result",
    ]
    source = "\n".join(lines)
    numbered = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(lines, 1))
    old, new = lines[3], f"{lines[3]}\n    # {it.subject}\n    {it.area}_client.prepare(options)"
    matches = "\n".join(f"{path}:{n}:{line}" for n, line in enumerate(lines, 1) if it.area in line)
    edited = {"filePath": path, "oldString": old, "newString": new, "originalFile": source, "userModified": False}
    return [
        ("Grep", {"pattern": it.function, "path": "/repo", "output_mode": "content"}, matches),
        ("Grep", {"pattern": it.subject, "path": "/repo", "-i": True}, f"Found 2 files\n{path}\n/repo/{test}"),
        ("Read", {"file_path": path}, json.dumps({"type": "text", "file": {"filePath": path, "content": numbered}})),
        ("Read", {"file_path": f"/repo/{test}"}, f"def test_{it.subject.replace(' ', '_')}():\n    # {it.prompt}\n"),
        ("Edit", {"file_path": path, "old_string": old, "new_string": new}, edited),
        ("Bash", {"command": f"pytest {test} -q"}, {"stdout": "12 passed in 1.40s", "stderr": ""}),
        ("WebFetch", {"url": f"https://example.org/{it.area}", "prompt": it.subject}, f"{it.prompt} " * 8),
    ]


def events(run: str) -> Iterator[dict[str, Any]]:
    """What the hooks of all sessions send."""
    for number, it in enumerate(sessions()):
        used = [
            {"kind": "post_tool_use", "data": {"tool_name": name, "tool_input": tool_input, "tool_output": output}}
            for name, tool_input, output in calls(it)
        ]
        turns = [
            {"kind": "prompt_submit", "data": {"prompt": it.prompt}},
            *used[:4],
            {"kind": "assistant", "content": it.finding},
            *used[4:],
            {"kind": "assistant", "content": it.decision},
        ]
        for place, turn in enumerate(turns):
            yield {
                "type": "observe", "project": run, "agent_id": "claude", "session_id": f"{run}-{number}", **turn,
                "occurred_at": (STARTED + timedelta(days=number, minutes=2 * place)).isoformat(),
                "event_id": f"{run}-{number}-{place}",
            }  # fmt: skip


async def _call(pool: Pool, tool: str, **arguments: Any) -> tuple[str, str]:
    """An MCP tool's answer: its text, and its structured content."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    result = (await pool.post("/mcp", call))["result"]
    return result["content"][0]["text"], json.dumps(result["structuredContent"], ensure_ascii=False)


def _tokens(*texts: str) -> float:
    return sum(map(len, texts)) / 4


@benchmark(
    Row("coding sessions: the statement is the first result", "r@1"),
    Row("coding sessions: the statement is among the first 5", "r@5"),
    Row("tool output among the first 5", "tool_output_in_first_five"),
    Row("a record with the exact string is among the first 3", "exact@3"),
    Row("tokens of ten results over MCP, text", "tokens_text"),
    Row("tokens of ten results over MCP, structured content", "tokens_structured"),
    Row("tokens to read without memory: the transcripts of all sessions", "tokens_transcripts"),
    Row("tokens to read without memory: only prompts and answers", "tokens_statements"),
    Row("tokens to read with memory: a context and a recall", "tokens_context_and_recall"),
    Row("tokens to read with memory: a further recall", "tokens_recall"),
    Row("questions whose answer is in the context or the recall", "answered"),
)
async def coding(server: Server) -> Figures:
    """Does recall answer with statements rather than with tool output, and how many tokens are ten results over MCP?

    31 sessions, two questions about each, and two with an exact string (a file, a function). A token is four
    characters. To answer a question without memory, an agent reads what the sessions left behind: their transcripts
    (prompts, tool calls with output, answers), or notes with each prompt and answer, if they were made. With memory it
    reads what the MCP tools `context` and `recall` return with default arguments.
    """
    run, pool = f"coding-{datetime.now(UTC):%Y%m%d%H%M%S}", server.pool()
    await fill_in_order(pool, events(run), embedded=True)
    found_at, titles, exact, tokens = list[int](), list[str](), list[bool](), list[tuple[float, float]]()
    context, _ = await _call(pool, "context", project=run)
    recalled, answered = list[float](), list[bool]()
    for it in sessions():
        for query, answer in ((it.asks_finding, it.finding), (it.asks_decision, it.decision)):
            body = {"query": query, "project": run, "limit": 5, "kinds": ["observation"]}
            results = (await pool.post("/v1/recall", body))["results"]
            contents = [result["content"] for result in results]
            found_at.append(contents.index(answer) if answer in contents else UNFOUND)
            titles += (result["title"] for result in results)
            ten, structured = await _call(pool, "recall", query=query, project=run, limit=10, min_confidence=0)
            tokens.append((_tokens(ten), _tokens(structured)))
            default, _ = await _call(pool, "recall", query=query, project=run)
            recalled.append(_tokens(default))
            answered.append(answer in context or answer in default)
        for name in (it.function, it.file):
            body = {"query": f"where is {name} used?", "project": run, "limit": 3}
            results = (await pool.post("/v1/recall", body))["results"]
            exact.append(any(name in json.dumps(result) for result in results))
    text, structured = (round(fmean(column)) for column in zip(*tokens, strict=True))
    turns = [(turn.get("content"), turn.get("data", {})) for turn in events(run)]
    statements = [content or data["prompt"] for content, data in turns if "tool_name" not in data]
    return {
        "questions": len(found_at),
        **{f"r@{k}": round(fmean(at < k for at in found_at), 3) for k in (1, 3, 5)},
        "tool_output_in_first_five": round(fmean(title.split(" `")[0] in TOOLS for title in titles), 3),
        "exact@3": round(fmean(exact), 3),
        "tokens_text": text,
        "tokens_structured": structured,
        "tokens_transcripts": round(
            _tokens(*statements, *(json.dumps(data) for _, data in turns if "tool_name" in data))
        ),
        "tokens_statements": round(_tokens(*statements)),
        "tokens_context_and_recall": round(_tokens(context) + fmean(recalled)),
        "tokens_recall": round(fmean(recalled)),
        "answered": round(fmean(answered), 3),
    }
