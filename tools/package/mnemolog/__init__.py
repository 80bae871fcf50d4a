"""Starts mnemolog with its own packages, whatever packages the current folder or site-packages have."""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
LIB = str(_HERE / "lib" if (_HERE / "lib").is_dir() else _HERE.parents[2])
"""The folder of mnemolog's packages: in an editable install, the repository."""


def use_own_packages() -> None:
    """Have this process and the processes that it starts import mnemolog's packages, and none of the current folder."""
    sys.path.insert(0, LIB)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [LIB, os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONSAFEPATH"] = "1"


def __getattr__(name: str) -> object:
    """`WorkerSettings`, for `arq mnemolog.WorkerSettings`."""
    if name != "WorkerSettings":
        raise AttributeError(name)
    use_own_packages()
    import workers

    return workers.WorkerSettings


def main() -> None:
    """The command line."""
    use_own_packages()
    from api.cli.main import main

    main()
