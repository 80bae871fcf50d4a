"""docs/compatibility.md, made from the endpoints of the APIs and from what the suites in tests/contracts cover.

`python -m tests.support.compatibility` writes the page. Tests are read, not run: a page that is up to date and a green
run of the suites together say that what the page lists holds.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from api.dialects.agent_memory.app import ENDPOINTS as AGENT_MEMORY
from api.dialects.agentd.app import ENDPOINTS as AGENTD
from api.dialects.agentmemory.app import ENDPOINTS as AGENTMEMORY
from api.dialects.memex.app import ENDPOINTS as MEMEX
from api.dialects.profiles import PROFILES
from api.http.endpoint import Endpoint

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
_CONVERTER = re.compile(r":\w+\}")
INTRODUCTION = """# Compatibility

What clients of other systems can call, and the tests that hold it. Made from the suites in `tests/contracts` by
`python -m tests.support.compatibility`; a test fails when this page is not what they say, or when an endpoint that a
client depends on (level M) or that the system documents (level S) has no test. Level V: only a page or a command line
calls it. How to enable them: [drop-in](dropin.md).
"""


class System(NamedTuple):
    """A system whose clients work here: its name, where its suite is, its endpoints and the tools of its MCP server."""

    title: str
    suite: str
    endpoints: Sequence[Endpoint]
    profile: str = ""
    further: tuple[str, ...] = ()
    """What is covered beside endpoints and tools, as the suite calls it."""


SYSTEMS = (
    System("agentmemory", "agentmemory", AGENTMEMORY, "agentmemory", ("GET /viewer", "WS /stream/mem-live/viewer")),
    System("agentd-memory", "agentd", AGENTD),
    System("agent-memory", "agent_memory", AGENT_MEMORY, "agent-memory"),
    System("memex", "memex", MEMEX, "memex"),
)


class Row(NamedTuple):
    """One line of a table."""

    endpoint: str
    level: str
    status: str
    summary: str
    tests: Sequence[str]


def rows(system: System) -> list[Row]:
    """The endpoints and tools of a system, each with the tests that cover it."""
    tests = covered(system.suite)
    results = [
        Row(name, endpoint.level, str(endpoint.status), endpoint.summary, tests.get(name, []))
        for endpoint in system.endpoints
        for name in [f"{endpoint.method} {_CONVERTER.sub('}', endpoint.path)}"]
    ]
    results += [Row(name, "M", "", "", tests.get(name, [])) for name in system.further]
    tools = PROFILES[system.profile].tools if system.profile else ()
    results += [Row(f"MCP {tool.name}", "M", "", tool.description, tests.get(f"MCP {tool.name}", [])) for tool in tools]
    return results


@cache
def covered(suite: str) -> dict[str, list[str]]:
    """The tests of a suite by what they say they cover, each as `file::test`."""
    results: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests" / "contracts" / suite).glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for endpoint in _marks(node):
                    results[endpoint].append(f"{path.name}::{node.name}")
    return dict(results)


def unknown(system: System) -> set[str]:
    """What the suite says it covers and the door does not have."""
    return set(covered(system.suite)) - {row.endpoint for row in rows(system)}


def page() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for system in SYSTEMS:
        parts += [f"## {system.title}\n", "| endpoint | level | answers | what | tests |", "|---|---|---|---|---|"]
        parts += [_line(row, system.suite) for row in rows(system)]
        parts.append("")
    return "\n".join(parts)


def _line(row: Row, suite: str) -> str:
    first = f"[{len(row.tests)}](../tests/contracts/{suite}/{row.tests[0].partition('::')[0]})" if row.tests else "-"
    named = f"{first} `{row.tests[0].partition('::')[2]}`" if row.tests else first
    summary = row.summary.replace("|", "\\|").replace("\n", " ")
    return f"| `{row.endpoint}` | {row.level} | {row.status} | {summary} | {named} |"


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.covers":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


if __name__ == "__main__":
    PAGE.write_text(page())
