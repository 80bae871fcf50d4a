"""What clients call projects and sessions, as names that the log takes. Pure."""

from hashlib import blake2b
from pathlib import PurePosixPath

UNKNOWN = "unknown"
"""In the place of a name that is empty."""
MAX_CHARS = 512
_DIGEST_BYTES = 16


def name_of(text: str) -> str:
    """The text as a name: without NUL, at most MAX_CHARS long; of two long texts that differ the names differ."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(text) > MAX_CHARS:
        digest = blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
        text = f"{text[: MAX_CHARS - len(digest) - 1]}-{digest}"
    return text or UNKNOWN


def project_of(folder: str | None) -> str:
    """The project that is worked on in a folder: the last part of its path; a Windows path is one part."""
    return name_of(PurePosixPath(folder or "").name)


def wanted_project(text: str | None) -> str | None:
    """The project that is asked for; None for all of them."""
    return name_of(text) if text else None
