#!/usr/bin/env node
// Runs `lockstep dev` with what comes behind, by the program that is in the package for this machine.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

const machine = { x64: 'amd64' }[process.arch] ?? process.arch;
const name = `lockstep-dev-${process.platform}-${machine}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/lockstep`);
} catch {
  console.error(`lockstep-dev: the package ${name} is not installed. There is one for Linux on amd64 and arm64; npm leaves it out with --omit=optional, and when node_modules comes from another machine.`);
  process.exit(1);
}
const args = process.argv.slice(2);
const child = spawn(program, args[0] === '--version' ? ['version'] : ['dev', ...args], { stdio: 'inherit' });
child.on('error', (err) => { console.error(`lockstep-dev: ${err.message}`); process.exit(1); });
// A terminal tells both of us of ^C.
process.on('SIGINT', () => { if (!process.stdin.isTTY) child.kill('SIGINT'); });
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
// npm tells only its shell to end, and would leave us behind.
if (process.env.npm_command) {
  const parent = process.ppid;
  const look = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(look);
    child.kill('SIGTERM');
  }, 300);
}
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
