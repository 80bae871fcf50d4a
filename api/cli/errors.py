"""Why a request to a server failed, and how errors are printed. Loads no HTTP client; `mnemolog up` needs none."""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import typer

from ingest.errors import LogUnavailable, MnemologError
from ingest.names import visible
from ingest.platform.addresses import place_of
from ingest.platform.settings import Settings


class ClientError(Exception):
    """A request failed: `code` and `message` are the server's `code` and `detail`."""

    exit_code = 1

    def __init__(
        self, code: str, message: str, *, field: str | None = None, retry_after: float | None = None, status: int = 0
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.retry_after, self.status = code, message, field, retry_after, status
        if code == "invalid" and status == 422:  # a value of the command line, which only the server could check
            self.exit_code = 2


class ServerUnreachable(ClientError):
    """Nothing answers at the URL."""

    exit_code = 3

    def __init__(self, url: str, reason: str = "") -> None:
        advice = "start one with `mnemolog up`, or name another one with --url or MNEMOLOG_URL"
        super().__init__("unreachable", reason or f"no server at {url}; {advice}")


class NotMnemolog(ClientError):
    """Another program answers at the URL."""

    def __init__(self, url: str, answer: str, **fields: Any) -> None:
        message = f"{url} {answer}; is it a mnemolog server? Another program may use the port, or it needs "
        message += "http:// instead of https://" if url.startswith("https:") else "https:// instead of http://"
        super().__init__("not_mnemolog", message, **fields)


class InvalidUrl(ClientError):
    """Not an HTTP URL."""

    exit_code = 2

    def __init__(self, url: str) -> None:
        suggestion = f"; did you mean http://{url}?" if re.fullmatch(r"[\w.-]+(:\d+)?(/.*)?", url) else ""
        super().__init__("invalid_url", f"{url!r} is not an http:// or https:// address{suggestion}", field="url")


def print_error(message: str) -> None:
    """Print an error to stderr, without control characters."""
    typer.echo(f"{typer.style('error:', fg='red')} {visible(message)}", err=True)


def explained(run: Callable[[], None]) -> None:
    """Run a command; expected errors are printed as one line, not a traceback."""
    try:
        run()
    except MnemologError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: " * bool(error.filename) + (error.strerror or str(error))
    else:
        return
    print_error(message)
    sys.exit(1)


@contextmanager
def explained_connection(settings: Settings) -> Generator[None]:
    """Turn connection errors into one that says what is missing, where, and what to do."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, LogUnavailable) as error:
        if settings.redis_url is None:
            raise LogUnavailable(str(error)) from error
        location, reason = place_of(settings.redis_url), str(error).rstrip(".")
        message = f"Redis at {location} does not answer: {reason}; start it, or point REDIS_URL at it"
        raise LogUnavailable(message) from error
