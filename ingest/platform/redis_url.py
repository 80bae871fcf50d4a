"""What a Redis URL names. Pure, and without redis-py: the settings of every command are read with it."""

from urllib.parse import urlsplit

CLUSTER_SCHEMES = ("redis+cluster://", "rediss+cluster://")
FORMS = "redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH or redis+cluster://HOST:PORT,HOST:PORT"


def is_cluster(url: str) -> bool:
    """Whether it names a Redis Cluster: `redis+cluster://host:port,host:port`."""
    return url.startswith(CLUSTER_SCHEMES)


def is_redis_url(url: str) -> bool:
    """Whether it names a server, or a cluster, as far as can be told without asking it."""
    try:
        parts = urlsplit(url)
        if is_cluster(url):
            return True  # its client says what is wrong with which node
        port_can_be = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path)
    return parts.scheme in ("redis", "rediss") and bool(parts.hostname) and port_can_be


def place_of(url: str) -> str:
    """Where the server is, without user and password, for people."""
    if url.startswith("unix://"):
        return urlsplit(url).path
    return url.partition("://")[2].rpartition("@")[2].partition("/")[0].partition("?")[0]


SEARCH_SCHEMES = ("redis-search", "rediss-search")


def search_engine_of(index: str, log: str | None) -> str | None:
    """The URL of the search engine that a setting of the index names: `redis-search` is the log's own server.

    None for the embedded index. Raises ValueError for what is neither, or has no server.
    """
    if index in ("", "embedded"):
        return None
    scheme, separator, rest = index.partition("://")
    if scheme not in SEARCH_SCHEMES or (not separator and scheme != SEARCH_SCHEMES[0]):
        raise ValueError("it is none of embedded, redis-search, redis-search://HOST:PORT, rediss-search://HOST:PORT")
    url = f"{scheme.removesuffix('-search')}://{rest}" if separator else log or ""
    if not is_redis_url(url):
        raise ValueError("it names no server" if separator else "redis-search alone is the log's server: set REDIS_URL")
    if is_cluster(url):
        raise ValueError("a cluster cannot be the search engine yet: name one server")
    return url
