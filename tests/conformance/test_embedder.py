"""What every Embedder must do, run against each provider.

Left open: which vectors a model gives, and how it cuts a text beyond its window. `NoEmbedder` has no vectors to say
anything about; its contract is stated separately (tests/unit/projections/embedding/test_none.py).

The embedding queue is bounded: what does not fit is embedded later, and nothing is forgotten.
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from numpy.typing import NDArray
from replica_pen import PARTITIONS, TENANT, Pen
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from ingest.commands.decide import Caller, Observe
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys, embedding
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client
from projections.embedding.embed_job import BATCH, EmbeddingQueue, EmbedJob, LaterTexts
from projections.embedding.factory import REQUIRED_MEAN_COSINE, build_embedder, load_multilingual
from projections.embedding.live import Choice, LiveEmbedder, declare
from projections.embedding.onnx import OnnxEmbedder, mean_cosine
from projections.embedding.openai_compatible import MAX_BATCH, OpenAICompatibleEmbedder
from projections.embedding.sentence_transformer import SentenceTransformerEmbedder
from projections.health.samples import HealthSampler
from projections.index.comparing import cached_vectors, queue_to_embed
from projections.search_engine.layout import identity_of
from projections.store.feed import read_entry
from projections.store.redis_store import load, places
from projections.text.terms import terms
from projections.vectors.columns import TermRows
from projections.vectors.embedder import (
    STEP,
    Embedder,
    EmbedderNotNamed,
    EmbeddingServiceRefused,
    EmbeddingServiceUnavailable,
    InvalidEmbeddingResponse,
    ModelUnavailable,
    Urgency,
    cache_key,
    changed_place,
    chunk,
    embed_questions,
    unit_rows,
)
from projections.vectors.model_files import (
    FALLBACK_FILE,
    FALLBACK_MODEL,
    MULTILINGUAL_PACKAGE,
    STATIC_WEIGHTS_FILE,
    packaged_model,
)
from tests.conformance.test_vitals import Loaded
from tools.minilm import build as minilm
from tools.minilm.build import sample_texts, weights_folder

ROOT = Path(__file__).parents[2]
STUB_DIMENSIONS = 64
TEXTS = [
    "The user prefers green tea in the morning.",
    "Redis refused the connection",
    "",
    "def area(r): return 3.14159 * r ** 2",
    "the deployment of the payments service failed " * 12,
]
AWKWARD = ["\0", "a\0b", "\ud800", "🚀🐈", "用户喜欢喝绿茶", "​", "\n\n", "e\u0301", "\U0010ffff", " " * 500]


class EmbedderConformance:
    """Each provider subclasses this and gives the fixture `embedder`."""

    def test_rows_are_float32_of_unit_length(self, embedder: Embedder):
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimensions)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_the_identity_is_a_name_and_the_sizes_are_positive(self, embedder: Embedder):
        assert embedder.model
        assert "\0" not in embedder.model
        assert embedder.dimensions > 0
        assert embedder.max_tokens > 0

    def test_no_texts_give_no_rows(self, embedder: Embedder):
        vectors = embedder.embed([])
        assert vectors.shape == (0, embedder.dimensions)
        assert vectors.dtype == np.float32

    def test_rows_keep_the_order_of_the_texts(self, embedder: Embedder):
        forwards, backwards = embedder.embed(TEXTS), embedder.embed(TEXTS[::-1])
        assert (forwards * backwards[::-1]).sum(axis=1).min() > 0.99

    def test_a_text_embedded_alone_is_as_in_a_batch(self, embedder: Embedder):
        together = embedder.embed(TEXTS)
        alone = np.vstack([embedder.embed([text]) for text in TEXTS])
        assert (together * alone).sum(axis=1).min() > 0.99

    def test_more_texts_than_a_batch_are_all_embedded(self, embedder: Embedder):
        texts = [f"note {number}" for number in range(150)]
        vectors = embedder.embed(texts)
        assert vectors.shape == (150, embedder.dimensions)
        assert (vectors[[0, 70, 149]] * embedder.embed([texts[0], texts[70], texts[149]])).sum(axis=1).min() > 0.99

    def test_repeated_texts_get_the_same_vector(self, embedder: Embedder):
        first, other = embedder.embed(["likes tea", "likes tea"])
        assert np.allclose(first, other, atol=1e-5)

    def test_awkward_text_is_embedded_like_any_other(self, embedder: Embedder):
        """NUL, lone surrogates, emoji, other scripts, blanks: a vector, not an error."""
        vectors = embedder.embed(AWKWARD)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_similar_texts_are_closer_than_dissimilar_ones(self, embedder: Embedder):
        query, near, far = embedder.embed(
            ["green tea in the morning", "she drinks green tea every morning", "the build failed on a missing header"]
        )
        assert query @ near > query @ far + 0.2

    def test_a_very_long_text_gets_a_vector(self, embedder: Embedder):
        vectors = embedder.embed(["the lease was lost " * 50_000, "x" * 300_000])
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_threads_may_share_an_embedder(self, embedder: Embedder):
        expected = embedder.embed(TEXTS)
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(embedder.embed, [TEXTS] * 8))
        assert all((answer * expected).sum(axis=1).min() > 0.99 for answer in answers)


@pytest.fixture(scope="session")
def int8() -> OnnxEmbedder:
    return OnnxEmbedder(packaged_model())


@pytest.fixture(scope="session")
def int8_weights() -> OnnxEmbedder:
    return OnnxEmbedder(packaged_model(), graph=FALLBACK_FILE)


@pytest.fixture(scope="session")
def float32() -> OnnxEmbedder:
    return minilm.float32(weights_folder())


@pytest.fixture(scope="session")
def original() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(str(weights_folder()))


@pytest.fixture(scope="session")
def sample(original: SentenceTransformerEmbedder) -> NDArray[np.float32]:
    """What the original makes of the sample texts."""
    return original.embed(sample_texts())


class TestSentenceTransformer(EmbedderConformance):
    @pytest.fixture
    def embedder(self, original: SentenceTransformerEmbedder) -> Embedder:
        return original

    def test_a_model_of_a_directory_is_named_after_it(self, tmp_path: Path, original: SentenceTransformerEmbedder):
        folder = shutil.copytree(weights_folder(), tmp_path / "our-model")
        embedder = build_embedder(f"sentence-transformers:{folder}")
        assert (embedder.model, embedder.dimensions, embedder.max_tokens) == ("our-model:fp32", 384, 256)
        assert np.allclose(embedder.embed(TEXTS), original.embed(TEXTS), atol=1e-5)

    def test_a_model_that_is_not_here_is_not_downloaded(self):
        with pytest.raises(ModelUnavailable):
            build_embedder("sentence-transformers:nobody/no-such-model")


class TestOnnxInt8(EmbedderConformance):
    @pytest.fixture
    def embedder(self, int8: OnnxEmbedder) -> Embedder:
        return int8

    def test_it_agrees_with_the_original(self, embedder: Embedder, sample: NDArray[np.float32]):
        assert (embedder.embed(sample_texts()) * sample).sum(axis=1).mean() >= REQUIRED_MEAN_COSINE

    def test_a_vector_does_not_depend_on_the_batch(self, embedder: Embedder):
        """Not only nearly: neighbours share no quantisation scale, so a replay may batch as it likes."""
        texts = sample_texts()
        alone = np.vstack([embedder.embed([text]) for text in texts])
        assert np.allclose(embedder.embed(texts), alone, atol=1e-3)
        assert (embedder.embed(texts) * alone).sum(axis=1).min() > 0.9999

    def test_chunks_fit_the_window(self, int8: OnnxEmbedder):
        """Hence nothing a chunk says is cut away."""
        documents = [*sample_texts(), (ROOT / "tools/minilm/build.py").read_text()]
        counts = [token_count(int8, part) for text in documents for part in chunk(text)]
        assert max(counts) < int8.max_tokens

    def test_the_model_is_loaded_when_asked_to(self):
        embedder = OnnxEmbedder(packaged_model(), threads=2)
        thread = threading.Thread(target=embedder.open)
        thread.start()
        thread.join()
        assert embedder.embed(["likes tea"]).shape == (1, 384)

    def test_its_static_vectors_are_those_of_a_static_embedding(self, int8: OnnxEmbedder):
        """The folder is in the format of sentence-transformers, whose mean of a text's terms has the same direction."""
        table = int8.table
        assert table is not None
        texts = [" ".join(terms(text)) for text in sample_texts()[:40]]
        theirs: Any = SentenceTransformer(
            modules=[StaticEmbedding.load(str((packaged_model() / STATIC_WEIGHTS_FILE).parent))], device="cpu"
        )
        assert np.allclose(table.embed(TermRows.of(texts)), unit_rows(theirs.encode(texts)), atol=1e-5)


