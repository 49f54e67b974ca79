// A Worker that wants something done on a chain, once. It holds no key and keeps no nonce:
// the transaction manager does, and every isolate, wherever it runs, only names what it
// wants and under which idempotency key.
//
//   POST /act {"account":"alice","key":"main","action":"create-17","to":"0x…","data":"0x…"}
//
// On NEAR "actions" is a list, such as ["CreateAccount",{"Transfer":{"deposit":"1"}}], instead of "data" and "value".
//
//   → {"status":"done","txHash":"0x…","outcome":{…},"updatedAt":…}

const MAX_CALLS = 20;

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("POST an action", { status: 405 });
    const { account, key, action, to, data, value, actions } = await request.json();
    const body = JSON.stringify({
      // One total order for each account and key, however many isolates ask.
      key: `${account}:${key}`,
      // The same action is executed once, however often it is asked for.
      idempotencyKey: `${action}:${account}:${key}`,
      intent: { chain: env.CHAIN, to, data, value, actions, subject: account },
      timeout: "10s",
    });
    for (let call = 0; call < MAX_CALLS; call++) {
      const response = await execute(env, body);
      if (response === undefined) continue; // nobody knows whether it arrived: the key makes asking again safe
      if (!response.ok) return response; // refused: the body says why
      const record = await response.json();
      if (record.status !== "inflight") return Response.json(record);
    }
    return Response.json({ status: "inflight" }, { status: 202 });
  },
};

async function execute(env, body) {
  const headers = { "content-type": "application/json" };
  if (env.KEY) headers.authorization = `Bearer ${env.KEY}`;
  try {
    const response = await env.MANAGER.fetch("http://localhost/internal/execute", { method: "POST", headers, body });
    return response.status >= 502 ? undefined : response;
  } catch {
    return undefined;
  }
}
