"""`mnemolog admin skills`: a project's approved procedures as Agent Skills, for coding agents."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import convert

from api.cli.client import ApiClient
from api.cli.output import Failed, Output, WrongCommand
from api.cli.rows import Reader, add, on_server
from ingest.names import visible
from ingest.platform.files import write_whole
from mnemolog_client.answers import Memory
from mnemolog_client.skills import ORIGIN, skills

PAGE = 1_000


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    group = typer.Typer(name="skills", help="Approved procedures as Agent Skills: export.")
    add(group, export, "skills export .claude/skills --project shop")
    app.add_typer(group)


@on_server
def export(
    output: Output,
    client: ApiClient,
    folder: Annotated[Path, typer.Argument(help="Folder of the skills; it is created if needed.")],
    project: Annotated[str, typer.Option("--project", "-p", help="Project of the procedures.")] = "",
    agent: Reader = "",
) -> None:
    """Write a project's approved procedures as Agent Skills: a folder with a SKILL.md for each.

    Approved are procedural memories that were confirmed in their current version, for example in the inbox. Files of
    an earlier call are replaced, others never. Exits 1 if there are none.
    """
    memories: list[Memory] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/v1/memories", {"project": project, "latest": True, "limit": PAGE, "cursor": cursor})
        memories += convert(page["items"], list[Memory])
        cursor = page["next"]
    texts = skills(memories)
    files = {folder / name / "SKILL.md": text for name, text in texts.items()}
    for file in files:
        if file.exists() and ORIGIN not in file.read_text("utf-8", "replace"):
            raise WrongCommand(f"{file} is not from mnemolog: move it, or choose another folder")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, visible(text).encode(), 0o644)
        output.line(str(file))
    output.document({"skills": list(texts)})
    if not texts:
        output.note("no procedure is approved: see `mnemolog inbox`")
        raise Failed
