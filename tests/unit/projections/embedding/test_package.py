"""What importing the package loads: it is imported by processes that must stay small."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
HEAVY = ("torch", "sentence_transformers", "transformers", "onnxruntime", "onnx", "tokenizers", "httpx")


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, projections.embedding; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
