"""memex's schemas and sentences. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ingest.errors import CommandRejected, LogFull, MnemologError, Overloaded, ProjectionBehind
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Tool

MAX_NAME = 128
MAX_CONTENT = 8_000
MAX_QUERY = 2_000


class Found(NamedTuple):
    """A memory that was found."""

    id: UUID
    memory_type: str
    score: float
    content: str


def property_(name: str, kind: str, description: str, **more: Any) -> dict[str, Any]:
    """The schema of an argument, titled as memex's are: `top_k` is "Top K"."""
    return {"title": name.replace("_", " ").title(), "type": kind, "description": description, **more}


def output_schema(name: str) -> dict[str, Any]:
    """The schema of what a tool answers: its text, once more."""
    result = {"title": "Result", "type": "string"}
    return {"type": "object", "title": f"{name}Output", "properties": {"result": result}, "required": ["result"]}


def said(text: str, lacks: Sequence[str] = ()) -> Answer:
    """A text as an answer; what it may lack stands below it."""
    text = "\n".join([text, *(f"Note: {lack}." for lack in lacks)])
    return Answer(text, {"result": text})


def length_checked(value: str, name: str, most: int) -> str:
    """A text of 1 to `most` characters; raises BadArgument."""
    if not value:
        raise BadArgument(f"{name} must have at least 1 character", name)
    if len(value) > most:
        raise BadArgument(f"{name} must have at most {most} characters, it has {len(value)}", name)
    return value


def clamped(value: float, least: float, most: float) -> float:
    """The nearest number within the bounds."""
    return max(least, min(value, most))


def stored(memory: UUID, memory_type: str, importance: float) -> str:
    """What storing answers."""
    return f"Stored memory {memory} (type={memory_type}, importance={float(importance)})"


def listed(query: str, found: Sequence[Found]) -> str:
    """What a search answers, best first."""
    if not found:
        return f"No memories found for query: {query}"
    lines = [f"Found {len(found)} {_memories(len(found))} for query: {query}"]
    for number, one in enumerate(found, 1):
        lines.append(f"{number}. [{one.memory_type}] score={one.score:.4f}  id={one.id}")
        lines += [f"   {line}" for line in one.content.splitlines()]
    return "\n".join(lines)


def counted(agent: str, user: str, count: int) -> str:
    """What counting answers."""
    return f"Agent '{agent}' has {count} {_memories(count)} for user '{user}'."


def deleted(memory: UUID) -> str:
    """What deleting answers."""
    return f"Deleted memory {memory}."


def not_there(memory: str) -> str:
    """What deleting answers where there is nothing of that agent's to delete."""
    return f"Memory {memory} was not found, or does not belong to this agent."


def no_uuid(memory: str) -> str:
    """What deleting answers for what is no id."""
    return f"Invalid memory_id '{memory}': not a valid UUID."


def no_type(memory_type: str, types: Sequence[str]) -> str:
    """What is answered for a type that there is not."""
    return f"Invalid memory_type '{memory_type}'. Must be one of: {', '.join(types)}."


def refused(tool: Tool, error: Exception) -> Answer:
    """How a fault is told: as an error, with what is wrong and whether to try again."""
    match error:
        case BadArgument(message=message):
            return _failed(tool, f"validation error: {message}")
        case CommandRejected(message=message, field=field):
            return _failed(tool, f"validation error: {f'{field}: ' if field else ''}{message}")
        case Overloaded(retry_after_s=seconds) | LogFull(retry_after_s=seconds):
            return _failed(tool, f"{error}; try again in {seconds} s")
        case ProjectionBehind():
            return _failed(tool, f"{error}; try again in a second")
        case MnemologError():
            return _failed(tool, str(error))
        case _:
            return _failed(tool, "an unexpected fault; the server's log has it")


def _failed(tool: Tool, text: str) -> Answer:
    return Answer(f"Error executing tool {tool.name}: {text}", is_error=True)


def _memories(count: int) -> str:
    return "memory" if count == 1 else "memories"
