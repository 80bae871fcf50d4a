/** The native HTTP API by noun. Each method sends one call; a listing asks for a page when it comes to it. */

import type {
  Accepted, Action, Agent, Applied, BatchAccepted, Claim, Confirmed, Context, Event, Feedback, Forgotten, FoundLesson, Frontier, Health, Lesson,
  LiveEvent, Memory, Observation, Project, Recalled, RecallResult, Receipt, Session, SessionStory, Slot, Summary, SummaryMade, SureLesson,
} from "./answers.ts";
import type { Body, Call, Given, Query } from "./calls.ts";
import {
  ask, askItems, eventsBehind, get, getItems, having, json, newEventId, pages, taking, UnreadableAnswer, unnamedWrite,
  withoutNull, write, writeBare,
} from "./calls.ts";
import { NotFound } from "./errors.ts";
import type {
  ActionChanges, Asked, ClaimOptions, Command, ContextOptions, FeedbackOptions, InProjectOptions, LessonChanges, ListOptions, MemoryChanges, OfAction, OfLesson,
  OfMemory, OfObservation, OfSlot, RecallOptions, SessionEnd, SessionStart, Verdict,
} from "./fields.ts";
import type { Position } from "./position.ts";
import type { Transport } from "./sending.ts";

/** What is listed, page by page as it is asked for. */
export type Listed<T> = AsyncGenerator<T, void, undefined>;

type Repeatable = Given<Query<"/v1/lessons/{id}/reinforce", "post">>;
type Deletion = Given<Query<"/v1/memories/{id}", "delete">>;

/** What narrows the log; it is read behind `after`. */
export type EventOptions = InProjectOptions<"/v1/events"> & { readonly after?: string | undefined };

/** What narrows the live stream; it begins behind `after`, or now. */
export type LiveOptions = Omit<Given<Query<"/v1/live", "get">>, "limit">;

type Scoped = Given<Query<"/v1/slots/{label}", "delete">>;
type InProject = Pick<Scoped, "project">;

/** Some calls about one thing, sent by one client. */
class Noun {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}

/** What is worth keeping: versions, readers, history. */
export class Memories extends Noun {
  /** Keep something. It supersedes the latest memory of the agent in the project that states the same. */
  create(content: string, fields: OfMemory = {}): Promise<Accepted> {
    return this.transport.send(write("post", "/v1/memories", { content, ...fields }));
  }

  /** One version, superseded or not. */
  get(memory: string): Promise<Memory> {
    return this.transport.send(get("/v1/memories/{id}", "content", { names: { id: memory } }));
  }

  /**
   * Change a memory: a new version, whose id is answered, or only who may read it.
   *
   * VersionConflict, and no change, if it is not at the `expected_version`.
   */
  revise(memory: string, changes: MemoryChanges): Promise<Applied> {
    return this.transport.send(write("patch", "/v1/memories/{id}", changes, { id: memory }));
  }

  /** Forget a memory with its earlier versions and what was derived from it, for good. */
  delete(memory: string, deletion: Deletion = {}): Promise<Accepted> {
    return this.transport.send(writeBare("delete", "/v1/memories/{id}", deletion, { id: memory }));
  }

  /** Every version, oldest first, whichever of them is named. */
  history(memory: string): Promise<Memory[]> {
    return this.transport.send(getItems("/v1/memories/{id}/history", { names: { id: memory } }));
  }

  /** A project's memories, newest first; with `latest`, current versions only. */
  list(project: string | InProjectOptions<"/v1/memories"> = "", options: ListOptions<"/v1/memories"> = {}): Listed<Memory> {
    return this.transport.walk(pages("/v1/memories", { query: ofProject(project, options, "") }));
  }
}

/** What agents saw or did. */
export class Observations extends Noun {
  /** Record what an agent saw or did: `content`, or `data` of a tool call, or both. */
  create(sessionId: string, content = "", fields: OfObservation = {}): Promise<Accepted> {
    return this.transport.send(write("post", "/v1/observations", { ...fields, session_id: sessionId, content }));
  }

  /** One observation. */
  get(observation: string): Promise<Observation> {
    return this.transport.send(get("/v1/observations/{id}", "content", { names: { id: observation } }));
  }

  /** Forget an observation and what was derived from it, for good. */
  delete(observation: string, deletion: Deletion = {}): Promise<Accepted> {
    return this.transport.send(writeBare("delete", "/v1/observations/{id}", deletion, { id: observation }));
  }

  /** A project's observations by when they happened, newest first, beginning at `until`. */
  list(project: string | InProjectOptions<"/v1/timeline"> = "", options: ListOptions<"/v1/timeline"> = {}): Listed<Observation> {
    return this.transport.walk(pages("/v1/timeline", { query: ofProject(project, options, "") }));
  }
}

