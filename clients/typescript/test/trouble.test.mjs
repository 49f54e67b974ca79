// What the client does with servers that lose, repeat, stall and lie.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import { Problem, TxManager, UnknownOutcomeError, isProblem } from "lockstep-txm";

const intent = { chain: 1, to: "0x05FbA803Be258049A27B820088bab1cAD2058871", value: 10n ** 18n };
const accepted = { id: "tx-1", chain: "1", status: "accepted", final: false, kind: "send" };

/** A server that answers its nth request as the nth function says, and later ones as the last. */
async function serve(t, ...answers) {
  const seen = [];
  const server = createServer(async (request, response) => {
    const answer = answers[Math.min(seen.length, answers.length - 1)];
    const one = { method: request.method, url: request.url, headers: request.headers };
    seen.push(one);
    let text = "";
    for await (const chunk of request) text += chunk;
    if (text) one.body = JSON.parse(text);
    answer(response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => { server.closeAllConnections(); server.close(); });
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

const says = (status, body, headers = {}) => (response) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(typeof body === "string" ? body : JSON.stringify(body));
const hangs = () => {};
const cuts = (response) => response.socket.destroy();
const halves = (response) => { response.writeHead(202, { "content-type": "application/json", "content-length": 1000 }); response.write('{"id":'); setImmediate(() => response.socket.destroy()); };
const endless = (response) => {
  response.writeHead(202, { "content-type": "application/json" });
  const more = () => { while (!response.destroyed && response.write("x".repeat(65536))); };
  response.on("drain", more);
  more();
};
const impatient = { attemptTimeout: 500, retries: 3 };

test("what is lost is asked again under the same key, with the same body", async (t) => {
  const s = await serve(t, says(500, { code: "INTERNAL" }), hangs, cuts, says(202, accepted));
  const tx = await new TxManager({ url: s.url, attemptTimeout: 5000, retries: 20 }).send(intent);
  assert.equal(tx.id, "tx-1");
  assert.ok(s.seen.length >= 4);
  for (const one of s.seen) assert.deepEqual(one.body, s.seen[0].body);
  assert.match(s.seen[0].body.idempotencyKey, /^ts-[0-9a-f]{32}$/);
  assert.equal(s.seen[0].body.value, "1000000000000000000");
});

test("two equal intents are two keys", async (t) => {
  const s = await serve(t, says(202, accepted));
  const txm = new TxManager({ url: s.url });
  await Promise.all([txm.send(intent), txm.send(intent)]);
  assert.notEqual(s.seen[0].body.idempotencyKey, s.seen[1].body.idempotencyKey);
});

for (const [name, ...answers] of [["hangs", hangs], ["cuts", cuts], ["answers by halves", halves], ["answers with a page", says(200, "<html>")],
  ["answers for something else", says(200, { status: "ok" })], ["fails", says(500, "no")],
  ["cuts, and then refuses everybody", cuts, says(403, { code: "FORBIDDEN", detail: "no" })], ["cuts, and then is killed", cuts, says(503, { code: "KILLED" })],
  ["answers without end", endless], ["rests for an hour", says(503, "resting", { "retry-after": "3600" })]]) {
  test(`the outcome is unknown at a server that ${name}`, async (t) => {
    const s = await serve(t, ...answers);
    const txm = new TxManager({ url: s.url, ...impatient, maxBytes: 1 << 20 });
    await assert.rejects(txm.send(intent, { idempotencyKey: "order-17" }), (err) => {
      assert.ok(err instanceof UnknownOutcomeError, err);
      assert.equal(err.code, "UNKNOWN_OUTCOME");
      assert.equal(err.idempotencyKey, "order-17");
      assert.match(err.message, /order-17/);
      return true;
    });
  });
}

test("what never left is not unknown", async (t) => {
  const s = await serve(t, hangs);
  const { port } = new URL(s.url);
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const url = `http://127.0.0.1:${closed.address().port}`;
  closed.close();
  await once(closed, "close");
  await assert.rejects(new TxManager({ url, ...impatient }).send(intent), (err) => err.code === "UNREACHABLE" && /ECONNREFUSED/.test(err.message));
  assert.ok(port);
});

test("a refusal is a Problem by its code, at once", async (t) => {
  const s = await serve(t, says(422, { code: "WOULD_REVERT", detail: "execution reverted", output: "0x01" }));
  await assert.rejects(new TxManager({ url: s.url }).send(intent), (err) => isProblem(err, "WOULD_REVERT") && !isProblem(err, "INVALID") && err.status === 422 && err.output === "0x01");
  assert.equal(s.seen.length, 1);
});

test("a key that another intent has is a refusal, whatever was lost before", async (t) => {
  const s = await serve(t, cuts, says(422, { code: "IDEMPOTENCY_KEY_REUSED" }));
  await assert.rejects(new TxManager({ url: s.url }).send(intent, { idempotencyKey: "a" }), (err) => isProblem(err, "IDEMPOTENCY_KEY_REUSED"));
});

test("Retry-After counts, and a limit has not accepted anything", async (t) => {
  const s = await serve(t, says(429, { code: "RATE_LIMIT" }, { "retry-after": "1" }), says(503, "", { "retry-after": "1" }), says(202, accepted));
  const began = Date.now();
  assert.equal((await new TxManager({ url: s.url }).send(intent)).id, "tx-1");
  assert.ok(Date.now() - began >= 1900, "it came back too early");
  const long = await serve(t, says(429, { code: "RATE_LIMIT" }, { "retry-after": "3600" }));
  await assert.rejects(new TxManager({ url: long.url }).send(intent), (err) => err instanceof Problem && err.retryAfter === 3_600_000);
  assert.equal(long.seen.length, 1);
});

test("a redirect is not followed, and the key of access goes nowhere else", async (t) => {
  const other = await serve(t, says(202, accepted));
  const s = await serve(t, says(307, "", { location: other.url + "/v1/transactions" }));
  await assert.rejects(new TxManager({ url: s.url, key: "lsk_secret" }).send(intent), (err) => err instanceof Problem && err.status === 307 && !/secret/.test(err.stack));
  assert.equal(other.seen.length, 0);
});

test("an answer is read up to a limit", async (t) => {
  const s = await serve(t, endless);
  await assert.rejects(new TxManager({ url: s.url, maxBytes: 1 << 20 }).get("tx-1"), (err) => err.code === "NOT_THE_MANAGER");
});

test("an abort is no failure of the intent", async (t) => {
  const s = await serve(t, hangs);
  const txm = new TxManager({ url: s.url });
  await assert.rejects(txm.send(intent, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(s.seen.length, 0);
  const stop = new AbortController();
  const sent = txm.send(intent, { signal: stop.signal, idempotencyKey: "a" });
  while (s.seen.length === 0) await new Promise(setImmediate);
  stop.abort();
  await assert.rejects(sent, (err) => err instanceof UnknownOutcomeError && err.idempotencyKey === "a" && err.cause.name === "AbortError");

  const later = new AbortController();
  const slow = await serve(t, says(202, accepted), () => later.abort());
  assert.equal((await new TxManager({ url: slow.url }).send(intent, { signal: later.signal, wait: "mined" })).id, "tx-1");
  await assert.rejects(new TxManager({ url: slow.url }).wait("tx-1", { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("once it is accepted, what hinders the waiting is no error", async (t) => {
  const mined = { ...accepted, status: "mined", receipt: { success: true } };
  const s = await serve(t, says(202, accepted), cuts, says(429, { code: "BUSY" }), says(500, ""), says(200, mined));
  assert.equal((await new TxManager({ url: s.url }).send(intent, { wait: "mined" })).status, "mined");
  const never = await serve(t, says(202, accepted), says(500, ""));
  assert.equal((await new TxManager({ url: never.url, retries: 0 }).send(intent, { wait: "mined", timeout: 300 })).status, "accepted");
});

test("a server that does not wait is not asked without a rest", async (t) => {
  const s = await serve(t, says(200, accepted));
  assert.equal((await new TxManager({ url: s.url }).wait("tx-1", { timeout: 1500 })).status, "accepted");
  assert.ok(s.seen.length <= 4, `${s.seen.length} calls`);
});

test("mistakes are refused before anything is sent", async (t) => {
  const s = await serve(t, says(202, accepted));
  const txm = new TxManager({ url: s.url });
  for (const wrong of [{ ...intent, value: 1e21 }, { ...intent, value: NaN }, { ...intent, to: undefined }, { ...intent, to: "" }]) await assert.rejects(txm.send(wrong), TypeError);
  await assert.rejects(txm.send(intent, { idempotencyKey: "" }), TypeError);
  await assert.rejects(txm.sendBatch([intent], { idempotencyKey: "a\nb" }), TypeError);
  await assert.rejects(txm.get(""), TypeError);
  assert.throws(() => new TxManager({ url: "localhost:7550" }), TypeError);
  for (const wrong of [{ key: "role send\nlsk_secret" }, { headers: { "x-gateway": "secret\n1" } }]) {
    assert.throws(() => new TxManager({ url: s.url, ...wrong }), (err) => err instanceof TypeError && !/secret/.test(err.stack));
  }
  assert.equal(s.seen.length, 0);
});

const streams = (...parts) => async (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const part of parts) { response.write(part); await new Promise((done) => setTimeout(done, 10)); }
  response.socket.destroySoon();
};
const event = (id, end = "\n") => [`id: ${id}`, "event: tx.mined", `data: {"subject":"s${id}","at":"2026-01-31T12:00:00Z","body":{}}`, "", ""].join(end);

test("a stream that breaks, repeats and stalls tells each event once", async (t) => {
  const s = await serve(t,
    streams("id: 40\n\n"), // a position, and no event yet
    streams(": hello\n\n", event(41), event(41), event(42).slice(0, 30)),
    says(500, ""), cuts,
    (response) => { response.writeHead(200, { "content-type": "text/event-stream" }); response.write(event(42)); }, // and then nothing
    streams(event(41), event(42), event(43, "\r\n").slice(0, 9), event(43, "\r\n").slice(9, 40), event(43, "\r\n").slice(40)));
  const cursors = [];
  for await (const one of new TxManager({ url: s.url }).stream({ idleTimeout: 5000 })) {
    cursors.push(one.cursor);
    assert.equal(one.subject, `s${one.cursor}`);
    assert.equal(one.kind, "tx.mined");
    if (one.cursor === 43) break;
  }
  assert.deepEqual(cursors, [41, 42, 43]);
  assert.deepEqual(s.seen.map((one) => one.headers["last-event-id"]), [undefined, "40", "41", "41", "41", "42"]);
});

test("a stream ends with what cannot heal, and with the signal", async (t) => {
  const read = async (...answers) => {
    const s = await serve(t, ...answers);
    for await (const _ of new TxManager({ url: s.url }).stream({ signal: AbortSignal.timeout(600_000) }));
  };
  await assert.rejects(read(says(401, { code: "UNAUTHORIZED" })), (err) => isProblem(err, "UNAUTHORIZED"));
  await assert.rejects(read(says(200, "<html>")), (err) => err.code === "NOT_THE_MANAGER");
  await assert.rejects(read(streams("id: x\n\n")), (err) => err.code === "NOT_THE_MANAGER");
  await assert.rejects(read((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const more = () => { while (!response.destroyed && response.write("data: x\n".repeat(8192))); };
    response.on("drain", more);
    more();
  }), (err) => err.code === "NOT_THE_MANAGER");
  const stop = new AbortController();
  const s = await serve(t, (response) => { response.writeHead(200, { "content-type": "text/event-stream" }); response.write(event(1)); });
  await assert.rejects(async () => {
    for await (const _ of new TxManager({ url: s.url }).stream({ signal: stop.signal })) stop.abort();
  }, { name: "AbortError" });
});
