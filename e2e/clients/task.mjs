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
export async function until(probe, what, seconds = 20) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const found = await probe();
    if (found !== null && found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`not within ${seconds} s: ${what}`);
}
