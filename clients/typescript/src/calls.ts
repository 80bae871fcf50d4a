/**
 * Calls as values: what is sent, and what its answer is read as. Nothing here connects to anything.
 *
 * Routes, fields and answers have the types of the server's OpenAPI document: a call that the server does not take is a
 * type error.
 */

import { InvalidRequest, isObject } from "./errors.ts";
import type { paths } from "./openapi.ts";

type Method = "get" | "post" | "patch" | "delete";
export type Path<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths];

/** What a route answers when it succeeds. */
export type Answer<P extends keyof paths, M extends Method> = paths[P][M] extends { responses: infer R }
  ? R[keyof R] extends { content: { "application/json": infer A } }
    ? A
    : never
  : never;

/** The body that a route takes. */
export type Body<P extends keyof paths, M extends Method> = paths[P][M] extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer T } }
    ? T
    : never
  : never;

/** The query string that a route takes. */
export type Query<P extends keyof paths, M extends Method> = paths[P][M] extends { parameters: { query?: infer Q } }
  ? NonNullable<Q>
  : never;

type Moment = "as_of" | "from" | "occurred_at" | "since" | "to" | "until" | "valid_until";
type Value<T> = T extends readonly (infer I)[] ? readonly I[] : T;

/** What a caller may give for fields: times as Date, too, and undefined for what is not sent. */
export type Given<T> = { [K in keyof T]: Value<T[K]> | undefined | (K extends Moment ? Date : never) };

type Names<P extends string> = P extends `${string}{${infer N}}${infer R}` ? { [K in N]: string } & Names<R> : unknown;
type Items<A> = A extends { items: (infer I)[] } ? I : never;
type Fields = Readonly<Record<string, unknown>>;

/** One request, and how its answer is read. A retry sends the same bytes with the same event id. */
export interface Call<T> {
  readonly method: string;
  readonly path: string;
  readonly query: Fields;
  /** What is sent as JSON. */
  readonly body?: Fields;
  /** What is sent as it is: commands, a line each. */
  readonly lines?: Uint8Array;
  /** Where `after` goes, if anywhere. */
  readonly waits: "query" | "body" | "no";
  /** A write's answer says where it is in the log. */
  readonly writes: boolean;
  /** A status that is no success, and has an answer that is read all the same. */
  readonly alsoAnswers?: number;
  /** What the JSON of an answer says; throws UnreadableAnswer. */
  readonly read: (answer: unknown) => T;
}

