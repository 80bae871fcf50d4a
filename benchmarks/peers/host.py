"""Runs a library in an environment of its own, for `systems.py`: a JSON object a line, in and out.

    python -P benchmarks/peers/host.py NAME FOLDER

A request is `{"do": METHOD, "items": [ARGUMENTS...], "clients": N}`: N threads call the method once for each item. Each
call is answered by a line when it ends, `{"number", "ms", "answer", "error"}`, and the request by `{"seconds"}`. So a
write is acknowledged on the other side as soon as the library has returned, and a kill of this process loses no line of
an earlier one. It ends with its input. It imports nothing of the project, which its environment does not have.
"""

import json
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO
from uuid import NAMESPACE_OID, uuid5


class Bm25:
    """rank-bm25. It has no storage: the notes are pickled to disk after each write, and indexed at the next search."""

    def __init__(self, folder: Path) -> None:
        self._okapi: Any = import_module("rank_bm25").BM25Okapi
        self._file, self._lock = folder / "notes.pickle", threading.Lock()
        stored: Any = pickle.loads(self._file.read_bytes()) if self._file.exists() else {}
        self._notes: dict[str, tuple[str, str]] = stored
        self._indexed: dict[str, tuple[list[str], Any]] = {}

    def write(self, note: str, project: str, text: str) -> str:
        with self._lock:
            self._notes[note] = project, text
            self._save(project)
        return note

    def search(self, project: str, query: str, limit: int) -> list[str]:
        with self._lock:
            if project not in self._indexed:
                words = {name: _words(text) for name, (of, text) in self._notes.items() if of == project}
                self._indexed[project] = list(words), self._okapi(list(words.values()))
            names, index = self._indexed[project]
        scores = index.get_scores(_words(query))
        return [names[row] for row in scores.argsort(kind="stable")[::-1][:limit]]

    def delete(self, name: str) -> None:
        with self._lock:
            self._save(self._notes.pop(name)[0])

    def has(self, name: str) -> bool:
        return name in self._notes

    def _save(self, project: str) -> None:
        self._indexed.pop(project, None)
        new = self._file.with_suffix(".new")
        with new.open("wb") as file:
            pickle.dump(self._notes, file, pickle.HIGHEST_PROTOCOL)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


class MiniLM:
    """all-MiniLM-L6-v2 as mnemolog runs it: the int8 graph of its package, a thread a call, no padding."""

    def __init__(self) -> None:
        self._np, ort = import_module("numpy"), import_module("onnxruntime")
        folder = Path(import_module("mnemolog_minilm").__file__ or "").parent
        graph = next(iter(json.loads((folder / "manifest.json").read_bytes())["models"]))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(str(folder / graph), options, providers=["CPUExecutionProvider"])
        self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(256)  # as mnemolog does
        self._tokenizer.no_padding()

    def embed(self, text: str, _: str = "") -> list[float]:
        """The vector of a text, of unit length. The second parameter is what mem0 passes."""
        ids = self._np.array([self._tokenizer.encode(text).ids], self._np.int64)
        (hidden,) = self._session.run(None, {"input_ids": ids, "attention_mask": self._np.ones_like(ids)})
        mean = hidden[0].mean(axis=0)
        return (mean / self._np.linalg.norm(mean)).tolist()


class Chroma:
    """A collection of Chroma on disk, with vectors of MiniLM."""

    def __init__(self, folder: Path) -> None:
        chromadb, self._model = import_module("chromadb"), MiniLM()
        client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))
        cosine = {"hnsw": {"space": "cosine"}}
        self._notes = client.get_or_create_collection("notes", configuration=cosine, embedding_function=None)

    def write(self, note: str, project: str, text: str) -> str:
        vectors = [self._model.embed(text)]
        self._notes.add([note], embeddings=vectors, documents=[text], metadatas=[{"project": project}])
        return note

    def search(self, project: str, query: str, limit: int) -> list[str]:
        vectors, where = [self._model.embed(query)], {"project": project}
        return self._notes.query(vectors, n_results=limit, where=where, include=[])["ids"][0]

    def delete(self, name: str) -> None:
        self._notes.delete([name])

    def has(self, name: str) -> bool:
        return bool(self._notes.get([name], include=[])["ids"])


