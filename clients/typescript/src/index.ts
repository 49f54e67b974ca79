/**
 * The client of a Lockstep transaction manager (`lockstep txm`).
 *
 * ```ts
 * const txm = new TxManager({ url: "http://127.0.0.1:7550" });
 * const tx = await txm.send({ chain: 298, to, value: 10n ** 18n }, { idempotencyKey: "order-17", wait: "mined" });
 * ```
 *
 * @module
 */
import type { Code, IntentBody, ListBody, Operations, Record as Execution, SimulatedBody, Transaction } from "./openapi.js";

export type { Attempt, Code, Operations, Outcome, Receipt, Signer, SimulatedBody, Step, Transaction } from "./openapi.js";
export type { Record as Execution } from "./openapi.js";

/** What is to happen. Amounts are in the chain's smallest unit: a bigint, text, or a number below 2⁵³. */
export type Intent = IntentBody;

/** What a signer may add to each intent of its own, besides what the transaction says. */
export type IntentDefaults = Omit<Intent, "chain" | "to" | "value" | "data" | "actions" | "function" | "args" | "bytecode" | "abi" | "idempotencyKey">;

/** Where a transaction stands. `unknown` means that it may have left, and never that it failed. */
export type Status = Transaction["status"];

/** How far a transaction is to come before a call returns. One that has ended in another way counts, too: read its `status`. */
export type Until = "broadcast" | "mined" | "confirmed";

/** One step of a transaction, from `stream`. */
export interface TxEvent {
  /** Go on behind this one with `stream({ after: cursor })`. */
  cursor: number;
  /** Such as `tx.mined`. */
  kind: string;
  /** The transaction's `subject`, or its id. */
  subject: string;
  at: string;
  body: { id?: string; status?: Status; hash?: string; idempotencyKey?: string; [more: string]: unknown };
}

export interface TxManagerOptions {
  /** Of the manager; http://127.0.0.1:7550 if left out. */
  url?: string;
  /** An access key (`lst_…`, `lsk_…`), if the manager wants one. */
  key?: string;
  /** Sent with every call, such as what a gateway in front of the manager asks for. */
  headers?: Record<string, string>;
  /** Instead of the global fetch, such as that of a service binding of a Worker. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** How often a call is repeated whose answer did not come; 6 if left out. */
  retries?: number;
  /** Milliseconds that one try may take, besides the time that it is to wait; 20,000 if left out. */
  attemptTimeout?: number;
  /** Bytes that are read of one answer; 32 MiB if left out. */
  maxBytes?: number;
}

export interface CallOptions {
  /** Ends the call, and nothing else: what was accepted goes on. */
  signal?: AbortSignal | undefined;
}

export interface WaitOptions extends CallOptions {
  /** Milliseconds; 60,000 if left out, Infinity for no end. When they are over, the transaction is returned as it is then. */
  timeout?: number | undefined;
}

export interface SendOptions extends WaitOptions {
  /** What makes it safe to call again: the same key and intent are one transaction, for ever. Left out, one is drawn for this call alone. */
  idempotencyKey?: string | undefined;
  wait?: Until | undefined;
}

