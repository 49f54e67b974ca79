// web3.js v4, used as its manual shows.

import { Web3, eth } from 'web3';
import { filled, numbered, ofAccessList, ofHistory, ofLogs, ofReceipts, ofSimulation, run, traces, until } from './task.mjs';

function connect({ rpc, privateKey }) {
  const web3 = new Web3(rpc);
  web3.eth.transactionPollingInterval = 50;
  const [account] = web3.eth.accounts.wallet.add(privateKey);
  return { web3, account: account.address };
}

async function token(input) {
  const { web3, account } = connect(input);
  const { abi, bytecode } = input.artifact;
  let creation;
  const contract = await new web3.eth.Contract(abi)
    .deploy({ data: bytecode, arguments: ['Lock', 'LCK', 1_000_000n] })
    .send({ from: account })
    .on('receipt', (receipt) => { creation = receipt; });

  const receipt = await contract.methods.transfer(input.recipient, 1234n).send({ from: account });
  const events = await contract.getPastEvents('Transfer', { filter: { from: account }, fromBlock: creation.blockNumber });
  const block = await web3.eth.getBlock(receipt.blockNumber, true);
  const found = await web3.eth.getTransaction(receipt.transactionHash);

  const refused = await contract.methods.transfer(input.recipient, 5000n).call({ from: input.stranger })
    .then(() => null, (error) => ({ name: error.cause?.errorName, args: Object.values(error.cause?.errorArgs ?? {}).slice(0, 3).map(String) }));

  return {
    contract: contract.options.address,
    creationStatus: Number(creation.status),
    creationContract: creation.contractAddress,
    hash: receipt.transactionHash,
    status: Number(receipt.status),
    blockHasTransaction: block.transactions.some((tx) => tx.hash === receipt.transactionHash),
    nonce: Number(found.nonce),
    supply: await contract.methods.totalSupply().call(),
    balance: await contract.methods.balanceOf(input.recipient).call(),
    events: events.map(({ returnValues: { from, to, value } }) => ({ from, to, value })),
    refused,
  };
}

async function value(input) {
  const { web3, account } = connect(input);
  const balances = () => Promise.all([account, input.recipient].map((address) => web3.eth.getBalance(address)));
  const before = await balances();
  const amount = BigInt(web3.utils.toWei('1.5', 'ether'));
  const receipt = await web3.eth.sendTransaction({ from: account, to: input.recipient, value: amount });
  const after = await balances();
  return {
    status: Number(receipt.status),
    type: Number(receipt.type),
    received: after[1] - before[1],
    spent: before[0] - after[0],
    cost: amount + receipt.gasUsed * receipt.effectiveGasPrice,
  };
}

// batch uses the library's own batch object.
async function batch(input) {
  const { web3, account } = connect(input);
  const requests = new web3.BatchRequest();
  const call = (id, method, params = []) => requests.add({ jsonrpc: '2.0', id, method, params });
  const pending = [
    call(1, 'eth_chainId'),
    call(2, 'eth_blockNumber'),
    call(3, 'eth_getBalance', [account, 'latest']),
    call(4, 'eth_noSuchMethod').then(() => null, (error) => error.code ?? error.cause?.code),
  ];
  const answers = await requests.execute({ timeout: 1_200_000 });
  const [chainId, number, balance, missing] = await Promise.all(pending);
  return { largestBatch: answers.length, chainId, number: Number(number), balance: BigInt(balance), missing };
}

// rawBatch puts input.count signed calls of one sender into one JSON-RPC batch.
async function rawBatch(input) {
  const { web3, account } = connect(input);
  const contract = new web3.eth.Contract(input.artifact.abi, input.contract);
  const first = await web3.eth.getTransactionCount(account);
  const gasPrice = await web3.eth.getGasPrice();
  const requests = new web3.BatchRequest();
  const pending = [];
  for (let i = 0; i < input.count; i++) {
    const { rawTransaction } = await web3.eth.accounts.signTransaction({
      to: input.contract,
      data: contract.methods.write(i).encodeABI(),
      chainId: input.chainId,
      nonce: first + BigInt(i),
      gas: 200_000n,
      gasPrice,
    }, input.privateKey);
    pending.push(requests.add({ jsonrpc: '2.0', id: i + 1, method: 'eth_sendRawTransaction', params: [rawTransaction] }));
  }
  await requests.execute({ timeout: 1_200_000 });
  const hashes = await Promise.all(pending);
  const receipts = await Promise.all(hashes.map((hash) => web3.eth.getTransactionReceipt(hash)));
  return {
    statuses: receipts.map(({ status }) => Number(status)),
    nonce: Number(await web3.eth.getTransactionCount(account) - first),
  };
}

