import pytest

from api.dialects.agentd.app import fault_answer
from ingest.errors import CommandRejected, Forbidden, LogUnavailable, MalformedRequest, NotFound, Overloaded


@pytest.mark.parametrize(
    ("status", "error", "told", "text"),
    [
        (422, CommandRejected("no"), 400, "invalid input: no"),
        (400, MalformedRequest("no"), 400, "invalid input: no"),
        (403, Forbidden("no"), 400, "invalid input: no"),
        (404, NotFound("there is none"), 404, "not found"),
        (409, Exception("no"), 409, "conflict: no"),
        (429, Overloaded("full"), 503, "service unavailable: full"),
        (503, LogUnavailable("away"), 503, "service unavailable: away"),
        (413, Exception("long"), 413, "long"),
        (500, Exception("a fault"), 500, "a fault"),
    ],
)
def test_a_fault_has_the_status_and_the_words_that_clients_know(status: int, error: Exception, told: int, text: str):
    answer = fault_answer(status, str(error), error)
    assert (answer.status_code, bytes(answer.body)) == (told, f'{{"error":"{text}"}}'.encode())
