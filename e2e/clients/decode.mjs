// What ethers and viem read in the data of events: {task, logs: [{event, data}]} -> [{ethers, viem}], numbers as texts, null for what a library refuses.

import { Interface } from 'ethers';
import { decodeEventLog, parseAbi } from 'viem';
import { run } from './task.mjs';

const plain = (value) => (Array.isArray(value) ? value.map(plain) : ['number', 'bigint'].includes(typeof value) ? String(value) : value);

function attempt(read) {
  try {
    return plain(read());
  } catch {
    return null;
  }
}

const logs = ({ logs }) => logs.map(({ event, data }) => {
  const types = new Interface([event]);
  const topics = [types.getEvent('E').topicHash];
  return {
    ethers: attempt(() => types.decodeEventLog('E', data, topics).toArray(true)),
    viem: attempt(() => decodeEventLog({ abi: parseAbi([event]), data, topics }).args),
  };
});

await run({ logs });