/** What was learned; confidence grows with each confirmation and fades without. */
export class Lessons extends Noun {
  /** State a lesson; the same text in the same project is the same lesson and raises its confidence. */
  create(content: string, fields: OfLesson = {}): Promise<Accepted> {
    return this.transport.send(write("post", "/v1/lessons", { content, ...fields }));
  }

  /** One lesson, retired or not. */
  get(lesson: string): Promise<Lesson> {
    return this.transport.send(get("/v1/lessons/{id}", "content", { names: { id: lesson } }));
  }

  /** Edit a lesson; with `active` false it is no longer found. VersionConflict as for memories. */
  revise(lesson: string, changes: LessonChanges): Promise<Applied> {
    return this.transport.send(write("patch", "/v1/lessons/{id}", changes, { id: lesson }));
  }

  /** Say that a lesson proved right again. */
  reinforce(lesson: string, options: Repeatable = {}): Promise<Accepted> {
    return this.transport.send(writeBare("post", "/v1/lessons/{id}/reinforce", options, { id: lesson }));
  }

  /** Count that a lesson was shown to an agent. */
  trigger(lesson: string, options: Repeatable = {}): Promise<Accepted> {
    return this.transport.send(writeBare("post", "/v1/lessons/{id}/trigger", options, { id: lesson }));
  }

  /** Forget a lesson, for good. */
  delete(lesson: string, deletion: Deletion = {}): Promise<Accepted> {
    return this.transport.send(writeBare("delete", "/v1/lessons/{id}", deletion, { id: lesson }));
  }

  /** Lessons about a query, best first. What was just written may not be found yet. */
  search(query: string, options: Asked<Body<"/v1/lessons/search", "post">, "query"> = {}): Promise<FoundLesson[]> {
    return this.transport.send(askItems("/v1/lessons/search", { query, ...options }));
  }

  /** The lessons to show before a tool is used, the most severe first. `preview` is what it is given. */
  match(toolName: string, options: Asked<Query<"/v1/lessons/match", "get">, "tool_name"> = {}): Promise<Lesson[]> {
    return this.transport.send(getItems("/v1/lessons/match", { query: { ...options, tool_name: toolName } }));
  }

  /** The surest lessons, with how sure they are now. */
  surest(options: Asked<Query<"/v1/lessons/surest", "get">> = {}): Promise<SureLesson[]> {
    return this.transport.send(getItems("/v1/lessons/surest", { query: options }));
  }

  /** A project's lessons, newest first; with `retired`, those that have faded, too. */
  list(project: string | InProjectOptions<"/v1/lessons"> = "", options: ListOptions<"/v1/lessons"> = {}): Listed<Lesson> {
    return this.transport.walk(pages("/v1/lessons", { query: ofProject(project, options, "") }));
  }
}

/** One agent's work from its beginning to its end. An observation opens its session automatically. */
export class Sessions extends Noun {
  /** Say that a session started. */
  start(sessionId: string, fields: SessionStart = {}): Promise<Accepted> {
    const body = { ...fields, session_id: sessionId, status: "started" } as const;
    return this.transport.send(write("post", "/v1/sessions", body));
  }

  /** Say that a session ended; its summary is made automatically. */
  end(sessionId: string, fields: SessionEnd = {}): Promise<Accepted> {
    const body = { ...fields, session_id: sessionId, status: "ended" } as const;
    return this.transport.send(write("post", "/v1/sessions", body));
  }

  /** One session. */
  get(sessionId: string, { project }: InProject = {}): Promise<Session> {
    return this.transport.send(get("/v1/sessions/{id}", "status", { names: { id: sessionId }, query: { project } }));
  }

  /** What the session came to so far: decisions in force, open work, and its newest exchanges. */
  story(sessionId: string, { project }: InProject = {}): Promise<SessionStory> {
    const options = { names: { id: sessionId }, query: { project } };
    return this.transport.send(get("/v1/sessions/{id}/story", "exchanges", options));
  }

  /** The summary of a session; NotFound until it exists. */
  summary(sessionId: string, { project }: InProject = {}): Promise<Summary> {
    const options = { names: { id: sessionId }, query: { project } };
    return this.transport.send(get("/v1/sessions/{id}/summary", "narrative", options));
  }

  /** Make the summary of a session now. */
  summarise(sessionId: string, { project }: InProject = {}): Promise<SummaryMade> {
    return this.transport.send(unnamedWrite("post", "/v1/sessions/{id}/summary", { project }, { id: sessionId }));
  }

