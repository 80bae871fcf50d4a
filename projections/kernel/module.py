"""The compiled module: the inner loops of recall and of reading texts. Nothing else imports `mnemolog_kernel`.

Raises ImportError if the module is not installed, or is of another version than this release calls.
"""

VERSION = 8
"""Of the functions that this release calls."""
_ADVICE = "run `pip install --force-reinstall mnemolog`, or `make install` in a clone"

try:
    import mnemolog_kernel as native
except ImportError as error:
    raise ImportError(
        f"mnemolog-kernel cannot be imported ({error}), version {VERSION} is needed: {_ADVICE}"
    ) from error

if native.VERSION != VERSION:
    raise ImportError(f"mnemolog-kernel has version {native.VERSION}, version {VERSION} is needed: {_ADVICE}")

__all__ = ["VERSION", "native"]