/** Every error of this package. `code` tells programs what it is; for an answer of the manager it is that answer's. */
export class LockstepError extends Error {
  readonly code: Code | "UNKNOWN_OUTCOME" | "UNREACHABLE" | "NOT_THE_MANAGER" | "NOT_EXECUTED" | "NOT_SENT" | (string & {});
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The manager refused the call: nothing was accepted. */
export class Problem extends LockstepError {
  readonly status: number;
  readonly detail: string;
  /** What was wrong with the body, by its members. */
  readonly errors: { location?: string; message?: string }[];
  /** The nonces of a NONCE_CONFLICT. */
  readonly currentNonce?: number;
  readonly attemptedNonce?: number;
  readonly shouldRetry?: boolean;
  /** What the call returned, of WOULD_REVERT. */
  readonly output?: string;
  /** The transaction that has the bytes, of DUPLICATE. */
  readonly id?: string;
  /** Milliseconds after which it is worth to ask again, if the answer says. */
  readonly retryAfter?: number;
  constructor(status: number, body: Record<string, unknown>, retryAfter?: number) {
    const detail = String(body.detail ?? body.title ?? "");
    const code = typeof body.code === "string" ? body.code : "HTTP_" + status;
    super(code, `the transaction manager answered ${status} ${code}${detail && ": " + detail}`);
    Object.assign(this, pick(body, ["currentNonce", "attemptedNonce", "shouldRetry", "output", "id"]));
    this.status = status;
    this.detail = detail;
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    if (retryAfter !== undefined) this.retryAfter = retryAfter;
  }
}

/**
 * Nobody can say whether the manager accepted it. Calling again with this `idempotencyKey` and the same intent settles that: it
 * returns the transaction there is, or makes the first one.
 */
export class UnknownOutcomeError extends LockstepError {
  readonly idempotencyKey: string | undefined;
  constructor(idempotencyKey: string | undefined, cause: unknown) {
    const again = idempotencyKey === undefined ? "" : `; calling again under the idempotency key ${idempotencyKey} settles it`;
    super("UNKNOWN_OUTCOME", `it is unknown whether the transaction manager accepted this (${textOf(cause)})${again}`, { cause });
    this.idempotencyKey = idempotencyKey;
  }
}

/**
 * A transaction was accepted, and has no hash to return: it has ended without being executed (NOT_EXECUTED), or nobody has sent it yet
 * (NOT_SENT), in which case it is still going to be. Only the signers for ethers and viem throw it.
 */
export class FateError extends LockstepError {
  readonly transaction: Transaction;
  constructor(transaction: Transaction) {
    const why = transaction.error?.message ?? transaction.waiting;
    super(unexecuted(transaction) ? "NOT_EXECUTED" : "NOT_SENT",
      unexecuted(transaction) ? `transaction ${transaction.id} is ${transaction.status}${why ? ": " + why : ""}`
        : `transaction ${transaction.id} is accepted and not sent yet${why ? ": " + why : ""}; it is not lost, wait for its id`);
    this.transaction = transaction;
  }
}

/** Whether an error is an answer of the manager, and the one with this code. */
export function isProblem(err: unknown, code?: Code): err is Problem {
  return err instanceof Problem && (code === undefined || err.code === code);
}

/** Whether the transaction is in a block and was successful. */
export function executed(tx: Transaction): boolean {
  return tx.receipt?.success === true && (tx.status === "mined" || tx.status === "confirmed");
}

/** Whether its way is over, well or not. Only `final` says that this never changes. */
export function ended(tx: Transaction): boolean {
  return unexecuted(tx) || tx.status === "confirmed" || tx.status === "reverted";
}

/** Whether it has ended and will have no effect: it failed, or something else has its nonce. */
export function unexecuted(tx: Transaction): boolean {
  return ["failed", "cancelled", "expired", "replaced"].includes(tx.status);
}

const ranks: readonly Status[] = ["accepted", "assigned", "signed", "unknown", "broadcast", "mined", "confirmed"];

/** Whether a transaction has come as far as this, or has ended. */
export function reached(tx: Transaction, until: Until): boolean {
  return ended(tx) || ranks.indexOf(tx.status) >= ranks.indexOf(until);
}

type Input<K extends keyof Operations> = Omit<Operations[K], "answer">;

// What the manager answers before it knows the idempotency key says nothing of an earlier try under that key. These two do.
const aboutTheKey = ["IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_KEY_FORGOTTEN"];
const maxPause = 10_000;
const maxWait = 30_000; // of one call; the manager allows a minute
const maxEvent = 4 << 20;

const definite = ["KILLED", "HALTED"]; // of a 5xx: nothing was accepted

/** A transaction manager. Many calls may be on their way at once. */
export class TxManager {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly #retries: number;
  readonly #attemptTimeout: number;
  readonly #maxBytes: number;

