// What tools for development do to a chain of their own, seen by ethers.

import { JsonRpcProvider, verifyMessage, verifyTypedData, Wallet, WebSocketProvider } from 'ethers';
import { AccountId, Client, Hbar, PrivateKey, TokenCreateTransaction } from '@hiero-ledger/sdk';
import { patient, run, subscribed, until } from './task.mjs';

// change edits accounts and makes blocks.
async function change({ rpc, prefix, privateKey }) {
  const provider = new JsonRpcProvider(rpc, undefined, { cacheTimeout: -1 });
  const nobody = Wallet.createRandom(provider);
  const at = nobody.address;
  const seen = (probe, wanted, what) => until(async () => { const got = await probe(); return got === wanted ? got : null; }, what);
  await provider.send(`${prefix}setBalance`, [at, '0x8ac7230489e80000']);
  const balance = await seen(() => provider.getBalance(at), 10n ** 19n, 'balance');
  await provider.send(`${prefix}setNonce`, [at, '0x7']);
  const nonce = await seen(() => provider.getTransactionCount(at), 7, 'nonce');
  const sent = await (await nobody.sendTransaction({ to: new Wallet(privateKey).address, value: 10n ** 18n })).wait();
  // Code that returns slot 5.
  const contract = Wallet.createRandom().address;
  await provider.send(`${prefix}setCode`, [contract, '0x60055460005260206000f3']);
  await provider.send(`${prefix}setStorageAt`, [contract, '0x5', '0x000000000000000000000000000000000000000000000000000000000000002a']);
  const value = await seen(() => provider.call({ to: contract }), '0x000000000000000000000000000000000000000000000000000000000000002a', 'storage through the code');
  await provider.send(`${prefix}setCode`, [contract, '0x600160005260206000f3']);
  const other = await seen(() => provider.call({ to: contract }), '0x' + '1'.padStart(64, '0'), 'other code');
  const slot = await provider.getStorage(contract, 5);
  const before = await provider.getBlockNumber();
  await provider.send('evm_mine', []);
  await provider.send(`${prefix}mine`, ['0x3']);
  const after = await seen(() => provider.getBlockNumber(), before + 4, 'four blocks');
  // Confirmations come with blocks, which come with time if a tool wants them to.
  await provider.send('evm_setIntervalMining', [50]);
  const confirmed = (await (await nobody.sendTransaction({ to: new Wallet(privateKey).address, value: 10n ** 18n })).wait(3)).status;
  await provider.send('evm_setIntervalMining', [0]);
  const refused = await provider.send(`${prefix}setBalance`, ['0x0000000000000000000000000000000000000167', '0x1']).then(() => 'taken', () => 'refused');
  return { balance, nonce, status: sent.status, spent: sent.gasUsed > 0n, value, other, slot, mined: after - before, confirmed, refused };
}

// back takes a snapshot, changes the chain through JSON-RPC and through HAPI, and goes back: then
// JSON-RPC, HAPI, the mirror node, filters and subscriptions know nothing of it, and the same
// nonces are good again.
async function back({ rpc, ws, mirror, consensus, operator, privateKey }) {
  const provider = new JsonRpcProvider(rpc, undefined, { cacheTimeout: -1 });
  const wallet = new Wallet(privateKey, provider);
  const to = Wallet.createRandom().address;
  const pay = async (value) => (await wallet.sendTransaction({ to, value })).wait();
  const sdk = patient(Client.forNetwork({ [consensus]: '0.0.3' })).setNetworkUpdatePeriod(2 ** 31 - 1).setDefaultMaxTransactionFee(new Hbar(100))
    .setOperator(AccountId.fromString(operator.id), PrivateKey.fromStringECDSA(operator.privateKey));
  const token = async () => {
    const sent = await new TokenCreateTransaction().setTokenName('T').setTokenSymbol('T').setTreasuryAccountId(operator.id).execute(sdk);
    return (await sent.getReceipt(sdk)).tokenId.toString();
  };
  const mirrored = async (id) => (await fetch(`${mirror}/api/v1/tokens/${id}`)).status;

  await pay(10n ** 18n);
  const live = new WebSocketProvider(ws);
  const heads = [];
  await live.on('block', (number) => heads.push(number));
  await subscribed(rpc, { newHeads: 1 });
  const filter = await provider.send('eth_newBlockFilter', []);
  const snapshot = await provider.send('evm_snapshot', []);
  const start = await provider.getBlockNumber();
  const gone = [await pay(2n * 10n ** 18n), await pay(10n ** 18n), await pay(10n ** 18n)];
  const created = await token();
  const seen = await until(async () => ((await mirrored(created)) === 200 ? true : null), 'the token');
  await provider.getBlock(gone[1].blockNumber);
  const last = await provider.getBlockNumber();
  await until(async () => (heads.includes(last) ? true : null), 'the last head of this history');
  const before = (await provider.send('eth_getFilterChanges', [filter])).length;

  const reverted = await provider.send('evm_revert', [snapshot]);
  heads.length = 0;
  const now = {
    reverted, seen, before: before >= 4,
    again: await provider.send('evm_revert', [snapshot]),
    head: (await provider.getBlockNumber()) - start,
    nonce: [await wallet.getNonce('latest'), await wallet.getNonce('pending')],
    receipts: await Promise.all(gone.map(({ hash }) => provider.getTransactionReceipt(hash))),
    block: await provider.getBlock(gone[1].blockNumber), byHash: await provider.getBlock(gone[1].blockHash),
    balance: (await provider.getBalance(to)).toString(), token: await mirrored(created),
  };
  const next = await pay(3n * 10n ** 18n);
  now.next = [next.status, next.blockNumber - start, next.hash !== gone[0].hash];
  now.sameNumber = (await token()) === created;
  now.heads = await until(async () => (heads.length >= 2 ? heads.map((n) => n - start) : null), 'heads of the new history');
  now.filter = (await provider.send('eth_getFilterChanges', [filter])).length;
  return now;
}

