// viem, used as its manual shows.

import {
  BaseError, ContractFunctionRevertedError, createPublicClient, createWalletClient, defineChain, encodeFunctionData, formatBlock, formatLog, formatTransactionReceipt, getAddress,
  http, parseEther, publicActions, webSocket,
} from 'viem';
import { recoverAuthorizationAddress } from 'viem/utils';
import { privateKeyToAccount } from 'viem/accounts';
import { filled, numbered, ofAccessList, ofHistory, ofLogs, ofReceipts, ofSimulation, run, traces, until } from './task.mjs';

// A slow machine needs longer than the library's 10 s.
const timeout = 1_200_000;

function connect(input, transport = http(input.rpc, { timeout })) {
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
const tokenWS = (input) => tokenOver(input, webSocket(input.ws, { timeout }));

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
  const client = createPublicClient({ transport: http(input.rpc, { batch: true, retryCount: 0, timeout, onFetchRequest }) });
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
  const receipts = await Promise.all(hashes.map((hash) => client.waitForTransactionReceipt({ hash, timeout })));
  return { statuses: receipts.map(passed), nonce: await client.getTransactionCount({ address }) - first };
}

// objects reads every kind of transaction in every way there is.
async function objects(input) {
  const client = connect(input);
  const types = { legacy: 0, eip2930: 1, eip1559: 2, eip7702: 4 };
  return Promise.all(input.hashes.map(async (hash) => {
    const [tx, receipt] = await Promise.all([client.getTransaction({ hash }), client.getTransactionReceipt({ hash })]);
    const block = await client.getBlock({ blockHash: receipt.blockHash, includeTransactions: true });
    const byIndex = await client.getTransaction({ blockHash: receipt.blockHash, index: receipt.transactionIndex });
    const logs = await client.getLogs({ blockHash: receipt.blockHash });
    return {
      hash: tx.hash, type: types[tx.type], receiptType: types[receipt.type], to: tx.to, nonce: tx.nonce, status: passed(receipt),
      created: receipt.contractAddress ?? null, inBlock: block.transactions.some((one) => one.hash === hash), byIndex: byIndex.hash,
      logs: logs.filter((log) => log.transactionHash === hash).length,
      listed: tx.accessList?.length ?? 0, authorized: tx.authorizationList?.[0]?.address ?? null,
    };
  }));
}

// newer uses the methods that came to Ethereum last.
async function newer(input) {
  const client = connect(input);
  const { abi } = input.artifact;
  const request = { address: input.contract, abi, functionName: 'transfer', args: [input.recipient, 1n] };
  const data = encodeFunctionData(request);
  const receipt = await client.sendTransactionSync({ to: input.contract, data, timeout: 240_000 });
  const { transaction } = await client.fillTransaction({ account: client.account, to: input.contract, data });
  const { accessList, gasUsed } = await client.createAccessList({ account: client.account, to: input.contract, data });
  const blocks = await client.simulateBlocks({
    blocks: [{ calls: [{ account: client.account, to: input.contract, data }] }, { calls: [{ account: input.stranger, to: input.contract, data }] }],
    traceTransfers: true,
  });
  const { data: told } = await client.call({
    to: input.recipient, stateOverride: [{ address: input.recipient, code: input.blockTelling }], blockOverrides: { number: 77n, time: 88n },
  });
  return {
    status: passed(receipt),
    told,
    filled: transaction.to,
    filledNonce: transaction.nonce,
    filledGas: Number(transaction.gas),
    listed: accessList.length,
    gasUsed: Number(gasUsed),
    simulated: blocks.map(({ calls }) => calls[0].status),
  };
}

// pending reads a transaction that is in no block yet.
async function pending(input) {
  const tx = await connect(input).getTransaction({ hash: input.hash });
  return { hash: tx.hash, type: Number(tx.typeHex), nonce: tx.nonce, inBlock: tx.blockNumber !== null };
}

