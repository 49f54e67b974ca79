// What every client script shares: one JSON object comes in on stdin, one goes out on stdout.

import { readFileSync } from 'node:fs';

// run picks the task that the input names, runs it and prints what it returns.
// Integers too large for JSON are printed as decimal strings.
export async function run(tasks) {
  const input = JSON.parse(readFileSync(0, 'utf8'));
  const task = tasks[input.task];
  if (task === undefined) throw new Error(`no task ${input.task}`);
  const result = await task(input);
  const text = JSON.stringify(result, (_, value) => (typeof value === 'bigint' ? value.toString() : value));
  // Clients keep sockets and timers alive; exit as soon as the answer is out.
  process.stdout.write(text + '\n', () => process.exit(0));
}

// until calls probe until it gives something other than null or undefined.
export async function until(probe, what, seconds = 600) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const found = await probe();
    if (found !== null && found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`not within ${seconds} s: ${what}`);
}

// patient gives a client of the Hedera SDK the time that a slow machine needs; by itself it waits 10 s for one call.
export const patient = (client) => client.setRequestTimeout(1_200_000).setGrpcDeadline(240_000);

// subscribed waits until the relay's only client has as many subscriptions of each kind: libraries do not say when theirs
// have begun or ended. What the relay tells a client comes after the id of the subscription.
export const subscribed = (rpc, counts) => until(async () => {
  const metrics = await (await fetch(`${rpc}/metrics`)).text();
  const active = (tag) => Number(metrics.match(new RegExp(`^rpc_websocket_active_subscriptions\\{tag="${tag}"\\} (\\d+)`, 'm'))?.[1] ?? 0);
  return Object.entries(counts).every(([tag, count]) => active(tag) === count) || null;
}, 'subscriptions');

// What the scripts say of the objects that they read: facts in one line. A block's number stands in < >.

export const numbered = (number) => `<${number}>`;

export const ofLogs = (logs, index) => logs.map((log) => [log.transactionHash, log[index], log.address, log.topics.length].join(' ')).join(', ');

export const ofReceipts = (receipts, hash, status) => receipts.map((one) => [one[hash], status(one), one.gasUsed, one.logs.length].join(' ')).join(', ');

export const ofHistory = ({ oldestBlock, baseFeePerGas, gasUsedRatio, reward }) =>
  [numbered(BigInt(oldestBlock)), baseFeePerGas.map(BigInt), gasUsedRatio.length, reward.map((row) => row.length)].join(' ');

export const ofAccessList = ({ accessList, gasUsed }) =>
  [...accessList.map(({ address, storageKeys }) => `${address} ${storageKeys.length}`).sort(), BigInt(gasUsed)].join(' ');

export const ofSimulation = (calls) => calls.map(({ status, gasUsed, logs }) => [Number(status), BigInt(gasUsed), logs?.length ?? 0].join(' ')).join(', ');

const addresses = (state) => Object.keys(state).sort().join(' ');

// traces reads what no library has a method for with its own way of sending a request.
export async function traces(send, hash) {
  const trace = (tracer, tracerConfig) => send('debug_traceTransaction', [hash, { tracer, tracerConfig }]);
  const call = await trace('callTracer', { withLog: true });
  const before = await trace('prestateTracer', { diffMode: false });
  const { pre, post } = await trace('prestateTracer', { diffMode: true });
  return {
    'calls of a transaction': [call.type, call.from, call.to, Number(call.gasUsed), call.calls.length, call.logs.length].join(' '),
    'state before a transaction': addresses(before),
    'state that a transaction changed': `${addresses(pre)}, ${addresses(post)}`,
  };
}

// filled waits for changes of a filter.
export const filled = (changes) => until(async () => {
  const found = await changes();
  return found.length > 0 ? found : null;
}, 'changes of a filter');
