"""A LangGraph graph whose nodes share a store in mnemolog: the second run knows what the first one stored.

pip install './clients/python[langgraph]'
python examples/langgraph_store.py        (needs a running server: `mnemolog up`; no language model)
"""

from typing import Any, NotRequired, TypedDict
from uuid import uuid4

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from mnemolog_client import Mnemolog, Unreachable
from mnemolog_client.langgraph import MnemologStore


class State(TypedDict):
    """What a run is about."""

    user: str
    said: NotRequired[str]
    answer: NotRequired[str]


def listen(state: State, *, store: BaseStore) -> dict[str, str]:
    """Store what the user states."""
    if said := state.get("said"):
        store.put(("users", state["user"], "facts"), uuid4().hex, {"text": said})
    return {}


def answer(state: State, *, store: BaseStore) -> dict[str, str]:
    """Answer from what is known about the user. A real node would ask a model."""
    found = store.search(("users", state["user"]), query="what does the user like to drink?", limit=3)
    return {"answer": "; ".join(item.value["text"] for item in found) or "nothing is known"}


def main() -> None:
    """Two runs of one graph."""
    with Mnemolog(agent="ada") as client:
        graph: Any = StateGraph(State)
        graph.add_node(listen)
        graph.add_node("reply", answer)
        graph.add_edge(START, "listen")
        graph.add_edge("listen", "reply")
        graph.add_edge("reply", END)
        compiled = graph.compile(store=MnemologStore(client, project=f"langgraph-{uuid4().hex[:8]}"))
        print("before:", compiled.invoke({"user": "bob"})["answer"])
        print("first run:", compiled.invoke({"user": "bob", "said": "Bob drinks green tea."})["answer"])
        print("second run:", compiled.invoke({"user": "bob"})["answer"])
        print("another user:", compiled.invoke({"user": "eve"})["answer"])


if __name__ == "__main__":
    try:
        main()
    except Unreachable as error:
        raise SystemExit(f"{error}. Start a server with `mnemolog up`, or set MNEMOLOG_URL.") from None
