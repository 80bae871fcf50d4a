"""`mnemolog admin mirror`: a project's memories and lessons as Markdown files, and edits of them as revisions."""

import os
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from api.cli.client import ApiClient
from api.cli.errors import ClientError
from api.cli.output import Failed, Output, WrongCommand
from api.cli.rows import Reader, Yes, add, agreed, on_server
from ingest.names import visible
from ingest.platform.addresses import client_key
from ingest.platform.files import check_regular, write_whole
from mnemolog_client import Mnemolog, MnemologError
from mnemolog_client.mirror import STATE, Mirror, WrongFolder, refuse_incomplete

FAILURES = frozenset(("error", "conflict", "unknown"))


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    add(app, mirror, "mirror notes --project shop")


@on_server
def mirror(
    output: Output,
    client: ApiClient,
    folder: Annotated[Path, typer.Argument(help="Folder of the files; it is created if needed.")],
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Project to mirror.", show_default="the folder's")
    ] = None,
    agent: Reader = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete documents whose files were removed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Mirror a project's memories and lessons as Markdown files, and send back what was edited in them.

    A file without an id becomes a memory. If a file and its document were both changed, the file stays as it is, and
    the server's text is written beside it. Exits 1 then, and if a file was unreadable or refused. Asks first if the
    folder has files and is no mirror yet.
    """
    if folder.exists() and not folder.is_dir():
        raise WrongCommand(f"{folder} is not a folder")
    check_regular(folder / STATE)
    files = [*folder.glob("[!.]*")]
    if files and not dry_run and not (folder / STATE).exists():
        others = f"{folder} already has files, such as {files[0].name}, and is no mirror"
        agreed(output, f"{others}. Write into it, and make memories of its Markdown files?", yes)
    client.get("/v1/projects", {"limit": 1})["items"]  # explains a wrong server or key as other commands do
    steps = list[object]()
    failed = False
    key = client_key(client.url, os.environ) or ""
    with Mnemolog(client.url, key, agent=agent, on_degraded=refuse_incomplete) as connection:
        try:
            for done in Mirror(connection, folder, write_whole, project, visible).run(delete=delete, dry_run=dry_run):
                failed = failed or done.step in FAILURES
                steps.append(to_builtins(done))
                reason = f": {done.reason}" if done.reason else ""
                output.line(f"{done.step:9}{done.file}{reason}")
        except WrongFolder as error:
            raise WrongCommand(str(error)) from None
        except MnemologError as error:
            raise ClientError(error.code, error.message, field=error.field, status=error.status) from None
    output.document({"steps": steps, "dry_run": dry_run})
    if not steps:
        output.note("nothing to do")
    if failed:
        raise Failed
