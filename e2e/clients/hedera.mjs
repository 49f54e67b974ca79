// The Hedera JavaScript SDK against the consensus port.

import {
  AccountBalanceQuery, AccountCreateTransaction, AccountId, AccountInfoQuery, Client, EthereumTransaction, Hbar,
  PrivateKey, TransactionRecordQuery, TransferTransaction,
} from '@hiero-ledger/sdk';
import { JsonRpcProvider, Transaction, Wallet } from 'ethers';
import { patient, run, until } from './task.mjs';

function connect({ consensus, operator }) {
  const key = operator.ed25519 ? PrivateKey.fromStringED25519(operator.privateKey) : PrivateKey.fromStringECDSA(operator.privateKey);
  return patient(Client.forNetwork({ [consensus]: '0.0.3' }))
    .setOperator(AccountId.fromString(operator.id), key)
    // The network under test has no address book service to refresh from.
    .setNetworkUpdatePeriod(2 ** 31 - 1);
}

const tinybars = async (client, id) =>
  (await new AccountBalanceQuery().setAccountId(id).execute(client)).hbars.toTinybars().toString();

// transfer moves 2.5 hbar and asks for balances, receipt and record.
async function transfer(input) {
  const client = connect(input);
  const recipient = AccountId.fromString(input.recipient);
  const before = await tinybars(client, recipient);
  const response = await new TransferTransaction()
    .addHbarTransfer(client.operatorAccountId, new Hbar(-2.5))
    .addHbarTransfer(recipient, new Hbar(2.5))
    .setTransactionMemo('a transfer')
    .execute(client);
  const receipt = await response.getReceipt(client);
  const record = await response.getRecord(client);
  const after = await tinybars(client, recipient);
  const moved = record.transfers.find(({ accountId }) => accountId.toString() === recipient.toString());
  return {
    status: receipt.status.toString(),
    received: BigInt(after) - BigInt(before),
    recorded: moved.amount.toTinybars().toString(),
    memo: record.transactionMemo,
    fee: record.transactionFee.toTinybars().toString(),
    payer: record.transactionId.accountId.toString(),
  };
}

// create makes an account with a fresh ECDSA key and its EVM address, then lets
// it pay for a transfer of its own.
async function create(input) {
  const client = connect(input);
  const key = PrivateKey.generateECDSA();
  const response = await new AccountCreateTransaction()
    .setECDSAKeyWithAlias(key)
    .setInitialBalance(new Hbar(20))
    .setAccountMemo('made by a test')
    .freezeWith(client)
    .sign(key)
    .then((signed) => signed.execute(client));
  const { status, accountId } = await response.getReceipt(client);
  const info = await new AccountInfoQuery().setAccountId(accountId).execute(client);

  client.setOperator(accountId, key);
  const spent = await new TransferTransaction()
    .addHbarTransfer(accountId, new Hbar(-1))
    .addHbarTransfer(AccountId.fromString(input.recipient), new Hbar(1))
    .execute(client);
  const own = await spent.getReceipt(client);

  const provider = new JsonRpcProvider(input.rpc);
  const address = '0x' + key.publicKey.toEvmAddress();
  const seen = await until(async () => (await provider.getBalance(address)) || null, 'balance of the new account through the relay');
  return {
    status: status.toString(),
    account: accountId.toString(),
    memo: info.accountMemo,
    initial: info.balance.toTinybars().toString(),
    address,
    infoAddress: '0x' + info.contractAccountId.toLowerCase().replace(/^0x/, ''),
    ownStatus: own.status.toString(),
    seenByRelay: seen,
  };
}

// hollow sends hbar to a fresh EVM address, then lets its key act over the relay.
async function hollow(input) {
  const client = connect(input);
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  const wallet = Wallet.createRandom(provider);
  const response = await new TransferTransaction()
    .addHbarTransfer(client.operatorAccountId, new Hbar(-10))
    .addHbarTransfer(AccountId.fromEvmAddress(0, 0, wallet.address), new Hbar(10))
    .execute(client);
  const receipt = await response.getReceipt(client);
  const record = await response.getRecord(client);
  const children = (await new TransactionRecordQuery()
    .setTransactionId(response.transactionId).setIncludeChildren(true).execute(client)).children;

  const funded = await until(async () => (await provider.getBalance(wallet.address)) || null, 'balance of the new address');
  const sent = await wallet.sendTransaction({ to: input.recipientAddress, value: 10n ** 18n });
  const mined = await sent.wait();
  const { key } = await until(async () => {
    const id = AccountId.fromEvmAddress(0, 0, wallet.address);
    const info = await new AccountInfoQuery().setAccountId(id).execute(client);
    return info.key.toString().length > 0 ? info : null;
  }, 'completed account');
  return {
    status: receipt.status.toString(),
    recorded: record.transfers.map(({ amount }) => amount.toTinybars().toString()),
    children: children.length,
    funded,
    sentStatus: mined.status,
    completed: key.toString().includes(wallet.signingKey.compressedPublicKey.slice(2)),
  };
}

// ethereum wraps a signed call into an EthereumTransaction, and compares what
// the consensus node and the relay say about it.
async function ethereum(input) {
  const client = connect(input);
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  const wallet = new Wallet(input.privateKey, provider);
  const { gasPrice } = await provider.getFeeData();
  const creation = await wallet.signTransaction({
    type: 2, chainId: input.chainId, nonce: await provider.getTransactionCount(wallet.address), data: input.artifact.bytecode,
    gasLimit: 1_000_000n, maxFeePerGas: gasPrice, maxPriorityFeePerGas: 0n,
  });
  const response = await new EthereumTransaction()
    .setEthereumData(Buffer.from(creation.slice(2), 'hex'))
    .setMaxTransactionFee(new Hbar(50))
    .execute(client);
  const receipt = await response.getReceipt(client);
  const record = await response.getRecord(client);

  const { hash } = Transaction.from(creation);
  const seen = await until(() => provider.getTransactionReceipt(hash), 'receipt through the relay');
  return {
    status: receipt.status.toString(),
    contract: receipt.contractId.toString(),
    hash,
    recordHash: '0x' + Buffer.from(record.ethereumHash).toString('hex'),
    recordGas: record.contractFunctionResult.gasUsed.toString(),
    relayGas: seen.gasUsed,
    relayStatus: seen.status,
    relayCode: (await provider.getCode(seen.contractAddress)).length > 2,
  };
}

// wrongNonce shows what the consensus node says without a relay in front of it.
async function wrongNonce(input) {
  const client = connect(input);
  const provider = new JsonRpcProvider(input.rpc);
  const wallet = new Wallet(input.privateKey, provider);
  const { gasPrice } = await provider.getFeeData();
  const raw = await wallet.signTransaction({
    type: 2, chainId: input.chainId, nonce: 1_000_000, to: wallet.address, gasLimit: 50_000n,
    maxFeePerGas: gasPrice, maxPriorityFeePerGas: 0n,
  });
  const response = await new EthereumTransaction()
    .setEthereumData(Buffer.from(raw.slice(2), 'hex'))
    .setMaxTransactionFee(new Hbar(50))
    .execute(client);
  const status = await response.getReceipt(client).then((r) => r.status.toString(), (error) => error.status.toString());
  return { status };
}

await run({ transfer, create, hollow, ethereum, wrongNonce });