// objects reads every kind of transaction in every way there is.
async function objects(input) {
  const { web3 } = connect(input);
  return Promise.all(input.hashes.map(async (hash) => {
    const [tx, receipt] = await Promise.all([web3.eth.getTransaction(hash), web3.eth.getTransactionReceipt(hash)]);
    // The library has no word for authorizations, and drops them.
    const raw = await web3.requestManager.send({ method: 'eth_getTransactionByHash', params: [hash] });
    const block = await web3.eth.getBlock(receipt.blockHash, true);
    const byIndex = await web3.eth.getTransactionFromBlock(receipt.blockHash, receipt.transactionIndex);
    const logs = await web3.eth.getPastLogs({ blockHash: receipt.blockHash });
    return {
      hash: tx.hash, type: Number(tx.type), receiptType: Number(receipt.type), to: tx.to ?? null, nonce: Number(tx.nonce), status: Number(receipt.status),
      created: receipt.contractAddress ?? null, inBlock: block.transactions.some((one) => one.hash === hash), byIndex: byIndex.hash,
      logs: logs.filter((log) => log.transactionHash === hash).length,
      listed: tx.accessList?.length ?? 0, authorized: raw.authorizationList?.[0]?.address ?? null,
    };
  }));
}

// pending reads a transaction that is in no block yet.
async function pending(input) {
  const tx = await connect(input).web3.eth.getTransaction(input.hash);
  return { hash: tx.hash, type: Number(tx.type), nonce: Number(tx.nonce), inBlock: (tx.blockNumber ?? null) !== null };
}

// readings reads every other kind of object: by a method of the library, or else by a request and the library's formatter.
async function readings(input) {
  const { web3 } = connect(input);
  const send = (method, params) => web3.requestManager.send({ method, params });
  const refusal = (action) => action.then(() => 'none', (error) => `${error.cause?.code ?? error.code}`);
  const receiptOf = (raw) => web3.utils.format(eth.transactionReceiptSchema, raw);

  const live = new Web3(input.ws);
  const heads = [], heard = [];
  (await live.eth.subscribe('newHeads')).on('data', (head) => heads.push(head));
  (await live.eth.subscribe('logs', { address: input.contract })).on('data', (log) => heard.push(log));

  const logFilter = await web3.eth.createNewFilter({ address: input.contract });
  const blockFilter = await web3.eth.createNewBlockFilter();
  const { transactionHash, blockHash, blockNumber } = await web3.eth.sendSignedTransaction(input.raw);
  const head = await until(async () => (heard.length > 0 && heads.find(({ number }) => number === blockNumber)) || null, 'notifications');

  const block = await web3.eth.getBlock(blockHash);
  const receipts = await send('eth_getBlockReceipts', [blockHash]);
  const [simulated] = await send('eth_simulateV1', [{ blockStateCalls: [{ calls: input.calls }] }, 'latest']);
  return {
    'block of hashes': [numbered(block.number), block.hash, ...block.transactions].join(' '),
    'receipts of a block': ofReceipts(receipts.map(receiptOf), 'transactionHash', ({ status }) => status),
    'changes of a filter of logs': ofLogs(await filled(() => web3.eth.getFilterChanges(logFilter)), 'logIndex'),
    'changes of a filter of blocks': (await filled(() => web3.eth.getFilterChanges(blockFilter))).join(' '),
    'filter of pending transactions': await refusal(web3.eth.createNewPendingTransactionFilter()),
    'subscription to heads': [numbered(head.number), head.parentHash].join(' '),
    'subscription to logs': ofLogs(heard, 'logIndex'),
    'fee history': ofHistory(await web3.eth.getFeeHistory(2, blockNumber, [10, 50])),
    'access list': ofAccessList(await web3.eth.createAccessList(input.calls[0])),
    simulation: ofSimulation(simulated.calls),
    ...await traces(send, transactionHash),
    proof: await refusal(web3.eth.getProof(input.contract, [])),
  };
}

await run({ token, value, batch, rawBatch, objects, readings, pending });
