"""What pyproject.toml asks for: all that the packages import, and in the base install nothing that brings torch."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("ingest", "projections", "workers", "api", "mcp_gateway")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = {PROJECT["name"], *(f"mnemolog-{name}" for name in ("client", "e5", "hnswlib", "kernel", "minilm"))}
"""Made of this repository, by `tools/wheels.py`."""


IN_THE_WHEEL = {"arq"}
"""Part of our wheel, because what it requires would downgrade packages of users."""


def names(requirements: Iterable[str]) -> set[str]:
    """The packages that are asked for."""
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def closure(requirements: Iterable[str]) -> set[str]:
    """The packages that are installed for some requirements on this machine, with all that they ask for in turn."""
    found = dict[str, set[str]]()
    waiting = [one for one in map(Requirement, requirements) if applies(one, {""})]
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), {"", *one.extras}
        if not extras <= found.get(name, set()):
            found.setdefault(name, set()).update(extras)
            waiting += [wanted for wanted in map(Requirement, requires(name) or ()) if applies(wanted, extras)]
    return set(found)


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Whether a package that is installed with these extras asks for this one here."""
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)


def imported() -> Iterator[str]:
    """The top-level modules that our packages import, from elsewhere than the standard library."""
    for path in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_every_package_that_is_imported_is_asked_for():
    """None is there only because another one asks for it."""
    of_hooks = {path.stem for path in (ROOT / "api/agents").glob("*.py")}  # import each other by name, as scripts do
    elsewhere = (
        set(imported()) - {*PACKAGES, *IN_THE_WHEEL, "mnemolog_kernel", *of_hooks} - set(sys.stdlib_module_names)
    )
    distributions = packages_distributions()
    asked = names(PROJECT["dependencies"]) | {name for extra in EXTRAS.values() for name in names(extra)}
    assert {
        module for module in elsewhere if not asked & {canonicalize_name(one) for one in distributions[module]}
    } == set()


def test_the_base_install_has_no_torch_and_nothing_that_asks_for_it():
    assert closure(PROJECT["dependencies"]) & {"torch", "sentence-transformers", "transformers", "scipy"} == set()
    assert "torch" in closure(EXTRAS["sentence-transformers"])


def test_the_constraints_pin_all_that_is_installed():
    pinned = {canonicalize_name(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()}
    installed = closure([*PROJECT["dependencies"], *EXTRAS["dev"]]) - {*OURS, "setuptools"}
    assert installed - pinned == set()


def test_the_constraints_are_exact_versions():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
