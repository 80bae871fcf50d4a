/** What the server answers, as its OpenAPI document says. Times are text: ISO 8601. Unknown fields may be there. */

import type { components } from "./openapi.ts";

type Schemas = components["schemas"];

/**
 * An acknowledged write: the document it concerns, its place in the log, and what that survives.
 *
 * `duplicate` is true when the event id was known already; `position` is then the first one's.
 */
export type Accepted = Schemas["RememberAnswer"];
/** An acknowledged change. One with a condition has the `version` that it made; a claim ends at `expires_at`. */
export type Applied = Schemas["Applied"];
/** A claim that is valid until `expires_at`: its fencing token, and the action. */
export type Claim = Schemas["Claim"];
/** What became of a batch. */
export type BatchAccepted = Schemas["BatchAnswer"];
/** Why one item of a batch was rejected. */
export type Rejection = Schemas["Rejection"];
/** Which documents were confirmed, and which are none that can be. */
export type Confirmed = Schemas["Confirmed"];
/** Which documents were judged, and which are none that this agent was given. */
export type Feedback = Schemas["Feedback"];
/** What a session that was forgotten took with it: documents by kind. */
export type Forgotten = Schemas["Forgotten"];
/** A version of a memory. */
export type Memory = Schemas["Memory"];
/** Something learned. `confidence` is as of `reinforced_at`. */
export type Lesson = Schemas["Lesson"];
/** A lesson, and how well it answers a query. */
export type FoundLesson = Schemas["FoundLesson"];
/** A lesson, and what is left of its confidence. */
export type SureLesson = Schemas["SureLesson"];
/** What an agent saw or did, and what was derived from it. */
export type Observation = Schemas["Observation"];
/** A session; `summarised` is how many of its observations its summary covers. */
export type Session = Schemas["Session"];
/** The summary of a session. */
export type Summary = Schemas["Summary"];
/** A summary and who made it; `fell_back` says why a model that is configured did not. */
export type SummaryMade = Schemas["SummaryMade"];
export type SessionStory = Schemas["SessionStory"];
/** A small named text that agents keep in view; `size` and `size_limit` are characters. */
export type Slot = Schemas["Slot"];
/** A work item that agents share. */
export type Action = Schemas["Action"];
/** What can be done now, most urgent first; `open` counts all that is still to be done. */
export type Frontier = Schemas["Frontier"];
/**
 * What was found, best first. `confidence` (0..1) and `certainty` say how likely the subject is recorded. `degraded` says
 * what it may lack.
 */
export type Recalled = Omit<Schemas["RecallAnswer"], "confidence" | "results"> & {
  results: RecallResult[];
  confidence: number | null;
};
/** A document that was found. `score` compares within one answer, `confidence` (0..1) among all. */
export type RecallResult = Required<Schemas["RecallResult"]>;
/** What an agent should know before it starts, as one text, and what the budget left out. */
export type Context = Schemas["Context"];
/** A project, `""` the nameless one, and how many documents of it the reader may find. */
export type Project = Schemas["ProjectCount"];
/** An agent, and how many documents that it wrote the reader may find. */
export type Agent = Schemas["AgentCount"];
/** What became of a request to forget; `status` is `pending`, `running` or `done`. */
export type Receipt = Required<Schemas["Receipt"]>;

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
export type Shortcoming = Schemas["Shortcoming"];

/**
 * Whether reads and writes work: `status` is `ready`, `degraded`, `starting` or `unavailable`.
 *
 * `degraded` is what they do not do well; of the last two, `code` and `reason` say why.
 */
export type Health = Partial<Omit<Schemas["Usable"], "status">> & { status: string; code?: string; reason?: string };
