"""The commands on memories, lessons, actions, slots and observations, and recall: a row each."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec
import typer
from rich.text import Text

from api.cli.client import ApiClient
from api.cli.output import Failed, Output, WrongCommand, one_line
from api.cli.rows import (
    AGENT_READS,
    AGENT_WRITES,
    ANY_PROJECT,
    AUTHOR,
    EVENT_ID,
    HERE,
    PAGE,
    Do,
    Param,
    Values,
    add_rows,
    argument,
    cell,
    flag,
    group,
    listing,
    moment,
    most,
    names_in,
    option,
    project_here,
    show_page,
    table,
    text_of,
    text_option,
    when,
)
from api.cli.show import history_table
from ingest.events.envelope import Trust
from ingest.platform.clock import machine_zone

_COLOURS = {"critical": "red", "warning": "yellow"}


class RecallKind(StrEnum):
    """What recall can find (an enum, because typer takes no list of literals)."""

    OBSERVATION = "observation"
    MEMORY = "memory"
    LESSON = "lesson"
    SUMMARY = "summary"


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in an option; raises BadParameter."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.MsgspecError as error:
        raise typer.BadParameter(f"must be a JSON object: {error}", param_hint="--data") from None


PROJECT = option(
    str | None, None, "Project it belongs to; `''` for none.", "--project", "-p", sent=project_here, show_default=HERE
)
IN_PROJECT = option(
    str | None, None, "Only this project; `''` for items without one.", "--project", "-p", sent=project_here,
    show_default=HERE,
)  # fmt: skip
TAGS = option(list[str], [], "Comma-separated; may be repeated.", "--tags", "-t", sent=names_in)
TEXT = argument("The text; `-` reads it from stdin.", field="content")
IMPORTANCE: dict[str, Any] = {"min": 0, "max": 10}
VALID_UNTIL = option(
    str,
    "",
    "When it stops being true; after that, recall does not find it.",
    sent=moment("valid-until"),
    metavar="TIME",
)
WRITING: dict[str, Param] = {"agent": AGENT_WRITES, "event_id": EVENT_ID}
IF_VERSION: dict[str, Param] = {
    "if_version": option(int | None, None, "Only if it is still at this version.", field="expected_version", min=0)
}


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    add_rows(app, WORK)
    for name, (about, rows) in GROUPS.items():
        commands = group(name, about)
        add_rows(commands, rows)
        app.add_typer(commands)


# --- memories


def _new_memory(values: Values) -> Values:
    private, shared_with, agent = values.pop("private"), values["shared_with"], values["agent_id"]
    if private and shared_with:
        raise typer.BadParameter("--private and --shared-with exclude each other")
    values["visibility"] = "private" if private else "shared" if shared_with else "public"
    if values["visibility"] != "public" and not agent:
        raise typer.BadParameter(f"a {values['visibility']} memory needs --agent; without one, no agent could read it")
    return values


def _revision(values: Values) -> Values:
    conditions = ("id", "event_id", "expected_version")
    if not any(value not in ("", None, []) for name, value in values.items() if name not in conditions):
        raise WrongCommand(
            "say what to change: a text, --title, --tags, --importance, --visibility, --shared-with or --valid-until"
        )
    return values


def _hidden_cells(document: Mapping[str, Any]) -> Iterator[Text | str]:
    yield document["quarantined"]
    yield cell(document["text"], 200).append(f"\n{document['id']}", style="dim")


def _suggestion_cells(item: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(item["occurred_at"], "%Y-%m-%d")
    yield item["kind"]
    evidence = "".join(f"\n  {source['id']}: {one_line(source['text'], 160)}" for source in item["evidence"])
    yield cell(item["text"]).append(f"\n{item['id']}{evidence}", style="dim")


def _memory_cells(memory: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(memory["occurred_at"], "%Y-%m-%d %H:%M")
    yield cell(memory["agent_id"] or "-", 16)
    yield f"{memory['importance']:g}"
    marks = [memory["visibility"]] if memory["visibility"] != "public" else []
    marks += [f"version {memory['version']}"] if memory["version"] > 1 else []
    marks += [] if memory["is_latest"] else ["replaced"]
    marks += [f"valid until {when(memory['valid_until'], '%Y-%m-%d %H:%M')}"] if memory["valid_until"] else []
    marks += [f"confirmed {memory['confirmations']}x"] if memory["confirmations"] else []
    yield cell(memory["content"]).append(f"\n{', '.join([memory['id'], *marks, *memory['tags']])}", style="dim")


def _show_history(output: Output, client: ApiClient, answer: Any, values: Values) -> None:
    output.show(history_table(answer["items"], values["id"]))


MEMORY_ID = argument("Id of the memory, or of any of its versions.", field="id", metavar="ID", kind="memory")
MEMORIES = (
    Do(
        "list", "GET /v1/memories", "List a project's memories, newest first. Exits 1 if the list is empty.",
        {
            "project": IN_PROJECT,
            "every_version": option(
                bool, False, "Include versions that newer ones replaced.", "--all", field="latest",
                sent=lambda given: None if given else "true",
            ),
            **PAGE,
        },
        "memories --project shop --limit 10", listing(("when", "agent", "weight", "what"), _memory_cells),
    ),
    Do(
        "history", "GET /v1/memories/{id}/history", "List every version of a memory, oldest first.",
        {"memory_id": MEMORY_ID, "agent": AGENT_READS}, "memories history mem_9e710a163bd72db5a7de",
        _show_history,
    ),
    Do(
        "revise", "PATCH /v1/memories/{id}",
        "Change a memory: make a new version of it, or change who can read it. Omitted fields stay the same.",
        {
            "memory_id": MEMORY_ID,
            "text": argument("The new text; `-` reads it from stdin. Omit it to keep the text.", "", field="content"),
            "title": text_option("A new title."),
            "tags": TAGS,
            "importance": option(float | None, None, "0 to 10.", **IMPORTANCE),
            "visibility": option(
                Literal["public", "shared", "private"] | None, None, "Who can recall it.", show_default="unchanged"
            ),
            "shared_with": text_option("Comma-separated agents who can also recall it.", sent=names_in),
            "valid_until": VALID_UNTIL,
            **IF_VERSION,
            **WRITING,
        },
        'memories revise mem_9e710a163bd72db5a7de "We deploy on Fridays"', "revised", _revision,
    ),
)  # fmt: skip


# --- lessons


def _lesson_cells(lesson: Mapping[str, Any]) -> Iterator[Text | str]:
    yield when(lesson["occurred_at"], "%Y-%m-%d %H:%M")
    yield f"{lesson['confidence']:.0%}"
    yield cell(lesson["agent_id"] or "-", 16)
    text = Text()
    if severity := lesson["severity"]:
        text.append(f"{severity}: ", style=_COLOURS.get(severity, ""))
    text.append(cell(lesson["content"]))
    pattern = lesson["trigger_pattern"]
    trigger = " ".join(filter(None, (lesson["trigger_tool"], pattern and f"/{pattern}/")))
    marks = [
        lesson["id"],
        f"before {cell(trigger, 60)}" if trigger else "",
        "" if lesson["active"] else "retired",
    ]
    yield text.append(f"\n{', '.join(filter(None, marks))}", style="dim")


LESSON_ID = argument("Id of the lesson.", field="id", metavar="ID", kind="lesson")
SHOW_LESSONS = listing(("when", "sure", "agent", "what"), _lesson_cells)
LESSONS = (
    Do(
        "list", "GET /v1/lessons", "List a project's lessons, newest first. Exits 1 if the list is empty.",
        {"project": IN_PROJECT, "retired": flag("Include retired lessons.", "--retired"), **PAGE},
        "lessons --project shop", SHOW_LESSONS,
    ),
    Do(
        "match", "GET /v1/lessons/match",
        "List the lessons that an agent is shown before it uses a tool. Exits 1 if the list is empty.",
        {
            "tool": Param(str, typer.Argument(..., help="Name of the tool, such as Bash."), "tool_name"),
            "preview": text_option("The tool's input; `-` reads it from stdin.", sent=text_of),
            "project": IN_PROJECT,
            "limit": most(5, limit=100),
            "agent": AGENT_READS,
        },
        'lessons match Bash --preview "rm -rf build" --project shop', SHOW_LESSONS,
    ),
    Do(
        "reinforce", "POST /v1/lessons/{id}/reinforce?event_id={event_id}",
        "Record that a lesson proved correct again.",
        {"lesson_id": LESSON_ID, **WRITING}, "lessons reinforce lsn_f168ba040fafdf237b61", "reinforced",
    ),
    Do(
        "retire", "PATCH /v1/lessons/{id}",
        "Retire a lesson: it is no longer recalled or shown before tools; `mnemolog forget` deletes it.",
        {"lesson_id": LESSON_ID, **IF_VERSION, **WRITING}, "lessons retire lsn_f168ba040fafdf237b61", "retired",
        fixed={"active": False},
    ),
)  # fmt: skip


# --- actions


def _action_cells(action: Mapping[str, Any]) -> Iterator[Text | str]:
    required = [edge["target"] for edge in action["edges"] if edge["type"] in ("requires", "gated_by")]
    claimed = f"claimed until {when(action['expires_at'], '%Y-%m-%d %H:%M')}" if action["holder"] else ""
    marks = [action["id"], claimed, f"after {', '.join(required)}" if required else ""]
    yield cell(action["status"], 16)
    yield f"{action['priority']:g}"
    yield cell(action["assigned_to"] or action["agent_id"] or "-", 16)
    yield cell(action["title"]).append(f"\n{', '.join(filter(None, marks))}", style="dim")


def _show_frontier(output: Output, client: ApiClient, page: Any, values: Values) -> None:
    output.note(f"{page['open']:,} open actions; ready to start:")
    ready: list[dict[str, Any]] = [{**action, "edges": []} for action in page["items"]]
    show_page(output, client, page, map(_action_cells, ready), table(*ACTION_COLUMNS))


def _show_claim(output: Output, client: ApiClient, claim: Any, values: Values) -> None:
    until = when(claim["expires_at"], "%Y-%m-%d %H:%M:%S")
    output.line(f"{claim['id']} until {until}, token {claim['token']}: {one_line(claim['action']['title'])}")


ACTION_COLUMNS = ("status", "priority", "agent", "what")
ACTION_ID = argument("Id of the action.", field="id", metavar="ID", kind="action")
LEASE = option(
    int | None, None, "How many seconds from now the claim lasts.", "--lease", field="lease_seconds", min=1, max=86_400,
    show_default="300",
)  # fmt: skip
TOKEN = option(str, ..., "Token of the claim.", "--token")
ACTIONS = (
    Do(
        "list", "GET /v1/actions", "List a project's actions, newest first. Exits 1 if the list is empty.",
        {"project": IN_PROJECT, "still_open": flag("Only open actions.", "--open", field="open"), **PAGE},
        "actions --project shop --open", listing(ACTION_COLUMNS, _action_cells),
    ),
    Do(
        "frontier", "GET /v1/frontier", "List actions that are ready, most urgent first. Exits 1 if there are none.",
        {
            "project": ANY_PROJECT,
            "limit": most(20),
            "agent": text_option("Leave out actions that other agents work on.", "--agent", "-a"),
        },
        "actions frontier --project shop", _show_frontier,
    ),
    Do(
        "add", "POST /v1/actions", "Add an action.",
        {
            "title": Param(str, typer.Argument(..., help="What to do.")),
            "project": IN_PROJECT,
            "description": text_option("Details; `-` reads them from stdin.", sent=text_of),
            "priority": option(
                float, 0, "Higher is more urgent.", sent=lambda given: int(given) if given.is_integer() else given
            ),
            "requires": option(
                list[str], [], "Comma-separated ids of actions that must come first.", "--requires", sent=names_in
            ),
            "tags": TAGS,
            "assigned_to": text_option("Agent who is to do it."),
            **WRITING,
        },
        'actions add "Give refunds a key" --project shop --priority 8', "added",
    ),
    Do(
        "done", "PATCH /v1/actions/{id}",
        "Mark an action as done, or set another status. Actions that required it become ready.",
        {
            "action_id": ACTION_ID,
            "result": text_option("The result; `-` reads it from stdin.", sent=text_of),
            "status": option(str, "done", "done, cancelled, in_progress, ..."),
            "token": text_option("Only while the claim of this token is valid."),
            **IF_VERSION,
            **WRITING,
        },
        'actions done act_128d8ab120f113729306 --result "merged"', "{status}",
    ),
    Do(
        "claim", "POST /v1/actions/{id}/claim",
        "Claim an action for --agent, so that no other agent works on it. Exits 1 if another agent does.",
        {"action_id": ACTION_ID, "lease": LEASE, **WRITING},
        "actions claim act_128d8ab120f113729306 --agent ada --lease 600", _show_claim,
    ),
    Do(
        "next", "POST /v1/actions/claim_next",
        "Claim the most urgent free action for --agent. Exits 1 if none is free.",
        {
            "project": IN_PROJECT,
            "labels": option(list[str], [], "Only with any of these tags; comma-separated.", "--label", sent=names_in),
            "lease": LEASE,
            **WRITING,
        },
        "actions next --project shop --agent ada", _show_claim,
    ),
    Do(
        "renew", "POST /v1/actions/{id}/renew", "Extend a claim.",
        {"action_id": ACTION_ID, "token": TOKEN, "lease": LEASE, **WRITING},
        "actions renew act_128d8ab120f113729306 --token 0:1769860800000-0", _show_claim,
    ),
    Do(
        "release", "POST /v1/actions/{id}/release", "End a claim; the action is free for other agents.",
        {"action_id": ACTION_ID, "token": TOKEN, **WRITING},
        "actions release act_128d8ab120f113729306 --token 0:1769860800000-0", "released",
    ),
)  # fmt: skip


# --- slots


def _slot_cells(slot: Mapping[str, Any]) -> Iterator[Text | str]:
    yield slot["label"]
    yield slot["scope"]
    yield f"{slot['size']:,} of {slot['size_limit']:,}"
    yield when(slot["updated_at"], "%Y-%m-%d %H:%M") if slot["updated_at"] else "never"
    marks = [*([] if slot["pinned"] else ["not in contexts"]), *(["read only"] if slot["read_only"] else [])]
    text = cell(slot["content"]) if slot["content"] else Text("empty", style="dim")
    yield text.append(f" ({', '.join(marks)})", style="dim") if marks else text


def _show_slot(output: Output, client: ApiClient, slot: Any, values: Values) -> None:
    output.line(slot["content"])


def _slot_question(values: Values) -> str:
    owner = "all projects" if values["scope"] == "global" else f"project {values['project']!r}"
    return f"Delete the slot {values['label']!r} of {owner}?"


SLOT_PROJECT = option(
    str | None, None, "Project of the slot; `''` for global slots only.", "--project", "-p", sent=project_here,
    show_default=HERE,
)  # fmt: skip
LABEL = Param(str, typer.Argument(..., help="Label of the slot: lowercase letters, digits, `_`."))
IN_SCOPE = {
    "project": SLOT_PROJECT,
    "scope": option(Literal["project", "global"], "project", "The project's slot, or the global one."),
}
SLOTS = (
    Do(
        "list", "GET /v1/slots", "List a project's slots and the global ones, including empty ones.",
        {"project": SLOT_PROJECT, "agent": AGENT_READS}, "slots --project shop",
        listing(("label", "scope", "size", "changed", "what"), _slot_cells),
    ),
    Do(
        "get", "GET /v1/slots/{label}", "Print the text of a slot: the project's, otherwise the global one.",
        {"label": LABEL, "project": SLOT_PROJECT, "agent": AGENT_READS},
        "slots get pending_items --project shop",
        _show_slot,
    ),
    Do(
        "set", "POST /v1/slots", "Replace the text of a slot; creates the slot if needed.",
        {
            "label": LABEL,
            "text": TEXT,
            **IN_SCOPE,
            "size_limit": option(
                int | None, None, "Maximum number of characters.", min=1, max=20_000, show_default="unchanged"
            ),
            "description": option(str | None, None, "What the slot is for.", show_default="unchanged"),
            "pinned": option(
                bool | None, None, "Include the slot in contexts.", "--pinned/--not-pinned", show_default="unchanged"
            ),
            "read_only": option(bool | None, None, "Make the slot read-only from now on.", "--read-only",
                sent=lambda given: given or None),
            **IF_VERSION,
            **WRITING,
        },
        'slots set guidance "Ask before you deploy." --project shop', "set",
    ),
    Do(
        "append", "POST /v1/slots", "Add a line to a slot. Exits 1 if the slot is full.",
        {
            "label": LABEL,
            "text": argument("The line; `-` reads it from stdin.", field="content"),
            **IN_SCOPE,
            **WRITING,
        },
        'slots append pending_items "Rotate the keys" --project shop', "added to",
        fixed={"append": True},
    ),
    Do(
        "delete", "DELETE /v1/slots/{label}",
        "Delete a slot, or empty a default one. Its text stays in the log until the project is forgotten.",
        {"label": LABEL, **IN_SCOPE, "agent": AGENT_WRITES}, "slots delete release_notes --project shop", "deleted",
        confirm=_slot_question,
    ),
)  # fmt: skip


# --- what agents do: observe, remember, lesson, recall, context


def _with_time_zone(values: Values) -> Values:
    return {**values, "time_zone": machine_zone()}


def _show_results(output: Output, client: ApiClient, answer: Any, values: Values) -> None:
    from mcp_gateway.tools.grouped import CLOSEST, NOT_RECORDED  # loads numpy, which other commands must not

    for reason in answer["degraded"]:
        output.note(f"degraded: {reason}")
    for note in answer.get("notes", ()):
        output.note(note)
    omitted = answer.get("omitted") or {"count": 0}
    left_out = f"; {omitted['count']} left out, of {omitted['tokens']} tokens" if omitted["count"] else ""
    if not answer["results"] and not left_out:
        if not answer.get("notes"):
            output.note("No results.")
        raise Failed
    results, is_missing = answer["results"], answer.get("certainty") == NOT_RECORDED
    if is_missing:
        results = results[:CLOSEST]
        output.note(f"Probably not recorded ({_percent(answer)}). Closest:")
    for line in result_lines(results):
        output.line(line)
    recorded = f"; {answer['certainty']} ({_percent(answer)})" if answer.get("certainty") and not is_missing else ""
    output.note(f"{len(results)} in {answer['took_ms']:.0f} ms{recorded}{left_out}")
    if is_missing:
        raise Failed


def _percent(answer: Mapping[str, Any]) -> str:
    """A confidence, never rounded up to 100 %."""
    return f"{min(99, round(100 * answer['confidence']))}%"


def result_lines(results: list[dict[str, Any]]) -> Iterator[Text]:
    """Recalled documents by session, best first; with the terms of each score if they were requested."""
    from mcp_gateway.tools.grouped import grouped, lines_of
    from mcp_gateway.tools.recalled_document import RecalledDocument

    documents = list[RecalledDocument]()
    for result in results:
        fields = {name: value for name, value in result.items() if value is not None}
        fields["changed_since"] = [_changed(change) for change in result.get("changed_since", ())]
        documents.append(msgspec.convert(fields, RecalledDocument))
    for line in grouped(lines_of(documents), str):
        yield Text(line)
    for result in results:
        if terms := result.get("explain"):
            parts = "  ".join(f"{name} {value:.2f}" for name, value in terms.items())
            yield Text(f"{result['id']}: score {result['score']:.3f}  {parts}", style="dim")


def _changed(change: Mapping[str, Any]) -> str:
    times = f"{change['times']} times" if change["times"] > 1 else "once"
    return f"{change['file']} changed {times} since"


def _show_context(output: Output, client: ApiClient, answer: Any, values: Values) -> None:
    output.line(answer["context"])
    for note in answer.get("notes", ()):
        output.note(note)
    left_out = f"; left out: {'; '.join(answer['left_out'])}" if answer["left_out"] else ""
    output.note(f"{answer['tokens']} of {answer['token_budget']} tokens{left_out}")


WORK = (
    Do(
        "observe", "POST /v1/observations", "Record what an agent saw or did in a session.",
        {
            "text": argument("What was seen or done; `-` reads it from stdin.", "", field="content"),
            "session": option(str, "cli", "Session it happened in.", "--session", "-s", field="session_id"),
            "project": PROJECT,
            "agent": AUTHOR,
            "kind": text_option("note, decision, error, ...", "--kind", "-k"),
            "event_id": EVENT_ID,
            "data": text_option("Structured data to store with it: a JSON object.", sent=json_object),
        },
        'observe "tests are red again" --project shop --session s1', "observed",
    ),
    Do(
        "remember", "POST /v1/memories", "Save a long-term memory. A near-duplicate replaces the agent's older one.",
        {
            "text": TEXT,
            "project": PROJECT,
            "agent": AUTHOR,
            "tags": TAGS,
            "memory_type": option(
                Literal["episodic", "semantic", "procedural", "rule"], "semantic", "What kind of memory.", "--type"
            ),
            "mandatory": option(bool, False, "Of a rule: no later rule replaces it.", "--mandatory"),
            "importance": option(float, 5.0, "0 to 10.", **IMPORTANCE),
            "private": option(bool, False, "Only --agent can recall it.", "--private"),
            "shared_with": text_option("Comma-separated agents who can recall it, besides --agent.", sent=names_in
            ),
            "ttl_days": option(float | None, None, "Deleted after this many days."),
            "valid_until": VALID_UNTIL,
            "event_id": EVENT_ID,
        },
        'remember "We deploy on Tuesdays" --project shop --tags deploy', "remembered", _new_memory,
    ),
    Do(
        "lesson", "POST /v1/lessons", "Record a lesson; recording it again raises its confidence.",
        {
            "text": TEXT,
            "project": PROJECT,
            "agent": AUTHOR,
            "context": text_option("Where it was learned, or when it applies."),
            "confidence": option(float, 0.5, "Confidence, 0 to 1.", min=0, max=1),
            "tags": TAGS,
            "event_id": EVENT_ID,
        },
        'lesson "Sum first, round last" --project shop', "learned",
    ),
    Do(
        "recall", "POST /v1/recall", "Find the right memories for a query. Exits 1 if there are no results.",
        {
            "query": argument("What to look for; `-` reads it from stdin."),
            "project": ANY_PROJECT,
            "agent": text_option("Read as this agent; finds its private memories.", "--agent", "-a"),
            "as_of": text_option("Search what was known at TIME (local time unless it has a zone).", metavar="TIME",
                sent=lambda given: moment("as-of")(given) or None, show_default="now",
            ),
            "limit": Param(int, typer.Option(10, "--limit", "-n", min=1, max=200)),
            "max_tokens": option(int | None, None, "Maximum number of tokens of all results.", min=1, max=200_000),
            "kind": option(list[RecallKind], [], "Search only these; may be repeated.", "--kind", "-k", field="kinds"),
            "mode": option(Literal["hybrid", "lexical", "vector"], "hybrid", "Words, meaning, or both."),
            "min_confidence": option(
                float | None, None, "Minimum confidence of a result; 0 always shows the closest matches.", min=0, max=1
            ),
            "min_trust": option(Trust | None, None, "Lowest trust class of a result.", show_default="any"),
            "explain": option(bool, False, "Show how each score was computed.", "--explain"),
            "after": text_option("Wait until this position (printed by a write) is searchable."),
        },
        'recall "when do we deploy?" --project shop --limit 3', _show_results,
        _with_time_zone,
    ),
    Do(
        "context", "POST /v1/context",
        "Print the context an agent receives at session start. On stderr: its size, and what was left out.",
        {
            "query": argument("What the agent is about to do; `-` reads it from stdin.", ""),
            "project": PROJECT,
            "tokens": option(
                int, 2000, "Maximum number of tokens.", "--tokens", "-n", min=1, max=200_000, field="token_budget"
            ),
            "agent": text_option("Read as this agent.", "--agent", "-a"),
            "session": text_option(
                "The agent's own session, whose story comes first.", "--session", "-s", field="session_id"
            ),
            "user": text_option("User whose preferences to include.", "--user", field="user_id"),
        },
        'context "change how refunds are paid" --project shop --tokens 800', _show_context,
        _with_time_zone,
    ),
)  # fmt: skip

QUARANTINED = {
    "document_id": argument("Id of a memory, lesson or observation.", field="id", metavar="ID"),
    "reason": text_option("Why; kept in the audit log."),
    "event_id": EVENT_ID,
}
QUARANTINE = (
    Do(
        "list", "GET /v1/admin/quarantine", "List the documents in quarantine. Exits 1 if the list is empty.",
        {"project": ANY_PROJECT}, "quarantine list", listing(("by", "what"), _hidden_cells),
    ),
    Do(
        "add", "POST /v1/admin/quarantine", "Hide a document from everyone but admins.", QUARANTINED,
        "quarantine add mem_9e710a163bd72db5a7de --reason planted", "hidden",
    ),
    Do(
        "release", "POST /v1/admin/quarantine", "Take a document out of quarantine.", QUARANTINED,
        "quarantine release mem_9e710a163bd72db5a7de", "released", fixed={"released": True},
    ),
)  # fmt: skip

SUGGESTION_ID = argument("Id of the suggestion.", field="id", metavar="ID")
INBOX = (
    Do(
        "list", "GET /v1/inbox", "List what the server suggests to remember. Exits 1 if the list is empty.",
        {
            "project": IN_PROJECT,
            "agent": AGENT_READS,
            "limit": Param(int, typer.Option(20, "--limit", "-n", min=1, max=200)),
        },
        "inbox --project shop", listing(("when", "kind", "what"), _suggestion_cells),
    ),
    Do(
        "approve", "POST /v1/inbox/{id}", "Approve a suggestion, as it is or with a better text.",
        {"suggestion_id": SUGGESTION_ID, "content": text_option("The better text."), "agent": AUTHOR},
        "inbox approve mem_9e710a163bd72db5a7de", "approved", fixed={"decision": "approve"},
    ),
    Do(
        "reject", "POST /v1/inbox/{id}", "Reject a suggestion; it is hidden, and not made again.",
        {"suggestion_id": SUGGESTION_ID, "agent": AUTHOR},
        "inbox reject mem_9e710a163bd72db5a7de", "rejected", fixed={"decision": "reject"},
    ),
)  # fmt: skip

GROUPS = {
    "inbox": ("Suggested rules, lessons and memories: list, approve, reject.", INBOX),
    "quarantine": ("Documents that only admins can see: list, add, release.", QUARANTINE),
    "memories": ("Long-term memories: list, history, revise.", MEMORIES),
    "lessons": ("Lessons: list, match, reinforce, retire; `mnemolog lesson` records one.", LESSONS),
    "slots": ("Short pinned notes in every agent's context: list, get, set, append, delete.", SLOTS),
    "actions": ("Work items for agents: list, frontier, add, done, claim, next, renew, release.", ACTIONS),
}
