"""`mnemolog doctor`: whether this machine can run mnemolog, and whether the server works; what to do where not."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Set
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx
import typer
from rich.text import Text

from api.cli.client import ApiClient, ClientError, ServerUnreachable
from api.cli.commands import AsJson, Url
from api.cli.health import status_of
from api.cli.output import FAILED, Output, plain
from ingest.errors import InvalidSetting, MnemologError, ServerStartFailed
from ingest.platform.addresses import client_key, proxy_options
from ingest.platform.processes import release
from ingest.platform.settings import Settings, from_environment, mib, parse_bytes

LOW_DISK = 1 << 30
DISK_FLOOR = "256MiB"
"""Of the embedded server, where MNEMOLOG_DISK_FLOOR names none."""
PYTHON = (3, 11)
COMPILERS = ("c++", "g++", "clang++")
_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "bold red")}


class Finding(NamedTuple):
    """One thing that was looked at; `advice` says what to do where it is not well."""

    name: str
    status: Literal["ok", "note", "problem"]
    message: str
    advice: str = ""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog doctor")(doctor)


def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check this machine and the server, and say what to do. Exits 1 when something keeps either from working."""
    output = Output(as_json)
    found: list[Finding] = []
    for one in findings(os.environ, url):
        found.append(one)
        mark, style = _MARKS[one.status]
        line = Text(f"{mark:<8}", style=style).append(f"{one.name}: {plain(one.message)}", style="default not bold")
        output.line(line)
        if one.advice:
            output.line(Text(f"{'':<8}{plain(one.advice)}", style="dim"))
    problems = sum(one.status == "problem" for one in found)
    output.document({"ok": not problems, "findings": [one._asdict() for one in found]})
    if problems:
        output.note(f"{problems} {'problem' if problems == 1 else 'problems'}")
        raise typer.Exit(FAILED)


def findings(environ: Mapping[str, str], url: str | None) -> Iterator[Finding]:
    """What there is to say, in the order in which it is looked at."""
    yield _python(sys.version_info[:3])
    yield _compiler()
    try:
        settings = from_environment(environ)
    except InvalidSetting as error:
        yield Finding("settings", "problem", str(error), "correct the variable, or unset it")
        return
    yield Finding("settings", "ok", "every variable can be read; `mnemolog config` shows them")
    for what, path, variable in (
        ("data folder", settings.data_dir, "MNEMOLOG_DATA_DIR"),
        ("cache folder", settings.cache_dir, "MNEMOLOG_CACHE_DIR"),
        ("spool folder", settings.spool, "MNEMOLOG_SPOOL"),
    ):
        if path is not None:
            yield _folder(what, path, variable)
    yield _disk(settings)
    yield from _ports(settings)
    yield _log_server(settings)
    yield _model(settings)
    yield from _server(settings, url or settings.url, environ, named=bool(url or environ.get("MNEMOLOG_URL")))


def _python(version: tuple[int, ...]) -> Finding:
    told = f"Python {'.'.join(map(str, version))}"
    if version < PYTHON:
        return Finding("Python", "problem", told, f"install Python {'.'.join(map(str, PYTHON))} or later")
    return Finding("Python", "ok", told)


def _compiler() -> Finding:
    """One is needed where hnswlib is not compiled yet."""
    if found := next(filter(None, map(shutil.which, COMPILERS)), None):
        return Finding("C++ compiler", "ok", found)
    if find_spec("hnswlib") is not None:
        return Finding("C++ compiler", "ok", "none, and none is needed any more: hnswlib is installed")
    advice = "install one (Debian: apt-get install g++), then install mnemolog again"
    return Finding("C++ compiler", "problem", "none, and hnswlib is not installed", advice)


def _folder(what: str, path: Path, variable: str) -> Finding:
    """Whether it can be written or made. Nothing is written."""
    existing = _existing(path)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding(what, "ok", str(path) + ("" if existing == path else " (is made when it is needed)"))
    why = "cannot be written" if existing.is_dir() else f"cannot be made: {existing} is a file"
    return Finding(what, "problem", f"{path} {why}", f"make it writable, or set {variable} to another folder")


