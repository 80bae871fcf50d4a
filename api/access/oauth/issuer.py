"""The keys of the issuer, as one API process knows them: fetched when a token needs them, and kept.

A request waits for a fetch only while its key is not known, or once in FRESH_S; all that wait share one. A key that
nobody has heard of has the issuer asked again, at most every AGAIN_S, whatever callers send. While the issuer cannot be
reached, what is known counts for STALE_S. Nothing is followed elsewhere: no redirects, and no key over plain HTTP but
from this machine.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

from api.access.oauth.rules import TokenRules
from api.access.oauth.tokens import SigningKey, signing_keys
from ingest.errors import IssuerUnavailable
from ingest.platform.addresses import fault_of_url, proxy_options

logger = logging.getLogger(__name__)

FRESH_S = 300.0
"""How long a key counts that the issuer has taken back."""
AGAIN_S = 10.0  # callers choose the key id, so without it anyone could make this server flood the issuer
STALE_S = 3600.0  # an outage of the issuer should not lock everyone out, a forgotten key should not work forever
FETCH_S = 5.0
"""For the metadata and the keys together."""
MAX_BYTES = 256 << 10
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class _Metadata(msgspec.Struct):
    """What counts of RFC 8414, section 2, and of OpenID Connect Discovery 1.0, section 3."""

    issuer: str
    jwks_uri: str


class _Unusable(Exception):
    """The issuer's answer is not what it should be."""


class _NotThere(_Unusable):
    """There is nothing at this address."""


class IssuerKeys:
    """An issuer's keys. As a context it begins to fetch them, and lets the connections go at its end."""

    def __init__(self, rules: TokenRules, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._now_s = rules, now_s
        self._http = httpx.AsyncClient(
            headers=_HEADERS, timeout=FETCH_S, follow_redirects=False, **proxy_options(rules.jwks or rules.issuer)
        )
        self._keys: Mapping[str, SigningKey] = {}
        self._error = "they were not read yet"
        self._begun_s = self._read_s = -math.inf
        self._fetching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._http.aclose()

    async def find(self, kid: str) -> SigningKey | None:
        """The key of this id; None where the issuer has none. Raises IssuerUnavailable where nobody can tell."""
        exists = kid in self._keys
        age_s = self._now_s() - self._begun_s
        begin = age_s >= (FRESH_S if exists and not self._error else AGAIN_S)
        if begin:
            self._begin()
        if self._fetching is not None and (begin or not exists):
            await asyncio.shield(self._fetching)  # a caller that disconnects must not cancel it for the others
        if self._error and (kid not in self._keys or self._now_s() - self._read_s > STALE_S):
            raise IssuerUnavailable(f"the keys of the issuer {self._rules.issuer} cannot be read: {self._error}")
        return self._keys.get(kid)

    def _begin(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._begun_s = self._now_s()
            self._fetching = asyncio.create_task(self._fetch(), name="keys of the issuer")

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_S):
                address = self._rules.jwks or await self._address_of_keys()
                document = await self._get(address)
            self._keys = _usable(address, lambda: signing_keys(document))
            reason, self._read_s = "", self._now_s()
        except _Unusable as error:
            reason = str(error)
        except TimeoutError:
            reason = f"no answer within {FETCH_S:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{type(error).__name__}: {error}"
        if reason and reason != self._error:
            logger.warning("the keys of the issuer %s cannot be read: %s", self._rules.issuer, reason)
        self._error = reason

    async def _address_of_keys(self) -> str:
        """Where the issuer's metadata says that its keys are."""
        issuer = self._rules.issuer
        addresses = build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer)
        for address in addresses:
            try:
                document = await self._get(address)
            except _NotThere:
                continue
            metadata = _usable(address, lambda document=document: msgspec.json.decode(document, type=_Metadata))
            if metadata.issuer != issuer:  # RFC 8414, section 3.3
                raise _Unusable(
                    f"{address} is of the issuer {metadata.issuer!r}: write MNEMOLOG_OAUTH_ISSUER like that"
                )
            if problem := fault_of_url(metadata.jwks_uri, query=True):
                raise _Unusable(f"{address}: jwks_uri {problem}")
            return metadata.jwks_uri
        raise _Unusable(f"there is no metadata at {', '.join(addresses)}; MNEMOLOG_OAUTH_JWKS can name the keys")

    async def _get(self, address: str) -> bytes:
        async with self._http.stream("GET", address) as response:
            if 400 <= response.status_code < 500:
                raise _NotThere(f"{address} answered HTTP {response.status_code}")
            if response.status_code != 200:
                raise _Unusable(f"{address} answered HTTP {response.status_code}")
            body = bytearray()
            async for part in response.aiter_raw():  # raw: a small compressed body could expand without limit
                body += part
                if len(body) > MAX_BYTES:
                    raise _Unusable(f"{address} answered more than {MAX_BYTES:,} bytes")
            return bytes(body)


def _usable(address: str, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _Unusable(f"{address}: {error}") from None
