// near-api-js, as its manual says.

import {
  Account, actions, baseEncode, base64Encode, buildDelegateAction, createTransaction, encodeSignedDelegate, encodeTransaction, JsonRpcProvider, KeyPair,
  KeyPairSigner, nearToYocto,
} from 'near-api-js';
import { run } from './task.mjs';

const highest = 2n ** 128n - 1n;

// one action of each kind, in each of its forms
const every = (ed, secp) => ({
  'create account': actions.createAccount(),
  'deploy contract': actions.deployContract(new Uint8Array([0, 97, 115, 109])),
  'call with JSON': actions.functionCall('create_account', { new_account_id: 'carol.near' }, 30_000_000_000_000n, 1n),
  'call with bytes': actions.functionCall('grüße', new Uint8Array([0, 255]), 2n ** 64n - 1n, highest),
  transfer: actions.transfer(highest),
  stake: actions.stake(5n, ed),
  'add full access key': actions.addFullAccessKey(secp),
  'add call key': actions.addFunctionCallAccessKey(ed, 'carol.near', ['a', 'b'], 250n),
  'add call key without bounds': actions.addFunctionCallAccessKey(secp, 'carol.near', [], undefined),
  'delete key': actions.deleteKey(ed),
  'delete account': actions.deleteAccount('carol.near'),
  'publish by hash': actions.deployGlobalContract(new Uint8Array([1, 2, 3]), 'codeHash'),
  'publish by account': actions.deployGlobalContract(new Uint8Array([]), 'accountId'),
  'use by hash': actions.useGlobalContract({ codeHash: new Uint8Array(32).fill(7) }),
  'use by account': actions.useGlobalContract({ accountId: 'carol.near' }),
});

// vectors signs a transaction and a delegate action for each action with each key.
async function vectors({ keys }) {
  const pairs = keys.map((key) => KeyPair.fromString(key));
  const [ed, secp] = pairs.map((pair) => pair.getPublicKey());
  const result = [];
  for (const pair of pairs) {
    const signer = new KeyPairSigner(pair);
    const publicKey = pair.getPublicKey();
    const add = async (name, list) => {
      const tx = createTransaction('alice.near', publicKey, 'bob.near', 2n ** 63n + 5n, list, new Uint8Array(32).fill(9));
      const { txHash, signedTransaction } = await signer.signTransaction(tx);
      result.push({ name, publicKey: publicKey.toString(), bytes: base64Encode(encodeTransaction(signedTransaction)), hash: baseEncode(txHash) });
    };
    const delegates = [];
    const all = Object.entries(every(ed, secp));
    for (const [name, action] of all) {
      await add(name, [action]);
      const delegate = buildDelegateAction({
        senderId: 'alice.near', receiverId: 'bob.near', actions: [action], nonce: 3n, maxBlockHeight: 2n ** 64n - 1n, publicKey,
      });
      const { delegateHash, signedDelegate } = await signer.signDelegateAction(delegate);
      delegates.push(actions.signedDelegate(signedDelegate));
      result.push({
        name, delegate: true, publicKey: publicKey.toString(), bytes: base64Encode(encodeSignedDelegate(signedDelegate)), hash: baseEncode(delegateHash),
      });
      await add(`delegate: ${name}`, [delegates.at(-1)]);
    }
    await add('none', []);
    await add('all', [...all.map(([, action]) => action), ...delegates]);
  }
  return result;
}

const refused = async (what) => {
  try {
    await what();
  } catch (error) {
    return error.constructor.name;
  }
  return 'nothing';
};

