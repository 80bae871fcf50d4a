/** A real HTTP server on loopback that answers what a test says, and remembers what it was sent. */

import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** In the place of an answer: the connection is closed. */
export const CUT = "cut";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly query: Record<string, string>;
  readonly headers: IncomingMessage["headers"];
  readonly content: string;
}

/** What is answered once. */
export interface Reply {
  readonly body?: unknown;
  readonly status?: number;
  readonly headers?: Record<string, string>;
}

export type Answer = Reply | typeof CUT | ((received: Received) => Answer | Promise<Answer>);

/** The JSON of a body. */
export function bodyOf(received: Received | undefined): Record<string, unknown> {
  return JSON.parse(received!.content) as Record<string, unknown>;
}

/** The commands of a batch. */
export function commandsOf(received: Received): Record<string, unknown>[] {
  return received.content.trimEnd().split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The acknowledgement of a write. */
export function accepted(position = "0:1-0", said: Record<string, unknown> = {}): Reply {
  const told = { id: "mem_1", event_id: "e", position, duplicate: false, durability: "fsync" };
  return { body: { ...told, ...said }, status: 202 };
}

/** An error as the server tells it: a problem of RFC 9457. */
export function refused(status: number, code: string, retryAfter = "", said: Record<string, unknown> = {}): Reply {
  const problem = { type: `urn:mnemolog:error:${code}`, title: code, status, detail: `because of ${code}`, code };
  const headers = { "Content-Type": "application/problem+json", ...(retryAfter ? { "Retry-After": retryAfter } : {}) };
  return { body: { ...problem, ...said }, status, headers };
}

/** A batch of which all is accepted but the contents in `rejected`, for the codes there. */
export function batchAnswer(received: Received, rejected: Record<string, string> = {}, position = "0:1-0"): Reply {
  const commands = commandsOf(received);
  const refusals = commands.flatMap(({ content }, index) => {
    const code = rejected[String(content)];
    return code === undefined ? [] : [{ index, code, message: "no" }];
  });
  const count = commands.length - refusals.length;
  const told = { accepted: count, duplicates: 0, rejected: refusals, position, durability: "fsync" };
  return { body: told, status: 202 };
}

/** It gives each of `answers` once, in order, and then always `otherwise`. */
export class Stub {
  readonly received: Received[] = [];
  readonly answers: Answer[] = [];
  otherwise: Answer = refused(500, "not_scripted");
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async start(): Promise<Stub> {
    const stub = new Stub();
    await new Promise<void>((resolve) => stub.#server.listen(0, "127.0.0.1", resolve));
    return stub;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.url);
    const received: Received = {
      method: request.method!,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      content: await text(request),
    };
    this.received.push(received);
    let answer = this.answers.shift() ?? this.otherwise;
    while (typeof answer === "function") answer = await answer(received);
    if (answer === CUT) {
      request.socket.destroy();
      return;
    }
    const { body, status = 200, headers = {} } = answer;
    response.writeHead(status, headers);
    response.end(body instanceof Uint8Array ? body : JSON.stringify(body));
  }
}
