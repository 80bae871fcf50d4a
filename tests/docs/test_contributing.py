"""The worked lists of CONTRIBUTING.md name files, decorators and registries that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`([\w./]+(?:/|\.py|\.md|\.toml))`", TEXT)))
NAMES = {
    "EVENT_TYPES": "ingest/nouns/registry.py",
    "decides": "ingest/nouns/command.py",
    "folds": "projections/nouns/batch.py",
    "VERSION": "projections/nouns/fold.py",
    "WriteCommand": "ingest/commands/decide.py",
    "Packed": "projections/nouns/document.py",
    "KINDS": "ingest/kinds.py",
    "MODULES": "api/native/catalog.py",
    "SYSTEMS": "tests/support/compatibility.py",
    "DIALECTS": "api/dialects/registry.py",
    "Embedder": "projections/vectors/embedder.py",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_the_page_names_exists(path: str):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_what_the_page_says_to_register_with_is_defined_where_it_says(name: str):
    assert name in TEXT
    tree = ast.parse((ROOT / NAMES[name]).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {
        target.id
        for node in tree.body
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }


@pytest.mark.parametrize("command", re.findall(r"`make (\w+)`", TEXT))
def test_a_make_target_that_the_page_names_exists(command: str):
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
