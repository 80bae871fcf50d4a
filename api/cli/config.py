"""`mnemolog config`: what every setting is here, and where it comes from."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from api.cli.commands import AsJson, Url
from api.cli.listing import table
from api.cli.output import USAGE, Output, answering, plain
from ingest.platform.addresses import client_key, key_file
from ingest.platform.settings import HOOK_VARIABLES, VARIABLES, from_environment, stated, to_environment
from ingest.secrets.redaction import HIDDEN, redacted, secrets_of

DEFAULT, ENVIRONMENT, UNSET = "default", "environment", "not set"
SECRETS = frozenset({"MNEMOLOG_SECRET", "MNEMOLOG_EMBEDDER_KEY", "MNEMOLOG_LLM_KEY", "HF_TOKEN"})
_DERIVED = {
    "MNEMOLOG_DATA_DIR": "XDG_DATA_HOME",
    "MNEMOLOG_CACHE_DIR": "XDG_CACHE_HOME",
    "MNEMOLOG_SPOOL": "XDG_STATE_HOME",
    "MNEMOLOG_URL": "MNEMOLOG_PORT",
}
"""Settings whose default is made of another variable."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command(epilog="Example: mnemolog config --changed")(config)


def config(
    names: Annotated[
        list[str], typer.Argument(metavar="[NAME]...", help="Only these, with what they mean.", show_default=False)
    ] = [],  # noqa: B006 - typer copies it
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not the default.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting of this environment, and where it comes from. Secrets are masked."""
    output = Output(as_json)
    with answering(output):
        rows = settings_of(os.environ)
        key = key_of(url, os.environ)
    if unknown := sorted(set(names) - rows.keys()):
        output.error(f"there is no setting {unknown[0]!r}; `mnemolog config` lists them all")
        raise typer.Exit(USAGE)
    shown = {
        name: row
        for name, row in rows.items()
        if (not names or name in names) and (not changed or row["from"] not in (DEFAULT, UNSET))
    }
    output.document({"settings": shown, "key": key})
    output.show(_table(shown, with_meaning=bool(names)))
    if not names:
        output.note(f"commands send to {key['server']}: {key['from']}")


def settings_of(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Each variable with `value`, `from` and `meaning`; raises InvalidSetting."""
    settings = from_environment(environ)
    values, secrets = to_environment(settings), secrets_of(settings)
    values |= {name: environ[name] for name in HOOK_VARIABLES if name in environ}
    return {
        name: {
            "value": HIDDEN if name in SECRETS and values.get(name) else redacted(values.get(name, ""), secrets),
            "from": _origin(name, environ) if values.get(name) else UNSET,
            "meaning": meaning,
        }
        for name, meaning in {**VARIABLES, **HOOK_VARIABLES}.items()
    }


def key_of(url: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Which key commands send to a server: `server`, `from`; raises InvalidSetting for one that others can read."""
    server = url or from_environment(environ).url
    key = client_key(server, environ)
    for name in ("MNEMOLOG_SECRET", "AGENTMEMORY_SECRET"):
        if key and key == environ.get(name):
            return {"server": server, "from": f"the key in {name}"}
    return {"server": server, "from": f"the key in {key_file(server, environ)}" if key else "no key"}


def _origin(name: str, environ: Mapping[str, str]) -> str:
    variable, value = stated(name, environ)
    if value:
        return ENVIRONMENT if variable == name else variable
    derived = _DERIVED.get(name, "")
    return derived if environ.get(derived) else DEFAULT


def _table(rows: Mapping[str, Mapping[str, Any]], *, with_meaning: bool) -> Table:
    shown = table("setting", "value", "from", *(["meaning"] if with_meaning else []))
    for name, row in rows.items():
        style = "dim" if row["from"] in (DEFAULT, UNSET) else ""
        cells = [name, row["value"] or "-", row["from"], *([row["meaning"]] if with_meaning else [])]
        shown.add_row(*(Text(plain(one), style=style) for one in cells))
    return shown
