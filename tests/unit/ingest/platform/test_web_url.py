"""Which addresses of web servers can be used."""

import pytest

from ingest.platform.addresses import fault_of_url


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example",
        "https://h:8443/realms/x/",
        "http://127.0.0.1:9000",
        "http://[::1]",
        "http://localhost/x",
    ],
)
def test_https_and_this_machine_can_be_used(url: str):
    assert fault_of_url(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "issuer.example",
        "ftp://h/x",
        "https://",
        "https://h:0",
        "https://h:x",
        "https://[",
        "https://h/a b",
        "https://h/\n",
    ],
)
def test_what_is_no_address_is_told(url: str):
    assert "is not an http:// or https:// address" in fault_of_url(url)


@pytest.mark.parametrize("url", ["https://me:s3cret@h", "https://h/#x", "https://h/?x=1"])
def test_users_fragments_and_queries_are_refused_and_not_repeated(url: str):
    fault = fault_of_url(url)
    assert "may not have" in fault
    assert "s3cret" not in fault


def test_a_query_can_be_allowed():
    assert fault_of_url("https://h/keys?policy=x", query=True) == ""
    assert fault_of_url("https://h/keys?x#y", query=True)


def test_plain_http_to_another_machine_is_refused_where_it_has_to_be_secure():
    assert "must be an https:// address" in fault_of_url("http://issuer.example")
    assert fault_of_url("http://memory.example", secure=False) == ""
