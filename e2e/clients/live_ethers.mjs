// Live events over WebSocket with ethers v6, used as its manual shows.

import { Contract, ContractFactory, Wallet, WebSocketProvider } from 'ethers';
import { run, subscribed, until } from './task.mjs';

async function live(input) {
  const provider = new WebSocketProvider(input.ws, undefined, { cacheTimeout: -1 });
  const wallet = new Wallet(input.privateKey, provider);
  const deployed = await new ContractFactory(input.artifact.abi, input.artifact.bytecode, wallet).deploy();
  await deployed.waitForDeployment();
  const contract = new Contract(await deployed.getAddress(), input.artifact.abi, wallet);

  const blocks = [], positions = [], pending = [], sent = [], mined = [];
  await provider.on('block', (number) => blocks.push(number));
  await contract.on('Entry', (position) => positions.push(Number(position)));
  await provider.on('pending', (hash) => pending.push(hash));
  await subscribed(input.rpc, { newHeads: 1, logs: 1, newPendingTransactions: 1 });
  for (let i = 0; i < input.count; i++) {
    const response = await contract.write(i);
    sent.push(response.hash);
    mined.push((await response.wait()).blockNumber);
  }
  const last = mined.at(-1);
  await until(() => (positions.length >= input.count && pending.length >= input.count && blocks.includes(last) ? true : null), 'all events');

  await contract.off('Entry');
  await (await contract.write(input.count)).wait();
  await until(() => (blocks.some((number) => number > last) ? true : null), 'a block after the end of the subscription');
  return { blocks, positions, pending: pending.slice(0, input.count), sent, mined };
}

await run({ live });
