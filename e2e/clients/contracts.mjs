// Files, contracts and queries as the Hedera JavaScript SDK speaks them: what the network executes without the EVM's own
// transactions, and what it tells of itself.

import {
  AccountAllowanceApproveTransaction, AccountCreateTransaction, AccountInfoQuery, AddressBookQuery, ContractByteCodeQuery, ContractCallQuery, ContractCreateFlow,
  ContractCreateTransaction, ContractDeleteTransaction, ContractExecuteTransaction, ContractFunctionParameters, ContractInfoQuery, DelegateContractId,
  FileAppendTransaction, FileContentsQuery, FileCreateTransaction, FileDeleteTransaction, FileInfoQuery, FileUpdateTransaction, Hbar, KeyList, NetworkVersionInfoQuery,
  PrivateKey, TokenAssociateTransaction, TokenCreateTransaction, TransactionId, TransactionReceiptQuery, TransactionRecordQuery, TransferTransaction,
} from '@hiero-ledger/sdk';
import { session } from './session.mjs';
import { run } from './task.mjs';

// files goes through the life of a file of its own, longer than one transaction.
async function files(input) {
  const s = session(input);
  const key = PrivateKey.generateED25519();
  const steps = {};
  const { receipt } = await s.execute(new FileCreateTransaction().setKeys([key.publicKey]).setContents('hello').setFileMemo('a file'), key);
  const file = receipt.fileId;
  const read = async (id) => Buffer.from(await new FileContentsQuery().setFileId(id).execute(s.client)).toString();
  const first = await read(file);
  steps.unsigned = await s.status(new FileAppendTransaction().setFileId(file).setContents(' no'));
  steps.appended = await s.status(new FileAppendTransaction().setFileId(file).setContents(' world'), key);
  const second = await read(file);
  const long = 'x'.repeat(10_000);
  steps.renamed = await s.status(new FileUpdateTransaction().setFileId(file).setFileMemo('long'), key);
  steps.chunks = await s.status(new FileAppendTransaction().setFileId(file).setContents(long).setMaxChunks(10), key);
  const info = await new FileInfoQuery().setFileId(file).execute(s.client);
  const whole = (await read(file)).endsWith(long);
  const fixed = (await s.execute(new FileCreateTransaction().setContents('for ever'))).receipt.fileId;
  steps.immutable = await s.status(new FileAppendTransaction().setFileId(fixed).setContents('!'));
  steps.undeletable = await s.status(new FileDeleteTransaction().setFileId(fixed));
  steps.deleted = await s.status(new FileDeleteTransaction().setFileId(file), key);
  steps.again = await s.status(new FileDeleteTransaction().setFileId(file), key);
  steps.readDeleted = await read(file).then(() => 'SUCCESS', (error) => error.status?.toString() ?? String(error));
  const after = await new FileInfoQuery().setFileId(file).execute(s.client);
  return { steps, first, second, whole, size: info.size.toString(), memo: info.fileMemo, keys: info.keys.toArray().length, gone: after.isDeleted, fixed: await read(fixed) };
}

// calls makes contracts, from a file and by the flow that makes the file by itself, and calls them.
async function calls(input) {
  const s = session(input);
  const { bytecode } = input.artifact;
  const steps = {};
  const code = (await s.execute(new FileCreateTransaction().setKeys([s.key.publicKey]).setContents(bytecode.slice(2, 4000)))).receipt.fileId;
  if (bytecode.length > 4000) await s.execute(new FileAppendTransaction().setFileId(code).setContents(bytecode.slice(4000)).setMaxChunks(20));
  const { receipt } = await s.execute(new ContractCreateTransaction().setBytecodeFileId(code).setGas(2_000_000).setAdminKey(s.key)
    .setConstructorParameters(new ContractFunctionParameters().addUint256(41)).setContractMemo('from a file'));
  const contract = receipt.contractId;
  const flow = await new ContractCreateFlow().setBytecode(bytecode).setGas(2_000_000)
    .setConstructorParameters(new ContractFunctionParameters().addUint256(7)).execute(s.client);
  const other = (await flow.getReceipt(s.client)).contractId;
  const ask = (id, name) => new ContractCallQuery().setContractId(id).setGas(200_000).setFunction(name).execute(s.client);
  const execute = (name, params, setup = (t) => t) => s.execute(setup(new ContractExecuteTransaction().setContractId(contract).setGas(300_000)
    .setFunction(name, params)));
  const before = (await ask(contract, 'value')).getUint256(0).toString();
  const { response } = await execute('add', new ContractFunctionParameters().addUint256(1));
  const record = await response.getRecord(s.client);
  const after = (await ask(contract, 'value')).getUint256(0).toString();
  const paid = await execute('pay', undefined, (t) => t.setPayableAmount(new Hbar(3)));
  const failing = new ContractExecuteTransaction().setContractId(contract).setGas(300_000).setFunction('fail');
  const failed = await failing.execute(s.client);
  steps.failed = await failed.getReceipt(s.client).then((r) => r.status.toString(), (error) => error.status.toString());
  const failure = await new TransactionRecordQuery().setTransactionId(failed.transactionId).setValidateReceiptStatus(false).execute(s.client);
  steps.localFailure = await ask(contract, 'fail').then(() => 'SUCCESS', (error) => error.status?.toString() ?? String(error));
  steps.poor = await s.status(new ContractExecuteTransaction().setContractId(contract).setGas(21_100).setFunction('add', new ContractFunctionParameters().addUint256(1)));
  const deployed = Buffer.from(await new ContractByteCodeQuery().setContractId(contract).execute(s.client)).toString('hex');
  const info = await new ContractInfoQuery().setContractId(contract).execute(s.client);
  steps.permanent = await s.status(new ContractDeleteTransaction().setContractId(contract).setTransferAccountId(s.id).setPermanentRemoval(true));
  steps.deleted = await s.status(new ContractDeleteTransaction().setContractId(contract).setTransferAccountId(s.id));
  steps.tooLate = await s.status(new ContractExecuteTransaction().setContractId(contract).setGas(300_000).setFunction('add', new ContractFunctionParameters().addUint256(1)));
  return {
    steps, before, after, other: (await ask(other, 'value')).getUint256(0).toString(), returned: record.contractFunctionResult.getUint256(0).toString(),
    logs: record.contractFunctionResult.logs.length, gas: record.contractFunctionResult.gasUsed.toNumber() > 0, paid: paid.receipt.status.toString(),
    balance: info.balance.toString(), memo: info.contractMemo, same: deployed.length > 0 && bytecode.includes(deployed), reason: failure.contractFunctionResult.errorMessage,
  };
}

