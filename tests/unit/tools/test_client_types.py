"""The generated modules of the Python client are those of this checkout's OpenAPI document."""

import pytest

from tools.client_types import FOLDER, modules

MODULES = modules()


@pytest.mark.parametrize("name", MODULES)
def test_the_generated_module_is_what_the_openapi_document_gives_now(name: str):
    """After a change of the API, `make types` writes it again."""
    assert (FOLDER / f"{name}.py").read_text() == MODULES[name]
