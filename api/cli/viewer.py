"""`mnemolog open`: the viewer, in a browser."""

import webbrowser
from typing import Annotated

import typer
from rich.text import Text

from api.cli.client import ClientError
from api.cli.commands import AsJson, Url, connect
from api.cli.output import Output, answering


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("open", epilog="Example: mnemolog open --url http://127.0.0.1:3111")(open_)


def open_(
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it, or only print where it is.")] = True,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Open the viewer, which shows what agents see and do, in a browser; prints its address."""
    output = Output(as_json)
    with answering(output), connect(url) as client:
        try:
            client.look("/readyz")
        except ClientError as error:
            if error.status != 401:  # the page asks for the key itself
                raise
        page = f"{client.url}/viewer"
        output.line(Text(page))
        opened = browser and webbrowser.open(page)
        output.document({"url": page, "opened": opened})
        if browser and not opened:
            output.note("there is no browser here; open the address in one")
