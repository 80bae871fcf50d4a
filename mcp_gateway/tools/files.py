"""Anthropic's memory tool: files that are memories, by the rules of the Python client (`mnemolog_client.files`)."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ingest.commands.decide import Remember
from ingest.commands.parse import parse_object
from ingest.errors import CommandRejected, Forbidden, ProjectionBehind, RequestTooLarge
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call, ToolAnswer, contract_tools

MOST_FILES = 10_000
"""Memories of the project, which a command holds in memory."""
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
"""The arguments of each command, in the order of the function's."""
(MEMORY_FILES,) = contract_tools(__file__)


class Memories:
    """What the commands call of a client's `memories`, on the services of this process."""

    def __init__(self, call: Call, agent: str) -> None:
        self._call, self._agent = call, agent
        self.acknowledged: list[dict[str, str]] = []

    async def create(self, **fields: Any) -> None:
        """Store a new memory."""
        command = parse_object({**fields, "agent_id": self._call.acting(self._agent)}, Remember)
        self._wrote(await self._call.write(command))

    async def revise(self, name: str, **changes: Any) -> None:
        """Make a new version of a memory."""
        from projections.operations.memory import MemoryChanges  # loads the index, which the stdio bridge must not

        reader, caller = self._call.reader(self._agent), self._call.caller(self._agent)
        self._wrote(
            await self._call.operations.memories.change(name, parse_object(changes, MemoryChanges), reader, caller)
        )

    async def delete(self, name: str, *, reason: str) -> None:
        """Delete a memory with its earlier versions."""
        reader, caller = self._call.reader(self._agent), self._call.caller(self._agent)
        self._wrote(await self._call.operations.forgetting.document(name, reader, caller, reason=reason), name)

    async def list(self, project: str, *, latest: bool, page_size: int) -> Any:
        """All memories of a project, newest first; raises ProjectionBehind."""
        if await self._call.wait_for_own_writes(self._agent):
            raise ProjectionBehind(0.0, {})
        reader, cursor, memories = self._call.reader(self._agent), None, list[Any]()
        while True:
            page = await self._call.queries.memories.page(reader, project, cursor, page_size, latest=latest)
            memories += [SimpleNamespace(**memory) for memory in page.items]
            if len(memories) > MOST_FILES:
                raise CommandRejected(
                    f"project {project!r} has more than {MOST_FILES:,} memories: use a project that only has files"
                )
            if (cursor := page.next) is None:
                return memories

    def _wrote(self, accepted: Any, name: str = "") -> None:
        self._call.wrote(self._call.caller(self._agent).agent_id, accepted.position)
        receipt = {"id": name or accepted.id, "event_id": accepted.event_id, "position": accepted.position}
        self.acknowledged.append(receipt)


async def use_memory_files(call: Call, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Carry out a command. The data has the acknowledgement of each write, for a deletion with the file's path."""
    from mnemolog_client.files import FileError, MemoryFiles, run_async  # loads the client, as above

    command = arguments["command"]
    names = COMMANDS[command]
    for name in names:
        if arguments[name] is None and name != "view_range":
            raise BadArgument(f"{command} needs {name}", name)
    memories = Memories(call, arguments["agent_id"])
    files = MemoryFiles(arguments["project"], on_deleted=lambda path, _: memories.acknowledged[-1].update(path=path))
    steps = getattr(files, command)(*(arguments[name] for name in names))
    client: Any = SimpleNamespace(memories=memories)
    is_error = True
    try:
        text, is_error = await run_async(client, steps), False
    except FileError as error:
        text = str(error)
    except (CommandRejected, Forbidden, RequestTooLarge) as error:
        text = f"Error: {error}"
    return ToolAnswer(text, {"acknowledged": memories.acknowledged} if memories.acknowledged else None, is_error)
