"""The URL of a cluster: some of its nodes, and how to connect to any of them."""

import pytest

from ingest.errors import InvalidSetting
from ingest.platform.addresses import is_cluster
from ingest.platform.cluster import parse_cluster_url
from ingest.platform.cluster.topology import Address


def test_several_nodes_are_named_by_comma():
    nodes, options = parse_cluster_url("redis+cluster://a:7000,b:7001,[::1]:7002/")
    assert nodes == [Address("a", 7000), Address("b", 7001), Address("::1", 7002)]
    assert options == {}


def test_a_login_and_options_hold_for_every_node():
    nodes, options = parse_cluster_url("redis+cluster://ada:s%40crt@a,b:7001?protocol=3")
    assert nodes == [Address("a", 6379), Address("b", 7001)]
    assert options == {"username": "ada", "password": "s@crt", "protocol": "3"}


def test_tls_is_for_every_node():
    _, options = parse_cluster_url("rediss+cluster://a:7000,b:7001")
    assert options["connection_class"].__name__ == "SSLConnection"


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "redis+cluster://a:seven", "redis+cluster://a:7000/3", "redis+cluster://,"]
)
def test_what_cannot_be_a_cluster_is_refused_by_name(url: str):
    with pytest.raises(InvalidSetting, match="REDIS_URL"):
        parse_cluster_url(url)


def test_only_these_schemes_are_a_cluster():
    assert is_cluster("redis+cluster://a:1")
    assert is_cluster("rediss+cluster://a:1")
    assert not any(map(is_cluster, ("redis://a:1", "rediss://a:1", "unix:///run/valkey.sock", "")))