// node uses what a node with keys of its own does, and the clock.
async function node({ rpc }) {
  const provider = new JsonRpcProvider(rpc, undefined, { cacheTimeout: -1 });
  const send = (method, ...params) => provider.send(method, params);
  const refused = (promise) => promise.then(() => 'taken', (error) => error.error?.message ?? error.message);
  const [first, second] = await send('eth_accounts');
  const signer = await provider.getSigner(second);
  const domain = { name: 'D', chainId: 298 };
  const types = { Note: [{ name: 'text', type: 'string' }] };
  const typed = verifyTypedData(domain, types, { text: 'x' }, await signer.signTypedData(domain, types, { text: 'x' })) === signer.address;
  const sent = await Promise.all([1, 2, 3].map(() => send('eth_sendTransaction', { from: second, to: first, value: '0x2540be400' })));
  const status = (await Promise.all(sent.map((hash) => provider.waitForTransaction(hash)))).map((receipt) => receipt.status);
  // A contract that reverts with a reason.
  const data = '0x08c379a0' + '20'.padStart(64, '0') + '2'.padStart(64, '0') + '6e6f'.padEnd(64, '0');
  const reverting = Wallet.createRandom().address;
  const bytes = (data.length - 2) / 2;
  await send('hardhat_setCode', reverting, `0x60${bytes.toString(16)}600c60003960${bytes.toString(16)}6000fd${data.slice(2)}`);
  const reason = await refused(send('eth_sendTransaction', { from: first, to: reverting }));
  const nobody = Wallet.createRandom().address;
  const asNobody = { from: nobody, to: first, value: '0x2540be400' };
  await send('anvil_impersonateAccount', nobody);
  const poor = await refused(send('eth_sendTransaction', asNobody));
  await send('lockstep_faucet', nobody, 5);
  const impersonated = await provider.waitForTransaction(await send('eth_sendTransaction', asNobody));
  const dust = await refused(send('eth_sendTransaction', { ...asNobody, value: '0x1' }));
  await send('anvil_stopImpersonatingAccount', nobody);
  const latest = async () => (await provider.getBlock('latest')).timestamp;
  const began = await latest();
  await send('evm_increaseTime', 86400);
  await send('evm_mine');
  const day = await latest();
  await send('evm_setNextBlockTimestamp', day + 100);
  await send('anvil_mine', '0x3', '0x3c');
  const apart = (await latest()) - day;
  const past = await refused(send('evm_setNextBlockTimestamp', began));
  await send('evm_setAutomine', false);
  const open = await send('eth_sendTransaction', { from: second, to: first, value: '0x2540be400' });
  const pending = await provider.getTransactionReceipt(open);
  await send('evm_setIntervalMining', 50);
  const mined = (await until(() => provider.getTransactionReceipt(open), 'a block by time')).status;
  await send('evm_setIntervalMining', 0);
  await send('evm_setAutomine', true);
  const stranger = await refused(send('eth_sendTransaction', asNobody));
  await send('hardhat_reset');
  return {
    message: verifyMessage('hello', await signer.signMessage('hello')) === signer.address, typed, status,
    reason,
    poor: poor !== 'taken', dust, impersonated: [impersonated.status, impersonated.from === nobody],
    stranger: /unknown account/.test(stranger),
    day: day - began >= 86400 && day - began < 86400 + 3600, apart, past: /before/.test(past), pending, mined,
    fresh: [await provider.getBlockNumber(), await provider.getTransactionCount(second)],
    client: (await send('web3_clientVersion')).split('/')[0],
  };
}

await run({ change, back, node });
