// A Worker that wants something done on a chain, once. It holds no key and keeps no nonce:
// the transaction manager does, and every isolate, wherever it runs, only names what it
// wants and under which idempotency key.
//
//   POST /act {"account":"alice","key":"main","action":"create-17","to":"0x…","data":"0x…"}
//
// On NEAR "actions" is a list, such as ["CreateAccount",{"Transfer":{"deposit":"1"}}], instead of "data" and "value".
//
//   → {"status":"done","txHash":"0x…","outcome":{…},"updatedAt":…}

import { Problem, TxManager, UnknownOutcomeError } from "lockstep-txm";

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("POST an action", { status: 405 });
    const { account, key, action, ...wanted } = await request.json();
    const txm = new TxManager({ url: "http://localhost", key: env.KEY, fetch: (url, init) => env.MANAGER.fetch(url, init) });
    try {
      const record = await txm.execute({
        // One total order for each account and key, however many isolates ask.
        key: `${account}:${key}`,
        // The same action is executed once, however often it is asked for.
        idempotencyKey: `${action}:${account}:${key}`,
        intent: { ...wanted, chain: env.CHAIN, subject: account },
      }, { timeout: 120_000 });
      return Response.json(record, { status: record.status === "inflight" ? 202 : 200 });
    } catch (err) {
      if (err instanceof Problem) return Response.json({ code: err.code, detail: err.detail }, { status: err.status });
      // Nobody knows whether it arrived: the key makes asking again safe.
      if (err instanceof UnknownOutcomeError) return Response.json({ status: "inflight" }, { status: 202 });
      throw err;
    }
  },
};
