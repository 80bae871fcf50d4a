/** What the server answers, as its OpenAPI document says. Times are text: ISO 8601. Unknown fields may be there. */

import type { Answer } from "./calls.ts";

type Item<A> = A extends { items: (infer I)[] } ? I : never;

/**
 * An acknowledged write: the document it concerns, its place in the log, and what that survives.
 *
 * `duplicate` is true when the event id was known already; `position` is then the first one's.
 */
export type Accepted = Answer<"/v1/memories", "post">;
/** What became of a batch. */
export type BatchAccepted = Answer<"/v1/events", "post">;
/** Why one item of a batch was rejected. */
export type Rejection = BatchAccepted["rejected"][number];
/** Which documents were confirmed, and which are none that can be. */
export type Confirmed = Answer<"/v1/confirm", "post">;
/** What a session that was forgotten took with it: documents by kind. */
export type Forgotten = Answer<"/v1/sessions/{id}", "delete">;
/** A version of a memory. */
export type Memory = Answer<"/v1/memories/{id}", "get">;
/** Something learned. `confidence` is as of `reinforced_at`. */
export type Lesson = Answer<"/v1/lessons/{id}", "get">;
/** A lesson, and how well it answers a query. */
export type FoundLesson = Item<Answer<"/v1/lessons/search", "post">>;
/** A lesson, and what is left of its confidence. */
export type SureLesson = Item<Answer<"/v1/lessons/surest", "get">>;
/** What an agent saw or did, and what was derived from it. */
export type Observation = Answer<"/v1/observations/{id}", "get">;
/** A session; `summarised` is how many of its observations its summary covers. */
export type Session = Answer<"/v1/sessions/{id}", "get">;
/** The summary of a session. */
export type Summary = Answer<"/v1/sessions/{id}/summary", "get">;
/** A summary and who made it; `fell_back` says why a model that is configured did not. */
export type SummaryMade = Answer<"/v1/sessions/{id}/summary", "post">;
/** A small named text that agents keep in view; `size` and `size_limit` are characters. */
export type Slot = Answer<"/v1/slots/{label}", "get">;
/** A work item that agents share. */
export type Action = Answer<"/v1/actions/{id}", "get">;
/** What can be done now, most urgent first; `open` counts all that is still to be done. */
export type Frontier = Answer<"/v1/frontier", "get">;
/**
 * What was found, best first. `confidence` (0..1) and `certainty` say how likely the subject is recorded. `degraded` says
 * what it may lack.
 */
export type Recalled = Omit<Answer<"/v1/recall", "post">, "confidence" | "results"> & {
  results: RecallResult[];
  confidence: number | null;
};
/** A document that was found. `score` compares within one answer, `confidence` (0..1) among all. */
export type RecallResult = Required<Answer<"/v1/recall", "post">["results"][number]>;
/** What an agent should know before it starts, as one text, and what the budget left out. */
export type Context = Answer<"/v1/context", "post">;
/** A project, `""` the nameless one, and how many documents of it the reader may find. */
export type Project = Item<Answer<"/v1/projects", "get">>;
/** An agent, and how many documents that it wrote the reader may find. */
export type Agent = Item<Answer<"/v1/agents", "get">>;
/** What became of a request to forget; `status` is `pending`, `running` or `done`. */
export type Receipt = Required<Answer<"/v1/forget/{id}", "get">>;

/** An event of the log. `data` is empty where it was erased or is withheld from this reader. */
export interface Event {
  position: string;
  recorded_at?: string;
  event_id?: string;
  type?: string;
  version?: number;
  project?: string;
  session_id?: string;
  agent_id?: string;
  user_id?: string;
  occurred_at?: string;
  metadata?: Record<string, string>;
  data?: Record<string, unknown>;
  withheld?: boolean;
}

/** An event of the live stream. A stream that begins with its `after` continues behind it. */
export interface LiveEvent extends Event {
  after: string;
}

/** One thing that is not as it should be. */
export interface Shortcoming {
  code: string;
  message: string;
}

/**
 * Whether reads and writes work: `status` is `ready`, `degraded`, `starting` or `unavailable`.
 *
 * `degraded` is what they do not do well; of the last two, `code` and `reason` say why.
 */
export interface Health {
  status: string;
  degraded?: Shortcoming[];
  code?: string;
  reason?: string;
  documents?: number | null;
  lag?: Record<string, number>;
  vitals?: Record<string, unknown>;
}
