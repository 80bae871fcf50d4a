"""`mnemolog rebuild`: documents or embeddings made anew beside those that are read; and what to do with them."""

import time
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.commands import AsJson, Url, connect
from api.cli.output import FAILED, Output, answering, plain

LOOK_EVERY_S = 0.3
ENDED = ("switched", "rolled_back", "cancelled", "failed")

Which = Annotated[str, typer.Argument(metavar="[ID]", help="Which rebuild; else the newest.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for it to be done; 0 only asks for it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    group = typer.Typer(invoke_without_command=True)
    group.callback(epilog="Example: mnemolog rebuild --partition 3 --manual")(rebuild)
    group.command(epilog="Example: mnemolog rebuild status --json")(status)
    group.command(epilog="Example: mnemolog rebuild switch --force")(switch)
    group.command(epilog="Example: mnemolog rebuild rollback")(rollback)
    group.command(epilog="Example: mnemolog rebuild cancel")(cancel)
    app.add_typer(group, name="rebuild")


def rebuild(
    context: typer.Context,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one; all when it is not given.")] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Not documents: vectors, by the configured embedder.")
    ] = False,
    embedder: Annotated[str, typer.Option(metavar="SPEC", help="Vectors by this one, as MNEMOLOG_EMBEDDER.")] = "",
    manual: Annotated[bool, typer.Option("--manual", help="Compare, then wait for `mnemolog rebuild switch`.")] = False,
    wait: Wait = 3600,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild documents and index from the log, beside those that are read, compare them, and switch.

    Or change the embedder: make vectors of everything by another one, compare what they find, and switch.
    """
    if context.invoked_subcommand is not None:
        return
    output = Output(as_json)
    with answering(output), connect(url) as client:
        order: dict[str, Any] = {"switch": "manual" if manual else "auto"}
        if partition is not None:
            order["partitions"] = [partition]
        if embeddings:
            order["what"] = "embeddings"
        if embedder:
            order["embedder"] = embedder
        begun = client.post("/v1/admin/rebuilds", order)
        _finish(
            output,
            _awaited(client, output, begun["id"], (*ENDED, "ready"), wait),
            wait,
            "ready" if manual else "switched",
        )


def status(name: Which = "", url: Url = None, as_json: AsJson = False) -> None:
    """Show how far a rebuild is, what its canaries answered, and what it waits for."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        _tell(output, _one(client, output, name))


def switch(
    name: Which = "",
    force: Annotated[bool, typer.Option("--force", help="Also when the canaries differ.")] = False,
    wait: Wait = 600,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Read what was rebuilt, from now on."""
    _order("switch", "switched", name, {"force": force}, wait, url, as_json)


def rollback(name: Which = "", wait: Wait = 600, url: Url = None, as_json: AsJson = False) -> None:
    """Read again what was read before a rebuild, with what came since."""
    _order("rollback", "rolled_back", name, {}, wait, url, as_json)


def cancel(name: Which = "", url: Url = None, as_json: AsJson = False) -> None:
    """Leave a rebuild that has not begun to switch; documents that it made are deleted, vectors stay cached."""
    _order("cancel", "cancelled", name, {}, 10, url, as_json)


def _order(verb: str, goal: str, name: str, body: dict[str, Any], wait: float, url: str | None, as_json: bool) -> None:
    output = Output(as_json)
    with answering(output), connect(url) as client:
        which = name or _one(client, output, "")["id"]
        client.post(f"/v1/admin/rebuilds/{which}/{verb}", body)
        _finish(output, _awaited(client, output, which, ENDED, wait, goal), wait, goal)


def _one(client: ApiClient, output: Output, name: str) -> dict[str, Any]:
    if name:
        return client.get(f"/v1/admin/rebuilds/{name}")
    newest: list[dict[str, Any]] = client.get("/v1/admin/rebuilds")["rebuilds"]
    if not newest:
        output.error("there is no rebuild")
        raise typer.Exit(FAILED)
    return newest[0]


def _awaited(
    client: ApiClient, output: Output, name: str, states: tuple[str, ...], wait_s: float, goal: str = ""
) -> dict[str, Any]:
    """The rebuild once it is in one of the states, or (with `goal`) in that one alone; as it is when time is over."""
    deadline = time.monotonic() + wait_s
    with output.progress() as bar:
        task = bar.add_task("rebuilding", total=None)
        while True:
            seen = client.get(f"/v1/admin/rebuilds/{name}")
            left = "" if not seen["estimate_s"] else f", about {seen['estimate_s']:.0f} s left"
            bar.update(
                task, completed=seen["done"], total=seen["total"] or None, description=f"{plain(seen['state'])}{left}"
            )
            reached = seen["state"] == goal if goal else seen["state"] in states
            if reached or seen["state"] == "failed" or time.monotonic() > deadline:
                return seen
            time.sleep(LOOK_EVERY_S)


def _finish(output: Output, seen: dict[str, Any], wait_s: float, goal: str) -> None:
    """Show the rebuild; exit 1 when it was waited for and is not where it should be."""
    _tell(output, seen)
    if wait_s and seen["state"] != goal:
        raise typer.Exit(FAILED)


def _tell(output: Output, seen: dict[str, Any]) -> None:
    output.document(seen)
    unit = "entries" if seen["model"] is None else f"documents by {seen['model']}"
    far = f"{seen['done']:,} of {seen['total']:,} {unit}"
    output.line(Text(f"rebuild {seen['id']} is {seen['state']}: {far}, {seen['rate']:,.0f} a second"))
    if seen["why"]:
        output.line(Text(plain(seen["why"])))
    if seen["can_roll_back_until"]:
        output.line(Text(f"it can be rolled back until {seen['can_roll_back_until']}"))
    canaries = seen["canaries"]
    if canaries and canaries["said"] != seen["why"]:
        output.line(Text(plain(canaries["said"])))
    if canaries and canaries["differences"]:
        table = Table("partition", "what", "name", "how", box=None, pad_edge=False, header_style="bold")
        for one in canaries["differences"]:
            table.add_row(str(one["partition"]), one["what"], Text(plain(one["name"])), Text(plain(one["said"])))
        output.show(table)
