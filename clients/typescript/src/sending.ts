/** Sending a call until it is answered: when to repeat, how long to wait, and what to wait for. */

import type { Call, Listing, Page } from "./calls.ts";
import { encoded, queryString, UnreadableAnswer } from "./calls.ts";
import type { Reply } from "./errors.ts";
import {
  errorOf, InvalidRequest, MnemologError, ServerFault, unanswered, Unavailable, Unreachable,
} from "./errors.ts";
import { blocksOf, eventOf, SILENCE_S, STREAM } from "./live.ts";
import type { Position } from "./position.ts";
import type { Retry } from "./retry.ts";
import { Attempts, timerMs } from "./retry.ts";

const POLL_EVERY_S = 0.2;
/** The header of an answer that was made without what is on a node of a cluster that is away. */
const DEGRADED = "Mnemolog-Degraded";
/** What reading an answer throws that is not the server's: no JSON, unexpected JSON, an invalid position. */
const UNREADABLE = [SyntaxError, UnreadableAnswer, RangeError];

export interface TransportOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly position: Position;
  readonly retry: Retry;
  /** Of one attempt. */
  readonly timeoutS: number;
  readonly onDegraded: ((asked: string, leftOut: string) => void) | undefined;
  readonly fetch: typeof fetch;
}

/** Carries calls out. Reads wait for the position, writes are included in it. */
export class Transport {
  readonly #options: TransportOptions;
  readonly #underWay = new Set<AbortController>();
  #closed = false;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** The answer; rejects with a MnemologError. An attempt ends at once when `signal` says so. */
  async send<T>(call: Call<T>, retry: Retry = this.#options.retry, signal?: AbortSignal): Promise<T> {
    const after = this.#options.position.toString();
    const url = this.#options.url + call.path + queryString(call, after);
    const request = this.#request(call, encoded(call, after));
    const attempts = new Attempts(retry);
    for (let lost = false; ; ) {
      const outcome = await this.#attempt(url, request, signal);
      if (!(outcome instanceof MnemologError) && isAnswer(call, outcome.status)) {
        const answer = this.#read(call, outcome);
        if (outcome.leftOut !== null) this.#options.onDegraded?.(`${call.method} ${call.path}`, outcome.leftOut);
        return answer;
      }
      const error = outcome instanceof MnemologError ? outcome : errorOf(outcome);
      error.afterLostAttempt = lost && !error.retryable;
      lost ||= error.outcomeUnknown;
      await this.#pause(attempts.pauseS(error));
    }
  }

  /** The answer to a call that is made again, at most for `withinS`, until its answer is done. */
  async poll<T>(call: Call<T>, isDone: (answer: T) => boolean, withinS: number): Promise<T> {
    for (let waitedS = 0; ; waitedS += POLL_EVERY_S) {
      const answer = await this.send(call);
      if (isDone(answer)) return answer;
      if (waitedS + POLL_EVERY_S > withinS) {
        throw new Unavailable("not_done", `${call.path} was not done within ${withinS} s: ${JSON.stringify(answer)}`);
      }
      await this.#pause(POLL_EVERY_S);
    }
  }

  /** What is listed, page by page as it is asked for. */
  async *walk<T>(listing: Listing<T>): AsyncGenerator<T, void, undefined> {
    for (let call: Call<Page<T>> | undefined = listing.first; call !== undefined; ) {
      const page: Page<T> = await this.send(call);
      yield* page.items;
      call = listing.step(call, page);
    }
  }

