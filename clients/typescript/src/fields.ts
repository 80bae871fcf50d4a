/**
 * The fields of what is written and asked, beside those that stand apart. Their names are those of the wire; limits and
 * defaults are in the server's docs/api.md. What is undefined or null is not sent.
 */

import type { Body, Given, Path, Query } from "./calls.ts";

/** All fields but some. */
type Apart<T, K extends string> = Given<Omit<T, K>>;

/** What an observation may say. */
export type OfObservation = Apart<Body<"/v1/observations", "post">, "type" | "content" | "session_id">;
/** What a memory may say. */
export type OfMemory = Apart<Body<"/v1/memories", "post">, "type" | "content">;
/** What to change of a memory; what is absent stays. */
export type MemoryChanges = Given<Body<"/v1/memories/{id}", "patch">>;
/** What a lesson may say. */
export type OfLesson = Apart<Body<"/v1/lessons", "post">, "type" | "content">;
/** What to change of a lesson; what is absent stays. */
export type LessonChanges = Apart<Body<"/v1/lessons/{id}", "patch">, "type" | "lesson">;
/** What is known of a session when it starts. */
export type SessionStart = Apart<
  Body<"/v1/sessions", "post">,
  "type" | "session_id" | "status" | "reason" | "outcome"
>;
/** How a session ended. */
export type SessionEnd = Apart<
  Body<"/v1/sessions", "post">,
  "type" | "session_id" | "status" | "cwd" | "title" | "agent_type"
>;
/** Which answer the judged documents are from, and why. */
export type FeedbackOptions = Apart<Body<"/v1/feedback", "post">, "verdict" | "ids">;
export type Verdict = Body<"/v1/feedback", "post">["verdict"];
/** What a slot may be beside its text. */
export type OfSlot = Apart<Body<"/v1/slots", "post">, "type" | "label" | "content" | "append">;
/** What a work item may say. */
export type OfAction = Apart<
  Body<"/v1/actions", "post">,
  "type" | "title" | "action" | "result" | "crystallized_into"
>;
/** What to change of a work item; what is absent stays, edges are added. */
export type ActionChanges = Apart<Body<"/v1/actions/{id}", "patch">, "type" | "action" | "parent">;
/** How long a claim lasts. */
export type ClaimOptions = Apart<Body<"/v1/actions/{id}/claim", "post">, "agent_id">;
/** What narrows or weighs a recall. `since` and `until` are the bounds of when it happened, inclusive. */
export type RecallOptions = Apart<Body<"/v1/recall", "post">, "query" | "after" | "from" | "to"> & {
  readonly since?: string | Date | null | undefined;
  readonly until?: string | Date | null | undefined;
};
/** For whom a context is, and how long it may be. */
export type ContextOptions = Apart<Body<"/v1/context", "post">, "project" | "after">;
/** A command of `POST /v1/events`. */
export type Command = Body<"/v1/events", "post"> extends (infer C)[] ? (C extends unknown ? Given<C> : never) : never;

/** What narrows a question, beside what stands apart. */
export type Asked<T, K extends string = never> = Apart<T, K | "after">;

/** What narrows a listing of a project, and the project. */
export type InProjectOptions<P extends Path<"get">> = ListOptions<P> & { readonly project?: string | undefined };

/** What narrows a listing; `pageSize` is the `limit` of one page. */
export type ListOptions<P extends Path<"get">> = Apart<Query<P, "get">, "project" | "after" | "cursor" | "limit"> & {
  readonly pageSize?: number | undefined;
};
