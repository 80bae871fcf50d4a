"""Embeddings from any server with OpenAI's `POST <base URL>/embeddings`: OpenAI, Ollama, vLLM, TEI, LocalAI."""

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import httpx
import numpy as np
from numpy.typing import NDArray

from ingest.platform.addresses import proxy_options
from projections.vectors.embedder import (
    EmbeddingServiceRefused,
    EmbeddingServiceUnavailable,
    InvalidEmbeddingResponse,
    encodable,
    unit_rows,
)

MAX_BATCH = 128
MAX_WAIT_S = 30.0
FIRST_WAIT_S = 0.5
# Servers refuse a text beyond their window, and only they can count its tokens: two characters a token fits nearly any.
CHARACTERS_PER_TOKEN = 2


class OpenAICompatibleEmbedder:
    """A remote model. Retries temporary failures (429, 5xx, no connection, timeout), then raises
    EmbeddingServiceUnavailable; any other error is EmbeddingServiceRefused, a wrong answer InvalidEmbeddingResponse."""

    def __init__(
        self,
        base_url: str,
        model: str,
        dimensions: int,
        *,
        api_key: str = "",
        max_tokens: int = 8191,
        request_dimensions: bool = False,
        timeout_s: float = 30.0,
        attempts: int = 4,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`request_dimensions`: ask the server to shorten its vectors, which only some models can."""
        self.model = f"openai/{model}:{dimensions}"
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self._url = base_url.rstrip("/") + "/embeddings"
        self._body: dict[str, object] = {"model": model, "encoding_format": "float"}
        if request_dimensions:
            self._body["dimensions"] = dimensions
        self._attempts = attempts
        self._sleep = sleep
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._key = api_key
        # texts and key go to the configured host alone, wherever that points
        self._client = httpx.Client(
            timeout=timeout_s, headers=headers, follow_redirects=False, **proxy_options(base_url)
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimensions) float32, rows of unit length in the order of the texts."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), MAX_BATCH):
            limit = self.max_tokens * CHARACTERS_PER_TOKEN
            batch = [encodable(text[:limit]) or " " for text in texts[start : start + MAX_BATCH]]  # OpenAI refuses ""
            vectors[start : start + len(batch)] = self._vectors(self._post(batch), len(batch))
        return vectors

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, texts: Sequence[str]) -> httpx.Response:
        reason = "never tried"
        for attempt in range(self._attempts):
            wait_s = FIRST_WAIT_S * 2**attempt
            try:
                response = self._client.post(self._url, json=self._body | {"input": list(texts)})
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return response
                if response.status_code != 429 and response.status_code < 500:
                    # some servers quote the key
                    detail = response.text.replace(self._key, "[key]") if self._key else response.text
                    raise EmbeddingServiceRefused(self._url, response.status_code, detail[:500])
                reason = f"HTTP {response.status_code}"
                wait_s = retry_after_s(response) or wait_s
            if attempt + 1 < self._attempts:
                self._sleep(min(wait_s, MAX_WAIT_S))
        raise EmbeddingServiceUnavailable(self._url, self._attempts, reason)

    def _vectors(self, response: httpx.Response, expected: int) -> NDArray[np.float32]:
        """(expected, dimensions) unit rows, put in the order of their `index`, as the contract lets servers answer."""
        try:
            answer = cast(dict[str, Any], response.json())
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            indexes = [int(row["index"]) for row in rows]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidEmbeddingResponse(self._url, f"not an embeddings response: {error!r}") from error
        error = ""
        if indexes != list(range(expected)):
            error = f"sent {expected} texts, but received {len(indexes)} rows with other indexes"
        elif vectors.shape != (expected, self.dimensions):
            error = f"vectors of {vectors.shape[-1]} dimensions, not {self.dimensions}"
        elif not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            error = "a vector is zero or not finite"
        if error:
            raise InvalidEmbeddingResponse(self._url, error)
        return unit_rows(vectors)


def retry_after_s(response: httpx.Response) -> float | None:
    """The seconds of a Retry-After header; None without one, or if it is a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None
