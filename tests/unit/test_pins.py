"""What a release is built from is pinned, and the tool that renews the pins changes nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools.pin import BUILD_REQUIREMENTS, IMAGES, WORKFLOWS, hashed, main, unpinned, with_commits, with_digests

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = f"sha256:{'0f' * 32}"
LOCK = ROOT / "clients/typescript/package-lock.json"


def test_every_action_is_pinned_by_commit(capsys: pytest.CaptureFixture[str]):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "every action is pinned by commit\n"


def test_an_action_named_by_a_tag_or_a_branch_is_reported():
    workflow = f"- uses: a/b@v4\n- uses: a/c@{COMMIT} # v1\n  uses: d/e/f@release/v1\n"
    assert unpinned(workflow) == ["a/b@v4", "d/e/f@release/v1"]


def test_pinning_writes_the_commit_of_the_tag_and_keeps_the_tag():
    asked: list[tuple[str, str]] = []

    def commit_of(repository: str, tag: str) -> str:
        asked.append((repository, tag))
        return COMMIT

    pinned = with_commits(f"- uses: a/b/c@v4\n- uses: d/e@{'1' * 40} # v2\n  run: x@v1\n", commit_of)
    assert pinned == f"- uses: a/b/c@{COMMIT} # v4\n- uses: d/e@{COMMIT} # v2\n  run: x@v1\n"
    assert asked == [("a/b", "v4"), ("d/e", "v2")]
    for path in (ROOT / WORKFLOWS).glob("*.yml"):
        changed = with_commits(path.read_text(), lambda repository, tag: COMMIT)
        assert re.sub(r"@\w{40} # ", "@ # ", changed) == re.sub(r"@\w{40} # ", "@ # ", path.read_text())


def test_images_get_a_digest_behind_their_tag_and_a_second_time_a_newer_one():
    for name in IMAGES:
        text = (ROOT / name).read_text()
        pinned = with_digests(text, lambda image: DIGEST)
        assert f"python:3.11-slim@{DIGEST}" in pinned
        assert not re.search(r"&mnemolog mnemolog:\S+@", pinned)
        assert with_digests(pinned, lambda image: DIGEST) == pinned
        assert pinned.replace(f"@{DIGEST}", "") == text


def test_what_builds_the_packages_has_hashes():
    lines = (ROOT / BUILD_REQUIREMENTS).read_text().splitlines()
    assert {line.partition("==")[0] for line in lines} >= {"build", "setuptools", "wheel"}
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line)] == []


def test_a_report_of_pip_becomes_a_requirements_file():
    report: dict[str, Any] = {
        "install": [
            {"metadata": {"name": "B", "version": "2"}, "download_info": {"archive_info": {"hashes": {"sha256": "f"}}}},
            {"metadata": {"name": "a", "version": "1"}, "download_info": {"archive_info": {"hashes": {"sha256": "0"}}}},
        ]
    }
    assert hashed(report) == "a==1 --hash=sha256:0\nb==2 --hash=sha256:f\n"


def test_the_lock_of_the_typescript_client_agrees_with_its_package_and_names_no_registry():
    package = json.loads((LOCK.parent / "package.json").read_text())
    packages = json.loads(LOCK.read_text())["packages"]
    assert packages[""]["devDependencies"] == package["devDependencies"]
    for name, version in package["devDependencies"].items():
        assert packages[f"node_modules/{name}"]["version"] == version
    assert [name for name, one in packages.items() if name and not one.get("integrity")] == []
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name in packages if name and not name.startswith("node_modules/")] == []  # of another checkout


def test_the_notice_names_the_license_of_hnswlib():
    assert "hnswlib 0.8 (github.com/nmslib/hnswlib), Apache License, Version 2.0" in (ROOT / "NOTICE").read_text()