  constructor(options: TxManagerOptions = {}) {
    this.#url = (options.url ?? "http://127.0.0.1:7550").replace(/\/+$/, "");
    if (!/^https?:\/\/[^/]/.test(this.#url)) throw new TypeError(`url: want one that begins with http:// or https://, not ${this.#url}`);
    this.#headers = { ...options.headers };
    if (options.key) this.#headers.authorization = `Bearer ${options.key.trim()}`;
    for (const [name, value] of Object.entries(this.#headers)) {
      // fetch would refuse it, too, and say the secret in its error.
      if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError(`${name === "authorization" ? "key" : name}: want one line of ASCII`);
    }
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
    this.#retries = options.retries ?? 6;
    this.#attemptTimeout = options.attemptTimeout ?? 20_000;
    this.#maxBytes = options.maxBytes ?? 32 << 20;
  }

  /**
   * Hands an intent over. It returns when the manager has accepted it, or with `wait` when it has come that far. Once it is accepted nothing
   * is an error: when the `timeout` is over, or the signal comes, the transaction is returned as it is then. A try whose answer is lost is
   * repeated under the same idempotency key.
   *
   * @throws {Problem} The manager refused it.
   * @throws {UnknownOutcomeError} No try was answered, or the signal came in between.
   */
  async send(intent: Intent, options: SendOptions = {}): Promise<Transaction> {
    const idempotencyKey = keyOf(options.idempotencyKey ?? intent.idempotencyKey) ?? await drawKey();
    const tx = await this.call("POST /v1/transactions", { body: { ...whole(intent), idempotencyKey } }, options);
    if (typeof tx?.id !== "string") throw new UnknownOutcomeError(idempotencyKey, new LockstepError("NOT_THE_MANAGER", `${this.#url} answers, and names no transaction`));
    return options.wait ? this.#follow(tx.id, options.wait, options, tx) : tx;
  }

  /** Hands several intents over: all are accepted, or none. The idempotency key is that of the whole. */
  async sendBatch(intents: Intent[], options: CallOptions & { idempotencyKey?: string | undefined } = {}): Promise<Transaction[]> {
    const key = keyOf(options.idempotencyKey) ?? await drawKey();
    const list = await this.call("POST /v1/transactions/batch", { body: intents.map(whole), header: { "Idempotency-Key": key } }, options);
    if (list?.transactions?.length !== intents.length) {
      throw new UnknownOutcomeError(key, new LockstepError("NOT_THE_MANAGER", `${this.#url} answers, and does not name ${intents.length} transactions`));
    }
    return list.transactions;
  }

  /** Waits until a transaction has come that far, and returns it. When the `timeout` is over it is returned as it is. */
  async wait(id: string, options: WaitOptions & { until?: Until | undefined } = {}): Promise<Transaction> {
    return this.#follow(id, options.until ?? "mined", options);
  }

  /** What became of an intent, with its attempts and timeline. */
  async get(id: string, options: CallOptions = {}): Promise<Transaction> {
    return this.call("GET /v1/transactions/{id}", { path: { id } }, options);
  }

  /** A page of transactions, newest first. */
  async find(query: NonNullable<Operations["GET /v1/transactions"]["query"]>, options: CallOptions = {}): Promise<ListBody & { transactions: Transaction[] }> {
    const page = await this.call("GET /v1/transactions", { query }, options);
    return { ...page, transactions: page.transactions ?? [] };
  }

  /** Asks for a transaction to have no effect. What is mined decides: wait for it. */
  async cancel(id: string, options: CallOptions = {}): Promise<Transaction> {
    return this.call("POST /v1/transactions/{id}/cancel", { path: { id } }, options);
  }

  /** Puts another payload in the place of a transaction. What is mined decides. */
  async replace(id: string, intent: Intent, options: CallOptions & { idempotencyKey?: string | undefined } = {}): Promise<Transaction> {
    const idempotencyKey = keyOf(options.idempotencyKey ?? intent.idempotencyKey) ?? await drawKey();
    return this.call("POST /v1/transactions/{id}/replace", { path: { id }, body: { ...whole(intent), idempotencyKey } }, options);
  }

  /** What would happen, and the maximum cost. Nothing is sent. */
  async simulate(intent: Intent, options: CallOptions = {}): Promise<SimulatedBody> {
    return this.call("POST /v1/transactions/simulate", { body: whole(intent) }, options);
  }

  /**
   * For short-lived runtimes: does what an idempotency key names, or follows it if it is on its way, or returns its result. The status is
   * `inflight` if there is none when the `timeout` is over.
   */
  async execute(body: Operations["POST /internal/execute"]["body"], options: WaitOptions = {}): Promise<Execution> {
    const over = Date.now() + (options.timeout ?? 60_000);
    const request = { ...body, intent: whole(body.intent) };
    keyOf(body.idempotencyKey ?? "");
    for (;;) {
      const asked = Date.now(), limit = Math.ceil(Math.max(1, Math.min(maxWait, over - asked)));
      const record = await this.call("POST /internal/execute", { body: { ...request, timeout: limit + "ms" } }, options, limit);
      if (record.status !== "inflight" || Date.now() >= over) return record;
      await early(asked, limit, options.signal);
    }
  }

  /**
   * Everything that happens, in order, for ever: `for await (const event of txm.stream()) …`. It comes back by itself where it was cut off,
   * and tells nothing twice. `after` is the cursor of the last event that was seen; 0 is the oldest that is kept; left out, it begins now.
   * The signal ends it with the signal's reason.
   */
  async *stream(options: CallOptions & { after?: number | undefined; idleTimeout?: number | undefined } = {}): AsyncGenerator<TxEvent, never, undefined> {
    const position = { after: options.after };
    for (let failures = 0; ; failures++) {
      const before = position.after;
      let pause = backoff(failures);
      try {
        yield* this.#events(position, options.signal, options.idleTimeout ?? 45_000);
      } catch (err) {
        options.signal?.throwIfAborted();
        if (err instanceof LockstepError && !passes(err)) throw err;
        pause = Math.max(pause, err instanceof Problem ? Math.min(err.retryAfter ?? 0, maxPause * 6) : 0);
      }
      if (position.after !== before) failures = 0;
      await sleep(pause, options.signal);
    }
  }

  async *#events(position: { after: number | undefined }, signal: AbortSignal | undefined, idle: number): AsyncGenerator<TxEvent, void, undefined> {
    const watch = new Watch(signal, this.#attemptTimeout);
    try {
      const headers: Record<string, string> = { ...this.#headers, accept: "text/event-stream" };
      if (position.after !== undefined) headers["last-event-id"] = String(position.after);
      const response = await this.#fetch(this.#url + "/v1/transactions/stream", { headers, signal: watch.signal, redirect: "manual" });
      if (response.status !== 200) throw problemOf(response, await readText(response, 64 << 10));
      if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body) {
        await response.body?.cancel();
        throw new LockstepError("NOT_THE_MANAGER", `${this.#url} answers with something else than the manager's stream`);
      }
      let id: number | undefined, kind = "", data: string[] = [], size = 0;
      for await (const found of lines(response.body, () => watch.extend(idle))) {
        for (const line of found) {
          if ((size += line.length) > maxEvent) throw new LockstepError("NOT_THE_MANAGER", `an event has more than ${maxEvent} bytes`);
          const [, name, value] = /^([^:]*):? ?([^]*)$/.exec(line) as unknown as [string, string, string];
          if (name === "id") {
            id = Number(value);
            if (!/^\d+$/.test(value) || !Number.isSafeInteger(id)) throw new LockstepError("NOT_THE_MANAGER", "an event has a cursor that is no number");
          } else if (name === "event") kind = value;
          else if (name === "data") data.push(value);
          if (line !== "") continue;
          if (id !== undefined && (position.after === undefined || id > position.after)) {
            position.after = id;
            if (data.length > 0) {
              const event = { cursor: id, kind, ...parse(data.join("\n")) } as TxEvent;
              watch.pause(); // the reader may take its time
              yield event;
              watch.extend(idle);
            }
          }
          id = undefined; kind = ""; data = []; size = 0;
        }
      }
    } finally {
      watch.end();
    }
  }

  /**
   * Makes any call of the manager, as its OpenAPI document names it: `txm.call("GET /v1/signers", { query: { chain: "298" } })`.
   * What cannot be repeated safely is tried once.
   */
  async call<K extends keyof Operations>(operation: K, input: Input<K>, options: CallOptions = {}, wait = 0): Promise<Operations[K]["answer"]> {
    const [method, template] = operation.split(" ") as [string, string];
    const { path = {}, query = {}, header = {}, body } = input as { path?: Record<string, string>; query?: Record<string, unknown>; header?: Record<string, string>; body?: unknown };
    let url = this.#url + template.replace(/\{(\w+)\}/g, (_, name: string) => {
      if (!path[name]) throw new TypeError(`${operation} needs ${name}`);
      return encodeURIComponent(path[name]);
    });
    const asked = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
    if (asked.length > 0) url += "?" + asked.join("&");
    const headers: Record<string, string> = { ...this.#headers, ...header };
    if (body !== undefined) headers["content-type"] = "application/json";
    const init: RequestInit = { method, headers: new Headers(headers), redirect: "manual", ...(body !== undefined && { body: json(body) }) };
    const key = header["Idempotency-Key"] ?? (body as { idempotencyKey?: string } | undefined)?.idempotencyKey;
    const reads = method === "GET" || template.endsWith("/simulate");
    const repeatable = reads || key !== undefined || template.endsWith("/cancel") || method === "PUT" || method === "DELETE";
    let lost = false; // a try may have been accepted
    const give = (cause: unknown): unknown => (!reads && lost ? new UnknownOutcomeError(key, cause) : cause);
    for (let attempt = 0; ; attempt++) {
      if (options.signal?.aborted) throw give(options.signal.reason);
      let failure: unknown;
      const watch = new Watch(options.signal, this.#attemptTimeout + wait);
      try {
        const response = await this.#fetch(url, { ...init, signal: watch.signal });
        const text = await readText(response, this.#maxBytes);
        if (!response.ok) throw problemOf(response, text);
        return (text === "" ? undefined : parse(text)) as Operations[K]["answer"];
      } catch (err) {
        failure = watch.reason() ?? err;
      } finally {
        watch.end();
      }
      if (failure instanceof Problem && !uncertain(failure)) {
        if (aboutTheKey.includes(failure.code)) throw failure;
      } else if (!neverLeft(failure)) {
        lost = true;
      }
      if (options.signal?.aborted) throw give(options.signal.reason);
      if (!(failure instanceof LockstepError)) {
        failure = new LockstepError("UNREACHABLE", `no answer from the transaction manager at ${this.#url}: ${textOf(failure)}`, { cause: failure });
      }
      const retryAfter = failure instanceof Problem ? failure.retryAfter ?? 0 : 0;
      if (!repeatable || !passes(failure) || attempt >= this.#retries || retryAfter > maxPause * 6) throw give(failure);
      await sleep(Math.max(backoff(attempt), retryAfter), options.signal).catch(() => undefined); // the loop's head says why
    }
  }

  async #follow(id: string, until: Until, options: WaitOptions, known?: Transaction): Promise<Transaction> {
    const over = Date.now() + (options.timeout ?? 60_000);
    let tx = known;
    while (!tx || !reached(tx, until)) {
      const left = over - Date.now();
      if (left <= 0 && tx) return tx;
      const asked = Date.now(), limit = Math.ceil(Math.max(1, Math.min(maxWait, left)));
      try {
        tx = await this.call("GET /v1/transactions/{id}", { path: { id }, query: { wait: until, timeout: limit + "ms" } }, options, limit);
        if (!reached(tx, until)) await early(asked, limit, options.signal);
      } catch (err) {
        // It was accepted: what hinders the waiting is not its outcome.
        if (known && options.signal?.aborted) return tx as Transaction;
        if (!tx || options.signal?.aborted || !passes(err)) throw err;
      }
    }
    return tx;
  }
}

/** Draws an idempotency key. It has nothing to do with the intent: two equal payments may both be meant. */
export async function drawKey(): Promise<string> {
  const module = "node:crypto"; // Node 18 has no global one
  const source = globalThis.crypto ?? ((await import(/* webpackIgnore: true */ /* @vite-ignore */ module)) as { webcrypto: Crypto }).webcrypto;
  return "ts-" + Array.from(source.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An empty key is a mistake of the caller's, which must not become a payment without a key. */
function keyOf(key: string | undefined): string | undefined {
  if (key !== undefined && (typeof key !== "string" || key === "")) throw new TypeError("idempotencyKey: want a text that is not empty");
  return key;
}

/** A receiver that was forgotten must not become a deployment. */
function whole(intent: Intent): Intent {
  if ("to" in intent && !intent.to) throw new TypeError("to: want a receiver; to deploy a contract leave it out");
  return intent;
}

function json(body: unknown): string {
  return JSON.stringify(body, (name, value) => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value === "number" && (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))) {
      throw new TypeError(`${name}: ${value} is no exact number; from 2⁵³ on use a bigint, such as 10n ** 18n, or text`);
    }
    return value;
  });
}

function parse(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch { /* said below */ }
  throw new LockstepError("NOT_THE_MANAGER", `the answer is not the transaction manager's: ${text.slice(0, 200)}`);
}

function problemOf(response: Response, text: string): Problem {
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text) ?? {};
  } catch {
    body = { detail: text.slice(0, 200) };
  }
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    body = { detail: `the url leads elsewhere (${response.headers.get("location") ?? "unknown"}), and a call is not sent on` };
  }
  const after = response.headers.get("retry-after");
  const seconds = after === null ? NaN : Number(after);
  const ms = after === null ? NaN : Number.isNaN(seconds) ? Date.parse(after) - Date.now() : seconds * 1000;
  return new Problem(response.status, body, Number.isNaN(ms) ? undefined : Math.max(0, ms));
}

/** Whether a refusal leaves open what became of the call. */
function uncertain(p: Problem): boolean {
  return p.status === 408 || (p.status >= 500 && !definite.includes(p.code));
}

/** Whether it can be another answer the next time. */
function passes(err: unknown): boolean {
  return err instanceof Problem ? uncertain(err) || ["BUSY", "RATE_LIMIT", "HTTP_429"].includes(err.code)
    : err instanceof LockstepError && err.code === "UNREACHABLE";
}

/** Whether a connection was never made. Only Node tells. */
function neverLeft(err: unknown): boolean {
  const code = (err as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(String(code));
}

function textOf(err: unknown): string {
  if (!(err instanceof Error)) return String(err);
  const cause = err.cause as { message?: string; code?: string } | undefined;
  const more = err instanceof LockstepError ? undefined : cause?.message || cause?.code;
  return more ? `${err.message}: ${more}` : err.message;
}

function pick(body: Record<string, unknown>, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]));
}

