// One Durable Object for each account and key stands in front of the transaction manager. It
// keeps what was asked for, in the order in which it came, and the result. So the order is made
// at the edge, a result costs the manager nothing when it is asked for again, and an object
// that dies goes on where it was: under the same idempotency key, to the same transaction.
//
//   POST /act {"account":"alice","key":"main","action":"pay-1","to":"0x…","value":"1"}
//   → {"status":"done","txHash":"0x…","id":"…"}

import { DurableObject } from "cloudflare:workers";
import { Problem, TxManager, ended, executed } from "lockstep-txm";

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("POST an action", { status: 405 });
    const { account, key, action, ...intent } = await request.json();
    const name = `${account}:${key}`;
    const line = env.LINES.get(env.LINES.idFromName(name));
    const { status, ...body } = await line.act(name, action, { ...intent, chain: env.CHAIN, subject: account });
    return Response.json(body.answer, { status });
  },
};

// Refusals that are about the moment or the caller, and not about the intent: those are not kept.
const passing = /^(UNAUTHORIZED|FORBIDDEN|RATE_LIMIT|BUSY|BUDGET|HTTP_.*)$/;

export class Line extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.txm = new TxManager({ url: "http://localhost", key: env.KEY, fetch: (url, init) => env.MANAGER.fetch(url, init) });
    this.sql.exec(`CREATE TABLE IF NOT EXISTS actions (
      place INTEGER PRIMARY KEY, action TEXT UNIQUE NOT NULL, intent TEXT NOT NULL,
      id TEXT,      -- the manager's, once it has accepted it
      result TEXT   -- the answer, once there is one for ever
    )`);
  }

  async act(name, action, intent) {
    // Written before anything leaves: the runtime holds back what goes out until it is on disk.
    const text = JSON.stringify(intent);
    this.sql.exec("INSERT OR IGNORE INTO actions (action, intent) VALUES (?, ?)", action, text);
    if (this.#row(action).intent !== text) return { status: 422, answer: { code: "ANOTHER_INTENT", detail: `${action} is another intent already` } };
    try {
      if (!this.#row(action).result && !this.#row(action).id) await this.#handOver(name, action);
      if (!this.#row(action).result) await this.#follow(action);
    } catch (err) {
      if (!(err instanceof Problem)) console.error(err);
      return { status: 503, answer: { code: err.code ?? "UNKNOWN_OUTCOME", detail: "not settled; ask again" } };
    }
    const { result } = this.#row(action);
    return result ? JSON.parse(result) : { status: 202, answer: { status: "inflight" } };
  }

  #row(action) {
    return this.sql.exec("SELECT * FROM actions WHERE action = ?", action).one();
  }

  // All that came before goes first. One loop does it, however many wait for it.
  async #handOver(name, action) {
    while (!this.#row(action).id && !this.#row(action).result) {
      this.handing ??= this.#next(name).finally(() => { this.handing = undefined; });
      await this.handing;
    }
  }

  async #next(name) {
    const [row] = this.sql.exec("SELECT * FROM actions WHERE id IS NULL AND result IS NULL ORDER BY place LIMIT 1");
    if (!row) return;
    try {
      const tx = await this.txm.send({ ...JSON.parse(row.intent), orderKey: name }, { idempotencyKey: `${row.action}:${name}` });
      this.sql.exec("UPDATE actions SET id = ? WHERE place = ?", tx.id, row.place);
    } catch (err) {
      if (!(err instanceof Problem) || err.status >= 500 || passing.test(err.code)) throw err;
      this.#keep(row.action, { status: err.status, answer: { status: "refused", code: err.code, detail: err.detail } });
    }
  }

  async #follow(action) {
    const tx = await this.txm.wait(this.#row(action).id, { until: "confirmed", timeout: 120_000 });
    if (ended(tx)) this.#keep(action, { status: 200, answer: { status: executed(tx) ? "done" : "failed", txHash: tx.hash, id: tx.id, error: tx.error?.message } });
  }

  #keep(action, result) {
    this.sql.exec("UPDATE actions SET result = ? WHERE action = ?", JSON.stringify(result), action);
  }
}
