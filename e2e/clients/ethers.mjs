// ethers v6, used as its manual shows.

import { Contract, ContractFactory, JsonRpcProvider, Transaction, Wallet, WebSocketProvider, parseEther, toQuantity, verifyAuthorization } from 'ethers';
import { filled, numbered, ofAccessList, ofHistory, ofLogs, ofReceipts, ofSimulation, run, subscribed, traces, until } from './task.mjs';

function connect({ rpc, privateKey }) {
  // By default ethers answers a repeated question from memory for 250 ms, which hides a nonce just spent.
  const provider = new JsonRpcProvider(rpc, undefined, { cacheTimeout: -1 });
  provider.pollingInterval = 50; // the default of 4 s suits slower chains
  return { provider, wallet: new Wallet(privateKey, provider) };
}

// token deploys an ERC-20, moves some, and reads it all back.
async function token(input) {
  const { provider, wallet } = connect(input);
  const factory = new ContractFactory(input.artifact.abi, input.artifact.bytecode, wallet);
  const deployed = await factory.deploy('Lock', 'LCK', 1_000_000n);
  await deployed.waitForDeployment();
  const creation = await provider.getTransactionReceipt(deployed.deploymentTransaction().hash);

  const response = await deployed.transfer(input.recipient, 1234n);
  const receipt = await response.wait();
  const events = await deployed.queryFilter(deployed.filters.Transfer(wallet.address), creation.blockNumber);
  const block = await provider.getBlock(receipt.blockNumber, true);
  const found = await provider.getTransaction(response.hash);

  const stranger = new Contract(await deployed.getAddress(), input.artifact.abi, provider);
  const refused = await stranger.transfer.staticCall(input.recipient, 5000n, { from: input.stranger })
    .then(() => null, (error) => ({ name: error.revert?.name, args: error.revert?.args?.map(String) }));

  return {
    contract: await deployed.getAddress(),
    creationStatus: creation.status,
    creationContract: creation.contractAddress,
    hash: receipt.hash,
    status: receipt.status,
    blockHasTransaction: block.prefetchedTransactions.some((tx) => tx.hash === receipt.hash),
    nonce: found.nonce,
    supply: await stranger.totalSupply(),
    balance: await stranger.balanceOf(input.recipient),
    events: events.map((event) => ({ from: event.args.from, to: event.args.to, value: event.args.value })),
    refused,
  };
}

// value sends plain value and reports what it did to both balances.
async function value(input) {
  const { provider, wallet } = connect(input);
  const before = await Promise.all([provider.getBalance(wallet.address), provider.getBalance(input.recipient)]);
  const amount = parseEther('1.5');
  const receipt = await (await wallet.sendTransaction({ to: input.recipient, value: amount })).wait();
  const after = await Promise.all([provider.getBalance(wallet.address), provider.getBalance(input.recipient)]);
  return {
    status: receipt.status,
    type: receipt.type,
    received: after[1] - before[1],
    spent: before[0] - after[0],
    cost: amount + receipt.gasUsed * receipt.gasPrice,
  };
}

// priceOnly signs with a gas price and neither a type nor a chain id: ethers makes a transaction of type 1 for chain 0.
async function priceOnly(input) {
  const { provider, wallet } = connect(input);
  const raw = await wallet.signTransaction({
    to: input.recipient, value: parseEther('1'), gasLimit: 1_000_000n,
    gasPrice: (await provider.getFeeData()).gasPrice, nonce: await wallet.getNonce(),
  });
  const { type, chainId } = Transaction.from(raw);
  const receipt = await (await provider.broadcastTransaction(raw)).wait();
  return { type, chainId, status: receipt.status, from: receipt.from };
}

// batch makes several calls in one tick, which ethers sends as one JSON-RPC batch.
async function batch(input) {
  const { provider, wallet } = connect(input);
  await provider.getNetwork();
  const sizes = [];
  provider.on('debug', ({ action, payload }) => {
    if (action === 'sendRpcPayload') sizes.push(Array.isArray(payload) ? payload.length : 1);
  });
  const [chainId, number, balance, missing] = await Promise.all([
    provider.send('eth_chainId', []),
    provider.send('eth_blockNumber', []),
    provider.send('eth_getBalance', [wallet.address, 'latest']),
    provider.send('eth_noSuchMethod', []).then(() => null, (error) => (error.info?.error ?? error.error ?? error).code),
  ]);
  return { largestBatch: Math.max(...sizes), chainId, number: Number(number), balance: BigInt(balance), missing };
}

// burst signs input.count calls with consecutive nonces and sends them all at
// once, each in a request of its own.
async function burst(input) {
  const { provider, wallet } = connect(input);
  const contract = new Contract(input.contract, input.artifact.abi, wallet);
  const first = await provider.getTransactionCount(wallet.address);
  const { gasPrice } = await provider.getFeeData();
  const raw = await Promise.all(Array.from({ length: input.count }, async (_, i) => {
    const call = await contract.write.populateTransaction(BigInt(i));
    return wallet.signTransaction({ ...call, type: 0, chainId: input.chainId, nonce: first + i, gasPrice, gasLimit: 200_000n });
  }));
  const single = new JsonRpcProvider(input.rpc, input.chainId, { batchMaxCount: 1, staticNetwork: true });
  const hashes = await Promise.all(raw.map((transaction) => single.send('eth_sendRawTransaction', [transaction])));
  const receipts = await Promise.all(hashes.map((hash) => provider.waitForTransaction(hash, 1, 1_200_000)));
  return { statuses: receipts.map((receipt) => receipt.status), nonce: await provider.getTransactionCount(wallet.address) - first };
}

