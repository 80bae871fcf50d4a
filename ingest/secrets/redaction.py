"""Secrets out of logs: what looks like a key or a bearer, what addresses carry as one, the server's own secrets, and
whatever is taken out of writes.

A formatter, so that it also covers tracebacks and what other packages log. It is the last net, not the first: nothing
here logs a secret on purpose.
"""

import json
import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from ingest.platform import tracing
from ingest.platform.settings import Settings
from ingest.secrets.scrub import scrub_text

HIDDEN = "[redacted]"
SHORTEST = 6
"""A configured secret shorter than this is a word that logs contain for other reasons."""
_SHAPES = (
    re.compile(r"(mnk_[0-9A-Za-z]{12}_)[0-9A-Za-z]+"),
    re.compile(r"(?i)(bearer[ +]+)[^\s\"',)}\]]+"),
    re.compile(r"(?i)([?&](?:token|secret|key|api_key|access_token|password)=)[^&\s\"']+"),
    re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"),
)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what is, or looks like, a secret; a key keeps its id, which is public."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    for shape in _SHAPES:
        text = shape.sub(rf"\g<1>{HIDDEN}", text)
    return text


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """The secrets that settings have, the longest first; too short ones are left out."""
    password = urlsplit(settings.redis_url or "").password
    secrets = {settings.secret, settings.embedder_key, settings.llm_key, settings.hf_token, password}
    return tuple(sorted((secret for secret in secrets if secret and len(secret) >= SHORTEST), key=len, reverse=True))


LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr(settings: Settings) -> None:
    """Set up the logging of a process."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter_of(settings))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])


def formatter_of(settings: Settings) -> logging.Formatter:
    """How a process writes its log."""
    kind = JsonFormatter if settings.log_format == "json" else RedactingFormatter
    return kind(LINE, secrets_of(settings))


class RedactingFormatter(logging.Formatter):
    """Formats like any other, and redacts what comes of it."""

    def __init__(self, form: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(form)
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, traceback and all, without secrets."""
        return self._without_secrets(super().format(record))

    def _without_secrets(self, text: str) -> str:
        return scrub_text(redacted(text, self._secrets))


class JsonFormatter(RedactingFormatter):
    """One JSON object a line, `time` first; with the request and the trace that it was logged in, where there are."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, with a traceback in `exception`, without secrets."""
        ids = tracing.ids()
        exception = self.formatException(record.exc_info) if record.exc_info else ""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._without_secrets(record.getMessage()),
            "exception": self._without_secrets(exception),
            "request_id": self._without_secrets(tracing.request_id.get()),  # its caller chose it
            **({} if ids is None else ids._asdict()),
        }
        return json.dumps({name: value for name, value in fields.items() if value or name == "message"})
