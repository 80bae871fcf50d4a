"""Anthropic's memory tool on memories: `client.beta.messages.tool_runner(tools=[MemoryTool(Mnemolog())], ...)`.

Files are memories (`mnemolog_client.files`): each change is a version, and what the tool deletes is forgotten.
Needs the package `anthropic`: `pip install 'mnemolog-client[anthropic]'`.
"""

from collections.abc import Generator
from contextlib import contextmanager

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types import beta

from mnemolog_client.client import AsyncMnemolog, Mnemolog
from mnemolog_client.errors import Forbidden, InvalidRequest
from mnemolog_client.files import FileError, MemoryFiles, Steps, run, run_async


class MemoryTool(BetaAbstractMemoryTool):
    """The tool for an `Anthropic` client. Errors that a model can act on are its answers; others are raised."""

    def __init__(self, client: Mnemolog, files: MemoryFiles | None = None) -> None:
        super().__init__()
        self._client, self._files = client, files or MemoryFiles()

    def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        return self._done(self._files.view(command.path, command.view_range))

    def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        return self._done(self._files.create(command.path, command.file_text))

    def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._done(self._files.str_replace(command.path, command.old_str, command.new_str))

    def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        return self._done(self._files.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        return self._done(self._files.delete(command.path))

    def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        return self._done(self._files.rename(command.old_path, command.new_path))

    def _done(self, steps: Steps[str]) -> str:
        with _errors_for_the_model():
            return run(self._client, steps)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The tool for an `AsyncAnthropic` client."""

    def __init__(self, client: AsyncMnemolog, files: MemoryFiles | None = None) -> None:
        super().__init__()
        self._client, self._files = client, files or MemoryFiles()

    async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        return await self._done(self._files.view(command.path, command.view_range))

    async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        return await self._done(self._files.create(command.path, command.file_text))

    async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await self._done(self._files.str_replace(command.path, command.old_str, command.new_str))

    async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        return await self._done(self._files.insert(command.path, command.insert_line, command.insert_text))

    async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        return await self._done(self._files.delete(command.path))

    async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        return await self._done(self._files.rename(command.old_path, command.new_path))

    async def _done(self, steps: Steps[str]) -> str:
        with _errors_for_the_model():
            return await run_async(self._client, steps)


@contextmanager
def _errors_for_the_model() -> Generator[None]:
    try:
        yield
    except FileError as error:
        raise ToolError(str(error)) from error
    except (Forbidden, InvalidRequest) as error:
        raise ToolError(f"Error: {error.message}") from error
