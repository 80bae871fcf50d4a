"""The native resources, which a user attaches or an agent reads by URI, and the native prompts, which a user picks.

Nothing here loads the index before it is read, because the stdio bridge lists them without it.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from msgspec import Struct, convert

from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, NotFound
from ingest.names import marked, visible
from ingest.nouns.command import Name
from mcp_gateway.attachments import Prompt, PromptArgument, Resource
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.reading import (
    ContextArguments,
    RecallArguments,
    compiled_context,
    context_text,
    document_text,
    recall,
)
from mcp_gateway.tools.tool import Call

MARKDOWN = "text/markdown"
PROJECTS_LISTED = 10
SESSIONS_READ = 100
"""The newest sessions, which have the recent projects."""
MEMORIES_READ = 200
PROJECTS_REQUESTED, OF_A_PROJECT = 100, 5
"""Projects of a restricted key, and sessions of each: the reader may have no access to some."""

RESOURCES = (
    Resource(
        uri="mnemolog://projects", name="projects", title="Projects", mime_type=MARKDOWN,
        description="Recent projects, with the URIs of their contexts.",
    ),
)  # fmt: skip


def _template(uri: str, name: str, title: str, description: str) -> Resource:
    return Resource(f"mnemolog://{uri}", name, title, description, MARKDOWN)


TEMPLATES = (
    _template(
        "projects/{project}/context", "context", "Context of a project",
        "What to know before working on a project: memories, lessons, the outcome of its last sessions.",
    ),
    _template(
        "documents/{id}", "document", "Document",
        "A memory, lesson, observation or summary in full. `recall` returns ids.",
    ),
    _template(
        "sessions/{session_id}/summary{?project}", "summary", "Summary of a session",
        "The outcome of a session. The project is required if several have a session with that id.",
    ),
)  # fmt: skip
_CONTEXT = re.compile(r"mnemolog://projects/(?P<project>[^/?#]+)/context")
_DOCUMENT = re.compile(r"mnemolog://documents/(?P<id>[^/?#]+)")
_SUMMARY = re.compile(r"mnemolog://sessions/(?P<session_id>[^/?#]+)/summary(\?project=(?P<project>[^&#]*))?")


class Address(Struct, frozen=True, kw_only=True):
    """The variables of a URI."""

    id: Name = ""
    project: Name | None = None
    session_id: Name = ""


async def resource_text(call: Call, uri: str) -> str:
    """The text of a resource. Raises BadArgument, or NotFound if it does not exist or the reader has no access."""
    try:
        if uri == RESOURCES[0].uri:
            await call.wait_for_own_writes()
            projects = await _recent_projects(call)
            lines = [
                f"- {' '.join(name.split())} (last active on {day}): {context_uri(name)}" for name, day in projects
            ]
            nothing = "No recorded sessions that you have access to."
            return "\n".join(marked("mnemolog-projects", lines)) if lines else nothing
        if match := _CONTEXT.fullmatch(uri):
            project = _address(match).project or ""
            text = await _context(call, ContextArguments(project=project, agent_id=call.acting()))
            if text is None:
                raise NotFound(f"nothing is recorded for project {project!r}")
            return text
        if match := _DOCUMENT.fullmatch(uri):
            from mcp_gateway.tools.documents import read_document

            document_id = _address(match).id
            await call.wait_for_own_writes()
            return document_text(await read_document(call, document_id, call.reader()))
        if match := _SUMMARY.fullmatch(uri):
            return await _summary(call, _address(match))
    except NotFound:
        pass  # answered like an unknown URI
    except CommandRejected as error:
        raise BadArgument(error.message, error.field) from None
    raise NotFound(f"there is no resource {uri}")


async def _context(call: Call, arguments: ContextArguments) -> str | None:
    """A project's context; None if nothing is recorded that the reader has access to."""
    compiled = await compiled_context(call, arguments)
    return context_text(compiled, arguments) if compiled.context or compiled.left_out else None


async def of_projects(call: Call) -> Sequence[Resource]:
    """The contexts of recent projects, and their approved procedures: of the newest MEMORIES_READ of each."""
    from mnemolog_client.answers import Memory
    from mnemolog_client.skills import is_approved

    await call.wait_for_own_writes()
    resources: list[Resource] = []
    for project, active in await _recent_projects(call):
        named = " ".join(project.split())
        about = f"Last active on {active}."
        resources.append(Resource(context_uri(project), f"context of {named}", f"Context of {named}", about, MARKDOWN))
        page = await call.queries.memories.page(call.reader(), project, None, MEMORIES_READ, latest=True)
        for memory in convert(page.items, list[Memory]):
            if is_approved(memory):
                uri, title = f"mnemolog://documents/{memory.id}", visible(" ".join(memory.title.split()))
                resources.append(Resource(uri, title, title, f"Approved procedure of {named}.", MARKDOWN))
    return resources


def context_uri(project: str) -> str:
    """The URI of a project's context."""
    return f"mnemolog://projects/{quote(project, safe='')}/context"


def _address(match: re.Match[str]) -> Address:
    """Raises NotFound for an invalid name: not UTF-8, or too long."""
    named = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        return parse_object({name: unquote(value, errors="strict") for name, value in named.items()}, Address)
    except (UnicodeDecodeError, CommandRejected):
        raise NotFound(f"there is no {match[0]}") from None


