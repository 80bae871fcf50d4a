"""`mnemolog health`: whether a server does its work, what it does not do well, and its vital signs."""

from collections.abc import Mapping
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient, ClientError
from api.cli.commands import AsJson, Url, connect
from api.cli.output import FAILED, Output, answering, plain
from ingest.platform.settings import mib

_COLOURS = {"ready": "green", "degraded": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog health")(health)


def health(url: Url = None, as_json: AsJson = False) -> None:
    """Say whether reads and writes work, what does not work well, and the vital signs. Exits 1 when it is not ready."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        status, state = client.look("/readyz")
        ready = status == 200
        checks = _checks(client, output) if ready else []
    troubles = [one for one in checks if one["status"] != "pass"]
    output.document({**state, "checks": checks})
    word = status_of(state)
    output.line(Text(plain(word), style=f"bold {_COLOURS.get(word, 'red')}"))
    if not ready:
        output.line(Text(plain(state["detail"])))
    for one in state.get("degraded", ()):
        output.line(Text(f"{one['code']}: {plain(one['message'])}"))
    shown = {one["message"] for one in state.get("degraded", ())}
    for one in troubles:
        if one["message"] in shown:  # a condition is in both answers, under both of its names
            continue
        output.line(Text(f"{one['category']}/{one['name']}: {plain(one['message'])}"))
    if "vitals" in state:
        output.show(_vitals(state))
    if not ready:
        raise typer.Exit(FAILED)


def status_of(state: Mapping[str, Any]) -> str:
    """How a server is, in one word, of what `/readyz` answers: where it is not ready, that is the code of a problem."""
    return state["code"] if "code" in state else state["status"]


def _checks(client: ApiClient, output: Output) -> list[dict[str, Any]]:
    """The checks of the diagnosis; none where the server makes none for us (an isolated scope wants an agent)."""
    try:
        return client.get("/v1/diagnose")["checks"]
    except ClientError as fault:
        output.note(f"no diagnosis: {fault}")
        return []


def _vitals(state: Mapping[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in figures(state["vitals"], state["lag"]).items():
        table.add_row(name, value)
    return table


def figures(vitals: Mapping[str, Any], lag: Mapping[str, int]) -> dict[str, str]:
    """The vital signs in words; one that nobody knows is left out."""
    used, limit = vitals["memory_used"], vitals["memory_limit"]
    free, age_s = vitals["disk_free"], vitals["snapshot_age_s"]
    state = {
        "workers": f"{vitals['workers']:,}",
        "not projected": f"{sum(lag.values()):,} events, the oldest for {vitals['oldest_pending_s']:.1f} s",
        "dead letters": f"{vitals['dead_letters']:,}",
        "to embed": f"{vitals['to_embed']:,}",
        "change feeds": f"{vitals['feed_entries']:,} entries",
        "memory": None if used is None else f"{mib(used)} of {mib(limit) if limit else 'any amount'}",
        "disk": None if free is None else f"{mib(free)} free",
        "newest snapshot": None if age_s is None else f"{age_s / 60:,.0f} minutes old",
    }
    return {name: value for name, value in state.items() if value is not None}
