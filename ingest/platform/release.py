"""Which release this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def release() -> str:
    """The installed release; empty when run from a source tree."""
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return ""
