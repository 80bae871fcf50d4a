"""Who may import whom, read from the source text: nothing is imported here."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ingest", "projections", "workers", "api", "mcp_gateway")
MAY_IMPORT = {
    "ingest": set[str](),
    "projections": {"ingest"},
    "workers": {"ingest", "projections"},
    "api": {"ingest", "projections", "mcp_gateway"},
    "mcp_gateway": {"ingest", "projections"},
}
COMPOSITION_ROOTS = (
    "api/app.py",
    "api/wiring.py",
    "api/cli/",
    "mcp_gateway/__main__.py",
    "workers/arq_settings.py",
    "workers/main.py",
)
"""The files that build objects, and so may import anything."""
HEAVY = {
    "redis_om": ("aredis_om", "redis_om"),
    "arq": ("arq",),
    "hnswlib": ("hnswlib",),
    "tantivy": ("tantivy",),
    "rank_bm25": ("rank_bm25",),
    "sentence_transformers": ("sentence_transformers",),
    "onnxruntime": ("onnxruntime",),
    "pyroaring": ("pyroaring",),
    "re2": ("re2",),
    "psycopg": ("psycopg",),
    "fsspec": ("fsspec",),
    "huggingface_hub": ("huggingface_hub",),
}
ARQ_FILES = {"workers/queue.py", "workers/arq_settings.py"}


def sources() -> list[str]:
    """Every Python file of the five packages, relative to the root."""
    return sorted(str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def imported(source: str) -> frozenset[str]:
    """The modules a file imports, anywhere in it."""
    return frozenset(_imported(source))


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((ROOT / source).read_text(), source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, level=0) if module:
                yield module
            case ast.ImportFrom():
                yield f".{node.module or ''}"
            case _:
                pass


@pytest.mark.parametrize("source", sources())
def test_packages_import_only_what_comes_before_them(source: str):
    own = source.partition("/")[0]
    if source.startswith(COMPOSITION_ROOTS):
        return
    others = {module.partition(".")[0] for module in imported(source)} & set(PACKAGES) - {own}
    assert others <= MAY_IMPORT[own]


@pytest.mark.parametrize("source", sources())
def test_imports_are_absolute(source: str):
    assert not [module for module in imported(source) if module.startswith(".")]


@pytest.mark.parametrize("package", HEAVY)
def test_a_heavy_package_has_one_importing_file(package: str):
    """Replacing it is then one file and one conformance run. arq has two: its queue and its settings."""
    users = {
        source for source in sources() if any(module.partition(".")[0] in HEAVY[package] for module in imported(source))
    }
    if package == "arq":
        assert users
        assert users <= ARQ_FILES
    else:
        assert len(users) == 1, sorted(users)


@pytest.mark.parametrize("source", [source for source in sources() if source.endswith("__init__.py")])
def test_an_init_lists_public_names_and_does_nothing_else(source: str):
    """A docstring, imports, `__all__`, and at most a NamedTuple that holds what it lists."""
    others = [
        ast.unparse(node).splitlines()[0]
        for node in ast.parse((ROOT / source).read_text()).body
        if not (_is_import(node) or _is_docstring(node) or _is_all(node) or _is_facade(node))
    ]
    assert others == []


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]


def _is_facade(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and [ast.unparse(base) for base in node.bases] == ["NamedTuple"]
