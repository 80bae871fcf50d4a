"""The compiled module, if it is installed: the inner loops of recall and of reading texts.

It only does what a Python function next to its caller does, the reference, and gives the same (tests/unit/kernel). That
function runs where the module is missing. Nothing else imports `mnemolog_kernel`.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

INSTALLED = find_spec("mnemolog_kernel") is not None
if INSTALLED or TYPE_CHECKING:
    import mnemolog_kernel as native
else:
    native = None

VERSION = 7
"""Of the functions that this release calls; a module of another version is not used."""
NATIVE = INSTALLED and native.VERSION == VERSION
"""Whether the module is usable; `native` must not be touched otherwise."""

__all__ = ["INSTALLED", "NATIVE", "VERSION", "native"]
