"""What can go wrong while making vectors: one class per decision a caller can make."""

from ingest.errors import MnemologError
from ingest.secrets.redaction import redacted


class EmbeddingError(MnemologError):
    """An embedding could not be made."""

    code = "embedding_failed"


class UnknownEmbedder(EmbeddingError):
    """The configured embedder is not one that mnemolog knows: correct the configuration."""

    def __init__(self, spec: str, reason: str) -> None:
        super().__init__(f"embedder {redacted(spec)!r}: {reason}")
        self.spec = spec
        self.reason = reason


class EmbedderNotNamed(EmbeddingError):
    """The settings of this process do not name the embedder, so it is not used."""

    code = "embedder_not_named"

    def __init__(self) -> None:
        super().__init__(
            "neither MNEMOLOG_EMBEDDER nor MNEMOLOG_EMBEDDERS of this process names this embedder, so nothing is sent "
            "to it: add it to MNEMOLOG_EMBEDDERS of every API and worker process"
        )


class ModelUnavailable(EmbeddingError):
    """The model's files are missing, damaged or cannot be loaded on this machine: choose another embedder."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model}: {reason}")
        self.model = model
        self.reason = reason


class ExportTooInaccurate(ModelUnavailable):
    """The exported model's vectors differ too much from the original's on this machine."""

    def __init__(self, model: str, mean_cosine: float, required: float) -> None:
        super().__init__(model, f"mean cosine to the original {mean_cosine:.4f}, required {required}")
        self.mean_cosine = mean_cosine
        self.required = required


class EmbeddingServiceUnavailable(EmbeddingError):
    """The remote service did not answer, or not in time, after every attempt: try again later."""

    def __init__(self, url: str, attempts: int, reason: str) -> None:
        super().__init__(f"{url}: {reason} (after {attempts} attempts)")
        self.url = url
        self.attempts = attempts
        self.reason = reason


class EmbeddingServiceRefused(EmbeddingError):
    """The remote service refused the request (key, model name, input): trying again will not help."""

    def __init__(self, url: str, status: int, detail: str) -> None:
        super().__init__(f"{url}: HTTP {status}: {detail}")
        self.url = url
        self.status = status
        self.detail = detail


class InvalidEmbeddingResponse(EmbeddingError):
    """The remote service answered with something that is not the vectors asked for."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class WrongVectorLength(EmbeddingError):
    """A stored vector does not have the length its model says."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"expected {expected} bytes, got {actual}")
        self.expected = expected
        self.actual = actual
