"""Which files a glob pattern names, and which a tool call edits."""

import time

import pytest

from projections.text.globs import edited_files, names_file

MATCHING = {
    "src/pool/**": "/home/ada/shop/src/pool/deep/core.py",
    "src/pool": "src/pool/core.py",
    "./src/*.py": "/shop/src/core.py",
    "src/**/core.py": "src/core.py",
    "**/test_*.py": "tests/unit/test_pool.py",
    "src\\pool\\**": "C:\\shop\\src\\pool\\core.py",
}
OTHERS = {
    "src/pool/**": "src/poolside/core.py",
    "src/*.py": "src/deep/core.py",
    "README.md": "OLD_README.md",
    "src/pool/core.py": "src/pool",
    "/": "src/core.py",
}


@pytest.mark.parametrize(("pattern", "path"), MATCHING.items())
def test_pattern_names_a_file_whose_path_ends_like_it(pattern: str, path: str):
    assert names_file(pattern, path)


@pytest.mark.parametrize(("pattern", "path"), OTHERS.items())
def test_pattern_names_no_other_file(pattern: str, path: str):
    assert not names_file(pattern, path)


def test_pattern_of_many_wildcards_is_matched_quickly():
    began = time.perf_counter()
    assert not names_file("/".join(["**", "*a*"] * 60 + ["c"]), "/".join(["aaaaaaaa"] * 500 + ["b"]))
    assert time.perf_counter() - began < 1.0


def test_edited_file_is_at_the_beginning_of_an_editors_input():
    assert edited_files("Edit", "/shop/src/pool.py old text") == ["/shop/src/pool.py"]
    assert edited_files("write_file", "") == edited_files("Bash", "/shop/run.sh") == []


def test_patch_edits_each_file_that_it_names():
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n*** Add File: src/b c.py\n+y\n*** Move to: src/d.py\n"
    assert edited_files("apply_patch", patch) == ["src/a.py", "src/b c.py", "src/d.py"]
