"""Shared by commands that work on Redis itself, at REDIS_URL or embedded."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import typer
from redis.exceptions import RedisError

from api.cli.output import UNREACHABLE, USAGE, Failed, Output
from api.cli.rows import without_server
from ingest.embedded.room import EmbeddedValkey
from ingest.errors import InUse, InvalidSetting, LogUnavailable, MnemologError
from ingest.platform.settings import Settings

SERVING_WITHIN_S = 30.0


@contextmanager
def server(settings: Settings) -> Generator[str]:
    """The URL of Redis; starts an embedded server that is not running, and stops it afterward.

    Raises LogUnavailable if the server of a starting `up` does not answer in time.
    """
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    valkey = EmbeddedValkey(settings.data_dir / "valkey", f"mnemolog {' '.join(sys.argv[1:3])}")
    try:
        valkey.lock()
    except InUse:
        holder = valkey.holder()
        if holder is None or not holder.lasting:
            raise
        deadline = time.monotonic() + SERVING_WITHIN_S  # an `up` holds the lock, and may still be starting
        while not valkey.serving:
            if time.monotonic() > deadline:
                message = f"the Valkey of {holder} has not answered for {SERVING_WITHIN_S:.0f} s"
                raise LogUnavailable(message) from None
            time.sleep(0.05)
        yield valkey.url
        return
    try:
        valkey.start()
        yield valkey.url
    finally:
        valkey.stop()


@contextmanager
def telling(output: Output) -> Generator[None]:
    """Turns an error into a message and an exit code."""
    try:
        yield
    except InvalidSetting as error:
        output.error(error)
        raise typer.Exit(USAGE) from None
    except MnemologError as error:
        output.error(error)
        raise Failed from None
    except RedisError as error:
        output.error(f"Redis does not answer: {error}")
        raise typer.Exit(UNREACHABLE) from None
    except OSError as error:
        output.error(f"{error.filename or 'failed'}: {error.strerror or error}")
        raise Failed from None


on_redis = without_server(telling)
"""For commands that work on Redis itself."""