class TestInt8WeightsInFloat32(EmbedderConformance):
    """What is used where int8 arithmetic is not exact enough."""

    @pytest.fixture
    def embedder(self, int8_weights: OnnxEmbedder) -> Embedder:
        return int8_weights

    def test_it_is_nearer_to_the_original_than_int8(self, embedder: Embedder, sample: NDArray[np.float32]):
        assert embedder.model == FALLBACK_MODEL
        assert (embedder.embed(sample_texts()) * sample).sum(axis=1).mean() > 0.999

    def test_a_vector_does_not_depend_on_the_batch(self, embedder: Embedder):
        texts = sample_texts()
        alone = np.vstack([embedder.embed([text]) for text in texts])
        assert (embedder.embed(texts) * alone).sum(axis=1).min() > 0.9999


class TestFloat32(EmbedderConformance):
    """What the package is compared with when it is built, without torch."""

    @pytest.fixture
    def embedder(self, float32: OnnxEmbedder) -> Embedder:
        return float32

    def test_it_has_the_vectors_of_the_original(self, embedder: Embedder, sample: NDArray[np.float32]):
        assert (embedder.embed(sample_texts()) * sample).sum(axis=1).min() > 0.99999


@pytest.fixture(scope="session")
def multilingual() -> Embedder:
    return load_multilingual()


