"""Says what an installation needs and this machine lacks: `python tools/prerequisites.py`, run before pip.

Two of the wheels that a clone builds are compiled, and pip reports a missing compiler after minutes, in a hundred
lines. This runs with older Pythons (3.7), too, to say that they are too old.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig

OLDEST = (3, 11)
COMPILER = """a clone compiles hnswlib and mnemolog-kernel, which needs a C++ compiler and the headers of Python:
  Debian, Ubuntu:  sudo apt install g++ python3-dev python3-venv
  Fedora:          sudo dnf install gcc-c++ python3-devel
  macOS:           xcode-select --install"""
PROBE = b"#include <Python.h>\n#include <vector>\n"


def version_fault(version: tuple[int, ...]) -> str:
    """What to tell of a Python of this version; nothing of one that is new enough."""
    if version >= OLDEST:
        return ""
    found, wanted = (".".join(map(str, one)) for one in (version, OLDEST))
    return f"this is Python {found}; mnemolog needs {wanted} or later. Name one: make run PYTHON=python{wanted}"


def compiler_fault(compiler: str, include: str) -> str:
    """What to tell of a compiler that cannot build an extension of Python; nothing of one that can."""
    command = [*shlex.split(compiler), "-x", "c++", "-fsyntax-only", "-I", include, "-"]
    try:
        done = subprocess.run(command, input=PROBE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        return f"{COMPILER}\n({command[0]}: {error.strerror})"
    lines = done.stderr.decode(errors="replace").splitlines()
    said = next((line for line in lines if "error" in line), f"{command[0]} ended with status {done.returncode}")
    return f"{COMPILER}\n({said})" if done.returncode else ""


def main() -> int:
    compiler = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    fault = version_fault(sys.version_info[:3]) or compiler_fault(compiler, sysconfig.get_paths()["include"])
    if fault:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
