"""What `make check` cannot ask import-linter: the contracts on who imports whom are in pyproject.toml."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("ingest", "projections", "workers", "api", "mcp_gateway")


def test_an_init_lists_public_names_and_does_nothing_else():
    """A docstring, imports, `__all__`, a NamedTuple that holds what it lists, a name that is made on access."""
    others = {
        str(path.relative_to(ROOT)): ast.unparse(node).splitlines()[0]
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
        for node in ast.parse(path.read_text()).body
        if not (
            _is_import(node) or _is_docstring(node) or _is_all(node) or _is_facade(node) or _is_made_on_access(node)
        )
    }
    assert others == {}


def test_the_python_client_needs_httpx_and_msgspec_and_nothing_of_ours():
    """Beside them, a module for a framework imports this framework, and no other module imports it."""
    package = ROOT / "clients" / "python" / "mnemolog_client"
    imported: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        imported[path.stem] = {name.partition(".")[0] for node in nodes for name in _imported(node)}
    frameworks = {"google_adk": {"google"}, "openai_agents": {"agents"}}
    frameworks |= {name: {name} for name in ("anthropic", "langgraph", "llama_index", "pydantic_ai")}
    allowed = {"httpx", "msgspec", "mnemolog_client", *sys.stdlib_module_names}
    others = {name: names - allowed for name, names in imported.items() if names - allowed}
    assert others == frameworks


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]


def _is_made_on_access(node: ast.stmt) -> bool:
    """As arq's command needs `workers.WorkerSettings`: to import the package must load nothing."""
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


def _is_facade(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and [ast.unparse(base) for base in node.bases] == ["NamedTuple"]


def test_a_module_that_is_run_runs_after_all_that_it_defines():
    """What a module runs as a program comes last: a function below it is not defined yet."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        runs = [ast.unparse(node).startswith("if __name__ ==") for node in ast.parse(path.read_text()).body]
        assert not any(runs[:-1]), path
