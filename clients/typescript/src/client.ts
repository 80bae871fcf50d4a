/// <reference lib="esnext.disposable" preserve="true" />
/** The client: `Mnemolog`. */

import { Emitter } from "./emitter.ts";
import { Root } from "./nouns.ts";
import type { EmitterOptions } from "./outbox.ts";
import { openOutbox } from "./outbox.ts";
import { Position } from "./position.ts";
import type { RetryOptions } from "./retry.ts";
import { Retry } from "./retry.ts";
import { Transport } from "./sending.ts";

const DEFAULT_URL = "http://127.0.0.1:3111";
const TIMEOUT_S = 30;

export interface MnemologOptions {
  /** MNEMOLOG_URL, else http://127.0.0.1:3111, unless given. */
  readonly url?: string | undefined;
  /** MNEMOLOG_KEY, else MNEMOLOG_SECRET, unless given; an empty string is no key. */
  readonly secret?: string | undefined;
  /** Who reads and writes. */
  readonly agent?: string | undefined;
  /** That of another client: reads wait for what it wrote. */
  readonly position?: string | undefined;
  readonly retry?: RetryOptions | undefined;
  /** Of one attempt. */
  readonly timeoutS?: number | undefined;
  /**
   * Called before an incomplete read resolves, with the request (`GET /v1/sessions`) and what was left out because a
   * node of the cluster is away.
   */
  readonly onDegraded?: ((asked: string, leftOut: string) => void) | undefined;
  /** Sends the requests; the platform's own unless given. */
  readonly fetch?: typeof fetch | undefined;
}

/** A client. `close` it, or leave the block of `await using`. */
export class Mnemolog extends Root {
  constructor(options: MnemologOptions = {}) {
    const { agent = "", timeoutS = TIMEOUT_S } = options;
    const position = new Position(options.position);
    const transport = new Transport({
      url: address(options.url),
      headers: headers(options.secret ?? (variable("MNEMOLOG_KEY") || variable("MNEMOLOG_SECRET")), agent),
      position,
      retry: new Retry(options.retry),
      timeoutS,
      onDegraded: options.onDegraded,
      fetch: options.fetch ?? globalThis.fetch,
    });
    super(transport, position, agent);
  }

  /** End what is under way; further calls are refused. */
  async close(): Promise<void> {
    this.transport.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Sends many commands in the background. With the folder `spool`, in Node, they survive this process. */
  async emitter(spool?: string, options: EmitterOptions = {}): Promise<Emitter> {
    return new Emitter(this.transport, await openOutbox(this.agent, spool, options));
  }
}

/** The address of a server, without a slash at its end; throws TypeError for one that is not http or https. */
function address(url: string | undefined): string {
  const chosen = url || variable("MNEMOLOG_URL") || DEFAULT_URL;
  if (!URL.canParse(chosen) || !/^https?:$/.test(new URL(chosen).protocol)) {
    throw new TypeError(`'${chosen}' is not an http:// or https:// address`);
  }
  return chosen.replace(/\/+$/, "");
}

function headers(secret: string, agent: string): Record<string, string> {
  return {
    ...(secret ? { Authorization: `Bearer ${secret}` } : {}),
    ...(agent ? { "X-Agent-Id": inUtf8(agent) } : {}),
  };
}

/** A header of these bytes: `Headers` takes a character for each byte, and refuses characters that do not fit one. */
function inUtf8(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/** A variable of the environment, where there is one. */
function variable(name: string): string {
  return globalThis.process?.env?.[name] ?? "";
}
