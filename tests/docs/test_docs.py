"""The pages under docs/ name what the code has, all of it and nothing else. Left open: whether they say it well."""

import ast
import inspect
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mcp.types as types
import msgspec
import pytest
import typer
from starlette.routing import Route

from api.app import create_listeners
from api.cli.commands import ADMIN, spelled
from api.cli.main import application
from api.dialects.profiles import PROFILES
from api.http.http import Problem
from api.monitoring.ops import Metrics, VitalMetrics
from api.native.catalog import MODULES
from api.native.common import Bounds
from ingest import errors
from ingest.nouns.command import Command
from ingest.nouns.registry import EVENT_TYPES
from ingest.platform.settings import CLIENT_VARIABLES, VARIABLES, Settings
from mcp_gateway.tools.tool import Tool
from projections.health.watch import unavailable

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PATTERNS = (
    "*.md", "docs/**/*.md", "skills/*/*.md", "benchmarks/*.md", "clients/*/*.md", "examples/*.md", "deploy/*.md",
)  # fmt: skip
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
FOLDERS = "ingest|workers|projections|api|mcp_gateway|tests|docs|examples|deploy|benchmarks|clients"

HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"``.+?``|`[^`\n]+`")


@cache
def page(name: str) -> str:
    """The text of a page under docs/."""
    return (DOCS / name).read_text()


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or a higher one."""
    level = len(heading) - len(heading.lstrip("#"))
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no heading {heading!r}"
    return found[1]


@cache
def named(text: str) -> frozenset[str]:
    """What stands in backticks."""
    return frozenset(code.strip("`").strip() for code in CODE.findall(text))


def first_cells(table: str) -> list[str]:
    """What stands in backticks in the first column of a table."""
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def prose(path: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = (heading.lower().replace("`", "") for heading in HEADING.findall(prose(path)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def routes() -> set[str]:
    """`METHOD /path` of every route of the application, which is built and never started."""
    app = create_listeners(Settings(redis_url="redis://127.0.0.1:1", data_dir=ROOT, cache_dir=ROOT)).native
    return {
        f"{method} {route.path.replace(':path', '')}"
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }


def metric_names() -> set[str]:
    """The metrics of an API process, as Prometheus stores them."""
    idle = cast(Any, SimpleNamespace(waiting_events=0, documents=0, ready=False))
    metrics = Metrics(idle, idle)
    watched = SimpleNamespace(sample=None, pressure=None, readiness=unavailable("idle"))
    metrics.registry.register(VitalMetrics(cast(Any, watched), {}))
    found = metrics.registry.collect()
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in found}


def test_every_route_is_in_the_api_page_and_every_route_there_exists():
    documented = re.findall(r"^### `([A-Z]+ /[^`]*)`$", page("api.md"), re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == routes()


REQUESTS = [
    (f"{endpoint.method} {endpoint.path.replace(':path', '')}", shape)
    for module in MODULES
    for endpoint in module.ENDPOINTS
    for shape in (endpoint.body, endpoint.query)
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct)
]
SAME_FIELDS = {
    "PATCH /v1/actions/{id}": "POST /v1/actions",
    "GET /v1/admin/export": "GET /v1/export",
    **{f"DELETE /v1/{noun}/{{id}}": "DELETE /v1/observations/{id}"
       for noun in ("memories", "lessons", "actions", "relations", "commits")},
}  # fmt: skip
"""Routes whose section points to the fields of another."""
IN_THE_PATH = {"PATCH /v1/lessons/{id}": {"lesson"}, "PATCH /v1/actions/{id}": {"action"}}


@pytest.mark.parametrize(("route", "request_type"), REQUESTS, ids=[route for route, _ in REQUESTS])
def test_every_field_of_a_request_is_in_the_api_page(route: str, request_type: type[msgspec.Struct]):
    """Those of a route below its heading, those of every write in the section about them."""
    text = page("api.md")
    sections = [section(text, f"### `{name}`") for name in {route, SAME_FIELDS.get(route, route)}]
    known = set(re.findall(r"\w+", " ".join(name for section in sections for name in named(section))))
    if issubclass(request_type, Command):
        known |= named(section(text, "## Fields that every write takes"))
    if issubclass(request_type, Bounds):
        assert "[times](#times-of-a-listing)" in sections[0]
        known |= named(section(text, "### Times of a listing"))
    fields = {field.encode_name for field in msgspec.structs.fields(request_type)}
    assert fields - IN_THE_PATH.get(route, set()) <= known


def test_every_error_a_route_answers_is_in_the_api_page():
    """Faults of start-up, of the fold and of the workers never reach a caller."""
    answered = {
        errors.CommandRejected, errors.MalformedRequest, errors.RequestTooLarge, errors.Overloaded,
        errors.LogUnavailable, errors.NotFound, errors.ProjectionBehind, errors.MnemologError, errors.Forbidden,
        errors.AlreadyThere, errors.SlotFull, errors.SessionFull,
        errors.RebuildUnderWay, errors.WrongRebuildState,
    }  # fmt: skip
    text = section(page("api.md"), "## Errors")
    assert {error.code for error in answered} | set(Problem.__struct_fields__) <= named(text)


def test_every_setting_is_in_the_settings_page_and_every_setting_there_exists():
    documented = re.findall(
        r"^\| `([^`]+)` \| (.+) \|$", section(page("operations/settings.md"), "## Settings"), re.MULTILINE
    )
    assert sorted(documented) == sorted((name, text.replace("|", "&#124;")) for name, text in VARIABLES.items())
    assert first_cells(section(page("agents.md"), "## Variables"))[: len(CLIENT_VARIABLES)] == list(CLIENT_VARIABLES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_setting_that_does_not_exist(path: Path):
    assert set(re.findall(r"MNEMOLOG_[A-Z]+(?:_[A-Z]+)*", path.read_text())) <= {*VARIABLES, *CLIENT_VARIABLES}


def test_every_event_type_and_version_is_in_the_events_page_and_every_one_there_exists():
    documented = re.findall(r"^### `([a-z_.]+)` version (\d+)$", page("events.md"), re.MULTILINE)
    registered = {(name, str(version)) for name, cls in EVENT_TYPES.items() for version in range(1, cls.VERSION + 1)}
    assert len(documented) == len(set(documented))
    assert set(documented) == registered


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
def test_every_field_of_an_event_is_in_the_events_page(name: str):
    cls = EVENT_TYPES[name]
    text = section(page("events.md"), f"### `{name}` version {cls.VERSION}")
    assert {field.encode_name for field in msgspec.structs.fields(cls)} <= named(text)


def test_every_mcp_tool_is_in_the_mcp_page_and_every_tool_there_exists():
    """Native tools have a heading each, those of other profiles a row."""
    documented = re.findall(r"^### `(\w+)`$", section(page("mcp.md"), "## Tools"), re.MULTILINE)
    assert documented == list(PROFILES.offer(("native",)).tools)
    for profile in PROFILES.keys() - {"native"}:
        assert first_cells(section(page("mcp.md"), f"## Profile `{profile}`"))[: len(PROFILES[profile].tools)] == [
            tool.name for tool in PROFILES[profile].tools
        ]
    assert first_cells(section(page("mcp.md"), "## Profiles")) == list(PROFILES)


@pytest.mark.parametrize("name", PROFILES.offer(("native",)).tools)
def test_every_argument_of_a_tool_is_in_the_mcp_page(name: str):
    arguments = set(PROFILES.offer(("native",)).tools[name].input_schema["properties"])
    assert arguments - {"agent_id"} <= named(section(page("mcp.md"), f"### `{name}`"))


@pytest.mark.parametrize(
    ("profile", "tool"),
    [(name, tool) for name in PROFILES if name != "native" for tool in PROFILES[name].tools],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_every_argument_of_a_dialects_tool_is_in_its_row(profile: str, tool: Tool):
    rows = section(page("mcp.md"), f"## Profile `{profile}`")
    row = next(line for line in rows.splitlines() if line.startswith(f"| `{tool.name}` |"))
    assert set(tool.input_schema["properties"]) <= named(row)


@pytest.mark.parametrize(("profile", "of"), [("native", "## {}")])
def test_every_resource_and_prompt_is_in_the_mcp_page_and_every_one_there_exists(profile: str, of: str):
    offered, text = PROFILES[profile].attachments, page("mcp.md")
    addresses = [resource.uri for resource in offered.resources] + [template.uri for template in offered.templates]
    assert first_cells(section(text, of.format("Resources"))) == addresses
    assert first_cells(section(text, of.format("Prompts"))) == [prompt.name for prompt in offered.prompts]


@pytest.mark.parametrize(
    "prompt", [prompt for of in PROFILES.values() for prompt in of.attachments.prompts], ids=lambda one: one.name
)
def test_every_argument_of_a_prompt_is_in_its_row(prompt: types.Prompt):
    row = next(line for line in page("mcp.md").splitlines() if line.startswith(f"| `{prompt.name}` |"))
    assert {argument.name for argument in prompt.arguments or ()} <= named(row)


@cache
def commands() -> dict[str, Any]:
    """Every command of the command line, by its name without `admin`."""
    return {name: command for name, command in cast(Any, typer.main.get_command(application())).commands.items()
            if name != ADMIN}  # fmt: skip


def test_every_command_is_in_the_cli_page_and_every_command_there_exists():
    documented = re.findall(r"^## `(mnemolog .+)`$", page("cli.md"), re.MULTILINE)
    assert sorted(documented) == sorted(map(spelled, commands()))


def test_the_commands_that_do_not_go_through_the_api_are_those_that_the_page_names():
    def asks_the_api(command: Any) -> bool:
        parts = getattr(command, "commands", {}).values() or (command,)
        return all(any("--url" in parameter.opts for parameter in part.params) for part in parts)

    table = re.search(r"These commands do not use the API.*?\n\n(.*?)\n\n", page("cli.md"), re.DOTALL)
    assert table is not None
    named_there = {name for row in table[1].splitlines()[2:] for name in named(row.split("|")[1])}
    assert named_there == {name for name, command in commands().items() if not asks_the_api(command)}


def known_of_every_group() -> frozenset[str]:
    """What the first of the groups for documents says of all of them."""
    return frozenset(
        part for code in named(section(page("cli.md"), "## `mnemolog sessions`")) for part in code.split("/")
    )


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_of_a_group_is_in_its_section(name: str):
    text = section(page("cli.md"), f"## `{spelled(name)}`")
    words = {word for code in named(text) for word in code.split()}
    assert set(getattr(commands()[name], "commands", {})) <= words


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_of_a_command_is_in_the_cli_page(name: str):
    text = section(page("cli.md"), f"## `{spelled(name)}`")
    known = {part for code in named(text) for part in code.split("/")}
    group = getattr(commands()[name], "commands", {})
    shared = {"--agent", "-a", "--event-id"} & known_of_every_group() if group else set[str]()
    options = {
        option
        for command in (commands()[name], *group.values())
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-") and option != "--help"
    } - shared
    # `--url` and `--json` are explained once, at the top
    assert options - {"--url", "--json"} <= known


def test_every_metric_is_in_the_monitoring_page_and_every_metric_there_exists():
    assert set(first_cells(section(page("operations/monitoring.md"), "## Metrics"))) == metric_names()


def test_the_dashboard_asks_for_metrics_that_exist():
    dashboard = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name.removesuffix("_bucket") for text in expressions for name in re.findall(r"mnemolog_\w+", text)}
    assert asked == metric_names()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_internal_links_lead_somewhere(path: Path):
    assert [link for link in LINK.findall(prose(path)) if not _leads_somewhere(path, link)] == []


def _leads_somewhere(source: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    place, _, anchor = link.partition("#")
    target = (source.parent / place).resolve() if place else source
    return target.exists() and (not anchor or anchor in anchors(target))


LIVING = [path for path in PAGES if DOCS in path.parents and path.parent.name != "decisions"]
"""Pages that are kept up to date; a decision says what was so when it was taken."""


@pytest.mark.parametrize("path", LIVING, ids=lambda path: str(path.relative_to(DOCS)))
def test_files_and_folders_that_are_named_exist(path: Path):
    named_paths = {code for code in named(prose(path)) if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]*", code)}
    assert [code for code in sorted(named_paths) if not (ROOT / code).exists()] == []


@pytest.mark.parametrize("path", LIVING, ids=lambda path: str(path.relative_to(DOCS)))
def test_json_examples_are_json(path: Path):
    """An example may stand for an object with `...` in a text, never in its structure."""
    for block in re.findall(r"^```json\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        json.loads(block)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_python_examples_parse_and_say_what_they_show(path: Path):
    tree = ast.parse(path.read_text(), path.name)
    assert inspect.cleandoc(ast.get_docstring(tree) or "")


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.sh")), ids=lambda path: path.name)
def test_shell_examples_parse(script: Path):
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=20)
