"""What the hooks of agentmemory report, as a command: for the APIs that take such reports, and the importers."""

from collections.abc import Mapping
from typing import Any

from ingest.commands.decide import Observe
from projections.text.compression import VALID_TYPES

KIND_CHARS = 64
UNKNOWN_PROJECT = "unknown"
HOOK_FIELD = "hookType"
"""Metadata with the hook that an observation is from. In the data it would look like part of the observation."""
IMAGE_FIELD, MODALITY_FIELD = "imageData", "modality"
"""Metadata with the image of an observation."""


def hook_observation(
    session_id: str,
    project: str,
    hook: str,
    data: Mapping[str, Any],
    *,
    kind: str = "",
    image: str = "",
    modality: str = "",
    **fields: Any,
) -> Observe:
    """The command that records a hook's event; `kind` if the caller knows it better than the hook.

    `image` names an image that the data had, `modality` says whether there was anything else.
    """
    return Observe(
        session_id=session_id,
        project=project if project.strip() else UNKNOWN_PROJECT,
        kind=kind if kind in VALID_TYPES else hook[:KIND_CHARS],
        data=dict(data),
        metadata={HOOK_FIELD: hook[:KIND_CHARS]}
        | ({IMAGE_FIELD: image} if image else {})
        | ({MODALITY_FIELD: modality} if modality else {}),
        **fields,
    )
