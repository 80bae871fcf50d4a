"""The fields of what is written, as keyword arguments. Limits and defaults are in the server's docs/api.md."""

from typing import Literal

from mnemolog_client.generated.fields import *  # noqa: F403

Visibility = Literal["public", "shared", "private"]
Trust = Literal["user_stated", "agent_concluded", "imported", "tool_output", "external"]
"""Trust classes, from high to low."""
Verdict = Literal["helped", "misled", "wrong", "outdated"]
EdgeType = Literal["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"]