// objects reads every kind of transaction in every way there is.
async function objects(input) {
  const { provider } = connect(input);
  return Promise.all(input.hashes.map(async (hash) => {
    const [tx, receipt] = await Promise.all([provider.getTransaction(hash), provider.getTransactionReceipt(hash)]);
    const block = await provider.getBlock(receipt.blockHash, true);
    const byIndex = await block.getTransaction(receipt.index);
    const logs = await provider.getLogs({ blockHash: receipt.blockHash });
    return {
      hash: tx.hash, type: tx.type, receiptType: receipt.type, to: tx.to, nonce: tx.nonce, status: receipt.status, created: receipt.contractAddress,
      inBlock: block.prefetchedTransactions.some((one) => one.hash === hash), byIndex: byIndex.hash, logs: logs.filter((log) => log.transactionHash === hash).length,
      listed: tx.accessList?.length ?? 0, authorized: tx.authorizationList?.[0]?.address ?? null,
    };
  }));
}

// pending reads a transaction that is in no block yet.
async function pending(input) {
  const { provider } = connect(input);
  const tx = await provider.getTransaction(input.hash);
  return { hash: tx.hash, type: tx.type, nonce: tx.nonce, inBlock: tx.blockNumber !== null };
}

// readings reads every other kind of object: by a method of the library, or else by a request and the library's formatter.
async function readings(input) {
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1, batchMaxCount: 1 }); // filters are not for batches
  provider.pollingInterval = 50;
  const network = await provider.getNetwork();
  const send = (method, params) => provider.send(method, params);
  const live = new WebSocketProvider(input.ws, undefined, { cacheTimeout: -1 });
  // Over HTTP the library shows the status in place of the code, where an error has one.
  const refusal = (method, ...params) =>
    live.send(method, params).then(() => 'none', (error) => `${(error.info?.error ?? error.error ?? error).code}`);

  const heads = [], heard = [];
  await live.on('block', (number) => heads.push(number));
  await live.on({ address: input.contract }, (log) => heard.push(log));
  await subscribed(input.rpc, { newHeads: 1, logs: 1 });

  const logFilter = await send('eth_newFilter', [{ address: input.contract }]);
  const blockFilter = await send('eth_newBlockFilter', []);
  const { hash, blockHash, blockNumber } = await (await provider.broadcastTransaction(input.raw)).wait();
  await until(async () => (heads.includes(blockNumber) && heard.length > 0) || null, 'notifications');

  const block = await provider.getBlock(blockHash);
  const receipts = await send('eth_getBlockReceipts', [blockHash]);
  const logs = await filled(() => send('eth_getFilterChanges', [logFilter]));
  const [simulated] = await send('eth_simulateV1', [{ blockStateCalls: [{ calls: input.calls }] }, 'latest']);
  return {
    'block of hashes': [numbered(block.number), block.hash, ...block.transactions].join(' '),
    'receipts of a block': ofReceipts(receipts.map((one) => provider._wrapTransactionReceipt(one, network)), 'hash', ({ status }) => status),
    'changes of a filter of logs': ofLogs(logs.map((log) => provider._wrapLog(log, network)), 'index'),
    'changes of a filter of blocks': (await filled(() => send('eth_getFilterChanges', [blockFilter]))).join(' '),
    'filter of pending transactions': await refusal('eth_newPendingTransactionFilter'),
    'subscription to heads': [numbered(blockNumber), (await live.getBlock(blockNumber)).parentHash].join(' '),
    'subscription to logs': ofLogs(heard, 'index'),
    'fee history': ofHistory(await send('eth_feeHistory', ['0x2', toQuantity(blockNumber), [10, 50]])),
    'access list': ofAccessList(await send('eth_createAccessList', [input.calls[0]])),
    simulation: ofSimulation(simulated.calls),
    ...await traces(send, hash),
    proof: await refusal('eth_getProof', input.contract, [], 'latest'),
  };
}

// delegate lets the code of a contract run as the wallet's own (EIP-7702), runs it, and reads
// back what has come of it.
async function delegate(input) {
  const { provider, wallet } = connect(input);
  const factory = new ContractFactory(input.artifact.abi, input.artifact.bytecode, wallet);
  const token = await (await factory.deploy('Lock', 'LCK', 1_000_000n)).waitForDeployment();
  const nonce = await wallet.getNonce();
  const authorization = await wallet.authorize({ address: await token.getAddress(), nonce: nonce + 1 });
  const data = token.interface.encodeFunctionData('totalSupply');
  const response = await wallet.sendTransaction({ type: 4, to: wallet.address, data, authorizationList: [authorization], gasLimit: 200_000n });
  const receipt = await response.wait();
  const found = await provider.getTransaction(receipt.hash);
  const [listed] = found.authorizationList;
  const own = new Contract(wallet.address, input.artifact.abi, provider);
  return {
    contract: await token.getAddress(), status: receipt.status, type: found.type, code: await provider.getCode(wallet.address),
    authorized: listed.address, authority: verifyAuthorization(listed, listed.signature), spent: (await wallet.getNonce()) - nonce,
    supply: await own.totalSupply(), // in the wallet's own storage, where nothing is
  };
}

await run({ token, value, priceOnly, batch, burst, objects, readings, pending, delegate });
