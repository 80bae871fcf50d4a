"""What importing the package loads: it is imported by processes that must stay small."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
HEAVY = ("torch", "sentence_transformers", "transformers", "onnxruntime", "onnx", "tokenizers", "httpx")


def loaded(module: str, names: tuple[str, ...]) -> str:
    code = f"import sys, {module}; print([m for m in {names!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("projections.embedding.factory", HEAVY).strip() == "[]"
