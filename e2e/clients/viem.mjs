// viem, used as its manual shows.

import {
  BaseError, ContractFunctionRevertedError, createPublicClient, createWalletClient, defineChain, http, parseEther,
  publicActions, webSocket,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { run } from './task.mjs';

function connect(input, transport = http(input.rpc)) {
  const chain = defineChain({
    id: input.chainId,
    name: 'Lockstep',
    nativeCurrency: { name: 'HBAR', symbol: 'HBAR', decimals: 18 },
    rpcUrls: { default: { http: [input.rpc] } },
  });
  const account = privateKeyToAccount(input.privateKey);
  return createWalletClient({ account, chain, transport, pollingInterval: 50 }).extend(publicActions);
}

// passed gives the status as the number on the wire, as the other clients do.
const passed = ({ status }) => (status === 'success' ? 1 : 0);

async function tokenOver(input, transport) {
  const client = connect(input, transport);
  const { abi, bytecode } = input.artifact;
  const creation = await client.waitForTransactionReceipt({
    hash: await client.deployContract({ abi, bytecode, args: ['Lock', 'LCK', 1_000_000n] }),
  });
  const address = creation.contractAddress;

  const { request } = await client.simulateContract({ address, abi, functionName: 'transfer', args: [input.recipient, 1234n] });
  const receipt = await client.waitForTransactionReceipt({ hash: await client.writeContract(request) });
  const events = await client.getContractEvents({
    address, abi, eventName: 'Transfer', args: { from: client.account.address }, fromBlock: creation.blockNumber,
  });
  const block = await client.getBlock({ blockNumber: receipt.blockNumber, includeTransactions: true });
  const found = await client.getTransaction({ hash: receipt.transactionHash });

  const refused = await client
    .simulateContract({ address, abi, functionName: 'transfer', args: [input.recipient, 5000n], account: input.stranger })
    .then(() => null, (error) => {
      const revert = error instanceof BaseError && error.walk((cause) => cause instanceof ContractFunctionRevertedError);
      return { name: revert?.data?.errorName, args: revert?.data?.args?.map(String) };
    });

  const read = (functionName, args = []) => client.readContract({ address, abi, functionName, args });
  return {
    contract: address,
    creationStatus: passed(creation),
    creationContract: creation.contractAddress,
    hash: receipt.transactionHash,
    status: passed(receipt),
    blockHasTransaction: block.transactions.some((tx) => tx.hash === receipt.transactionHash),
    nonce: found.nonce,
    supply: await read('totalSupply'),
    balance: await read('balanceOf', [input.recipient]),
    events: events.map(({ args }) => args),
    refused,
  };
}

const token = (input) => tokenOver(input, http(input.rpc));

// tokenWS does the same with every call on one WebSocket connection.
const tokenWS = (input) => tokenOver(input, webSocket(input.ws));

async function value(input) {
  const client = connect(input);
  const balances = () => Promise.all([client.account.address, input.recipient].map((address) => client.getBalance({ address })));
  const before = await balances();
  const amount = parseEther('1.5');
  const receipt = await client.waitForTransactionReceipt({ hash: await client.sendTransaction({ to: input.recipient, value: amount }) });
  const after = await balances();
  return {
    status: passed(receipt),
    type: receipt.type === 'eip1559' ? 2 : 0,
    received: after[1] - before[1],
    spent: before[0] - after[0],
    cost: amount + receipt.gasUsed * receipt.effectiveGasPrice,
  };
}

// batch makes several calls in one tick over a transport that joins them.
async function batch(input) {
  const sizes = [];
  const onFetchRequest = async (request) => {
    const body = await request.clone().json();
    sizes.push(Array.isArray(body) ? body.length : 1);
  };
  const client = createPublicClient({ transport: http(input.rpc, { batch: true, retryCount: 0, onFetchRequest }) });
  const [chainId, number, balance, missing] = await Promise.all([
    client.request({ method: 'eth_chainId' }),
    client.request({ method: 'eth_blockNumber' }),
    client.request({ method: 'eth_getBalance', params: [privateKeyToAccount(input.privateKey).address, 'latest'] }),
    client.request({ method: 'eth_noSuchMethod' }).then(() => null, (error) => error.code),
  ]);
  return { largestBatch: Math.max(...sizes), chainId, number: Number(number), balance: BigInt(balance), missing };
}

// burst sends input.count calls with consecutive nonces at once, each in a
// request of its own.
async function burst(input) {
  const client = connect(input);
  const { address } = client.account;
  const first = await client.getTransactionCount({ address });
  const gasPrice = await client.getGasPrice();
  const hashes = await Promise.all(Array.from({ length: input.count }, (_, i) => client.writeContract({
    address: input.contract, abi: input.artifact.abi, functionName: 'write', args: [BigInt(i)], nonce: first + i, gas: 200_000n, gasPrice,
  })));
  const receipts = await Promise.all(hashes.map((hash) => client.waitForTransactionReceipt({ hash, timeout: 60_000 })));
  return { statuses: receipts.map(passed), nonce: await client.getTransactionCount({ address }) - first };
}

await run({ token, tokenWS, value, batch, burst });