// readings reads every other kind of object: by a method of the library, or else by a request and the library's formatter.
async function readings(input) {
  const client = connect(input);
  const send = (method, params) => client.request({ method, params });
  const refusal = (action) => action.then(() => 'none', (error) => `${error.walk((cause) => typeof cause.code === 'number')?.code}`);

  const { transport } = createPublicClient({ transport: webSocket(input.ws, { timeout }) });
  const heads = [], heard = [];
  await transport.subscribe({ params: ['newHeads'], onData: ({ result }) => heads.push(formatBlock(result)) });
  await transport.subscribe({ params: ['logs', { address: input.contract }], onData: ({ result }) => heard.push(formatLog(result)) });

  const logFilter = await client.createEventFilter({ address: input.contract });
  const blockFilter = await client.createBlockFilter();
  const hash = await client.sendRawTransaction({ serializedTransaction: input.raw });
  const { blockHash, blockNumber } = await client.waitForTransactionReceipt({ hash });
  const head = await until(async () => (heard.length > 0 && heads.find(({ number }) => number === blockNumber)) || null, 'notifications');

  const block = await client.getBlock({ blockHash });
  const receipts = await send('eth_getBlockReceipts', [blockHash]);
  const calls = input.calls.map(({ from, to, data, gas }) => ({ account: from, to, data, gas: BigInt(gas) }));
  const [simulated] = await client.simulateBlocks({ blocks: [{ calls }] });
  const history = await client.getFeeHistory({ blockCount: 2, blockNumber, rewardPercentiles: [10, 50] });
  return {
    'block of hashes': [numbered(block.number), block.hash, ...block.transactions].join(' '),
    'receipts of a block': ofReceipts(receipts.map(formatTransactionReceipt), 'transactionHash', passed),
    'changes of a filter of logs': ofLogs(await filled(() => client.getFilterChanges({ filter: logFilter })), 'logIndex'),
    'changes of a filter of blocks': (await filled(() => client.getFilterChanges({ filter: blockFilter }))).join(' '),
    'filter of pending transactions': await refusal(client.createPendingTransactionFilter()),
    'subscription to heads': [numbered(head.number), head.parentHash].join(' '),
    'subscription to logs': ofLogs(heard, 'logIndex'),
    'fee history': ofHistory(history),
    'access list': ofAccessList(await client.createAccessList(calls[0])),
    simulation: ofSimulation(simulated.calls.map((call) => ({ ...call, status: passed(call) }))),
    ...await traces(send, hash),
    proof: await refusal(client.getProof({ address: input.contract, storageKeys: [] })),
  };
}

// delegate lets the code of a contract run as the account's own (EIP-7702), runs it, and reads
// back what has come of it.
async function delegate(input) {
  const client = connect(input);
  const { abi, bytecode } = input.artifact;
  const { address } = client.account;
  const { contractAddress } = await client.waitForTransactionReceipt({
    hash: await client.deployContract({ abi, bytecode, args: ['Lock', 'LCK', 1_000_000n] }),
  });
  const nonce = await client.getTransactionCount({ address });
  const authorization = await client.signAuthorization({ contractAddress, executor: 'self' });
  const data = encodeFunctionData({ abi, functionName: 'totalSupply' });
  const hash = await client.sendTransaction({ to: address, data, authorizationList: [authorization], gas: 200_000n });
  const receipt = await client.waitForTransactionReceipt({ hash });
  const found = await client.getTransaction({ hash });
  const [listed] = found.authorizationList;
  return {
    contract: getAddress(contractAddress), status: passed(receipt), type: Number(found.typeHex), code: await client.getCode({ address }),
    authorized: getAddress(listed.address), authority: await recoverAuthorizationAddress({ authorization: listed }),
    spent: await client.getTransactionCount({ address }) - nonce,
    supply: await client.readContract({ address, abi, functionName: 'totalSupply' }), // in the account's own storage, where nothing is
  };
}

await run({ token, tokenWS, value, batch, burst, objects, readings, pending, newer, delegate });