  /** The events of the live stream; it continues behind the newest after each loss of the connection. */
  async *follow<T>(query: Readonly<Record<string, unknown>>): AsyncGenerator<T, void, undefined> {
    let after = query["after"];
    for (let attempts = new Attempts(this.#options.retry); !this.#closed; ) {
      const ending = new AbortController();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const listen = (): void => {
        clearTimeout(timer);
        timer = setTimeout(() => ending.abort(new Error(`silent for ${SILENCE_S} s`)), timerMs(SILENCE_S));
      };
      let error: MnemologError = new Unreachable("unreachable", `${this.#options.url}: the stream ended`);
      this.#underWay.add(ending);
      try {
        listen();
        const body = await this.#opened({ ...query, after }, ending.signal);
        const came = (): void => {
          attempts = new Attempts(this.#options.retry);
          clearTimeout(timer); // what is done with an event may take longer than a silence
        };
        for await (const fields of blocksOf(body, listen, came)) {
          after = fields.get("id") ?? after;
          const data = fields.get("data");
          if (data !== undefined) yield eventOf<T>(data, String(after));
        }
      } catch (fault) {
        error = fault instanceof MnemologError ? fault : unanswered(this.#options.url, fault);
      } finally {
        clearTimeout(timer);
        this.#underWay.delete(ending);
        ending.abort();
      }
      if (this.#closed) return;
      await this.#pause(attempts.pauseS(error));
    }
  }

  /** The body of the live stream; throws the error of another answer. */
  async #opened(query: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const call: Call<unknown> = { method: "GET", path: "/v1/live", query, waits: "no", writes: false, read: String };
    const url = this.#options.url + call.path + queryString(call, "");
    const response = await this.#options.fetch.call(globalThis, url, { ...this.#request(call, undefined), signal });
    const { body, headers, ok, status } = response;
    if (ok && body !== null && headers.get("Content-Type")?.startsWith(STREAM)) return body;
    const text = await response.text();
    if (!ok) throw errorOf({ url, status, text, retryAfter: headers.get("Retry-After"), leftOut: null });
    throw new ServerFault("unreadable_answer", `${url} answered without a stream of events`, { status });
  }

  /** End what is under way, and send nothing more. */
  close(): void {
    this.#closed = true;
    for (const one of this.#underWay) one.abort(new Error("the client was closed"));
  }

  #request(call: Call<unknown>, body: string | Uint8Array | undefined): RequestInit {
    const type = call.lines === undefined ? "application/json" : "application/x-ndjson";
    const named = body === undefined ? this.#options.headers : { ...this.#options.headers, "Content-Type": type };
    try {
      const sent = body === undefined ? {} : { body: body as BodyInit };
      return { method: call.method, headers: new Headers(named), redirect: "manual", ...sent };
    } catch (fault) {
      const message = `the request cannot be sent: ${(fault as Error).message}`;
      throw new InvalidRequest("unsendable", message, { cause: fault });
    }
  }

  async #attempt(url: string, request: RequestInit, signal: AbortSignal | undefined): Promise<Reply | MnemologError> {
    if (this.#closed) return new MnemologError("client_closed", "the client was closed");
    const ending = new AbortController();
    const end = (): void => ending.abort(signal?.reason);
    const timer = setTimeout(
      () => ending.abort(new Error(`no answer within ${this.#options.timeoutS} s`)),
      timerMs(this.#options.timeoutS),
    );
    this.#underWay.add(ending);
    signal?.addEventListener("abort", end);
    try {
      const response = await this.#options.fetch.call(globalThis, url, { ...request, signal: ending.signal });
      const text = await response.text();
      const { headers, status } = response;
      return { url, status, text, retryAfter: headers.get("Retry-After"), leftOut: headers.get(DEGRADED) };
    } catch (fault) {
      return unanswered(this.#options.url, fault);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      this.#underWay.delete(ending);
    }
  }

  /** Resolves after so long, or when the client is closed. */
  #pause(seconds: number): Promise<void> {
    return new Promise((resolve) => {
      const ending = new AbortController();
      const end = (): void => {
        clearTimeout(timer);
        this.#underWay.delete(ending);
        resolve();
      };
      const timer = setTimeout(end, timerMs(seconds));
      ending.signal.addEventListener("abort", end);
      this.#underWay.add(ending);
    });
  }

  #read<T>(call: Call<T>, reply: Reply): T {
    try {
      const json: unknown = JSON.parse(reply.text);
      const answer = call.read(json);
      if (call.writes) this.#options.position.include(String((json as { position: unknown }).position));
      return answer;
    } catch (fault) {
      if (!UNREADABLE.some((kind) => fault instanceof kind)) throw fault;
      const why = fault instanceof SyntaxError ? "it is not JSON" : (fault as Error).message;
      const message = `${reply.url} answered ${reply.status}, which cannot be read: ${why}`;
      throw new ServerFault("unreadable_answer", message, { status: reply.status, cause: fault });
    }
  }
}

function isAnswer(call: Call<unknown>, status: number): boolean {
  return (status >= 200 && status < 300) || status === call.alsoAnswers;
}
