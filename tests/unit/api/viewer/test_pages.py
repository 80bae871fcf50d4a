"""The viewer's files: what they load, and what a browser may do with them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from api.viewer.room import FILES, HEADERS, POLICY

MODULES = {name: content.decode() for name, content in FILES.items() if name.endswith(".js")}
IMPORT = re.compile(r'^(?:import|export) [^;]*?from "([^"]+)"', re.MULTILINE)
PARSED_AS_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|"
    r"\beval\(|new Function"
)


def test_every_file_that_is_loaded_is_served_and_every_one_served_is_loaded():
    loaded = {"page.html", *re.findall(r'/viewer/([\w.]+)"', FILES["page.html"].decode())}
    waiting = [name for name in loaded if name in MODULES]
    while waiting:
        found = {name.removeprefix("./") for name in IMPORT.findall(MODULES[waiting.pop()])} - loaded
        loaded |= found
        waiting += found
    assert loaded == set(FILES)


def test_the_page_has_no_script_or_style_of_its_own():
    page = FILES["page.html"].decode()
    assert re.findall(r"<script[^>]*>([^<]*)", page) == [""]
    assert "<style" not in page
    assert not re.search(r"\s(?:style|on\w+)=", page)


@pytest.mark.parametrize("name", MODULES)
def test_no_module_parses_a_text_as_markup_or_as_code(name: str):
    assert not PARSED_AS_MARKUP.search(MODULES[name])


@pytest.mark.parametrize("name", [name for name in FILES if name != "favicon.svg"])
def test_no_file_names_another_server(name: str):
    addresses = set(re.findall(r"\b(?:https?|wss?)://[^\s\"'`)]+", FILES[name].decode()))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_this_server_and_nothing_else():
    sources = {source for part in POLICY.split(";") for source in part.split()[1:]}
    assert sources == {"'none'", "'self'", "'script'"}
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in HEADERS


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_events_are_counted_once_although_some_were_missed_while_they_were_read(tmp_path: Path):
    program = (
        'import { history, missed, series } from "./activity.js";'
        "const first = history(); missed(); await Promise.all([first, history()]); console.log(series(3600e3, 1)[0]);"
    )
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "activity.js").write_text(MODULES["activity.js"])
    (tmp_path / "api.js").write_text(
        "export const get = async (path, { cursor }) => ({ entries: [{ at: new Date() }], next: !cursor });"
    )
    assert subprocess.check_output(["node", "--input-type=module", "--eval", program], cwd=tmp_path) == b"2\n"