  /** What was observed in a session, in the order it was recorded. */
  observations(
    sessionId: string,
    { pageSize, ...options }: ListOptions<"/v1/sessions/{id}/observations"> & InProject = {},
  ): Listed<Observation> {
    const query = { ...options, limit: pageSize };
    return this.transport.walk(pages("/v1/sessions/{id}/observations", { names: { id: sessionId }, query }));
  }

  /** Forget a session with its observations, its summary and what was made of them, for good. */
  delete(sessionId: string, options: InProject & Deletion = {}): Promise<Forgotten> {
    return this.transport.send(writeBare("delete", "/v1/sessions/{id}", options, { id: sessionId }));
  }

  /** Sessions of a project, or of all, the most recently active first. */
  list(
    project?: string | InProjectOptions<"/v1/sessions">,
    options: ListOptions<"/v1/sessions"> = {},
  ): Listed<Session> {
    return this.transport.walk(pages("/v1/sessions", { query: ofProject(project, options) }));
  }
}

/** Small named texts that agents keep in view. */
export class Slots extends Noun {
  /**
   * Create a slot or replace its text; Conflict when `overwrite` is false and there is one.
   *
   * VersionConflict if it is not at the `expected_version`; a slot that does not exist is at 0.
   */
  set(label: string, content: string, fields: OfSlot = {}): Promise<Applied> {
    return this.transport.send(write("post", "/v1/slots", { ...fields, label, content }));
  }

  /** Add a line to a slot. */
  append(label: string, line: string, options: Scoped & Repeatable = {}): Promise<Accepted> {
    return this.transport.send(write("post", "/v1/slots", { ...options, label, content: line, append: true }));
  }

  /** The slot of a project, else the global one of that label. */
  get(label: string, { project = "" }: InProject = {}): Promise<Slot> {
    return this.transport.send(get("/v1/slots/{label}", "content", { names: { label }, query: { project } }));
  }

  /** Remove a slot. */
  delete(label: string, { project = "", scope }: Scoped = {}): Promise<Accepted> {
    return this.transport.send(unnamedWrite("delete", "/v1/slots/{label}", { project, scope }, { label }));
  }

  /** A project's slots and the global ones, by label. */
  list(project: string | InProject = ""): Promise<Slot[]> {
    return this.transport.send(getItems("/v1/slots", { query: ofProject(project, {}, "") }));
  }
}

/** Work items that agents share. */
export class Actions extends Noun {
  /** Write down a work item. */
  create(title: string, fields: OfAction = {}): Promise<Accepted> {
    return this.transport.send(write("post", "/v1/actions", { title, ...fields }));
  }

  /**
   * Change a work item: its status, who does it, what came of it.
   *
   * StaleToken, and no change, if the `token` is not that of a valid claim; VersionConflict as for memories.
   */
  update(action: string, changes: ActionChanges): Promise<Applied> {
    return this.transport.send(write("patch", "/v1/actions/{id}", changes, { id: action }));
  }

  /**
   * Claim a work item, so that no other agent works on it before the claim's `expires_at`.
   *
   * AlreadyClaimed while an agent holds it, this one included; Conflict if it is finished or not ready.
   */
  claim(action: string, options: ClaimOptions = {}): Promise<Claim> {
    return this.transport.send(write("post", "/v1/actions/{id}/claim", options, { id: action }));
  }

  /** Claim the best free work item of a project, with any of the labels as a tag; undefined if none is free. */
  async claimNext(
    project = "",
    options: ClaimOptions & { readonly labels?: readonly string[] | undefined } = {},
  ): Promise<Claim | undefined> {
    try {
      return await this.transport.send(write("post", "/v1/actions/claim_next", { project, ...options }));
    } catch (error) {
      if (error instanceof NotFound && error.code === "nothing_to_claim") return undefined;
      throw error;
    }
  }

  /** Have a claim end `lease_seconds` from now; StaleToken if it has ended. */
  renew(action: string, token: string, options: ClaimOptions = {}): Promise<Claim> {
    return this.transport.send(write("post", "/v1/actions/{id}/renew", { token, ...options }, { id: action }));
  }

  /** End a claim, unfinished; StaleToken if it has ended. */
  release(action: string, token: string, options: Repeatable = {}): Promise<Applied> {
    return this.transport.send(write("post", "/v1/actions/{id}/release", { token, ...options }, { id: action }));
  }

  /** Finish a claimed work item; StaleToken, and no change, if the claim has ended. */
  complete(
    action: string,
    token: string,
    result?: string,
    options: Repeatable & { readonly status?: string | undefined } = {},
  ): Promise<Applied> {
    const body = { token, result, ...options };
    return this.transport.send(write("post", "/v1/actions/{id}/complete", body, { id: action }));
  }