def _existing(path: Path) -> Path:
    """The path, or the nearest above it that is there."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_existing(settings.data_dir)).free
    told = f"{mib(free)} free for {settings.data_dir}"
    if settings.redis_url is None and free < parse_bytes(settings.disk_floor or DISK_FLOOR):
        return Finding("disk", "problem", f"{told}: writes get 429", "free some, or lower MNEMOLOG_DISK_FLOOR")
    if free < LOW_DISK:
        return Finding("disk", "note", told, "free some: the log and index snapshots grow")
    return Finding("disk", "ok", told)


def _ports(settings: Settings) -> Iterator[Finding]:
    from api.cli.supervisor import local_url
    from api.http.serving import bind, ports_of
    from ingest.platform.files import private_folder
    from ingest.platform.locking import Lock

    try:
        ports = ports_of(settings)
    except InvalidSetting as error:
        yield Finding("ports", "problem", str(error), "name another port")
        return
    for port, variable in ports.items():
        try:
            for bound in bind(settings.host, port):
                bound.close()
            yield Finding(f"port {port}", "ok", "free")
            continue
        except ServerStartFailed as error:
            why = str(error)
        holder = Lock(private_folder() / f"port-{port}", f"port {port}").holder()
        if holder is not None and holder.alive:
            yield Finding(f"port {port}", "ok", f"in use by {holder}")
        elif port == settings.port and _is_ours(local_url(settings)):
            yield Finding(f"port {port}", "ok", "in use by a mnemolog server")
        else:
            yield Finding(f"port {port}", "problem", why, f"stop the program that has it, or set {variable}")


def _is_ours(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez", timeout=2, **proxy_options(url)).text == "ok\n"
    except httpx.HTTPError:
        return False


def _log_server(settings: Settings) -> Finding:
    """Whether the log's server answers, and keeps what it acknowledges."""
    if settings.redis_url is None:
        from ingest.embedded.room import EmbeddedValkey

        serving = EmbeddedValkey(settings.data_dir / "valkey").serving
        told = "the embedded Valkey runs, and writes to disk before it answers"
        return Finding("log", "ok", told if serving else "the embedded Valkey, which `mnemolog up` starts")
    from redis.exceptions import RedisError

    from ingest.platform.addresses import place_of

    place = place_of(settings.redis_url)
    try:
        faults = asyncio.run(_forgetful(settings.redis_url))
    except (RedisError, OSError, MnemologError) as error:
        return Finding("log", "problem", f"{place} does not answer: {error}", "start it, or set REDIS_URL")
    if faults:
        advice = "set `appendonly yes` and `appendfsync always` there"
        return Finding("log", "problem" if "no append-only" in faults else "note", f"{place} {faults}", advice)
    return Finding("log", "ok", f"{place} answers, and writes to disk before it does")


async def _forgetful(url: str) -> str:
    """What a server may lose that it acknowledged; empty for nothing, or where it does not say. Raises RedisError."""
    from redis.exceptions import ResponseError

    from api.cli.direct import connected
    from ingest.platform.connections import info_of_nodes

    async with connected(url) as redis:
        await redis.exists("mnemolog:doctor")
        try:
            nodes = await info_of_nodes(redis, "persistence")
            if not all(int(one.get("aof_enabled", 1)) for one in nodes):
                return "writes no append-only file: a crash loses what was acknowledged"
            policy = (await redis.config_get("appendfsync")).get("appendfsync", "always")
        except (ResponseError, AttributeError):
            return ""
    return "" if policy == "always" else f"has `appendfsync {policy}`: a crash loses the last second"


def _model(settings: Settings) -> Finding:
    if settings.embedder != "default":
        return Finding("model", "ok", f"MNEMOLOG_EMBEDDER is {settings.embedder.partition('|')[0]}")
    from projections.vectors.model_files import is_current

    if is_current(settings.model_directory):
        return Finding("model", "ok", f"exported, in {settings.model_directory}")
    return Finding("model", "note", "not exported yet", "the first `mnemolog up` does it, in some ten seconds")


def _server(settings: Settings, url: str, environ: Mapping[str, str], *, named: bool) -> Iterator[Finding]:
    """What the server says of itself, as far as the key may know it."""
    try:
        with ApiClient(url, client_key(url, environ), node_timeout_s=0) as client:
            status, state = client.look("/readyz")
            yield from _release(client, url)
            yield from _conditions(url, status, state)
            if status == 200:
                yield from _diagnosis(client, {one["message"] for one in state["degraded"]})
    except ServerUnreachable:
        yield Finding("server", "problem" if named else "note", f"none at {url}", "start it: mnemolog up")
    except (ClientError, MnemologError) as error:
        yield Finding(
            "server", "problem", str(error), "" if urlsplit(url).hostname else "correct --url or MNEMOLOG_URL"
        )


def _release(client: ApiClient, url: str) -> Iterator[Finding]:
    version = client.version()
    if version and version != release():
        told = f"{url} is {version}, this command line {release()}"
        yield Finding("version", "problem", told, "install the same release on both sides")


def _conditions(url: str, status: int, state: Mapping[str, Any]) -> Iterator[Finding]:
    if status != 200:
        yield Finding("server", "problem", f"{url} is {status_of(state)}: {state['detail']}", "mnemolog logs")
        return
    yield Finding("server", "ok", f"{url} answers, {state['status']}")
    for one in state["degraded"]:
        yield Finding(one["code"], "problem", one["message"], "docs/operations.md, Health, says what to do")


def _diagnosis(client: ApiClient, shown: Set[str]) -> Iterator[Finding]:
    """What is found beside the conditions that are `shown`, which are in both answers."""
    try:
        checks = client.get("/v1/diagnose")["checks"]
    except ClientError as error:
        yield Finding("diagnosis", "note", f"not for this key: {error}")
        return
    found = [one for one in checks if one["status"] != "pass" and one["message"] not in shown]
    for one in found:
        status = "problem" if one["status"] == "fail" else "note"
        advice = "mnemolog reconcile" if one["fixable"] else ""
        yield Finding(f"{one['category']}/{one['name']}", status, one["message"], advice)
    if not found and not shown:
        yield Finding("diagnosis", "ok", f"{len(checks)} checks find nothing wrong")
