"""TOML that somebody wrote keeps its comments and its order."""

import tomllib

import pytest

from api.agents.json_text import Unreadable
from api.agents.toml_text import rewrite

WRITTEN = """# mine
model = "o4"   # the good one

[mcp_servers.docs]
command = "docs"
args = [ "a",
         "b" ] # two

[profiles.fast]
model = "small"
"""
ENTRY = {"command": "mnemolog", "args": ["mcp"]}


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        "",
        'model = "o4"',
        "[mcp_servers]\n",
        'mcp_servers = { docs = { command = "docs" } }\n',
        "[mcp_servers.docs]\ncommand = 'x'\n[mcp_servers.docs.env]\nA = '1'\n\n[[history]]\nn = 1\n",
    ],
)
def test_a_table_comes_and_goes_and_nothing_else_changes(text: str):
    value = tomllib.loads(text)
    servers = {**value.get("mcp_servers", {}), "mnemolog": ENTRY}
    installed = rewrite(text, {**value, "mcp_servers": servers})
    assert tomllib.loads(installed) == {**value, "mcp_servers": servers}
    assert tomllib.loads(rewrite(installed, value)) == value


def test_what_the_user_wrote_stays_line_for_line():
    value = tomllib.loads(WRITTEN)
    installed = rewrite(WRITTEN, {**value, "mcp_servers": {**value["mcp_servers"], "mnemolog": ENTRY}})
    assert set(WRITTEN.splitlines()) <= set(installed.splitlines())
    assert rewrite(installed, value).split() == WRITTEN.split()


def test_the_same_value_leaves_the_text_alone():
    assert rewrite(WRITTEN, tomllib.loads(WRITTEN)) == WRITTEN


def test_what_is_no_toml_is_refused_with_the_place():
    with pytest.raises(Unreadable, match="line 2, column"):
        rewrite("a = 1\nb = = 2\n", {})
