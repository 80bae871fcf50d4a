"""Without the compiled module, or with another version of it, nothing starts, and the message says what to do."""

import runpy
import sys
from types import SimpleNamespace

import pytest

from projections.kernel import module


def message_with(monkeypatch: pytest.MonkeyPatch, kernel: object) -> str:
    """Return the message of the error that importing the module raises if this is `mnemolog_kernel`."""
    monkeypatch.setitem(sys.modules, "mnemolog_kernel", kernel)
    with pytest.raises(ImportError) as caught:
        runpy.run_path(str(module.__file__))
    return str(caught.value)


def test_a_missing_module_is_an_error(monkeypatch: pytest.MonkeyPatch):
    message = message_with(monkeypatch, None)
    assert "mnemolog-kernel cannot be imported" in message
    assert f"version {module.VERSION} is needed" in message
    assert "pip install" in message
    assert "make install" in message


def test_a_module_of_another_version_is_an_error(monkeypatch: pytest.MonkeyPatch):
    message = message_with(monkeypatch, SimpleNamespace(VERSION=6))
    assert "mnemolog-kernel has version 6" in message
    assert f"version {module.VERSION} is needed" in message
    assert "pip install" in message
    assert "make install" in message