  /** One work item, with its edges. */
  get(action: string): Promise<Action> {
    return this.transport.send(get("/v1/actions/{id}", "title", { names: { id: action } }));
  }

  /** Forget a work item, for good. */
  delete(action: string, deletion: Deletion = {}): Promise<Accepted> {
    return this.transport.send(writeBare("delete", "/v1/actions/{id}", deletion, { id: action }));
  }

  /** A project's work items, newest first; with `open`, those still to be done. */
  list(project: string | InProjectOptions<"/v1/actions"> = "", options: ListOptions<"/v1/actions"> = {}): Listed<Action> {
    return this.transport.walk(pages("/v1/actions", { query: ofProject(project, options, "") }));
  }
}

/** What became of requests to forget. */
export class Receipts extends Noun {
  /** The receipt as it is now. */
  get(receipt: string): Promise<Receipt> {
    return this.transport.send(receiptOf(receipt));
  }

  /** The receipt once everything is forgotten; Unavailable when that takes longer. */
  wait(receipt: string, { timeoutS = 60 }: { readonly timeoutS?: number | undefined } = {}): Promise<Receipt> {
    return this.transport.poll(receiptOf(receipt), (one) => one.status === "done", timeoutS);
  }

  /** All receipts, newest first. */
  list({ pageSize, ...options }: ListOptions<"/v1/forget"> = {}): Listed<Receipt> {
    const query = { ...options, limit: pageSize };
    return this.transport.walk(pages("/v1/forget", { query, waits: false })) as Listed<Receipt>;
  }
}

/** All calls, those of no noun directly. */
export class Root extends Noun {
  readonly agent: string;
  readonly memories: Memories;
  readonly observations: Observations;
  readonly lessons: Lessons;
  readonly sessions: Sessions;
  readonly slots: Slots;
  readonly actions: Actions;
  readonly receipts: Receipts;
  readonly #position: Position;

  constructor(transport: Transport, position: Position, agent: string) {
    super(transport);
    this.agent = agent;
    this.#position = position;
    this.memories = new Memories(transport);
    this.observations = new Observations(transport);
    this.lessons = new Lessons(transport);
    this.sessions = new Sessions(transport);
    this.slots = new Slots(transport);
    this.actions = new Actions(transport);
    this.receipts = new Receipts(transport);
  }

  /** What this client wrote, and its reads wait for, as text: for another process, or for later. */
  get position(): string {
    return this.#position.toString();
  }

  /** Have reads also wait for what another client wrote: its `position`. */
  advance(position: string): void {
    this.#position.include(position);
  }

  /** Keep something; as `memories.create`. */
  add(text: string, fields: OfMemory = {}): Promise<Accepted> {
    return this.memories.create(text, fields);
  }

  /** What is found for a query, best first; `recall` without what it says about the answer as a whole. */
  search(query: string, options: RecallOptions = {}): Promise<RecallResult[]> {
    return this.transport.send(taking(recallOf(query, options), (answer) => answer.results));
  }

  /** What is known that answers a query, best first; nothing where nothing known is an answer. */
  recall(query: string, options: RecallOptions = {}): Promise<Recalled> {
    return this.transport.send(recallOf(query, options));
  }

  /** What an agent should know before it starts, within a token budget. */
  context(project: string, options: ContextOptions = {}): Promise<Context> {
    return this.transport.send(ask("/v1/context", "context", { project, ...options }));
  }

  /** Say which memories and lessons proved right, or were relied on. */
  confirm(ids: readonly string[], options: Repeatable = {}): Promise<Confirmed> {
    return this.transport.send(write("post", "/v1/confirm", { ids, ...options }));
  }

  /** Judge memories and lessons that this agent was given: by id, or all of the answer `recall_id`. */
  feedback(verdict: Verdict, ids: readonly string[] = [], options: FeedbackOptions = {}): Promise<Feedback> {
    return this.transport.send(write("post", "/v1/feedback", { verdict, ids, ...options }));
  }

  /** What can be done now: actions that nothing blocks and no other agent works on, most urgent first. */
  frontier(options: Asked<Query<"/v1/frontier", "get">> = {}): Promise<Frontier> {
    return this.transport.send(get("/v1/frontier", "items", { query: options }));
  }

  /** The projects that something is found of, by name. */
  projects({ pageSize }: ListOptions<"/v1/projects"> = {}): Listed<Project> {
    return this.transport.walk(pages("/v1/projects", { query: { limit: pageSize } }));
  }

