"""What commands share that work on the log's server itself: the one of REDIS_URL, else the embedded one."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import typer
from redis.exceptions import RedisError

from api.cli.output import FAILED, UNREACHABLE, USAGE, Output
from ingest.connections import Client, connect
from ingest.errors import InvalidSetting, MnemologError
from ingest.settings import Settings
from ingest.valkey import EmbeddedValkey


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Client]:
    """A client of a server, closed afterwards."""
    redis = connect(url)
    try:
        yield redis
    finally:
        await redis.aclose()


@contextmanager
def server(settings: Settings) -> Generator[str]:
    """The URL of the log's server; an embedded one that does not run is started, and stopped afterwards."""
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    valkey = EmbeddedValkey(settings.data_dir / "valkey")
    if valkey.serving:
        yield valkey.url
        return
    valkey.start()
    try:
        yield valkey.url
    finally:
        valkey.stop()


@contextmanager
def telling(output: Output) -> Generator[None]:
    """Turns an error into a message and its exit code."""
    try:
        yield
    except InvalidSetting as error:
        output.error(error)
        raise typer.Exit(USAGE) from None
    except MnemologError as error:
        output.error(error)
        raise typer.Exit(FAILED) from None
    except RedisError as error:
        output.error(f"the log's server does not answer: {error}")
        raise typer.Exit(UNREACHABLE) from None