async def _recent_projects(call: Call) -> list[tuple[str, str]]:
    """Projects that the reader can see, each with the day of its last activity, most recent first."""
    reader = call.reader()
    queries = [(project, OF_A_PROJECT) for project in reader.key_scope.projects[:PROJECTS_REQUESTED]] or [
        (None, SESSIONS_READ)
    ]
    pages = await asyncio.gather(
        *(call.queries.sessions.page(reader, project, None, limit) for project, limit in queries)
    )
    newest: dict[str, str] = {}
    sessions = [session for page in pages for session in page.items]
    for session in sorted(sessions, key=lambda session: session["updated_at"], reverse=True):
        newest.setdefault(session["project"], f"{session['updated_at']:%Y-%m-%d}")
    newest.pop("", None)
    return list(newest.items())[:PROJECTS_LISTED]


async def _summary(call: Call, address: Address) -> str:
    from mcp_gateway.tools.documents import whole
    from projections.queries.views import view

    await call.wait_for_own_writes()
    reader, queries = call.reader(), call.queries
    located = await queries.sessions.one(reader, address.session_id, address.project)
    if summary := await queries.summaries.of_session(reader, located):
        return document_text(whole(summary))
    session = view(located.document)
    return (
        f"Session {session['id']} of project {session['project']} has no summary yet: it is summarized after it ends. "
        f"Status: {session['status']}, observations: {session['observation_count']}."
    )


def _prompt(name: str, title: str, description: str, *, needs: str = "", **arguments: str) -> Prompt:
    """A prompt with its arguments, of which it needs one."""
    stated = [
        PromptArgument(name=argument, description=about, required=argument == needs)
        for argument, about in arguments.items()
    ]
    return Prompt(name=name, title=title, description=description, arguments=stated)


PROMPTS = (
    _prompt(
        "catch-up", "Catch up on a project", "The state of a project: decisions, open items, lessons.",
        needs="project", project="The project.", task="What you are about to do; adds what is known about it.",
    ),
    _prompt(
        "remember-session", "Remember this conversation",
        "Store what will matter later: decisions, lessons, open items.",
        project="The project. Default: the one that the conversation is about.",
    ),
    _prompt(
        "recall", "What is known about a topic",
        "What you and other agents recorded about a topic, and an answer based on it.",
        needs="topic", topic="A question or keywords.", project="The project. Default: all projects.",
    ),
)  # fmt: skip
SUMMARIZE = """\
Summarize this for someone who starts work on project {project}: what it is about and its current state, recent \
decisions and their reasons, what is open or blocked, which lessons to follow{task}. At most fifteen lines, dated. \
If the record is thin or contradicts itself, say so instead of filling the gap; `recall` finds more."""
STORE = """\
Store in mnemolog what will matter later from this conversation{project}. Pass your usual `agent_id`, the same \
`project` every time, and `session_id` if you have one.

1. `recall` each point first, so that nothing is stored twice; `revise` a memory that has changed.
2. `remember` each decision with its reason and what was rejected, and each fact, preference or procedure that was \
worked out: one idea per call, in sentences that make sense on their own, with `files` if it is about files.
3. `lesson` for each mistake that was understood and each correction I made, as advice: do X before Y, because Z.
4. Open items: `slots` with `action` `read`, then `write`, `label` `pending_items`: one line per open item, without \
finished ones.

Leave out what the code or its history already says, and passwords, keys and anything else I would not want stored. \
Then list what you stored, one line each, with its id."""
ANSWER = """\
What is known about this: {topic}

{records}

Answer from these records only, and cite the ids you rely on. If they contradict each other, the newer one is valid, \
unless there is evidence against it: then say so. If a snippet is not enough, read the full document; if nothing \
answers, say so and try `recall` with other words before you give up."""


async def prompt_text(call: Call, name: str, arguments: Mapping[str, str]) -> str:
    """A prompt as a message to the model; raises BadArgument."""
    given = {argument: value for argument, value in arguments.items() if value.strip()}
    prompt = next(prompt for prompt in PROMPTS if prompt.name == name)
    for argument in prompt.arguments:
        if argument.required and argument.name not in given:
            raise BadArgument(f"{argument.name} is required", argument.name)
    project, agent = given.get("project"), call.acting()
    try:
        match name:
            case "catch-up":
                task = given.get("task", "")
                fields = {"project": project, "query": task, "agent_id": agent}
                text = await _context(call, parse_object(fields, ContextArguments))
                if text is None:
                    raise BadArgument(f"nothing is recorded for project {project!r} that you have access to", "project")
                focus = f"; and what matters for this task: {task}" if task else ""
                return f"{text}\n\n{SUMMARIZE.format(project=project, task=focus)}"
            case "remember-session":
                return STORE.format(project=f", in project {project}" if project else "")
            case _:
                fields = {"query": given["topic"], "agent_id": agent, **({"project": project} if project else {})}
                recalled = await recall(call, parse_object(fields, RecallArguments))
                return ANSWER.format(topic=given["topic"], records=recalled.text)
    except CommandRejected as error:
        raise BadArgument(error.message, error.field) from None