  /** The agents that something is found of, in a project or in all, by name. */
  agents(
    project?: string | InProjectOptions<"/v1/agents">,
    options: ListOptions<"/v1/agents"> = {},
  ): Listed<Agent> {
    return this.transport.walk(pages("/v1/agents", { query: ofProject(project, options) }));
  }

  /** Many commands at once, each with a `type`: at most 10,000, and 16 MiB. A bad one is rejected alone. */
  batch(commands: Iterable<Command>): Promise<BatchAccepted> {
    const lines = Array.from(commands, (command) => encodedCommand({ ...command, event_id: eventIdOf(command) }));
    return this.transport.send(batchOf(lines));
  }

  /** Have everything of a subject forgotten, everywhere; `receipts.wait` returns when that is done. */
  forget(
    kind: "session" | "user" | "project",
    subject: string,
    options: Asked<Body<"/v1/forget", "post">, "kind" | "subject"> = {},
  ): Promise<Receipt> {
    const call = ask("/v1/forget", "id", { kind, subject, ...options }, { waits: false });
    return this.transport.send(call as Call<Receipt>);
  }

  /**
   * The log behind a position, up to its head, partition after partition.
   *
   * To go on later, collect the events' positions in a `Position` and pass its text as `after`.
   */
  events(
    after: string | EventOptions = "",
    options: Omit<EventOptions, "after"> = {},
  ): Listed<Event> {
    const { pageSize, ...query } = typeof after === "string" ? { ...options, after } : after;
    return this.transport.walk(eventsBehind<Event>({ ...query, after: query.after || undefined, limit: pageSize }));
  }

  /**
   * Events as soon as they can be read, from now on or behind `after`; it waits for more and does not end.
   *
   * A lost connection is made again without losing or repeating an event. Rejects with a MnemologError when that fails
   * as often as `retry` allows. Ends when the client is closed.
   */
  live(after: string | LiveOptions = "", options: Omit<LiveOptions, "after"> = {}): Listed<LiveEvent> {
    const query = typeof after === "string" ? { ...options, after } : after;
    return this.transport.follow<LiveEvent>({ ...query, after: query.after || undefined });
  }

  /** Whether the server's reads and writes work; an answer also where they do not. */
  health(): Promise<Health> {
    return this.transport.send({ ...get("/readyz", "status", { waits: false }), alsoAnswers: 503 } as Call<Health>);
  }
}

/** The query of a listing whose first argument is a project, or an object with it and all options. */
function ofProject<O extends object>(
  project: string | (O & { readonly project?: string | undefined; readonly pageSize?: number | undefined }) | undefined,
  options: O & { readonly pageSize?: number | undefined },
  otherwise?: string,
) {
  const { pageSize, ...query } = typeof project === "object" ? project : { ...options, project };
  return { ...query, project: query.project ?? otherwise, limit: pageSize };
}

const ENCODER = new TextEncoder();
const NEWLINE = 10;

/** A command as a line, without its end. */
export function encodedCommand(command: Readonly<Record<string, unknown>>): Uint8Array {
  return ENCODER.encode(json(withoutNull(command)));
}

/** The event id of a command, or one that no other has. */
export function eventIdOf(command: Repeatable): string {
  return command.event_id || newEventId();
}

/** The batch of commands that are encoded already, and have their event ids. */
export function batchOf(commands: readonly Uint8Array[]): Call<BatchAccepted> {
  return {
    method: "POST", path: "/v1/events", query: {}, lines: joined(commands), waits: "no", writes: true,
    read: batchAnswer,
  };
}

/** Commands leave an emitter's queue by this answer: it has to be one. */
function batchAnswer(answer: unknown): BatchAccepted {
  const told = having<BatchAccepted>("accepted")(answer);
  if (!Array.isArray(told.rejected)) throw new UnreadableAnswer("it has no list of what was rejected");
  return told;
}

/** Lines as one text, each with its end. */
export function joined(lines: readonly Uint8Array[]): Uint8Array {
  const text = new Uint8Array(lines.reduce((size, line) => size + line.length + 1, 0));
  let at = 0;
  for (const line of lines) {
    text.set(line, at);
    at += line.length + 1;
    text[at - 1] = NEWLINE;
  }
  return text;
}

function recallOf(query: string, { since, until, ...options }: RecallOptions): Call<Recalled> {
  const body = { ...options, query, from: since, to: until };
  return ask("/v1/recall", "results", body) as Call<Recalled>;
}

function receiptOf(receipt: string): Call<Receipt> {
  return get("/v1/forget/{id}", "id", { names: { id: receipt }, waits: false }) as Call<Receipt>;
}