// use does on a chain what an onboarding relayer does, and reports what it sees.
async function use({ rpc, accounts, secp }) {
  const provider = new JsonRpcProvider({ url: rpc });
  const account = (id, key) => new Account(id, provider, KeyPairSigner.fromSecretKey(key ?? accounts[id]));
  const [relayer, alice, bob] = ['relayer.test', 'alice.test', 'bob.test'].map((id) => account(id));
  const seen = {};
  const level = async (outcome) => {
    const { hash, signer_id: accountId } = outcome.transaction;
    const final = await provider.viewTransactionStatusWithReceipts({ txHash: hash, accountId, waitUntil: 'FINAL' });
    return `${final.final_execution_status} ${final.receipts.length > 0}`;
  };

  // accounts: by the registrar, and below oneself
  const key = KeyPair.fromRandom('ed25519');
  await relayer.createAccount({ newAccountId: 'carol.test', publicKey: key.getPublicKey(), nearToTransfer: nearToYocto(5) });
  const carol = account('carol.test', key.toString());
  seen.created = (await carol.getState()).balance.total;
  await carol.createSubAccount({ accountOrPrefix: 'sub', publicKey: KeyPair.fromString(secp).getPublicKey(), nearToTransfer: nearToYocto(1) });
  const sub = account('sub.carol.test', secp);
  seen.taken = await refused(() => relayer.createAccount({ newAccountId: 'carol.test', publicKey: key.getPublicKey() }));
  seen.foreign = await refused(() => alice.signAndSendTransaction({ receiverId: 'x.bob.test', actions: [actions.createAccount()] }));

  // money, with a key of secp256k1
  const before = await bob.getBalance();
  seen.transfer = await level(await sub.transfer({ receiverId: 'bob.test', amount: 1000n }));
  seen.received = (await bob.getBalance()) - before;
  seen.poor = await refused(() => sub.transfer({ receiverId: 'bob.test', amount: nearToYocto(9) }));
  seen.nobody = await refused(() => alice.transfer({ receiverId: 'nobody.test', amount: 1n }));

  // calls
  seen.count = [];
  for (const by of [1, 41]) {
    seen.count.push(await alice.callFunction({ contractId: 'counter.test', methodName: 'increment', args: { by } }));
  }
  seen.count.push(await provider.callFunction({ contractId: 'counter.test', method: 'get', args: {} }));
  seen.failing = await refused(() => alice.callFunction({ contractId: 'failing.test', methodName: 'any' }));
  seen.method = await refused(() => alice.callFunction({ contractId: 'counter.test', methodName: 'other' }));

  // keys: one that may call, for which the rest is refused, and then none
  const limited = KeyPair.fromRandom('ed25519');
  await alice.addFunctionCallAccessKey({ publicKey: limited.getPublicKey(), contractId: 'counter.test', methodNames: ['increment'] });
  const session = account('alice.test', limited.toString());
  seen.session = await session.callFunction({ contractId: 'counter.test', methodName: 'increment' });
  seen.limits = [
    await refused(() => session.transfer({ receiverId: 'bob.test', amount: 1n })),
    await refused(() => session.callFunction({ contractId: 'failing.test', methodName: 'increment' })),
    await refused(() => session.callFunction({ contractId: 'counter.test', methodName: 'get' })),
  ];
  seen.keys = (await alice.getAccessKeyList()).keys.length;
  await alice.deleteKey(limited.getPublicKey());
  seen.gone = await refused(() => alice.getAccessKey(limited.getPublicKey()));

  // a delegate action: once by the relayer, and never again
  const { signedDelegate } = await carol.createSignedMetaTransaction({
    receiverId: 'counter.test', actions: [actions.functionCall('increment', {}, 10_000_000_000_000n)],
  });
  seen.relayed = await level(await relayer.relayMetaTransaction(signedDelegate));
  seen.replayed = await refused(() => relayer.relayMetaTransaction(signedDelegate));
  seen.count.push(await provider.callFunction({ contractId: 'counter.test', method: 'get', args: {} }));

  // a nonce below one that was used, and the same bytes again
  const { nonce } = await bob.getAccessKey(await bob.getSigner().getPublicKey());
  const { header } = await provider.viewBlock({ finality: 'final' });
  const at = async (number) => {
    const tx = await bob.createTransaction({ receiverId: 'alice.test', actions: [actions.transfer(1n)], publicKey: await bob.getSigner().getPublicKey() });
    tx.nonce = nonce + number;
    return (await bob.getSigner().signTransaction(tx)).signedTransaction;
  };
  const [low, high] = [await at(1n), await at(5n)];
  const first = await provider.sendTransaction(high);
  seen.below = await refused(() => provider.sendTransaction(low));
  seen.again = (await provider.sendTransaction(high)).transaction_outcome.block_hash === first.transaction_outcome.block_hash;
  seen.unknown = await refused(() => provider.viewTransactionStatus({ txHash: header.hash, accountId: 'bob.test' }));

  await sub.deleteAccount('bob.test');
  seen.deleted = await refused(() => provider.viewAccount({ accountId: 'sub.carol.test' }));
  seen.block = await refused(() => provider.viewBlock({ blockId: 1_000_000_000 }));
  seen.gasPrice = (await provider.viewGasPrice()).gas_price;
  seen.network = await provider.getNetworkId();
  return seen;
}

// delegate signs a delegate action as a wallet does, and gives its bytes to no relayer yet.
async function delegate({ rpc, account, key, receiver, list }) {
  const user = new Account(account, new JsonRpcProvider({ url: rpc }), KeyPairSigner.fromSecretKey(key));
  const { signedDelegate } = await user.createSignedMetaTransaction({
    receiverId: receiver, actions: list.map(({ method, gas }) => actions.functionCall(method, {}, BigInt(gas))),
  });
  return { bytes: base64Encode(encodeSignedDelegate(signedDelegate)) };
}

await run({ vectors, use, delegate });
