"""Sends signed messages to webhook receivers: Standard Webhooks, as MCP's Events extension profiles them.

A host is resolved for every message, every address is checked, and the connection goes to a checked address: a name
that resolves to a public address now and to a private one later reaches nothing. Redirects and proxies are not used,
for the same reason. What a receiver answers is never shown, only the category of a failure.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hmac import compare_digest, digest
from ipaddress import ip_address, ip_network
from secrets import token_bytes, token_urlsafe
from socket import SOCK_STREAM
from time import time
from typing import Any, NamedTuple, Protocol

import httpx
from msgspec import DecodeError, json

from ingest.errors import CommandRejected
from ingest.platform.addresses import fault_of_url

TIMEOUT_S = 10.0
ANSWER_BYTES = 16 << 10
BODY_BYTES = 256 << 10
"""Receivers can refuse larger bodies."""
SECRET = "whsec_"
REVOKED = {"code": -32024, "message": "Forbidden", "data": {"reason": "Access revoked"}}
"""The error of a subscription that ended with its owner's access."""
_NAT64 = ip_network("64:ff9b::/96")
"""Contains every IPv4 address, also private ones."""


class CallbackFailed(CommandRejected):
    """A receiver did not answer, or did not confirm that it wants deliveries; `reason` is a category of `Answer`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the receiver could not be verified: {reason}", "url")
        self.reason = reason


class Receiver(Protocol):
    """The receiver of a subscription. Each message is signed with all its secrets."""

    @property
    def id(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def secrets(self) -> Sequence[str]: ...


class Answer(NamedTuple):
    """A receiver's answer. `error` is empty, or connection_refused, timeout, http_3xx, http_4xx or http_5xx.

    `status` is 0 without an answer.
    """

    error: str
    status: int = 0
    body: bytes = b""


def is_public(address: str) -> bool:
    """Whether an address is globally routable, itself and the IPv4 address in it."""
    ip: Any = ip_address(address.partition("%")[0])
    if ip.version == 6:
        ip = ip.ipv4_mapped or ip.sixtofour or ip
    return ip.is_global and not ip.is_multicast and ip not in _NAT64


def new_secret() -> str:
    """Returns a random secret."""
    return SECRET + b64encode(token_bytes(32)).decode()


def check_secret(secret: str) -> None:
    """Raise CommandRejected unless it is `whsec_` and the base64 of 24 to 64 bytes."""
    with suppress(ValueError):
        if secret.startswith(SECRET) and 24 <= len(b64decode(secret[len(SECRET) :], validate=True)) <= 64:
            return
    raise CommandRejected("must be whsec_ followed by the base64 of 24 to 64 bytes", "secret")


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature in `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(digest(b64decode(secret[len(SECRET) :]), signed, "sha256")).decode()


class Sender:
    """Sends messages. `private`: receivers can have private addresses, and these can be http."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._tls = cache(httpx.create_ssl_context)  # takes 20 ms

    async def address_of(self, url: str) -> str:
        """An address of a URL's host; raises CommandRejected if it, or any other of the host, is not allowed."""
        if "@" in url or "#" in url or fault_of_url(url, secure=False, query=True):
            raise CommandRejected("must be an https:// address without credentials and fragment", "url")
        parts = httpx.URL(url)
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(parts.host, None, type=SOCK_STREAM)
        except (OSError, UnicodeError):
            raise CallbackFailed("connection_refused") from None
        public = {is_public(str(row[4][0])) for row in rows}
        if not self._private and False in public:
            raise CommandRejected("has a private address, which MNEMOLOG_WEBHOOK_PRIVATE does not allow", "url")
        if parts.scheme == "http" and True in public:
            raise CommandRejected("must be https://", "url")
        return str(rows[0][4][0])

    async def send(self, receiver: Receiver, message_id: str, message: Any) -> Answer:
        """POST a message, and return the answer after TIMEOUT_S at most.

        Each attempt has a timestamp and signatures of its own.
        """
        url = receiver.url
        target, content, timestamp = httpx.URL(url), json.encode(message), int(time())
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "Host": target.netloc.decode(),
            "X-MCP-Subscription-Id": receiver.id,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(
                signature(secret, message_id, timestamp, content) for secret in receiver.secrets
            ),
        }
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                # no proxies from the environment: they would resolve the host again
                httpx.AsyncClient(verify=self._tls(), trust_env=False, timeout=TIMEOUT_S) as client,
                client.stream(
                    "POST",
                    target.copy_with(host=await self.address_of(url)),
                    content=content,
                    headers=headers,
                    extensions={"sni_hostname": target.host},
                ) as response,
            ):
                answered = await anext(response.aiter_raw(ANSWER_BYTES), b"")
        except (TimeoutError, httpx.TimeoutException):
            return Answer("timeout")
        except (CommandRejected, httpx.HTTPError):
            return Answer("connection_refused")
        status = response.status_code
        return Answer("" if response.is_success else f"http_{status // 100}xx", status, answered)

    async def verify(self, receiver: Receiver) -> None:
        """Ask a receiver to return a challenge; raises CallbackFailed."""
        challenge = token_urlsafe()
        message = {"type": "verification", "challenge": challenge}
        answer = await self.send(receiver, control_id("verification"), message)
        if answer.error:
            raise CallbackFailed(answer.error)
        with suppress(DecodeError, UnicodeDecodeError):
            if compare_digest(json.decode(answer.body, type=dict[str, str]).get("challenge", ""), challenge):
                return
        raise CallbackFailed("challenge_failed")


def control_id(kind: str) -> str:
    """A new `webhook-id` for a message that is not an event."""
    return f"msg_{kind}_{token_urlsafe(8)}"