class TestMultilingual(EmbedderConformance):
    @pytest.fixture
    def embedder(self, multilingual: Embedder) -> Embedder:
        return multilingual

    def test_a_vector_does_not_depend_on_the_batch(self, embedder: Embedder):
        texts = [text for text in sample_texts() if len(text) < 500]
        alone = np.vstack([embedder.embed([text]) for text in texts])
        assert (embedder.embed(texts) * alone).sum(axis=1).min() > 0.999

    def test_the_same_weights_in_float32_are_as_near_to_the_original_as_in_int8(self):
        directory = packaged_model(MULTILINGUAL_PACKAGE)
        in_float32 = OnnxEmbedder(directory, graph=FALLBACK_FILE)
        assert in_float32.model == "multilingual-e5-small:int8-weights"
        assert (
            mean_cosine(in_float32, directory) > mean_cosine(OnnxEmbedder(directory), directory) >= REQUIRED_MEAN_COSINE
        )

    def test_texts_that_have_nothing_to_do_with_each_other_have_a_cosine_of_about_zero(self, embedder: Embedder):
        vectors = embedder.embed([text for text in sample_texts() if len(text) > 20])
        apart = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
        assert abs(apart.mean()) < 0.1

    def test_questions_have_other_vectors_than_texts(self, embedder: Embedder):
        texts = embedder.embed(TEXTS)
        assert 0.5 < (embed_questions(embedder, TEXTS) * texts).sum(axis=1).max() < 0.99

    async def test_a_log_with_vectors_of_the_former_multilingual_model_says_how_to_change_them(self, redis: Client):
        former = Choice(spec="multilingual", model="universal-sentence-encoder-multilingual-3:6bit", dimensions=512)
        await declare(redis, former)
        live = await LiveEmbedder(redis, build_embedder, frozenset({"multilingual"})).start("multilingual")
        assert (live.model, live.dimensions) == (former.model, former.dimensions)
        with pytest.raises(
            ModelUnavailable, match="`mnemolog admin rebuild --embedder 'multilingual'` makes new vectors"
        ):
            live.embed(["a"])

    def test_on_an_engine_its_own_vectors_are_searched(self, embedder: Embedder, int8: OnnxEmbedder):
        identity = identity_of(embedder)
        assert (identity.table, identity.vector_dimensions) == ("", 384)
        assert identity_of(int8).table

    def test_a_question_finds_what_means_the_same_in_every_language(self, embedder: Embedder):
        meanings = [
            ["The backup stopped last night", "Die Sicherung ist letzte Nacht stehen geblieben",
             "La copia de seguridad se detuvo anoche", "Резервная копия остановилась ночью", "备份昨晚停止了",
             "توقف النسخ الاحتياطي الليلة الماضية", "बैकअप कल रात रुक गया", "昨夜バックアップが止まりました"],
            ["Invoices are paid on Thursdays", "Rechnungen werden donnerstags bezahlt",
             "Las facturas se pagan los jueves", "Счета оплачиваются по четвергам", "发票每周四付款",
             "تُدفع الفواتير أيام الخميس", "बिलों का भुगतान गुरुवार को होता है", "請求書は木曜日に支払われます"],
            ["She prefers green tea", "Sie trinkt lieber grünen Tee", "Ella prefiere el té verde",
             "Она предпочитает зелёный чай", "她更喜欢绿茶",
             "هي تفضل الشاي الأخضر", "उसे हरी चाय ज़्यादा पसंद है", "彼女は緑茶のほうが好きです"],
        ]  # fmt: skip
        asked = embed_questions(embedder, [meaning[0] for meaning in meanings])
        for translations in zip(*meanings, strict=True):
            cosines = asked @ embedder.embed(translations).T
            assert cosines.argmax(axis=1).tolist() == [0, 1, 2], translations


