"""Workers that are killed at a step of their job, and what several jobs are tested with: forgetting, files."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from workshop import TENANT, Workshop

from ingest.commands.decide import Caller
from projections.forgetting.forget import Forgetting
from projections.nouns.access import Reader


class Killed(BaseException):
    """The worker is gone: nothing of it runs on, nothing catches this."""


def killing(step: Callable[..., Any], when: str) -> Callable[..., Any]:
    """The step, in a worker that is killed before or after it."""
    if inspect.iscoroutinefunction(step):

        async def killed(*args: Any, **options: Any) -> Any:
            if when == "after":
                await step(*args, **options)
            raise Killed

        return killed

    def killed_at_once(*args: Any, **options: Any) -> Any:
        if when == "after":
            step(*args, **options)
        raise Killed

    return killed_at_once


async def forget(shop: Workshop, *names: str) -> None:
    """Forget memories, and fold that."""
    await Forgetting(shop.current).documents(names, Reader(TENANT, operator=True), Caller(TENANT))
    await shop.project()


def files_with(folder: Path, text: str) -> list[str]:
    """The names of the files below a folder that have a text, packed ones unpacked."""
    results: list[str] = []
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".zst":
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        if text.encode() in content:
            results.append(path.name)
    return results