/** Milliseconds to wait before the next try: growing, and not the same for all who were cut off together. */
function backoff(attempt: number): number {
  return Math.min(maxPause, 100 * 2 ** Math.min(attempt, 20)) * (0.5 + Math.random() / 2);
}

/** Rests when a call that was to wait came back at once, as it does from a manager that is going down. */
async function early(asked: number, limit: number, signal: AbortSignal | undefined): Promise<void> {
  const left = asked + limit - Date.now();
  if (left > 0) await sleep(Math.min(1000, left), signal);
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Ends a request when the caller does, or when it has taken too long. */
class Watch {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #stop = () => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #late: Error | undefined;

  constructor(outer: AbortSignal | undefined, ms: number) {
    this.#outer = outer;
    if (outer?.aborted) this.#stop();
    outer?.addEventListener("abort", this.#stop);
    this.extend(ms);
  }

  get signal(): AbortSignal { return this.#controller.signal; }

  extend(ms: number): void {
    this.pause();
    if (ms > 0x7fffffff) return; // further than a timer reaches
    this.#timer = setTimeout(() => {
      this.#late = new Error(`nothing came within ${ms} ms`);
      this.#controller.abort(this.#late);
    }, ms);
  }

  pause(): void { clearTimeout(this.#timer); }

  /** That it took too long, if that is why it ended. */
  reason(): Error | undefined { return this.#late; }

  end(): void {
    this.pause();
    this.#outer?.removeEventListener("abort", this.#stop);
  }
}

async function readText(response: Response, max: number): Promise<string> {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "", size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    if ((size += value.byteLength) > max) {
      await reader.cancel().catch(() => undefined);
      throw new LockstepError("NOT_THE_MANAGER", `the answer has more than ${max} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The lines of server-sent events, as many as come at once. What comes after the last line end is no line. */
async function* lines(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<string[], void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      rest += decoder.decode(value, { stream: true });
      const found = rest.split(/\r\n|\n|\r(?!$)/);
      rest = found.pop() ?? "";
      if (rest.length > maxEvent) throw new LockstepError("NOT_THE_MANAGER", `an event has more than ${maxEvent} bytes`);
      yield found;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
