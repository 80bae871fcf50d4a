"""What can go wrong while asking a language model: one class per decision a caller can make."""

from ingest.errors import MnemologError


class LlmError(MnemologError):
    """A language model gave no answer that can be used."""

    code = "llm_failed"


class LlmUnavailable(LlmError):
    """The server is down, too busy (429, 5xx) or too slow: ask again later.

    `maybe_billed`: it took the request and never answered, so it may have done the work all the same.
    """

    def __init__(self, url: str, reason: str, *, maybe_billed: bool = False) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason
        self.maybe_billed = maybe_billed


class LlmRefused(LlmError):
    """The server refused the request (any other 4xx): the same request again will not help.

    `blames_input`: the status is one that a text can cause (too long, filtered), not a wrong key or model name.
    """

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"{url}: HTTP {status}: {detail}")
        self.url = url
        self.status = status
        self.detail = detail
        self.blames_input = status in (400, 413, 422)


class LlmUnusable(LlmError):
    """The model answered, and the answer is not the JSON asked for. It cost `tokens` all the same."""

    def __init__(self, model: str, reason: str, tokens: int) -> None:
        super().__init__(f"{model}: {reason}")
        self.model = model
        self.reason = reason
        self.tokens = tokens