def token_count(embedder: OnnxEmbedder, text: str) -> int:
    return len(embedder._tokenizer.encode(text).ids)  # pyright: ignore[reportPrivateUsage]


class TestOpenAICompatible(EmbedderConformance):
    @pytest.fixture
    def embedder(self, service: "StubService") -> Embedder:
        return service.client()


# The default model needs no torch.


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True)


def test_a_process_with_the_default_embedder_never_imports_torch(tmp_path: Path):
    done = run_python(
        "import sys; from pathlib import Path; from projections.embedding.factory import build_embedder\n"
        f"e = build_embedder('default', cache=Path({str(tmp_path)!r})); e.embed(['tea'])\n"
        "print([m for m in ('torch', 'sentence_transformers', 'transformers', 'onnx') if m in sys.modules], e.model)"
    )
    assert done.stdout.strip() == "[] all-MiniLM-L6-v2:int8"


# The remote provider against a server that answers badly.


class StubService:
    """An OpenAI-compatible server on loopback: bag-of-words vectors, and `answers` to be given before those."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.spoil: Callable[[dict[str, Any]], object] = lambda answer: answer
        self.waits: list[float] = []
        self._clients: list[OpenAICompatibleEmbedder] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def client(self, dimensions: int = STUB_DIMENSIONS, **options: Any) -> OpenAICompatibleEmbedder:
        made = OpenAICompatibleEmbedder(self.url, "stub", dimensions, sleep=self.waits.append, **options)
        self._clients.append(made)
        return made

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.requests.append(body)
                stub.headers.append({"path": self.path, **dict(self.headers)})
                default: tuple[int, dict[str, str], bytes] = (
                    200,
                    {},
                    json.dumps(stub.spoil(embeddings(body["input"]))).encode(),
                )
                status, headers, content = stub.answers.pop(0) if stub.answers else default
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def __enter__(self) -> "StubService":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self._server.shutdown()
        self._server.server_close()


def embeddings(texts: list[str]) -> dict[str, Any]:
    """An answer with its rows in reverse order, which the contract allows, and not of unit length."""
    rows = [{"index": at, "embedding": (3 * bag_of_words(text)).tolist()} for at, text in enumerate(texts)]
    return {"object": "list", "data": rows[::-1], "model": "stub"}


def bag_of_words(text: str) -> NDArray[np.float32]:
    vector = np.full((1, STUB_DIMENSIONS), 1e-3, dtype=np.float32)
    for word in re.findall(r"\w+", text.lower()):
        vector[0, hashlib.sha256(word.encode()).digest()[0] % STUB_DIMENSIONS] += 1
    return unit_rows(vector)[0]


@pytest.fixture
def service() -> Iterator[StubService]:
    with StubService() as stub:
        yield stub


def test_the_request_is_what_the_contract_says(service: StubService):
    service.client(api_key="secret", request_dimensions=True).embed(["a", ""])
    assert service.requests == [{"model": "stub", "encoding_format": "float", "dimensions": 64, "input": ["a", " "]}]
    assert service.headers[0]["path"] == "/v1/embeddings"
    assert service.headers[0]["Authorization"] == "Bearer secret"


def test_requests_hold_at_most_128_texts(service: StubService):
    service.client().embed(["a"] * 300)
    assert [len(request["input"]) for request in service.requests] == [MAX_BATCH, MAX_BATCH, 44]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_tried_again_with_growing_waits(service: StubService, status: int):
    service.answers = [(status, {}, b"busy")] * 3
    assert service.client().embed(["a"]).shape == (1, STUB_DIMENSIONS)
    assert service.waits == [0.5, 1.0, 2.0]


def test_the_servers_own_waiting_time_is_kept_within_bounds(service: StubService):
    service.answers = [(429, {"Retry-After": "7"}, b""), (429, {"Retry-After": "86400"}, b"")]
    service.client().embed(["a"])
    assert service.waits == [7, 30]


def test_a_server_that_stays_busy_is_unavailable(service: StubService):
    service.answers = [(503, {}, b"")] * 4
    with pytest.raises(EmbeddingServiceUnavailable) as raised:
        service.client().embed(["a"])
    assert str(raised.value).endswith(": HTTP 503 (after 4 attempts)")


def test_a_server_that_is_not_there_is_unavailable(service: StubService):
    client = OpenAICompatibleEmbedder("http://127.0.0.1:9/v1", "stub", 3, attempts=2, sleep=service.waits.append)
    with pytest.raises(EmbeddingServiceUnavailable):
        client.embed(["a"])
    client.close()
    assert service.waits == [0.5]


def test_a_refusal_is_not_tried_again(service: StubService):
    service.answers = [(401, {}, b"no such key")]
    with pytest.raises(EmbeddingServiceRefused) as raised:
        service.client().embed(["a"])
    assert (str(raised.value).endswith(": HTTP 401: no such key"), len(service.requests)) == (True, 1)


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "a row is missing": lambda answer: {"data": answer["data"][1:]},
    "an index comes twice": lambda answer: {"data": [answer["data"][0]] * 2},
    "no data": lambda answer: {},
    "not an object": lambda answer: [],
    "ragged": lambda answer: {"data": [answer["data"][0], {"index": 0, "embedding": [1.0]}]},
    "not numbers": lambda answer: {"data": [{**row, "embedding": "AAAA"} for row in answer["data"]]},
    "zeros": lambda answer: {"data": [{**row, "embedding": [0.0] * STUB_DIMENSIONS} for row in answer["data"]]},
    "not a number": lambda answer: {"data": [{**row, "embedding": [float("nan")] * 64} for row in answer["data"]]},
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_a_wrong_answer_is_refused(service: StubService, spoil: Callable[[dict[str, Any]], object]):
    service.spoil = spoil
    with pytest.raises(InvalidEmbeddingResponse):
        service.client().embed(["a", "b"])


def test_vectors_of_another_size_are_refused(service: StubService):
    with pytest.raises(InvalidEmbeddingResponse, match="64 dimensions, not 32"):
        service.client(dimensions=32).embed(["a"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(service: StubService, status: int):
    with StubService() as elsewhere:
        service.answers = [(status, {"Location": f"{elsewhere.url}/embeddings"}, b"")]
        with pytest.raises(EmbeddingServiceRefused):
            service.client(api_key="secret").embed(["a"])
        assert elsewhere.requests == []


def test_a_refusal_that_quotes_the_key_is_told_without_it(service: StubService):
    service.answers = [(401, {}, b"no such key: sk-8271-of-ours")]
    with pytest.raises(EmbeddingServiceRefused) as raised:
        service.client(api_key="sk-8271-of-ours").embed(["a"])
    assert str(raised.value).endswith(": no such key: [key]")


async def test_a_live_embedder_that_the_settings_do_not_name_is_sent_nothing(service: StubService, redis: Client):
    """As after an upgrade, or where another process with other settings has changed the record."""
    live = Choice(spec=f"openai:{service.url}|stub|{STUB_DIMENSIONS}", model="openai/stub:64", dimensions=64)
    await declare(redis, live)
    embedders = LiveEmbedder(redis, build_embedder, frozenset({"none"}))
    results = await embedders.start("none")
    with pytest.raises(ModelUnavailable, match="MNEMOLOG_EMBEDDERS"):
        results.embed(["a"])
    with pytest.raises(EmbedderNotNamed):
        await embedders.built(live.spec)
    assert service.headers == []
    named = await LiveEmbedder(redis, build_embedder, frozenset({"none", live.spec})).start("none")
    assert isinstance(named, OpenAICompatibleEmbedder)
    await asyncio.to_thread(named.embed, ["a"])
    named.close()
    assert len(service.headers) == 1


async def test_a_built_in_embedder_stays_live_when_the_settings_name_another(redis: Client):
    """As while a rebuild to the one that they name goes on."""
    await LiveEmbedder(redis, build_embedder, frozenset({"none"})).start("none")
    spec = "openai:http://127.0.0.1:9/v1|stub|3"
    assert (await LiveEmbedder(redis, build_embedder, frozenset({spec})).start(spec)).model == "none"


async def test_a_log_that_had_vectors_of_tokens_keeps_the_others(redis: Client, tmp_path: Path):
    plain = build_embedder("default", cache=tmp_path)
    await declare(redis, Choice(spec="default:late", model=f"{plain.model}+tokens", dimensions=plain.dimensions))
    live = await LiveEmbedder(redis, build_embedder, frozenset({"default"})).start("default")
    assert live.model == f"{plain.model}+tokens"
    assert np.array_equal(live.embed(TEXTS), plain.embed(TEXTS))


MOST = 5
LIVE = [PartitionKeys(partition).of_generation(1) for partition in range(PARTITIONS)]


@pytest.fixture
async def pen(redis: Client) -> Pen:
    made = Pen(redis)
    await made.log.create_or_check()
    return made


@pytest.fixture
def later(pen: Pen) -> LaterTexts:
    return LaterTexts(pen.redis, pen.log, FixedEmbedder(HashEmbedder()), MOST)


async def _queued(redis: Client, keys: GenerationKeys) -> list[str]:
    return [name.decode() for name in await redis.zrange(keys.embed_queue, 0, -1)]


async def _without_vectors(redis: Client) -> set[str]:
    """The searchable documents whose vectors nobody has made."""
    missing = set[str]()
    for keys in LIVE:
        documents = await load(redis, keys, [place.id for place in await places(redis, keys)])
        results = [document for document in documents if document is not None]
        embedder = HashEmbedder()
        missing |= (await cached_vectors(redis, embedder.model, embedder.dimensions, results)).missing
    return missing


async def _no_wait() -> None:
    return


async def test_what_does_not_fit_is_put_off_and_all_of_it_is_embedded_in_the_end(
    pen: Pen, queue: EmbeddingQueue, later: LaterTexts
):
    await pen.add_some(120)
    everything = await _without_vectors(pen.redis)
    assert len(everything) == 120 + 120 + 7
    await later.put_off(range(PARTITIONS))
    for keys in LIVE:
        assert len(await _queued(pen.redis, keys)) == MOST
    noted = [int((await pen.redis.hget(keys.embed_later, "count")) or 0) for keys in LIVE]
    assert sum(noted) == len(everything) - MOST * PARTITIONS
    sample = await HealthSampler(pen.redis, PARTITIONS, Loaded()).sample()
    assert (sample.to_embed, sample.embed_later) == (MOST * PARTITIONS, sum(noted))
    await pen.write_some(10)  # meanwhile, more comes
    await pen.project()
    await EmbedJob(queue, later, _no_wait).run(list(range(PARTITIONS)))
    assert await _without_vectors(pen.redis) == set()
    assert await pen.redis.exists(*(keys.embed_later for keys in LIVE)) == 0
    assert not await later.queue_some(range(PARTITIONS))


async def test_vectors_of_tokens_in_the_cache_are_cut_off(pen: Pen, queue: EmbeddingQueue):
    memory = (await pen.remember("tea is served at four")).id
    await pen.project()
    (keys,) = [keys for keys in LIVE if await pen.redis.exists(keys.embed_queue)]
    await queue.work(range(PARTITIONS))
    model = HashEmbedder()
    documents = [row for row in await load(pen.redis, keys, [DocumentId(memory)]) if row is not None]
    expected = await cached_vectors(pen.redis, model.model, model.dimensions, documents)
    key = embedding(cache_key(model.model, "tea is served at four"))
    await pen.redis.set(key, (await pen.redis.get(key) or b"") + b"tokens", ex=60)
    assert await cached_vectors(pen.redis, model.model, model.dimensions, documents) == expected
    await queue_to_embed(pen.redis, keys, documents, {memory})
    await queue.work(range(PARTITIONS))
    items = [item for _, fields in await pen.redis.xrange(keys.changes) for item in read_entry(fields)[0]]
    assert items[-2:] == expected.items * 2


async def test_two_rounds_at_a_time_take_different_documents(pen: Pen, queue: EmbeddingQueue):
    await pen.add_some(60)
    everything = await _without_vectors(pen.redis)
    taken = await asyncio.gather(*(queue.work(range(PARTITIONS)) for _ in range(2)))
    assert taken == [BATCH, len(everything) - BATCH]
    assert await _without_vectors(pen.redis) == set()
    assert await queue.work(range(PARTITIONS)) == 0


async def test_statements_are_embedded_before_tool_output(pen: Pen, redis: Client):
    said = Observe(session_id="s1", project="shop", data={"prompt": "Round the total last."})
    ran = Observe(
        session_id="s1", project="shop", data={"tool_name": "Bash", "tool_input": {}, "tool_output": "3 passed"}
    )
    for command in (said, ran, said, ran):
        await pen.handler.handle(command, Caller(TENANT))
    await pen.project()
    (keys,) = [item for item in LIVE if await redis.zcard(item.embed_queue)]
    scores = [score for _, score in await redis.zrange(keys.embed_queue, 0, -1, withscores=True)]
    assert [score // STEP for score in scores] == [Urgency.SAID] * 2 + [Urgency.TOOL_OUTPUT] * 2


async def test_what_is_kept_on_purpose_stays_and_what_was_reported_is_put_off(pen: Pen, later: LaterTexts):
    for n in range(20):
        await pen.observe(f"output {n}", "s1")
        await pen.remember(f"fact {n} of many", "shop")
    await pen.project()
    await later.put_off(range(PARTITIONS))
    for keys in LIVE:
        queued = await _queued(pen.redis, keys)
        stored = [name for name in queued if name.startswith("mem_")]
        assert len(queued) <= MOST
        assert queued == stored or keys.partition not in await _partitions_of_memories(pen.redis)


async def _partitions_of_memories(redis: Client) -> set[int]:
    return {
        keys.partition for keys in LIVE for place in await places(redis, keys) if place.id.startswith("mem_")
    }  # fmt: skip


async def test_the_newest_are_queued_first_and_events_of_one_moment_are_not_passed_over(pen: Pen, later: LaterTexts):
    """A batch has one moment for hundreds of events: the walk goes on ahead of a position, not of a millisecond."""
    commands = [Observe(session_id="s1", project="shop", content=f"line {n}") for n in range(600)]
    await pen.handler.handle_batch(commands, Caller(TENANT))
    await pen.project()
    everything = await _without_vectors(pen.redis)
    assert len(everything) == 600
    (keys,) = [item for item in LIVE if await pen.redis.zcard(item.embed_queue)]
    await later.put_off(range(PARTITIONS))
    observation = set(await _queued(pen.redis, keys))
    while await later.queue_some(range(PARTITIONS)):
        observation |= set(await _queued(pen.redis, keys))
    assert observation == everything


async def test_a_runner_puts_off_what_is_too_much_with_each_batch(pen: Pen):
    """Also while no embedding job runs, as behind a long backlog."""
    pen.most_to_embed = MOST
    await pen.add_some(40)
    for keys in LIVE:
        assert len(await _queued(pen.redis, keys)) <= MOST
        assert await pen.redis.exists(keys.embed_later)


async def test_changed_document_is_queued_again_after_it_was_put_off(
    pen: Pen, queue: EmbeddingQueue, later: LaterTexts
):
    """Its place says when it changed, not when it was recorded: the whole log is looked through."""
    await pen.add_some(30)
    now_ms = system_clock().timestamp() * 1000 + 60_000
    score = changed_place(Urgency.KEPT, now_ms)
    for keys in LIVE:
        await pen.redis.zadd(keys.embed_queue, dict.fromkeys(await _queued(pen.redis, keys), score))
    await later.put_off(range(PARTITIONS))
    await EmbedJob(queue, later, _no_wait).run(list(range(PARTITIONS)))
    assert await _without_vectors(pen.redis) == set()
