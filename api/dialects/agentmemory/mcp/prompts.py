"""agentmemory's prompts: each becomes one message, with what is known filled in."""

from collections.abc import Awaitable, Callable, Mapping

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import needed
from ingest.marking import marked
from mcp_gateway.tools.tool import Door
from projections.queries import RecallRequest
from projections.queries.views import view

RECALLED = 10
PATTERNS = 20
SHOWN_CHARACTERS = 600
"""Of one thing that is told."""
QUERY_CHARS = 20_000
OBSERVATIONS = 20


async def message(door: Door, name: str, arguments: Mapping[str, str]) -> str:
    """The message of a prompt; raises BadArgument."""
    await door.caught_up()
    return await _MESSAGES[name](door, arguments)


async def _recall_context(door: Door, arguments: Mapping[str, str]) -> str:
    task = needed({"task_description": None, **arguments}, "task_description")
    found = await door.queries.recall(RecallRequest(query=task[:QUERY_CHARS], limit=RECALLED), door.reader())
    known = [f"- [{one.kind}] {one.title}: {_shown(one.content)}" for one in found.results]
    told = marked("mnemolog-recall", known) if known else ["(nothing)"]
    return "\n".join([f"Task: {task}", "", "What is known from earlier work:", *told])


async def _session_handoff(door: Door, arguments: Mapping[str, str]) -> str:
    name = needed({"session_id": None, **arguments}, "session_id")
    reader, browse = door.reader(), door.queries.browse
    located = await browse.session(reader, name, None)
    told = view(located.document)
    summary = await browse.summary(reader, located)
    lines = [f"Take over session {name} of project {told['project']!r} ({told['observation_count']} observations)."]
    if summary is not None:
        lines += ["", summary.title, summary.narrative, *(f"- decided: {one}" for one in summary.decisions)]
    else:
        page = await browse.session_observations(reader, name, told["project"], None, OBSERVATIONS, newest_first=True)
        lines += ["", "What was observed last:"]
        lines += [f"- {one['title']}: {_shown(one['narrative'])}" for one in reversed(page.items)]
    open_ones = list((await browse.open_work(reader, told["project"])).actions.values())
    lines += ["", "Open actions:"] if open_ones else []
    return "\n".join([*lines, *(f"- {one.title} ({one.status})" for one in open_ones[:PATTERNS])])


async def _detect_patterns(door: Door, arguments: Mapping[str, str]) -> str:
    reader, project = door.reader(), arguments.get("project") or ""
    names = [project] if project else await door.queries.browse.projects(reader)
    lines = [f"Find what recurs in the work on {project or 'all projects'}, and what to do about it."]
    for name in names[:PATTERNS]:
        known, _ = await door.queries.profiles.of(reader, name)
        if known is not None:
            told = dialect.profile(known)
            concepts = ", ".join(f"{one['concept']} ({one['frequency']})" for one in told["topConcepts"])
            lines += ["", f"Project {name or '(none)'}: {concepts or 'no concepts yet'}"]
            lines += [f"- error: {one}" for one in told["commonErrors"]]
            lines += [f"- {one}" for one in told["conventions"]]
    return "\n".join(lines)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


_MESSAGES: dict[str, Callable[[Door, Mapping[str, str]], Awaitable[str]]] = {
    "recall_context": _recall_context,
    "session_handoff": _session_handoff,
    "detect_patterns": _detect_patterns,
}
