"""The native prompts: what a user picks from a menu. Each becomes one message to the model.

Nothing here loads the index before it is asked for: the stdio bridge lists prompts without it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp.types as types

from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.reading import ContextArguments, RecallArguments, compiled_context, context_text, recall
from mcp_gateway.tools.tool import ToolContext


def _argument(name: str, description: str, *, required: bool = False) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=description, required=required)


PROMPTS = (
    types.Prompt(
        name="catch-up",
        title="Catch up on a project",
        description="Where a project stands: decisions, open ends, lessons.",
        arguments=[
            _argument("project", "The project.", required=True),
            _argument("task", "What you are about to do; what is known about it is added."),
        ],
    ),
    types.Prompt(
        name="remember-session",
        title="Remember this conversation",
        description="Store what of this conversation will matter later: decisions, lessons, open ends.",
        arguments=[_argument("project", "The project. Left out: the one that the conversation is about.")],
    ),
    types.Prompt(
        name="recall",
        title="What is known about a topic",
        description="What you and other agents recorded about a topic, and an answer from it.",
        arguments=[
            _argument("topic", "A question or key words.", required=True),
            _argument("project", "The project. Left out: all projects."),
        ],
    ),
)
SUMMARISE = """\
Summarise this for somebody who takes up work on project {project}: what it is about and where it stands, what was \
decided lately and why, what is open or blocked, which lessons to heed{task}. Fifteen lines at most, with dates. Where \
the record is thin or contradicts itself, say so rather than fill the gap; `recall` finds more."""
STORE = """\
Store in mnemolog what of this conversation will matter later{project}. Pass your usual `agent_id`, the same `project` \
every time, and `session_id` if you have one.

1. `recall` each point first, so that nothing is stored twice; `revise` a memory that has changed.
2. `remember` each decision with its reason and what was rejected, and each fact, preference or procedure that was \
worked out: one idea a call, in sentences that make sense on their own, with `files` where it is about files.
3. `lesson` for each mistake that was understood and each correction I made, as advice: do X before Y, because Z.
4. What is still open: `slots` with `action` `read`, then `write`, `label` `pending_items`: a line for each open end, \
without those that are done.

Leave out what the code or its history says by itself, and passwords, keys and whatever else I would not want kept. \
Then list what you stored, a line each, with its id."""
ANSWER = """\
What is known about this: {topic}

{found}

Answer from these records alone, and name the ids you rely on. Where they contradict each other the newer one holds, \
unless something speaks against it: then say so. Where a snippet is not enough, read it whole; where nothing answers, \
say so and ask `recall` in other words before you give up."""


async def prompt_text(call: ToolContext, name: str, arguments: Mapping[str, str]) -> str:
    """The message that a prompt becomes; raises BadArgument."""
    stated = {argument: value for argument, value in arguments.items() if value.strip()}
    prompt = next(one for one in PROMPTS if one.name == name)
    for argument in prompt.arguments or ():
        if argument.required and argument.name not in stated:
            raise BadArgument(f"{argument.name} is required", argument.name)
    try:
        return await _MESSAGES[name](call, stated)
    except CommandRejected as error:
        raise BadArgument(error.message, error.field) from None


async def _catch_up(call: ToolContext, stated: Mapping[str, str]) -> str:
    project, task = stated["project"], stated.get("task", "")
    asked: dict[str, Any] = {"project": project, "query": task, "agent_id": call.acting()}
    arguments = parse_object(asked, ContextArguments)
    compiled = await compiled_context(call, arguments)
    if not compiled.context and not compiled.left_out:
        raise BadArgument(f"nothing is recorded of project {project!r} that you may read", "project")
    focus = f"; and what of it matters for this task: {task}" if task else ""
    return f"{context_text(compiled, arguments)}\n\n{SUMMARISE.format(project=project, task=focus)}"


async def _remember_session(call: ToolContext, stated: Mapping[str, str]) -> str:
    project = stated.get("project")
    return STORE.format(project=f", in project {project}" if project else "")


async def _recall(call: ToolContext, stated: Mapping[str, str]) -> str:
    topic, project = stated["topic"], stated.get("project")
    asked = {"query": topic, "agent_id": call.acting(), **({"project": project} if project else {})}
    found = await recall(call, parse_object(asked, RecallArguments))
    return ANSWER.format(topic=topic, found=found.text)


_MESSAGES: dict[str, Callable[[ToolContext, Mapping[str, str]], Awaitable[str]]] = {
    "catch-up": _catch_up,
    "remember-session": _remember_session,
    "recall": _recall,
}