class Mem0:
    """mem0 with its embedded qdrant, `infer=False`, and vectors of MiniLM.

    Its calls take turns: with 16 threads some writes failed, and then every search.
    """

    def __init__(self, folder: Path) -> None:
        self._turn = threading.Lock()
        os.environ |= {"MEM0_DIR": str(folder / "mem0"), "MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}
        qdrant = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": 384}
        self._memory = import_module("mem0").Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": qdrant}, "history_db_path": str(folder / "history.db"),
        })  # fmt: skip
        self._memory.embedding_model = MiniLM()

    def write(self, note: str, project: str, text: str) -> str:
        metadata = {"note": note}
        with self._turn:
            return self._memory.add(text, user_id=project, metadata=metadata, infer=False)["results"][0]["id"]

    def search(self, project: str, query: str, limit: int) -> list[str]:
        with self._turn:
            results = self._memory.search(query, filters={"user_id": project}, top_k=limit)["results"]
        return [result["metadata"]["note"] for result in results]

    def delete(self, name: str) -> None:
        with self._turn:
            self._memory.delete(name)

    def has(self, name: str) -> bool:
        with self._turn:
            return self._memory.get(name) is not None


class Sqlite:
    """FTS5 and sqlite-vec in one file, joined by reciprocal ranks: what an engineer writes in an afternoon."""

    def __init__(self, folder: Path) -> None:
        self._model, self._turn = MiniLM(), threading.Lock()
        self._db: Any = import_module("apsw").Connection(str(folder / "notes.db"))
        self._db.enable_load_extension(True)
        self._db.load_extension(import_module("sqlite_vec").loadable_path())
        self._pack: Callable[[list[float]], bytes] = import_module("sqlite_vec").serialize_float32
        self._db.execute("pragma journal_mode = wal; pragma synchronous = full")
        self._db.execute("create virtual table if not exists words using fts5(text, project unindexed)")
        vector = "project text partition key, vector float[384] distance_metric=cosine"
        self._db.execute(f"create virtual table if not exists vectors using vec0({vector})")
        self._db.execute("create table if not exists notes(id integer primary key, name text unique)")

    def write(self, note: str, project: str, text: str) -> str:
        vector = self._pack(self._model.embed(text))
        with self._turn, self._db:
            self._db.execute("insert into notes(name) values(?)", (note,))
            row = self._db.last_insert_rowid()
            self._db.execute("insert into words(rowid, text, project) values(?, ?, ?)", (row, text, project))
            self._db.execute("insert into vectors(rowid, project, vector) values(?, ?, ?)", (row, project, vector))
        return note

    def search(self, project: str, query: str, limit: int) -> list[str]:
        match, vector, depth = " OR ".join(_words(query)), self._pack(self._model.embed(query)), 5 * limit
        by_words = "select rowid from words where words match ? and project = ? order by rank limit ?"
        by_vector = "select rowid from vectors where vector match ? and project = ? and k = ?"
        scores: dict[int, float] = {}
        with self._turn:
            for statement, target in (by_words, match), (by_vector, vector):
                for rank, (row,) in enumerate(self._db.execute(statement, (target, project, depth))):
                    scores[row] = scores.get(row, 0) + 1 / (60 + rank)
            best = sorted(scores, key=lambda row: -scores[row])[:limit]
            named = "select name from notes where id = ?"
            return [self._db.execute(named, (row,)).fetchone()[0] for row in best]

    def delete(self, name: str) -> None:
        with self._turn, self._db:
            (row,) = self._db.execute("delete from notes where name = ? returning id", (name,)).fetchone()
            for table in "words", "vectors":
                self._db.execute(f"delete from {table} where rowid = ?", (row,))

    def has(self, name: str) -> bool:
        with self._turn:
            return self._db.execute("select 1 from notes where name = ?", (name,)).fetchone() is not None


class LanceDb:
    """A table of LanceDB on disk, with vectors of MiniLM. It has no index: below some 100,000 rows it needs none."""

    def __init__(self, folder: Path) -> None:
        self._model, arrow = MiniLM(), import_module("pyarrow")
        columns = {"note": arrow.string(), "project": arrow.string(), "text": arrow.string()}
        schema = arrow.schema({**columns, "vector": arrow.list_(arrow.float32(), 384)})
        database = import_module("lancedb").connect(folder)
        self._notes = database.create_table("notes", schema=schema, exist_ok=True)

    def write(self, note: str, project: str, text: str) -> str:
        self._notes.add([{"note": note, "project": project, "text": text, "vector": self._model.embed(text)}])
        return note

    def search(self, project: str, query: str, limit: int) -> list[str]:
        nearest = self._notes.search(self._model.embed(query)).distance_type("cosine").where(f"project = '{project}'")
        return [row["note"] for row in nearest.select(["note"]).limit(limit).to_list()]

    def delete(self, name: str) -> None:
        self._notes.delete(f"note = '{name}'")

    def has(self, name: str) -> bool:
        return self._notes.count_rows(f"note = '{name}'") > 0


