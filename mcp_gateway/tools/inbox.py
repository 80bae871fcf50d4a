"""The tool of the inbox: what the server suggests to remember."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, convert

from ingest.errors import CommandRejected
from ingest.names import marked
from ingest.nouns.command import Name
from ingest.roles import READ_WRITE
from mcp_gateway.tools.tool import Arguments, Call, Deferred, Project, Tool, ToolAnswer

SHOWN = 20


class InboxArguments(Arguments, frozen=True, kw_only=True):
    """The action, and its suggestion."""

    action: Annotated[Literal["list", "approve", "reject"], Meta(description="Decide by id.")] = "list"
    id: Annotated[Name, Meta(description="Id of the suggestion.")] = ""
    content: Annotated[str, Meta(description="A better text, to approve.")] = ""
    project: Project = ""


class Suggested(Struct, frozen=True, kw_only=True):
    """A suggested rule, lesson or memory."""

    id: str
    kind: str
    text: str


class InboxAnswer(Struct, frozen=True, kw_only=True):
    """The suggestions; none after a decision."""

    suggestions: list[Suggested]


async def use_inbox(call: Call, arguments: InboxArguments) -> ToolAnswer:
    """List suggestions, or decide on one."""
    from projections.operations.inbox import Decision  # loads numpy and more, which the stdio bridge must not

    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    if arguments.action != "list":
        if not arguments.id:
            raise CommandRejected("name a suggestion", "id")
        (name,) = await call.whole_ids([arguments.id], arguments.agent_id)
        decision = Decision(decision=arguments.action, content=arguments.content, agent_id=arguments.agent_id)
        decided = await call.operations.inbox.decide(name, decision, reader, caller)
        call.wrote(caller.agent_id, decided.position)
        return ToolAnswer(f"{arguments.action}: {name}", InboxAnswer(suggestions=[]))
    await call.wait_for_own_writes(arguments.agent_id)
    waiting = await call.operations.inbox.suggestions(reader, arguments.project, SHOWN)
    lines: list[str] = []
    for item in waiting:
        lines.append(f"{item.kind} {item.id}: {item.text}")
        if item.kind == "contradiction":
            lines += [f"  contradicts {source.id}: {source.text}" for source in item.evidence]
    answer = InboxAnswer(suggestions=[convert(item, Suggested, from_attributes=True) for item in waiting])
    return ToolAnswer("\n".join(marked("mnemolog-inbox", lines)) if lines else "no suggestions", answer)


INBOX = Tool(
    name="inbox", title="Inbox",
    description=(
        "What the server suggests to remember of a project: rules from users' prompts, lessons, memories; and memories "
        "that contradict others, which are hidden if you approve. Approve what the user confirms, and reject what is "
        "wrong."
    ),
    arguments=InboxArguments, answer=InboxAnswer, reads_only=False, needs=READ_WRITE,
    call=Deferred("mcp_gateway.tools.inbox:use_inbox"),
)  # fmt: skip
