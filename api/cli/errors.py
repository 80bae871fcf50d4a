"""Why a request to a server failed. Nothing here loads an HTTP client, which `mnemolog up` does not need."""

import re
from typing import Any


class ClientError(Exception):
    """A request failed: `code` and `message` are the server's `code` and `detail`."""

    exit_code = 1

    def __init__(
        self, code: str, message: str, *, field: str | None = None, retry_after: float | None = None, status: int = 0
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.retry_after, self.status = code, message, field, retry_after, status
        if code == "invalid" and status == 422:  # a value of the command line, which only the server could check
            self.exit_code = 2


class ServerUnreachable(ClientError):
    """Nothing answers at the URL."""

    exit_code = 3

    def __init__(self, url: str, reason: str = "") -> None:
        advice = "start one with `mnemolog up`, or name another one with --url or MNEMOLOG_URL"
        super().__init__("unreachable", reason or f"no server at {url}; {advice}")


class NotMnemolog(ClientError):
    """Another program answers at the URL."""

    def __init__(self, url: str, answer: str, **fields: Any) -> None:
        message = f"{url} {answer}; is it a mnemolog server? Another program may use the port, or it needs "
        message += "http:// instead of https://" if url.startswith("https:") else "https:// instead of http://"
        super().__init__("not_mnemolog", message, **fields)


class InvalidUrl(ClientError):
    """Not an HTTP URL."""

    exit_code = 2

    def __init__(self, url: str) -> None:
        suggestion = f"; did you mean http://{url}?" if re.fullmatch(r"[\w.-]+(:\d+)?(/.*)?", url) else ""
        super().__init__("invalid_url", f"{url!r} is not an http:// or https:// address{suggestion}", field="url")
