"""The tools of memex, as its clients know them. What they do is in `memories`: it loads the index, listing must not."""

from ingest.errors import CommandRejected, LogFull, MnemologError, Overloaded, ProjectionBehind
from mcp_gateway.attachments import Attachments
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Tool, ToolAnswer, contract_tools


def refused(tool: Tool, error: Exception) -> ToolAnswer:
    """The answer to an error: what is wrong, and whether to try again."""
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
            return _failed(tool, "unexpected error; see the server's log")


def _failed(tool: Tool, text: str) -> ToolAnswer:
    return ToolAnswer(f"Error executing tool {tool.name}: {text}", is_error=True)


MEMEX = contract_tools(__file__, refused)

MEMEX_PROFILE = ToolProfile(
    "memex",
    MEMEX,
    "Memory of an agent about a user. memory_type is episodic (what happened), semantic (a fact) or procedural (a "
    "how-to). importance, 0 to 2, is kept with a memory. alpha weighs likeness (1) against recency (0) in a search.",
    server_name="memex",
    attachments=Attachments(True),
)