// queries asks what the network tells of itself, of costs, and of duplicates and children.
async function queries(input) {
  const s = session(input);
  const cost = await new AccountInfoQuery().setAccountId(s.id).getCost(s.client);
  const version = await new NetworkVersionInfoQuery().execute(s.client);
  s.client.setMirrorNetwork([input.topics]);
  const book = await new AddressBookQuery().setFileId('0.0.102').execute(s.client);
  // The same id twice: the second is a duplicate, and the record of the first is found.
  const id = TransactionId.generate(s.id);
  const transfer = () => new TransferTransaction().setTransactionId(id).addHbarTransfer(s.id, new Hbar(-1)).addHbarTransfer('0.0.98', new Hbar(1));
  const first = await s.status(transfer());
  const second = await s.status(transfer());
  // A transfer to an alias makes an account: a child of the transaction.
  const fresh = PrivateKey.generateECDSA();
  const { response } = await s.execute(new TransferTransaction().addHbarTransfer(s.id, new Hbar(-5)).addHbarTransfer(fresh.publicKey.toAccountId(0, 0), new Hbar(5)));
  const receipt = await new TransactionReceiptQuery().setTransactionId(response.transactionId).setIncludeChildren(true).execute(s.client);
  const record = await new TransactionRecordQuery().setTransactionId(response.transactionId).setIncludeChildren(true).setIncludeDuplicates(true).execute(s.client);
  return {
    cost: cost.toTinybars().toNumber() > 0, version: [version.protobufVersion, version.servicesVersion].every((v) => v.major + v.minor > 0),
    nodes: book.nodeAddresses.map((n) => n.accountId.toString()), first, second, children: receipt.children.length, created: receipt.children[0]?.accountId?.toString() !== undefined,
    records: record.children.length, duplicates: record.duplicates.length,
  };
}

// allowances has a token spent by somebody else, and keys that are contracts'.
async function allowances(input) {
  const s = session(input);
  const [owner, spender, taker] = [await s.account(), await s.account(), await s.account()];
  const token = (await s.execute(new TokenCreateTransaction().setTokenName('T').setTokenSymbol('T').setInitialSupply(1000).setTreasuryAccountId(owner.id), owner.key)).receipt.tokenId;
  await s.execute(new TokenAssociateTransaction().setAccountId(taker.id).setTokenIds([token]), taker.key);
  const steps = {};
  steps.approved = await s.status(new AccountAllowanceApproveTransaction().approveTokenAllowance(token, owner.id, spender.id, 50), owner.key);
  const other = session({ ...input, operator: { id: spender.id.toString(), privateKey: spender.key.toStringRaw() } });
  other.client.setOperator(spender.id, spender.key);
  const spend = (amount) => other.status(new TransferTransaction().addApprovedTokenTransfer(token, owner.id, -amount).addTokenTransfer(token, taker.id, amount));
  steps.spent = await spend(30);
  steps.tooMuch = await spend(30);
  // A key that is a contract's allows what the contract does, and nobody's signature.
  // Code that comes with the transaction has the constructor's parameters in it.
  const code = Buffer.from(input.artifact.bytecode.slice(2) + '1'.padStart(64, '0'), 'hex');
  const contract = (await s.execute(new ContractCreateTransaction().setBytecode(code).setGas(2_000_000))).receipt.contractId;
  const keys = new KeyList([contract, DelegateContractId.fromString(contract.toString()), s.key.publicKey], 1);
  const guarded = (await s.execute(new AccountCreateTransaction().setKeyWithoutAlias(keys).setInitialBalance(new Hbar(5)))).receipt.accountId;
  const info = await new AccountInfoQuery().setAccountId(guarded).execute(s.client);
  const closed = (await s.execute(new AccountCreateTransaction().setKeyWithoutAlias(new KeyList([contract])).setInitialBalance(new Hbar(5)))).receipt.accountId;
  const give = (from) => s.status(new TransferTransaction().addHbarTransfer(from, new Hbar(-1)).addHbarTransfer(s.id, new Hbar(1)));
  steps.byKey = await give(guarded);
  steps.byNobody = await give(closed);
  return { steps, keys: info.key.toArray().length };
}

await run({ files, calls, queries, allowances });
