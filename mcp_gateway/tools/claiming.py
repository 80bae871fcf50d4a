"""The tool for claims: an agent takes an action, so that no other agent does the same work."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, convert

from ingest.commands.decide import WriteAction
from ingest.errors import CommandRejected
from ingest.nouns.action import LeaseSeconds, Token
from ingest.nouns.command import Name
from ingest.roles import READ_WRITE
from mcp_gateway.tools.tool import Arguments, Call, EventId, Project, Tags, Tool, ToolAnswer, Written, written

ENDS = ("release", "complete")


class ClaimArguments(Arguments, frozen=True, kw_only=True):
    """Which work, and what to do about it. A lease is longer than the API's: a model renews only between its steps."""

    do: Annotated[
        Literal["start", "next", "claim", "renew", "release", "complete"],
        Meta(description="`start` also creates."),
    ]
    id: Annotated[Name, Meta(description="Id of the action.")] = ""
    token: Annotated[Token, Meta(description="From the claim.")] = ""
    title: Annotated[Name, Meta(description="What you start.")] = ""
    paths: Annotated[list[Name], Meta(description="E.g. `src/pool/**`.")] | UnsetType = UNSET
    labels: Tags | UnsetType = UNSET
    lease_seconds: Annotated[LeaseSeconds, Meta(description="How long.")] = 1800
    result: Annotated[str, Meta(description="What came of it.")] = ""
    project: Project = ""
    event_id: EventId = ""


class Claimed(Written, frozen=True, kw_only=True):
    """The action; of a claim, its token and its end."""

    token: str | UnsetType = UNSET
    expires_at: datetime | UnsetType = UNSET


async def use_claims(call: Call, arguments: ClaimArguments) -> ToolAnswer:
    """Claim, renew, release or complete an action."""
    reader, caller = call.reader(arguments.agent_id), call.caller(arguments.agent_id)
    do, name, token, lease = arguments.do, arguments.id, arguments.token, arguments.lease_seconds
    claims, event_id = call.operations.claims, arguments.event_id
    done: Any = None
    if do in ("renew", *ENDS) and not token:
        raise CommandRejected("needs the token of the claim", "token")
    if do == "start" and not caller.agent_id:  # before an action is created that nobody holds
        raise CommandRejected("a claim needs the name of its agent", "agent_id")
    if do in ("start", "complete"):
        command = WriteAction(
            event_id=event_id,
            project=arguments.project,
            action=name,
            token=token,
            title=arguments.title or None,
            paths=arguments.paths or None,
            result=arguments.result or None,
            status="done" if do == "complete" else None,
        )
        done = await call.operations.work.write_action(command, reader, caller)
        name, event_id = done.id, f"{event_id}:claim"
    who = reader, caller, event_id
    if do == "next":
        done = await claims.claim_next(arguments.project, arguments.labels or [], lease, *who)
    elif do == "renew":
        done = await claims.renew(name, token, lease, *who)
    elif do == "release":
        done = await claims.release(name, token, *who)
    elif do != "complete":
        done = await claims.claim(name, lease, *who)
    call.wrote(caller.agent_id, done.position)
    if do in ENDS:
        return written(f"{do}d", done)
    text = f"yours until {done.expires_at:%Y-%m-%d %H:%M} UTC: {done.id}, token {done.token}: {done.action.title}"
    return ToolAnswer(text, convert(done, Claimed, from_attributes=True))


CLAIM = Tool(
    name="claim", title="Claim work",
    description=(
        "So that no two agents do the same work: `start` yours, or take an open action (`next`, `claim`). `renew` it "
        "in time; `complete` or `release` it."
    ),
    arguments=ClaimArguments, answer=Claimed, reads_only=False, needs=READ_WRITE, call=use_claims,
)  # fmt: skip
