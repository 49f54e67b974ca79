// The client, and what ethers and viem make of it, against a real manager (TXM_URL) with two signers on a real chain (RPC_URL).
import assert from "node:assert/strict";
import { createServer, request as pass } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import { Contract, ContractFactory, JsonRpcProvider, NonceManager, isError } from "ethers";
import { createPublicClient, createWalletClient, http, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { anvil } from "viem/chains";
import { FateError, TxManager, executed, isProblem } from "lockstep-txm";
import { LockstepSigner } from "lockstep-txm/ethers";
import { lockstepActions } from "lockstep-txm/viem";

const { TXM_URL, RPC_URL } = process.env;
const key = process.env.TXM_API_KEY;
const txm = new TxManager({ url: TXM_URL, key });
const provider = new JsonRpcProvider(RPC_URL, undefined, { cacheTimeout: -1, pollingInterval: 100 });
const reader = createPublicClient({ chain: anvil, transport: http(RPC_URL), pollingInterval: 100 });
test.after(() => provider.destroy());

const to = "0x05FbA803Be258049A27B820088bab1cAD2058871";
const counter = "0x00000000000000000000000000000000000c0de1"; // logs the first word of each call's data
const reverting = "0x00000000000000000000000000000000000c0de2";
const counterCode = "0x60003560006000a100";
const deployment = "0x68" + counterCode.slice(2) + "5f5260096017f3";
const abi = ["function add(uint256)", "function look() view"];
const rich = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", second = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/** Stops the chain's blocks while does runs. */
async function stopped(does) {
  await provider.send("evm_setAutomine", [false]);
  await provider.send("evm_setIntervalMining", [0]);
  try {
    return await does(() => provider.send("evm_mine", []));
  } finally {
    await provider.send("evm_setAutomine", [true]);
    await provider.send("evm_setIntervalMining", [1]);
    await provider.send("evm_mine", []);
  }
}

/** Asserts that the manager sent these, and nobody else. */
async function ours(...hashes) {
  for (const hash of hashes) assert.equal((await txm.find({ hash })).transactions.length, 1, `the manager did not send ${hash}`);
}

test.before(() => provider.send("anvil_setCode", [reverting, "0x60006000fd"]));

test("an intent is sent once, whoever loses the answer", async (t) => {
  let calls = 0;
  const proxy = createServer((request, response) => {
    const forward = pass(TXM_URL + request.url, { method: request.method, headers: request.headers }, (answer) => {
      if (request.method === "POST" && calls++ < 2) { answer.resume(); answer.on("end", () => response.socket.destroy()); return; }
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(forward);
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => { proxy.closeAllConnections(); proxy.close(); });
  const lossy = new TxManager({ url: `http://127.0.0.1:${proxy.address().port}`, key });
  const before = await provider.getBalance(to);
  const tx = await lossy.send({ chain: 31337, to, value: 7n, metadata: { order: 17 } }, { wait: "mined" });
  assert.ok(executed(tx), JSON.stringify(tx));
  assert.equal(calls, 3);
  assert.equal(await provider.getBalance(to) - before, 7n);
  const { transactions } = await txm.find({ idempotencyKey: tx.idempotencyKey });
  assert.deepEqual(transactions.map((one) => one.id), [tx.id]);
  const full = await txm.get(tx.id);
  assert.equal(full.attempts.length, 1);
  assert.equal(full.receipt.transactionHash, tx.hash);
});

test("keys, batches, simulation, execute, refusals", async () => {
  const a = await txm.send({ chain: 31337, to, value: 1n }, { idempotencyKey: "order-17 ü" });
  const again = await txm.send({ chain: "31337", to, value: "1" }, { idempotencyKey: "order-17 ü" });
  assert.equal(again.id, a.id);
  await assert.rejects(txm.send({ chain: 31337, to, value: 2n }, { idempotencyKey: "order-17 ü" }), (err) => isProblem(err, "IDEMPOTENCY_KEY_REUSED"));
  await assert.rejects(txm.send({ chain: 31337, to: reverting }), (err) => isProblem(err, "WOULD_REVERT"));
  await assert.rejects(txm.send({ chain: 5, to }), (err) => isProblem(err, "UNKNOWN_CHAIN"));
  await assert.rejects(txm.get("nothing"), (err) => isProblem(err, "NOT_FOUND"));
  assert.ok(executed(await txm.wait(a.id)));
  const batch = await txm.sendBatch([{ chain: 31337, to, value: 1n }, { chain: 31337, to, value: 1n }]);
  assert.equal(new Set(batch.map((tx) => tx.id)).size, 2);
  assert.equal((await txm.simulate({ chain: 31337, to: reverting })).success, false);
  const record = await txm.execute({ key: "alice", idempotencyKey: "pay-1", intent: { chain: 31337, to, value: 1n } });
  assert.equal(record.status, "done");
  assert.equal((await txm.execute({ key: "alice", idempotencyKey: "pay-1", intent: { chain: 31337, to, value: 1n } })).txHash, record.txHash);
  const failed = await txm.send({ chain: 31337, to: reverting, simulate: "off", gas: 60_000 }, { wait: "confirmed" });
  assert.equal(failed.status, "reverted");
  assert.ok(!executed(failed));
});

test("a call by its signature takes bigints", async () => {
  const tx = await txm.send({ chain: 31337, to: counter, function: "add(uint256 amount)", args: [2n ** 200n] }, { wait: "mined" });
  assert.ok(executed(tx));
  assert.equal((await txm.get(tx.id)).data, "0x1003e2d2" + (2n ** 200n).toString(16).padStart(64, "0"));
  await assert.rejects(txm.send({ chain: 31337, to: counter, function: "add(uint256 amount)", args: ["x"] }), (err) => isProblem(err, "INVALID") && /amount/.test(err.message));
});

test("the stream tells of a transaction, in order", async () => {
  const signal = AbortSignal.timeout(120_000);
  const kinds = [];
  const events = txm.stream({ after: 0, signal });
  const tx = await txm.send({ chain: 31337, to, value: 1n });
  for await (const event of events) {
    if (event.subject !== tx.id) continue;
    kinds.push(event.kind);
    if (event.kind === "tx.confirmed") break;
  }
  assert.equal(kinds[0], "tx.accepted");
  assert.ok(kinds.indexOf("tx.broadcast") < kinds.indexOf("tx.confirmed"));
});

test("ethers: payments, contracts, deployments, reverts", async () => {
  const signer = new LockstepSigner(txm, provider);
  const sent = await Promise.all([1n, 2n, 3n].map((value) => signer.sendTransaction({ to, value })));
  const receipts = await Promise.all(sent.map((tx) => tx.wait()));
  for (const [i, receipt] of receipts.entries()) {
    assert.equal(receipt.status, 1);
    const onChain = await provider.getTransaction(receipt.hash);
    assert.deepEqual([onChain.from, onChain.nonce, onChain.value, onChain.to], [sent[i].from, sent[i].nonce, sent[i].value, to]);
  }
  await ours(...sent.map((tx) => tx.hash));
  const contract = new Contract(counter, abi, signer);
  const receipt = await (await contract.add(5n)).wait();
  assert.equal(receipt.logs.length, 1);
  assert.equal(await (await contract.add(6n)).wait(2).then((r) => r.status), 1);
  assert.ok(await contract.add.estimateGas(5n) > 21_000n);
  const named = signer.with({ idempotencyKey: "ethers-1", metadata: { who: "me" } });
  const one = await contract.connect(named).add(9n), same = await contract.connect(named).add(9n);
  assert.equal(one.hash, same.hash);

  const deployed = await new ContractFactory(abi, deployment, signer).deploy();
  await ours(one.hash, receipt.hash, deployed.deploymentTransaction().hash);
  await deployed.waitForDeployment();
  assert.equal(await provider.getCode(await deployed.getAddress()), counterCode);

  const pinned = signer.with({ pin: second });
  assert.equal(await pinned.getAddress(), second);
  assert.equal((await pinned.sendTransaction({ to, value: 1n })).from, second);
  await assert.rejects(signer.getAddress(), (err) => isError(err, "UNSUPPORTED_OPERATION") && /2 signers/.test(err.message));
  const failing = await signer.with({ simulate: "off" }).sendTransaction({ to: reverting, gasLimit: 60_000 });
  await assert.rejects(failing.wait(), (err) => isError(err, "CALL_EXCEPTION") && err.receipt.status === 0);
  await assert.rejects(signer.sendTransaction({ to: reverting }), (err) => isProblem(err, "WOULD_REVERT"));
  for (const wrong of [{ nonce: 1 }, { accessList: [{ address: to, storageKeys: [] }] }]) {
    await assert.rejects(signer.sendTransaction({ to, ...wrong }), (err) => isError(err, "UNSUPPORTED_OPERATION"));
  }
  await assert.rejects(signer.sendTransaction({ to, chainId: 1 }), (err) => isError(err, "INVALID_ARGUMENT"));
  await assert.rejects(signer.signMessage("x"), (err) => isError(err, "UNSUPPORTED_OPERATION"));
  await assert.rejects(new NonceManager(pinned).sendTransaction({ to }), (err) => isError(err, "UNSUPPORTED_OPERATION")); // a second drawer of nonces
});

test("another hash is mined, and nothing is", async () => {
  const contract = new Contract(counter, abi, new LockstepSigner(txm, provider, { pin: rich }));
  const wallet = createWalletClient({ account: second, chain: anvil, transport: http(RPC_URL) }).extend(lockstepActions(txm));
  await stopped(async (mine) => {
    const tx = await contract.add(11n);
    const hash = await wallet.sendTransaction({ to, value: 1n });
    const waits = [tx.wait(), reader.waitForTransactionReceipt({ hash, timeout: 0 })];
    for (const first of [tx.hash, hash]) {
      const { transactions: [intent] } = await txm.find({ hash: first });
      let now = intent;
      while (now.hash === first || now.status !== "broadcast") { // until its fee is raised
        await new Promise((done) => setTimeout(done, 100));
        now = await txm.get(intent.id);
      }
    }
    await mine();
    const [byEthers, byViem] = await Promise.all(waits);
    assert.equal(byEthers.status, 1);
    assert.notEqual(byEthers.hash, tx.hash);
    assert.equal(byViem.status, "success");
    assert.notEqual(byViem.transactionHash, hash);
  });

  await stopped(async (mine) => {
    const plain = await new LockstepSigner(txm, provider, { pin: rich }).sendTransaction({ to, value: 1n });
    const called = await contract.add(12n);
    const waits = Promise.allSettled([called.wait(), plain.wait()]);
    const ids = [plain.id, (await txm.find({ hash: called.hash })).transactions[0].id];
    for (const id of ids) await txm.cancel(id);
    for (const id of ids) {
      while ((await txm.wait(id, { until: "mined", timeout: 200 })).status !== "cancelled") await mine();
    }
    for (const one of await waits) {
      assert.ok(one.reason instanceof FateError && one.reason.code === "NOT_EXECUTED" && one.reason.transaction.status === "cancelled", one.reason);
    }
  });
});

test("viem: payments, contracts, deployments, reverts", async () => {
  const wallet = createWalletClient({ chain: anvil, transport: http(RPC_URL) }).extend(lockstepActions(txm));
  const hashes = await Promise.all([1n, 2n, 3n].map((value) => wallet.sendTransaction({ to, value })));
  for (const hash of hashes) assert.equal((await reader.waitForTransactionReceipt({ hash })).status, "success");
  const call = { address: counter, abi: parseAbi(abi), functionName: "add", args: [5n] };
  assert.equal((await reader.waitForTransactionReceipt({ hash: await wallet.writeContract(call) })).logs.length, 1);
  const named = wallet.with({ idempotencyKey: "viem-1" });
  const one = await named.writeContract(call);
  assert.equal(await named.writeContract(call), one);
  const { contractAddress, transactionHash } = await reader.waitForTransactionReceipt({ hash: await wallet.deployContract({ abi: [], bytecode: deployment }) });
  await ours(...hashes, one, transactionHash);
  assert.equal(await reader.getCode({ address: contractAddress }), counterCode);

  const pinned = createWalletClient({ account: second, chain: anvil, transport: http(RPC_URL) }).extend(lockstepActions(txm));
  const { from } = await reader.waitForTransactionReceipt({ hash: await pinned.sendTransaction({ to, value: 1n }) });
  assert.equal(from, second.toLowerCase());
  assert.equal((await reader.waitForTransactionReceipt({ hash: await wallet.with({ simulate: "off" }).sendTransaction({ to: reverting, gas: 60_000n }) })).status, "reverted");
  await assert.rejects(wallet.sendTransaction({ to: reverting }), (err) => isProblem(err, "WOULD_REVERT"));
  await assert.rejects(wallet.sendTransaction({ to, nonce: 1 }), { code: "UNSUPPORTED" });
  await assert.rejects(pinned.signMessage({ message: "x" }), { code: "UNSUPPORTED" });
  const own = privateKeyToAccount("0x" + "11".repeat(32));
  assert.throws(() => createWalletClient({ account: own, chain: anvil, transport: http(RPC_URL) }).extend(lockstepActions(txm)), TypeError);
  await provider.send("anvil_setBalance", [own.address, "0xde0b6b3a7640000"]);
  await assert.rejects(wallet.sendTransaction({ account: own, to }), { code: "UNSUPPORTED" });
});
