"""The workflows of CI and of a release against what they run. Nothing is run: that takes GitHub's machines."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
PROJECTS = [
    tomllib.loads((ROOT / path).read_text())["project"] for path in ("pyproject.toml", "clients/python/pyproject.toml")
]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PUBLISHES = re.compile(r"gh-action-pypi-publish|npm publish|docker/login-action")
SWITCH = "vars.RELEASE == 'on'"


class Job(NamedTuple):
    """A job of a workflow."""

    workflow: str
    name: str
    said: dict[str, Any]

    @property
    def commands(self) -> str:
        """What its steps run."""
        return "\n".join(step["run"] for step in self.said["steps"] if "run" in step)


def jobs() -> Iterator[Job]:
    for workflow, said in WORKFLOWS.items():
        for name, job in said["jobs"].items():
            yield Job(workflow, name, job)


JOBS = list(jobs())
EACH = pytest.mark.parametrize("job", JOBS, ids=[f"{job.workflow}-{job.name}" for job in JOBS])


def versions(project: dict[str, Any]) -> list[str]:
    """The Python versions that a package says it runs on."""
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]]
    return [one[1] for one in named if one]


@pytest.mark.parametrize("project", PROJECTS, ids=[project["name"] for project in PROJECTS])
def test_the_versions_of_python_that_are_tested_are_those_that_a_package_names(project: dict[str, Any]):
    matrices = [job.said["strategy"]["matrix"]["python"] for job in JOBS if "python" in _matrix(job)]
    assert len(matrices) == 3
    assert all(matrix == versions(project) for matrix in matrices)
    assert project["requires-python"] == f">={versions(project)[0]}"


def _matrix(job: Job) -> dict[str, Any]:
    return job.said.get("strategy", {}).get("matrix", {})


@EACH
def test_a_job_runs_targets_and_files_that_exist(job: Job):
    assert set(re.findall(r"\bmake (?:-k )?([\w-]+)", job.commands)) <= TARGETS
    assert [path for path in re.findall(r"python (\w+/\w+\.py)", job.commands) if not (ROOT / path).exists()] == []


@EACH
def test_a_job_has_a_time_limit_and_uses_actions_by_version(job: Job):
    assert job.said["timeout-minutes"] <= 120
    used = [step["uses"] for step in job.said["steps"] if "uses" in step]
    assert used[0].startswith(("actions/checkout@", "actions/download-artifact@"))
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(?:v\d+|release/v1|[0-9a-f]{40})", one)] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read_unless_a_job_says_otherwise(name: str):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}


def test_everything_is_tested_and_checked():
    run = "\n".join(job.commands for job in JOBS if job.workflow == "test.yml")
    assert "make check" in run
    assert re.search(r"make -k test\b", run)


@EACH
def test_nothing_is_published_unless_the_switch_is_on(job: Job):
    """Of a job that publishes either all is behind the switch, or each step that does."""
    steps = [step for step in job.said["steps"] if PUBLISHES.search(f"{step.get('uses', '')} {step.get('run', '')}")]
    gated = SWITCH in job.said.get("if", "")
    assert all(gated or step.get("if") == "env.PUSH == 'true'" for step in steps)
    for step in job.said["steps"]:
        if "push" in step.get("with", {}):
            assert step["with"]["push"] == "${{ env.PUSH == 'true' }}"
            assert SWITCH in job.said["env"]["PUSH"]
            assert "refs/tags/v" in job.said["env"]["PUSH"]


def test_a_release_is_of_a_tag_that_names_the_version():
    release = WORKFLOWS["release.yml"]
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as a truth value
    publishing = {job.name for job in JOBS if job.workflow == "release.yml" and job.name in ("pypi", "npm")}
    assert publishing == {"pypi", "npm"}
    assert 'tools/version.py --check "${GITHUB_REF_NAME#v}"' in release["jobs"]["verify"]["steps"][-3]["run"]
    needs = {name: job.get("needs") for name, job in release["jobs"].items()}
    assert needs == {
        "verify": None, "build": "verify", "compiled": "build", "installed": "compiled", "provenance": "installed",
        "pypi": "provenance", "npm-build": "verify", "npm": "npm-build",
    }  # fmt: skip


def test_the_packages_that_are_published_are_those_that_are_built():
    release = WORKFLOWS["release.yml"]["jobs"]
    pure = re.findall(r"--outdir dist/(\S+) (\S+)", Job("", "", release["build"]).commands)
    compiled = re.findall(r"--output-dir dist/(\S+) \S+", Job("", "", release["compiled"]).commands)
    commands = Job("", "", release["build"]).commands
    assert "make model WHEELS=dist/mnemolog-minilm" in commands
    assert "python tools/wheels.py dist/mnemolog-e5 e5" in commands
    assert commands.index("tools/wheels.py build/lib --source arq") < commands.index("--outdir dist/mnemolog ")
    built = [*(name for name, _ in pure), *compiled, "mnemolog-minilm", "mnemolog-e5"]
    assert built == release["pypi"]["strategy"]["matrix"]["package"]
    named = [tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]["name"] for _, path in pure]
    assert named == [name for name, _ in pure]
