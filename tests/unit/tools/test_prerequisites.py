import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools.prerequisites import compiler_fault, version_fault

ROOT = Path(__file__).parents[3]
HEADERS = sysconfig.get_paths()["include"]


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1), (4, 0, 0)], ids=str)
def test_a_python_that_is_new_enough_is_no_fault(version: tuple[int, ...]):
    assert version_fault(version) == ""


def test_a_python_that_is_too_old_is_told_with_how_to_name_another():
    assert version_fault((3, 10, 13)) == (
        "this is Python 3.10.13; mnemolog needs 3.11 or later. Name one: make run PYTHON=python3.11"
    )


def test_a_compiler_that_can_build_an_extension_is_no_fault():
    assert compiler_fault(sysconfig.get_config_var("CXX"), HEADERS) == ""


@pytest.mark.parametrize(
    ("compiler", "include", "said"),
    [
        ("no-such-compiler -pthread", HEADERS, "(no-such-compiler: No such file or directory)"),
        (sysconfig.get_config_var("CXX"), "/nonexistent", "Python.h"),
        ("false", HEADERS, "(false ended with status 1)"),
    ],
    ids=["not there", "no headers", "broken"],
)
def test_a_compiler_that_cannot_is_told_with_what_to_install(compiler: str, include: str, said: str):
    fault = compiler_fault(compiler, include)
    assert said in fault
    for command in ("apt install g++ python3-dev", "dnf install gcc-c++ python3-devel", "xcode-select --install"):
        assert command in fault


def test_a_missing_compiler_ends_an_installation_before_it_begins():
    command = [sys.executable, "tools/prerequisites.py"]
    done = subprocess.run(command, cwd=ROOT, env={"CXX": "no-such-compiler"}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: a clone compiles hnswlib")
