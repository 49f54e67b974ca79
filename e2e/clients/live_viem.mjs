// Live events over WebSocket with viem, used as its manual shows.

import { createPublicClient, createWalletClient, defineChain, publicActions, webSocket } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { run, subscribed, until } from './task.mjs';

async function live(input) {
  const chain = defineChain({
    id: input.chainId,
    name: 'Lockstep',
    nativeCurrency: { name: 'HBAR', symbol: 'HBAR', decimals: 18 },
    rpcUrls: { default: { http: [input.rpc], webSocket: [input.ws] } },
  });
  const transport = webSocket(input.ws, { timeout: 1_200_000 }); // for a slow machine
  const account = privateKeyToAccount(input.privateKey);
  const watcher = createPublicClient({ chain, transport });
  const wallet = createWalletClient({ account, chain, transport, pollingInterval: 50 }).extend(publicActions);
  const { abi, bytecode } = input.artifact;
  const { contractAddress: address } = await wallet.waitForTransactionReceipt({ hash: await wallet.deployContract({ abi, bytecode }) });

  const blocks = [], positions = [], pending = [], sent = [], mined = [], errors = [];
  const onError = (error) => errors.push(error.message);
  const stop = [
    watcher.watchBlockNumber({ onBlockNumber: (number) => blocks.push(Number(number)), onError }),
    watcher.watchContractEvent({
      address, abi, eventName: 'Entry', onError, onLogs: (logs) => positions.push(...logs.map((log) => Number(log.args.position))),
    }),
    watcher.watchPendingTransactions({ onTransactions: (hashes) => pending.push(...hashes), onError }),
  ];
  await subscribed(input.rpc, { newHeads: 1, logs: 1, newPendingTransactions: 1 });
  const write = async (position) => {
    const hash = await wallet.writeContract({ address, abi, functionName: 'write', args: [BigInt(position)] });
    return [hash, Number((await wallet.waitForTransactionReceipt({ hash })).blockNumber)];
  };
  for (let i = 0; i < input.count; i++) {
    const [hash, number] = await write(i);
    sent.push(hash);
    mined.push(number);
  }
  const last = mined.at(-1);
  await until(() => (positions.length >= input.count && pending.length >= input.count && blocks.includes(last) ? true : null), `all events; errors: ${errors}`);

  stop[1]();
  await subscribed(input.rpc, { newHeads: 1, logs: 0, newPendingTransactions: 1 });
  await write(input.count);
  await until(() => (blocks.some((number) => number > last) ? true : null), 'a block after the end of the subscription');
  if (errors.length > 0) throw new Error(errors.join('\n'));
  return { blocks, positions, pending: pending.slice(0, input.count), sent, mined };
}

await run({ live });
