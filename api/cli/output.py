"""All output of the command line.

With `--json`, stdout has one JSON document (a stream: one per line) and nothing else. Otherwise there are tables and
colors, and progress on stderr; without a terminal, rich leaves out the decoration.
"""

import math
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import rich.text
import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from api.cli.errors import ClientError
from ingest.errors import MnemologError
from ingest.names import visible

OK, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
"""Exit codes: done; failed, or nothing found; the command was wrong; no server."""
PIPED_WIDTH = 120
"""Columns of a table that is not shown on a terminal."""
LINE_EVERY_S = 1.0
"""The text of `waiting` may change many times a second."""

_OPTIONS = {
    "agent_id": "--agent",
    "content": "the text",
    "ids": "the ids",
    "label": "the label",
    "memory_type": "--type",
    "query": "the query",
    "session_id": "--session",
    "title": "the title",
    "token_budget": "--tokens",
    "tool_name": "the tool",
    "user_id": "--user",
}
"""Fields whose option or argument has another name."""
# rich removes a few control characters from every text that it shows; a recorded text can have all
rich.text.strip_control_codes = visible  # pyright: ignore


class WrongCommand(MnemologError):
    """The options do not go together; exit code 2."""

    code = "usage"


class Failed(typer.Exit):
    """Ends a command with exit code 1; what there is to say was printed."""

    def __init__(self) -> None:
        super().__init__(FAILED)


class Output:
    """Prints a command's answer, for people or as JSON."""

    def __init__(self, as_json: bool = False, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = console or _console(stderr=False)
        self._stderr = _console(stderr=True)

    def document(self, value: Any) -> None:
        """One JSON document, indented on a terminal; nothing for people."""
        if self.as_json:
            encoded = msgspec.json.encode(value)
            self._raw((msgspec.json.format(encoded, indent=2) if self.console.is_terminal else encoded).decode())

    def record(self, value: Any) -> None:
        """One line of a JSON stream, written out at once; nothing for people."""
        if self.as_json:
            self._raw(msgspec.json.encode(value).decode())

    def show(self, *parts: RenderableType) -> None:
        """Something for people; nothing with --json."""
        if not self.as_json:
            for part in parts:
                self.console.print(part, highlight=False)

    def line(self, text: Text | str, style: str = "") -> None:
        """One line for people, never wrapped, so that scripts can read it."""
        if not self.as_json:
            self.console.print(Text(text, style) if isinstance(text, str) else text, soft_wrap=True)

    def error(self, error: ClientError | MnemologError | str) -> None:
        """Print an error: `error: ...` on stderr, or `{"error": ...}` on stdout."""
        if self.as_json:
            fields: dict[str, Any] = {"code": "usage" if isinstance(error, str) else error.code, "message": str(error)}
            if isinstance(error, ClientError):
                fields |= {} if error.field is None else {"field": error.field}
                fields |= {} if error.retry_after is None else {"retry_after": error.retry_after}
            self.document({"error": fields})
            return
        message = worded(error.message, error.field) if isinstance(error, ClientError) else str(error)
        text = Text("error: ", style="bold red").append(message, style="not bold default")
        self._stderr.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        """An aside for people, on stderr."""
        if not self.as_json:
            self._stderr.print(Text(text, style="dim"), soft_wrap=True)

    def progress(self) -> Progress:
        """A progress bar on stderr; silent with --json or without a terminal."""
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._stderr,
            transient=True,
            disable=self.as_json or not self._stderr.is_terminal,
        )

    @contextmanager
    def waiting(self, what: str) -> Generator[Callable[[str], None]]:
        """`waiting` on stderr; silent with --json."""
        if self.as_json:
            yield lambda what: None
            return
        with waiting(self._stderr, what) as tell:
            yield tell

    def _raw(self, text: str) -> None:
        # directly to stdout, because a console could wrap or color a line of JSON
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


@contextmanager
def answering(output: Output) -> Generator[None]:
    """Turns an error of the server or of the settings into a message and its exit code."""
    try:
        yield
    except (ClientError, MnemologError) as error:
        output.error(error)
        raise typer.Exit(getattr(error, "exit_code", USAGE)) from None


@contextmanager
def waiting(console: Console, what: str) -> Generator[Callable[[str], None]]:
    """Shows `what`, then the texts passed to the yielded function: in place, or as lines if there is no terminal."""
    if console.is_terminal:
        with console.status(what) as status:
            yield lambda what: status.update(Text(what))
        return
    shown_at = -math.inf

    def line(what: str) -> None:
        nonlocal shown_at
        if (now := time.monotonic()) - shown_at >= LINE_EVERY_S:
            shown_at = now
            console.print(Text(what), soft_wrap=True)

    yield line


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, cut with an ellipsis at `limit` characters."""
    joined = visible(" ".join(text.split()))
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=PIPED_WIDTH)


def worded(message: str, field: str | None) -> str:
    """A server's refusal, with options and arguments instead of fields and types."""
    if not field:
        return message
    name = re.split(r"[.\[]", field)[0]
    option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
    if message == "content is empty":
        return f"{option} must not be empty"
    if message.startswith("Object missing required field"):
        return f"{option} is needed"
    from mnemolog_client.wording import plain  # loads the client, which few commands need

    words = plain(message)
    return f"{option} {words}" if words else f"{message} ({option})"