class Qdrant:
    """qdrant's client with a folder instead of a server, with vectors of MiniLM. Its calls take turns."""

    def __init__(self, folder: Path) -> None:
        self._model, self._turn, client = MiniLM(), threading.Lock(), import_module("qdrant_client")
        self._models = client.models
        self._client = client.QdrantClient(path=str(folder))
        if not self._client.collection_exists("notes"):
            vectors = self._models.VectorParams(size=384, distance=self._models.Distance.COSINE)
            self._client.create_collection("notes", vectors)

    def write(self, note: str, project: str, text: str) -> str:
        name, payload = str(uuid5(NAMESPACE_OID, note)), {"note": note, "project": project, "text": text}
        point = self._models.PointStruct(id=name, vector=self._model.embed(text), payload=payload)
        with self._turn:
            self._client.upsert("notes", [point])
        return name

    def search(self, project: str, query: str, limit: int) -> list[str]:
        of_project = self._models.FieldCondition(key="project", match=self._models.MatchValue(value=project))
        allowed, vector = self._models.Filter(must=[of_project]), self._model.embed(query)
        with self._turn:
            points = self._client.query_points("notes", vector, query_filter=allowed, limit=limit).points
        return [point.payload["note"] for point in points]

    def delete(self, name: str) -> None:
        with self._turn:
            self._client.delete("notes", [name])

    def has(self, name: str) -> bool:
        with self._turn:
            return bool(self._client.retrieve("notes", [name]))


class LangGraph:
    """LangGraph's InMemoryStore with vectors of MiniLM. It stores nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self._model, self._project = MiniLM(), dict[str, str]()
        index: dict[str, Any] = {"dims": 384, "embed": self._embed, "fields": ["text"]}
        self._store = import_module("langgraph.store.memory").InMemoryStore(index=index)

    def write(self, note: str, project: str, text: str) -> str:
        self._store.put((project,), note, {"text": text})
        self._project[note] = project
        return note

    def search(self, project: str, query: str, limit: int) -> list[str]:
        return [item.key for item in self._store.search((project,), query=query, limit=limit)]

    def delete(self, name: str) -> None:
        self._store.delete((self._project.pop(name),), name)

    def has(self, name: str) -> bool:
        return name in self._project

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._model.embed(text) for text in texts]


# Each has notes of projects: `write` returns the id that `delete` and `has` take, `search` the best notes of a project.
STORES: dict[str, Callable[[Path], Any]] = {
    "rank-bm25": Bm25, "chroma": Chroma, "mem0": Mem0, "sqlite": Sqlite, "lancedb": LanceDb, "qdrant": Qdrant,
    "langgraph": LangGraph,
}  # fmt: skip


def answer(call: Callable[..., Any], items: Sequence[Sequence[Any]], clients: int, out: TextIO) -> None:
    """Call once for each item from so many threads, and write what each call returned."""
    lock = threading.Lock()

    def work(number: int) -> None:
        began, returned, error = time.perf_counter(), None, ""
        try:
            returned = call(*items[number])
        except Exception as failed:  # a call that fails is a result
            error = f"{type(failed).__name__}: {failed}"[:200]
        ms = (time.perf_counter() - began) * 1000
        with lock:
            print(json.dumps({"number": number, "ms": ms, "answer": returned, "error": error}), file=out)

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(work, range(len(items))))
    print(json.dumps({"seconds": time.perf_counter() - began}), file=out)


def main() -> None:
    """Serve the library that the command line names until the input ends."""
    name, folder = sys.argv[1:]
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)  # libraries print notices
        store = STORES[name](Path(folder))
        print('{"seconds": 0}', file=out)
        for line in sys.stdin:
            request = json.loads(line)
            answer(getattr(store, request["do"]), request["items"], request["clients"], out)


if __name__ == "__main__":
    main()
