"""Roles that scopes give."""

import pytest

from ingest.roles import roles_by_scope


def test_entries_say_which_roles_a_scope_gives():
    assert roles_by_scope(["see=read", "a=b=write", "https://x/y=read+admin", "see=write"]) == {
        "see": {"read", "write"},
        "a=b": {"write"},
        "https://x/y": {"read", "admin"},
    }


@pytest.mark.parametrize("entry", ["", "read", "=read", "x=", "x=owner", "x=read+", "a b=read", 'a"b=read', "é=read"])
def test_an_entry_that_is_none_is_told(entry: str):
    with pytest.raises(ValueError, match="is not SCOPE=ROLE or SCOPE=ROLE"):
        roles_by_scope([entry])
