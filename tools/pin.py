"""Pins what a release is built from. The answers come over the network; --check needs none.

python tools/pin.py --check    # exits 1 and names what a workflow uses without a commit
python tools/pin.py actions    # the commit of each action's tag, with git ls-remote
python tools/pin.py images     # the digest of each image in compose.yaml and deploy/Dockerfile, with docker buildx
python tools/pin.py packages   # tools/build-requirements.txt: what builds the packages, with hashes, with pip
python tools/pin.py npm        # clients/typescript/package-lock.json, without addresses of a registry, with npm
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORKFLOWS = ".github/workflows"
IMAGES = ("compose.yaml", "compose.cluster.yaml", "deploy/Dockerfile")
BUILT_WITH = ("build", "hatchling>=1.27", "setuptools>=77", "wheel")
BUILD_REQUIREMENTS = "tools/build-requirements.txt"
_USED = re.compile(r"(?m)(?P<before>\buses: *)(?P<action>[\w.-]+/[\w./-]+)@(?P<ref>\S+)(?: # *(?P<tag>\S+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_IMAGE = re.compile(
    r"(?m)^(?P<before>ARG PYTHON_IMAGE=| +[\w-]+: &[\w-]+ )"
    r"(?P<image>(?!mnemolog:)[\w./-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?$"
)


def unpinned(workflow: str) -> list[str]:
    """The actions that a workflow uses by anything but a commit."""
    return [
        f"{used['action']}@{used['ref']}" for used in _USED.finditer(workflow) if not _COMMIT.fullmatch(used["ref"])
    ]


def with_commits(workflow: str, commit_of: Callable[[str, str], str]) -> str:
    """The workflow with the commit of each action's tag, and the tag in a comment behind it."""

    def pinned(used: re.Match[str]) -> str:
        tag = used["tag"] or used["ref"]
        repository = "/".join(used["action"].split("/")[:2])
        return f"{used['before']}{used['action']}@{commit_of(repository, tag)} # {tag}"

    return _USED.sub(pinned, workflow)


def with_digests(text: str, digest_of: Callable[[str], str]) -> str:
    """A compose file or Dockerfile with a digest behind the tag of each image that is not built here."""
    return _IMAGE.sub(lambda found: f"{found['before']}{found['image']}@{digest_of(found['image'])}", text)


def hashed(report: dict[str, Any]) -> str:
    """A requirements file with the hashes in a report of pip."""
    found = (
        (one["metadata"]["name"].lower(), one["metadata"]["version"], one["download_info"]["archive_info"]["hashes"])
        for one in report["install"]
    )
    return "".join(f"{name}=={version} --hash=sha256:{hashes['sha256']}\n" for name, version, hashes in sorted(found))


def _said(*command: str, folder: Path = ROOT) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout


def _commit(repository: str, tag: str) -> str:
    refs = (f"refs/tags/{tag}^{{}}", f"refs/tags/{tag}", f"refs/heads/{tag}")  # an annotated tag's commit comes first
    lines = _said("git", "ls-remote", f"https://github.com/{repository}", *refs).splitlines()
    commits = {ref: commit for commit, ref in (line.split("\t") for line in lines)}
    return next(commits[ref] for ref in refs if ref in commits)


def _digest(image: str) -> str:
    form = "{{.Manifest.Digest}}"
    return _said("docker", "buildx", "imagetools", "inspect", image, "--format", form).strip()


def _rewrite(paths: list[Path], change: Callable[[str], str]) -> None:
    for path in paths:
        path.write_text(change(path.read_text()))


def main(wanted: list[str]) -> int:
    """Do what is asked; returns the exit status."""
    workflows = sorted((ROOT / WORKFLOWS).glob("*.yml"))
    match wanted:
        case ["--check"]:
            faults = [f"{path.name}: {one}" for path in workflows for one in unpinned(path.read_text())]
            print("\n".join(faults) or "every action is pinned by commit")
            return bool(faults)
        case ["actions"]:
            _rewrite(workflows, lambda text: with_commits(text, _commit))
        case ["images"]:
            _rewrite([ROOT / name for name in IMAGES], lambda text: with_digests(text, _digest))
        case ["packages"]:
            pip = (
                sys.executable,
                "-m",
                "pip",
                "install",
                "--dry-run",
                "--ignore-installed",
                "--quiet",
                "--report",
                "-",
            )
            (ROOT / BUILD_REQUIREMENTS).write_text(hashed(json.loads(_said(*pip, *BUILT_WITH))))
        case ["npm"]:
            flags = ("--package-lock-only", "--omit-lockfile-registry-resolved", "--ignore-scripts", "--no-audit")
            _said("npm", "install", *flags, folder=ROOT / "clients/typescript")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
