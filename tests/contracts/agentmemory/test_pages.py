"""Pages for people, and what the door says of itself."""

import pytest

from tests.contracts.agentmemory.calling import Api


@pytest.mark.covers("GET /", "GET /viewer", "GET /agentmemory/viewer")
@pytest.mark.parametrize("path", ["/viewer", "/agentmemory/viewer"])
def test_the_viewer_is_a_page_that_keeps_to_itself(api: Api, path: str):
    page = api.http.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src" in page.headers["content-security-policy"]
    assert "<html" in page.text


@pytest.mark.covers("GET /")
def test_the_port_answers(api: Api):
    assert api.http.get("/").status_code < 500


@pytest.mark.covers("GET /favicon.svg")
def test_the_viewer_has_an_icon(api: Api):
    icon = api.http.get("/favicon.svg")
    assert icon.status_code == 200
    assert "<svg" in icon.text


@pytest.mark.covers("GET /agentmemory/openapi.json", "GET /agentmemory/docs")
def test_the_door_has_a_document_of_its_own_beside_that_of_the_port(api: Api):
    described, of_the_port = (api.http.get(f"{below}/openapi.json").json() for below in ("/agentmemory", ""))
    assert "/agentmemory/observe" in described["paths"]
    assert "/v1/observations" in of_the_port["paths"]
    assert not described["paths"].keys() & of_the_port["paths"].keys()
    page = api.http.get("/agentmemory/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "/agentmemory/observe" in page.text