/** A listing as the call for its first page; `step` gives the call for the next. */
export interface Listing<T> {
  readonly first: Call<Page<T>>;
  readonly step: (call: Call<Page<T>>, page: Page<T>) => Call<Page<T>> | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** An answer that is not one to the call. */
export class UnreadableAnswer extends Error {}

interface Options<P extends Path<M>, M extends Method> {
  readonly names?: Names<P>;
  readonly query?: Given<Query<P, M>>;
  readonly waits?: boolean;
}

/** An id that no other write has. */
export function newEventId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A read, which waits for the caller's own writes; its answer is known by the field that it has. */
export function get<P extends Path<"get">>(
  path: P,
  has: keyof Answer<P, "get"> & string,
  { names, query, waits = true }: Options<P, "get"> = {},
): Call<Answer<P, "get">> {
  return {
    method: "GET", path: filled(path, names), query: query ?? {}, waits: waits ? "query" : "no", writes: false,
    read: having(has),
  };
}

/** A read of all of a short list. */
export function getItems<P extends Path<"get">>(
  path: P,
  options: Options<P, "get"> = {},
): Call<Items<Answer<P, "get">>[]> {
  return taking(get(path, "items" as keyof Answer<P, "get"> & string, options), itemsOf);
}

/** A question with a body. */
export function ask<P extends Path<"post">>(
  path: P,
  has: keyof Answer<P, "post"> & string,
  body: Given<Body<P, "post">>,
  { waits = true }: { readonly waits?: boolean } = {},
): Call<Answer<P, "post">> {
  return { method: "POST", path, query: {}, body, waits: waits ? "body" : "no", writes: false, read: having(has) };
}

/** A question with a body, for a short list; it takes no `after`. */
export function askItems<P extends Path<"post">>(
  path: P,
  body: Given<Body<P, "post">>,
): Call<Items<Answer<P, "post">>[]> {
  return taking(ask(path, "items" as keyof Answer<P, "post"> & string, body, { waits: false }), itemsOf);
}

/** The same question, of whose answer only `some` is wanted. */
export function taking<T, R>(call: Call<T>, some: (answer: T) => R): Call<R> {
  return { ...call, read: (answer) => some(call.read(answer)) };
}

/** A write with a body, which gets an event id unless it has one. */
export function write<M extends "post" | "patch", P extends Path<M>>(
  method: M,
  path: P,
  body: Given<Body<P, M>>,
  names?: Names<P>,
): Call<Answer<P, M>> {
  const named = { ...body, event_id: ("event_id" in body && body.event_id) || newEventId() };
  return {
    method: method.toUpperCase(), path: filled(path, names), query: {}, body: named, waits: "no", writes: true,
    read: having("position"),
  };
}

/** A write without a body, which gets an event id unless it has one. */
export function writeBare<M extends "post" | "delete", P extends Path<M>>(
  method: M,
  path: P,
  query: Given<Query<P, M>>,
  names?: Names<P>,
): Call<Answer<P, M>> {
  const named = { ...query, event_id: ("event_id" in query && query.event_id) || newEventId() };
  return {
    method: method.toUpperCase(), path: filled(path, names), query: named, waits: "no", writes: true,
    read: having("position"),
  };
}

/** A write that takes no event id, because doing it again changes nothing. */
export function unnamedWrite<M extends "post" | "delete", P extends Path<M>>(
  method: M,
  path: P,
  fields: Given<M extends "post" ? Body<P, M> : Query<P, M>>,
  names?: Names<P>,
): Call<Answer<P, M>> {
  const sent = method === "post" ? { query: {}, body: fields } : { query: fields };
  return {
    method: method.toUpperCase(), path: filled(path, names), ...sent, waits: "no", writes: true,
    read: having("position"),
  };
}

/** A listing whose pages follow each other by `cursor`; it waits for the caller's own writes. */
export function pages<P extends Path<"get">>(
  path: P,
  options: Options<P, "get">,
): Listing<Items<Answer<P, "get">>> {
  const first = get(path, "items" as keyof Answer<P, "get"> & string, options);
  return { first: first as Call<Page<Items<Answer<P, "get">>>>, step: nextPage };
}

function nextPage<T>(call: Call<Page<T>>, page: Page<T>): Call<Page<T>> | undefined {
  return page.next === null ? undefined : { ...call, query: { ...call.query, cursor: page.next } };
}

/** The log behind a position, up to its head. */
export function eventsBehind<T>(query: Given<Query<"/v1/events", "get">>): Listing<T> {
  const events = get("/v1/events", "events", { query, waits: false });
  return { first: taking(events, ({ events, next }) => ({ items: events as T[], next })), step: nextEvents };
}

/** A page with filters may be empty on the way: the head is where `next` does not change. */
function nextEvents<T>(call: Call<Page<T>>, page: Page<T>): Call<Page<T>> | undefined {
  const atHead = page.next === null || (page.items.length === 0 && page.next === call.query["after"]);
  return atHead ? undefined : { ...call, query: { ...call.query, after: page.next } };
}

/** The query string of a request that waits for `after`, with its question mark; empty for nothing. */
export function queryString(call: Call<unknown>, after: string): string {
  const fields = call.waits === "query" && after ? { ...call.query, after } : call.query;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, asText(value)])).toString();
  return text && `?${text}`;
}

/** The body of a request that waits for `after`. */
export function encoded(call: Call<unknown>, after: string): string | Uint8Array | undefined {
  if (call.body === undefined) return call.lines;
  return json(withoutNull(call.waits === "body" && after ? { ...call.body, after } : call.body));
}

/** Fields as JSON; throws InvalidRequest for a value that has no JSON form. */
export function json(fields: Fields): string {
  try {
    return JSON.stringify(fields);
  } catch (fault) {
    const kinds = Object.entries(fields).map(([name, value]) => `${name}: ${typeof value}`).join(", ");
    throw new InvalidRequest("unsendable", `one of these cannot be sent as JSON: ${kinds}`, { cause: fault });
  }
}

/** The fields that are given. */
export function withoutNull(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

function filled(path: string, names: unknown): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const given: unknown = (names as Record<string, unknown>)[name];
    if (typeof given !== "string") throw new TypeError(`${path} needs a text for ${name}, not ${typeof given}`);
    return encodeURIComponent(given);
  });
}

/** Reads an answer as what it is declared to be, where it has one of the fields of that. */
export function having<A>(field: string): (answer: unknown) => A {
  return (answer) => {
    if (isObject(answer) && field in answer) return answer as A;
    throw new UnreadableAnswer(`it has no ${field}`);
  };
}

function itemsOf<A>(answer: A): Items<A>[] {
  return (answer as { items: Items<A>[] }).items;
}

function asText(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}
