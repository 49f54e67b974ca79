// The services of the network as the Hedera JavaScript SDK speaks them, read back through
// the mirror node.

import {
  AccountAllowanceApproveTransaction, AccountAllowanceDeleteTransaction, AccountBalanceQuery, AccountCreateTransaction,
  AccountDeleteTransaction, AccountId, AccountInfoQuery, AccountUpdateTransaction, BatchTransaction, Client, ContractCreateTransaction,
  ContractDeleteTransaction, ContractInfoQuery, ContractUpdateTransaction, CustomFixedFee, FeeSchedules, FileContentsQuery, FileInfoQuery,
  CustomFractionalFee, CustomRoyaltyFee, Hbar, KeyList, NftId, PendingAirdropId, PrivateKey, PrngTransaction,
  ScheduleCreateTransaction, ScheduleDeleteTransaction, ScheduleInfoQuery, ScheduleSignTransaction, Timestamp,
  TokenAirdropTransaction, TokenAssociateTransaction, TokenBurnTransaction, TokenCancelAirdropTransaction, TokenClaimAirdropTransaction,
  TokenCreateTransaction, TokenDeleteTransaction, TokenDissociateTransaction, TokenFeeScheduleUpdateTransaction,
  TokenFreezeTransaction, TokenGrantKycTransaction, TokenInfoQuery, TokenMintTransaction, TokenNftInfoQuery,
  TokenPauseTransaction, TokenRejectFlow, TokenRejectTransaction, TokenRevokeKycTransaction, TokenSupplyType, TokenType, TokenUnfreezeTransaction,
  TokenUnpauseTransaction, TokenUpdateNftsTransaction, TokenUpdateTransaction, TokenWipeTransaction,
  TopicCreateTransaction, TopicDeleteTransaction, TopicInfoQuery, TopicMessageQuery, TopicMessageSubmitTransaction, TopicUpdateTransaction,
  TransactionReceiptQuery, TransactionRecordQuery, TransferTransaction,
} from '@hiero-ledger/sdk';
import { Contract, JsonRpcProvider, Wallet, hashMessage, toBeHex, zeroPadValue } from 'ethers';
import { session } from './session.mjs';
import { run, until } from './task.mjs';

const balanceOf = async (s, id, token) =>
  Number((await new AccountBalanceQuery().setAccountId(id).execute(s.client)).tokens?.get(token) ?? -1);

// accounts goes through the life of an account, with keys of several kinds, and allowances of hbar.
async function accounts(input) {
  const s = session(input);
  const keys = [1, 2, 3].map(() => PrivateKey.generateED25519());
  const list = new KeyList(keys.map((k) => k.publicKey), 2);
  const { receipt } = await s.execute(new AccountCreateTransaction().setKeyWithoutAlias(list).setInitialBalance(new Hbar(30))
    .setAccountMemo('two of three').setMaxAutomaticTokenAssociations(-1));
  const shared = receipt.accountId;
  const spend = () => new TransferTransaction().addHbarTransfer(shared, new Hbar(-1)).addHbarTransfer(s.id, new Hbar(1));
  const oneKey = await s.status(spend(), keys[0]);
  const twoKeys = await s.status(spend(), keys[0], keys[2]);
  const renewed = PrivateKey.generateECDSA();
  const update = () => new AccountUpdateTransaction().setAccountId(shared).setKey(renewed.publicKey).setAccountMemo('one key');
  const oldKeysOnly = await s.status(update(), keys[0], keys[1]);
  const updated = await s.status(update(), keys[0], keys[1], renewed);
  const info = await new AccountInfoQuery().setAccountId(shared).execute(s.client);

  const spender = await s.account();
  const approved = await s.status(new AccountAllowanceApproveTransaction()
    .approveHbarAllowance(shared, spender.id, new Hbar(5)), renewed);
  const granted = await s.read(`accounts/${shared}/allowances/crypto`, ({ allowances }) => allowances.length === 1);
  const other = session({ ...input, operator: { id: spender.id.toString(), privateKey: spender.key.toStringRaw() } });
  other.client.setOperator(spender.id, spender.key);
  const draw = (amount) => other.status(new TransferTransaction()
    .addApprovedHbarTransfer(shared, new Hbar(-amount)).addHbarTransfer(spender.id, new Hbar(amount)));
  const drawn = await draw(3);
  const tooMuch = await draw(3);
  const left = await s.read(`accounts/${shared}/allowances/crypto`, ({ allowances }) => allowances[0]?.amount === 200_000_000);

  const deleted = await s.status(new AccountDeleteTransaction().setAccountId(shared).setTransferAccountId(s.id), renewed);
  const mirrored = await s.read(`accounts/${shared}`, (a) => a.deleted);
  return {
    oneKey, twoKeys, oldKeysOnly, updated, approved, drawn, tooMuch, deleted,
    memo: info.accountMemo, key: info.key.toString() === renewed.publicKey.toString(),
    granted: granted.allowances[0].amount_granted, left: left.allowances[0].amount, balance: mirrored.balance.balance,
  };
}

// fungible goes through the life of a fungible token.
async function fungible(input) {
  const s = session(input);
  const holder = await s.account();
  const automatic = await s.account((t) => t.setMaxAutomaticTokenAssociations(1));
  const { receipt } = await s.execute(new TokenCreateTransaction()
    .setTokenName('Fungible').setTokenSymbol('FNG').setDecimals(2).setInitialSupply(1000).setTreasuryAccountId(s.id)
    .setAdminKey(s.key).setKycKey(s.key).setFreezeKey(s.key).setWipeKey(s.key).setSupplyKey(s.key).setPauseKey(s.key)
    .setSupplyType(TokenSupplyType.Finite).setMaxSupply(5000).setTokenMemo('a memo').setMetadata(Buffer.from('meta')).setMetadataKey(s.key));
  const token = receipt.tokenId;
  const send = (to, amount) => s.status(new TransferTransaction().addTokenTransfer(token, s.id, -amount).addTokenTransfer(token, to, amount));
  const steps = {};
  steps.notAssociated = await send(holder.id, 10);
  steps.associated = await s.status(new TokenAssociateTransaction().setAccountId(holder.id).setTokenIds([token]), holder.key);
  steps.associatedTwice = await s.status(new TokenAssociateTransaction().setAccountId(holder.id).setTokenIds([token]), holder.key);
  steps.withoutKyc = await send(holder.id, 10);
  steps.kyc = await s.status(new TokenGrantKycTransaction().setAccountId(holder.id).setTokenId(token));
  steps.sent = await send(holder.id, 300);
  steps.frozen = await s.status(new TokenFreezeTransaction().setAccountId(holder.id).setTokenId(token));
  steps.sentFrozen = await send(holder.id, 1);
  steps.unfrozen = await s.status(new TokenUnfreezeTransaction().setAccountId(holder.id).setTokenId(token));
  steps.paused = await s.status(new TokenPauseTransaction().setTokenId(token));
  steps.sentPaused = await send(holder.id, 1);
  steps.unpaused = await s.status(new TokenUnpauseTransaction().setTokenId(token));
  steps.minted = await s.status(new TokenMintTransaction().setTokenId(token).setAmount(500));
  steps.mintedTooMuch = await s.status(new TokenMintTransaction().setTokenId(token).setAmount(5000));
  steps.burned = await s.status(new TokenBurnTransaction().setTokenId(token).setAmount(200));
  steps.wiped = await s.status(new TokenWipeTransaction().setTokenId(token).setAccountId(holder.id).setAmount(100));
  steps.updated = await s.status(new TokenUpdateTransaction().setTokenId(token).setTokenName('Renamed').setTokenMemo('new memo'));
  steps.revoked = await s.status(new TokenRevokeKycTransaction().setAccountId(holder.id).setTokenId(token));
  steps.sentRevoked = await send(holder.id, 1);
  steps.dissociatedWithBalance = await s.status(new TokenDissociateTransaction().setAccountId(holder.id).setTokenIds([token]), holder.key);
  steps.deletedHolder = await s.status(new AccountDeleteTransaction().setAccountId(holder.id).setTransferAccountId(s.id), holder.key);

  const info = await new TokenInfoQuery().setTokenId(token).execute(s.client);
  const mirrored = await s.read(`tokens/${token}`, (t) => t.name === 'Renamed');
  const balances = await s.read(`tokens/${token}/balances?order=asc`, (b) => b.balances.length === 2);
  const relation = await s.read(`accounts/${holder.id}/tokens`, (r) => r.tokens[0]?.kyc_status === 'REVOKED');
  const account = await s.read(`accounts/${holder.id}`, (a) => a.balance.tokens.length === 1);
  const response = await new TransferTransaction().addTokenTransfer(token, s.id, -1).addTokenTransfer(token, automatic.id, 1)
    .execute(s.client);
  // The KYC key is in the way of the automatic association.
  steps.automatic = await response.getReceipt(s.client).then((r) => r.status.toString(), (e) => e.status.toString());
  steps.deleted = await s.status(new TokenDeleteTransaction().setTokenId(token));
  steps.sentDeleted = await send(holder.id, 1);
  const gone = await s.read(`tokens/${token}`, (t) => t.deleted);
  return {
    steps, supply: info.totalSupply.toString(), name: info.name, decimals: info.decimals,
    treasury: await balanceOf(s, s.id, token), held: await balanceOf(s, holder.id, token), mirrored, gone: gone.deleted,
    balances: balances.balances.map((b) => b.balance), relation: relation.tokens[0], listed: account.balance.tokens[0].balance,
  };
}

// nfts goes through the life of non-fungible tokens, with allowances.
async function nfts(input) {
  const s = session(input);
  const alice = await s.account((t) => t.setMaxAutomaticTokenAssociations(10));
  const bob = await s.account((t) => t.setMaxAutomaticTokenAssociations(-1));
  const { receipt } = await s.execute(new TokenCreateTransaction()
    .setTokenName('Collection').setTokenSymbol('NFT').setTokenType(TokenType.NonFungibleUnique).setTreasuryAccountId(s.id)
    .setAdminKey(s.key).setSupplyKey(s.key).setWipeKey(s.key).setMetadataKey(s.key));
  const token = receipt.tokenId;
  const minted = await s.execute(new TokenMintTransaction().setTokenId(token).setMetadata(['a', 'b', 'c', 'd'].map((m) => Buffer.from(m))));
  const nft = (serial) => new NftId(token, serial);
  const steps = {};
  steps.sent = await s.status(new TransferTransaction().addNftTransfer(nft(1), s.id, alice.id).addNftTransfer(nft(2), s.id, alice.id));
  steps.notOwner = await s.status(new TransferTransaction().addNftTransfer(nft(1), s.id, bob.id));
  steps.approved = await s.status(new AccountAllowanceApproveTransaction().approveTokenNftAllowance(nft(1), alice.id, bob.id), alice.key);
  const spender = await new TokenNftInfoQuery().setNftId(nft(1)).execute(s.client);
  const other = session(input);
  other.client.setOperator(bob.id, bob.key);
  steps.taken = await other.status(new TransferTransaction().addApprovedNftTransfer(nft(1), alice.id, bob.id));
  steps.takenUnapproved = await other.status(new TransferTransaction().addApprovedNftTransfer(nft(2), alice.id, bob.id));
  steps.approvedAll = await s.status(new AccountAllowanceApproveTransaction()
    .approveTokenNftAllowanceAllSerials(token, alice.id, bob.id), alice.key);
  const all = await s.read(`accounts/${alice.id}/allowances/nfts`, ({ allowances }) => allowances.length === 1);
  steps.takenByAll = await other.status(new TransferTransaction().addApprovedNftTransfer(nft(2), alice.id, bob.id));
  steps.approvedThird = await s.status(new AccountAllowanceApproveTransaction().approveTokenNftAllowance(nft(3), s.id, bob.id));
  steps.withdrawn = await s.status(new AccountAllowanceDeleteTransaction().deleteAllTokenNftAllowances(nft(3), s.id));
  steps.metadata = await s.status(new TokenUpdateNftsTransaction().setTokenId(token).setSerialNumbers([3]).setMetadata(Buffer.from('new')));
  steps.burnedForeign = await s.status(new TokenBurnTransaction().setTokenId(token).setSerials([1]));
  steps.burned = await s.status(new TokenBurnTransaction().setTokenId(token).setSerials([4]));
  steps.wiped = await s.status(new TokenWipeTransaction().setTokenId(token).setAccountId(bob.id).setSerials([2]));
  const info = await new TokenNftInfoQuery().setNftId(nft(1)).execute(s.client);
  const owned = await s.read(`accounts/${bob.id}/nfts`, (list) => list.nfts.length === 1);
  const listed = await s.read(`tokens/${token}/nfts?order=asc`, (list) => list.nfts[3]?.deleted && list.nfts[1]?.deleted);
  const history = await s.read(`tokens/${token}/nfts/1/transactions`, (h) => h.transactions.length === 3);
  return {
    steps, serials: minted.receipt.serials.map(String), supply: (await new TokenInfoQuery().setTokenId(token).execute(s.client)).totalSupply.toString(),
    spender: spender[0].spenderId?.toString() === bob.id.toString(), owner: info[0].accountId.toString() === bob.id.toString(),
    all: all.allowances[0].approved_for_all, owned: owned.nfts.map((n) => n.serial_number),
    metadata: listed.nfts.map((n) => Buffer.from(n.metadata, 'base64').toString()), deleted: listed.nfts.map((n) => n.deleted),
    history: history.transactions.map((t) => t.type),
  };
}

// fees has custom fees of every kind charged.
async function fees(input) {
  const s = session(input);
  const unlimited = (t) => t.setMaxAutomaticTokenAssociations(-1);
  const [collector, alice, bob] = [await s.account(unlimited), await s.account(unlimited), await s.account(unlimited)];
  const coin = (await s.execute(new TokenCreateTransaction().setTokenName('Coin').setTokenSymbol('COIN').setInitialSupply(10_000)
    .setTreasuryAccountId(s.id).setFeeScheduleKey(s.key).setSupplyKey(s.key)
    .setCustomFees([
      new CustomFractionalFee().setNumerator(1).setDenominator(10).setMax(50).setFeeCollectorAccountId(collector.id),
      new CustomFixedFee().setHbarAmount(new Hbar(1)).setFeeCollectorAccountId(collector.id),
    ]), collector.key)).receipt.tokenId;
  const steps = {};
  steps.fromTreasury = await s.status(new TransferTransaction().addTokenTransfer(coin, s.id, -1000).addTokenTransfer(coin, alice.id, 1000));
  const sent = await s.execute(new TransferTransaction().addTokenTransfer(coin, alice.id, -200).addTokenTransfer(coin, bob.id, 200), alice.key);
  const record = await sent.response.getRecord(s.client);
  const mirrored = await s.read(`transactions/${mirrorId(sent.response.transactionId)}`);
  const after = { alice: await balanceOf(s, alice.id, coin), bob: await balanceOf(s, bob.id, coin), collector: await balanceOf(s, collector.id, coin) };

  const art = (await s.execute(new TokenCreateTransaction().setTokenName('Art').setTokenSymbol('ART')
    .setTokenType(TokenType.NonFungibleUnique).setTreasuryAccountId(s.id).setSupplyKey(s.key)
    .setCustomFees([new CustomRoyaltyFee().setNumerator(1).setDenominator(4)
      .setFallbackFee(new CustomFixedFee().setHbarAmount(new Hbar(2))).setFeeCollectorAccountId(collector.id)]))).receipt.tokenId;
  await s.execute(new TokenMintTransaction().setTokenId(art).setMetadata([Buffer.from('x')]));
  await s.execute(new TransferTransaction().addNftTransfer(new NftId(art, 1), s.id, alice.id));
  const sale = await s.execute(new TransferTransaction().addNftTransfer(new NftId(art, 1), alice.id, bob.id)
    .addHbarTransfer(bob.id, new Hbar(-8)).addHbarTransfer(alice.id, new Hbar(8)), alice.key, bob.key);
  const sold = await sale.response.getRecord(s.client);
  steps.giftUnsigned = await s.status(new TransferTransaction().addNftTransfer(new NftId(art, 1), bob.id, alice.id), bob.key);
  steps.gift = await s.status(new TransferTransaction().addNftTransfer(new NftId(art, 1), bob.id, alice.id), bob.key, alice.key);
  steps.schedule = await s.status(new TokenFeeScheduleUpdateTransaction().setTokenId(coin).setCustomFees([]));
  const free = await s.execute(new TransferTransaction().addTokenTransfer(coin, bob.id, -10).addTokenTransfer(coin, alice.id, 10), bob.key);
  const freeRecord = await free.response.getRecord(s.client);
  return {
    steps, after, assessed: record.assessedCustomFees.map((f) => f.amount.toString()).sort(),
    mirrored: mirrored.transactions[0].assessed_custom_fees.map((f) => String(f.amount)).sort(),
    royalty: sold.assessedCustomFees.map((f) => f.amount.toString()), free: freeRecord.assessedCustomFees.length,
  };
}

// airdrops sends tokens to accounts that do not know them, which claim them or not, and sends back what is not wanted.
async function airdrops(input) {
  const s = session(input);
  const open = await s.account((t) => t.setMaxAutomaticTokenAssociations(-1));
  const shut = await s.account((t) => t.setMaxAutomaticTokenAssociations(0));
  const coin = (await s.execute(new TokenCreateTransaction().setTokenName('Coin').setTokenSymbol('COIN').setInitialSupply(1000)
    .setTreasuryAccountId(s.id).setSupplyKey(s.key).setPauseKey(s.key))).receipt.tokenId;
  const art = (await s.execute(new TokenCreateTransaction().setTokenName('Art').setTokenSymbol('ART')
    .setTokenType(TokenType.NonFungibleUnique).setTreasuryAccountId(s.id).setSupplyKey(s.key))).receipt.tokenId;
  await s.execute(new TokenMintTransaction().setTokenId(art).setMetadata(['a', 'b', 'c'].map((m) => Buffer.from(m))));
  const nft = (serial) => new NftId(art, serial);
  const pending = (id) => id.setSenderid(s.id).setReceiverId(shut.id);
  const [coins, first, second] = [pending(new PendingAirdropId().setTokenId(coin)),
    pending(new PendingAirdropId().setNftId(nft(1))), pending(new PendingAirdropId().setNftId(nft(2)))];

  const drop = await s.execute(new TokenAirdropTransaction().addTokenTransfer(coin, s.id, -30).addTokenTransfer(coin, open.id, 10)
    .addTokenTransfer(coin, shut.id, 20).addNftTransfer(nft(1), s.id, shut.id).addNftTransfer(nft(2), s.id, shut.id)
    .addNftTransfer(nft(3), s.id, open.id));
  const record = await drop.response.getRecord(s.client);
  const [outstanding, waiting] = [await s.read(`accounts/${s.id}/airdrops/outstanding`, (l) => l.airdrops.length === 3),
    await s.read(`accounts/${shut.id}/airdrops/pending?limit=2`, (l) => l.airdrops.length === 2)];
  const rest = await s.read(waiting.links.next.slice('/api/v1/'.length), (l) => l.airdrops.length === 1);
  const before = { open: await balanceOf(s, open.id, coin), shut: await balanceOf(s, shut.id, coin), sender: await balanceOf(s, s.id, coin) };
  const steps = {};
  steps.empty = await s.status(new TokenAirdropTransaction());
  steps.twice = await s.status(new TokenAirdropTransaction().addNftTransfer(nft(1), s.id, shut.id));
  steps.claimUnsigned = await s.status(new TokenClaimAirdropTransaction().addPendingAirdropId(coins));
  steps.claimed = await s.status(new TokenClaimAirdropTransaction().addPendingAirdropId(coins).addPendingAirdropId(first), shut.key);
  steps.claimedTwice = await s.status(new TokenClaimAirdropTransaction().addPendingAirdropId(coins), shut.key);
  steps.canceled = await s.status(new TokenCancelAirdropTransaction().addPendingAirdropId(second));
  steps.claimedLate = await s.status(new TokenClaimAirdropTransaction().addPendingAirdropId(second), shut.key);
  const ended = await s.read(`accounts/${s.id}/airdrops/outstanding`, (l) => l.airdrops.length === 0);
  const claimed = await balanceOf(s, shut.id, coin);

  const reject = () => new TokenRejectTransaction().setOwnerId(shut.id);
  steps.rejectUnsigned = await s.status(reject().addTokenId(coin));
  steps.paused = await s.status(new TokenPauseTransaction().setTokenId(coin));
  steps.rejectPaused = await s.status(reject().addTokenId(coin), shut.key);
  steps.unpaused = await s.status(new TokenUnpauseTransaction().setTokenId(coin));
  steps.rejected = await s.status(reject().addTokenId(coin).addNftId(nft(1)), shut.key);
  steps.rejectedTwice = await s.status(reject().addTokenId(coin), shut.key);
  // The flow of the SDK rejects and dissociates.
  const flow = await (await new TokenRejectFlow().setOwnerId(open.id).addTokenId(coin).freezeWith(s.client).sign(open.key)).execute(s.client);
  steps.flow = (await flow.getReceipt(s.client)).status.toString();
  const relation = await s.read(`accounts/${open.id}/tokens`, (l) => l.tokens.length === 1);
  const types = await s.read(`transactions?account.id=${s.id}&transactiontype=tokenreject&limit=1`, (l) => l.transactions.length === 1);

  // The same at the token's own address, by a wallet.
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  const stranger = PrivateKey.generateECDSA();
  const wallet = new Wallet(`0x${stranger.toStringRaw()}`, provider);
  const evm = await s.execute(new AccountCreateTransaction().setECDSAKeyWithAlias(stranger).setInitialBalance(new Hbar(50)), stranger);
  steps.again = await s.status(new TokenAirdropTransaction().addTokenTransfer(coin, s.id, -7).addTokenTransfer(coin, evm.receipt.accountId, 7));
  const at = zeroPadValue(toBeHex(BigInt(coin.num.toString())), 20);
  const face = new Contract(at, ['function claimAirdropFT(address) returns (int64)', 'function rejectTokenFT() returns (int64)',
    'function balanceOf(address) view returns (uint256)'], wallet);
  await s.read(`accounts/${evm.receipt.accountId}/airdrops/pending`, (l) => l.airdrops.length === 1);
  const gas = { gasLimit: 2_000_000 };
  const claim = await (await face.claimAirdropFT(input.address, gas)).wait();
  const held = (await face.balanceOf(wallet.address)).toString();
  const back = await (await face.rejectTokenFT(gas)).wait();
  const children = await s.read(`contracts/results/${claim.hash}`).then((r) => s.read(`transactions?timestamp=gt:${r.timestamp}&limit=1&order=asc`));
  provider.destroy();
  return {
    steps, before, claimed, outstanding: outstanding.airdrops.map((a) => [a.amount, a.serial_number]), rest: rest.airdrops[0].serial_number,
    pending: record.newPendingAirdrops.map((a) => Number(a.amount)), moved: record.tokenTransfers.get(coin).get(open.id).toString(),
    ended: ended.airdrops.length, after: [await balanceOf(s, shut.id, coin), await balanceOf(s, s.id, coin)],
    relations: relation.tokens.map((r) => r.token_id === art.toString()), type: types.transactions[0].name,
    evm: { held, logs: [claim.logs.length, back.logs.length], left: (await balanceOf(s, evm.receipt.accountId, coin)), child: children.transactions[0].name },
  };
}

// batches has several transactions handled as one: all of them, or none.
async function batches(input) {
  const s = session(input);
  const [alice, key] = [await s.account((t) => t.setMaxAutomaticTokenAssociations(-1)), PrivateKey.generateECDSA()];
  const coin = (await s.execute(new TokenCreateTransaction().setTokenName('Coin').setTokenSymbol('COIN').setInitialSupply(100)
    .setTreasuryAccountId(s.id).setSupplyKey(s.key))).receipt.tokenId;
  const give = (amount) => new TransferTransaction().addTokenTransfer(coin, s.id, -amount).addTokenTransfer(coin, alice.id, amount);
  const back = (amount) => new TransferTransaction().addTokenTransfer(coin, alice.id, -amount).addTokenTransfer(coin, s.id, amount);
  // prepare signs an inner transaction by the operator, and by whoever else must.
  const prepare = async (transaction, ...keys) => {
    const frozen = await transaction.batchify(s.client, key.publicKey);
    for (const one of keys) await frozen.sign(one);
    return frozen;
  };
  const batch = async (...inner) => {
    const transaction = new BatchTransaction().setInnerTransactions(inner);
    const status = await s.status(transaction, key);
    const record = async (id) => {
      const list = await s.read(`transactions/${mirrorId(id)}`);
      const { name, result, batch_key: by, parent_consensus_timestamp: parent } = list.transactions[0];
      return [name, result, by?.key === key.publicKey.toStringRaw(), parent !== null];
    };
    return { status, records: await Promise.all(transaction.innerTransactionIds.map((id) => record(id).catch(() => 'none'))) };
  };
  const whole = await batch(await prepare(give(30)), await prepare(back(10), alice.key),
    await prepare(new AccountCreateTransaction().setKeyWithoutAlias(alice.key).setInitialBalance(new Hbar(1))));
  const after = await balanceOf(s, alice.id, coin);
  const broken = await batch(await prepare(give(5)), await prepare(back(1_000), alice.key));
  const unsigned = await s.status(new BatchTransaction().addInnerTransaction(await prepare(give(1))));
  const empty = await s.status(new BatchTransaction(), key);
  const created = (await new BatchTransaction().addInnerTransaction(await prepare(
    new AccountCreateTransaction().setKeyWithoutAlias(alice.key))).freezeWith(s.client).sign(key));
  await (await created.execute(s.client)).getReceipt(s.client);
  const receipt = await new TransactionReceiptQuery().setTransactionId(created.innerTransactionIds[0]).execute(s.client);
  return { whole, broken, unsigned, empty, after, left: await balanceOf(s, alice.id, coin), account: receipt.accountId !== null };
}

// accountService uses the contract of accounts, and what accounts themselves answer.
async function accountService(input) {
  const s = session(input);
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  const wallet = new Wallet(input.evmKey, provider);
  const spender = await s.account();
  const addressOf = (id) => zeroPadValue(toBeHex(BigInt(id.num.toString())), 20);
  const service = new Contract('0x000000000000000000000000000000000000016a', [
    'function hbarApprove(address,address,int256) returns (int64)', 'function hbarAllowance(address,address) view returns (int64,int256)',
    'function isAuthorizedRaw(address,bytes,bytes) view returns (bool)', 'function isAuthorized(address,bytes,bytes) view returns (int64,bool)',
  ], wallet);
  const own = new Contract(wallet.address, ['function hbarAllowance(address) view returns (int64,int256)',
    'function hbarApprove(address,int256) returns (int64)', 'function setUnlimitedAutomaticAssociations(bool) returns (int64)'], wallet);
  const gas = { gasLimit: 2_000_000 };
  const steps = [];
  const mined = async (sent) => steps.push((await (await sent).wait()).status);
  await mined(service.hbarApprove(wallet.address, addressOf(spender.id), 5_000, gas));
  const listed = await s.read(`accounts/${s.id}/allowances/crypto`, (l) => l.allowances.some((a) => a.spender === spender.id.toString()));
  const allowance = (await service.hbarAllowance(wallet.address, addressOf(spender.id))).map(String);
  await mined(own.hbarApprove(addressOf(spender.id), 70, gas));
  // An account has no code: ethers looks for some where a call of it answers nothing only.
  const lower = await s.read(`accounts/${s.id}/allowances/crypto`, (l) => l.allowances[0]?.amount === 70);
  const atAccount = (await own.hbarAllowance(addressOf(spender.id))).map(String);
  await mined(own.setUnlimitedAutomaticAssociations(true, gas));
  const open = await s.read(`accounts/${s.id}`, (a) => a.max_automatic_token_associations === -1);
  const signature = await wallet.signMessage('agreed');
  const raw = [await service.isAuthorizedRaw(wallet.address, hashMessage('agreed'), signature),
    await service.isAuthorizedRaw(wallet.address, hashMessage('else'), signature)];
  const message = Buffer.from('to all');
  const map = Buffer.concat([Buffer.from([0x0a, 2 + 32 + 2 + 64, 0x0a, 32]), Buffer.from(spender.key.publicKey.toBytesRaw()),
    Buffer.from([0x1a, 64]), Buffer.from(spender.key.sign(message))]); // a SignatureMap of one pair
  const whole = (await service.isAuthorized(addressOf(spender.id), message, map, { gasLimit: 4_000_000 })).map(String);
  provider.destroy();
  return {
    steps, allowance, atAccount, raw, whole, granted: listed.allowances[0].amount_granted, lower: lower.allowances[0].amount,
    open: open.max_automatic_token_associations, info: (await new AccountInfoQuery().setAccountId(s.id).execute(s.client)).maxAutomaticTokenAssociations.toString(),
  };
}

// files reads what the network says about itself.
async function files(input) {
  const s = session(input);
  const read = (id) => new FileContentsQuery().setFileId(id).execute(s.client);
  const { current, next } = FeeSchedules.fromBytes(await read('0.0.111'));
  const priced = current.transactionFeeSchedule.find((f) => f.hederaFunctionality.toString() === 'EthereumTransaction');
  const sizes = [];
  for (const id of ['0.0.121', '0.0.123']) {
    const info = await new FileInfoQuery().setFileId(id).execute(s.client);
    sizes.push(info.size.toString() === String((await read(id)).length) && !info.isDeleted);
  }
  return { gas: priced?.fees[0].servicedata.contractTransactionGas.toString(), same: current.transactionFeeSchedule.length === next.transactionFeeSchedule.length, sizes };
}

// topics goes through the life of a topic, with a message that takes several transactions.
async function topics(input) {
  const s = session(input);
  const submitKey = PrivateKey.generateED25519();
  const { receipt } = await s.execute(new TopicCreateTransaction().setTopicMemo('a topic').setAdminKey(s.key).setSubmitKey(submitKey.publicKey));
  const topic = receipt.topicId;
  const steps = {};
  steps.unsigned = await s.status(new TopicMessageSubmitTransaction().setTopicId(topic).setMessage('no'));
  const first = await s.execute(new TopicMessageSubmitTransaction().setTopicId(topic).setMessage('hello'), submitKey);
  const long = 'x'.repeat(2500);
  const chunked = await (await new TopicMessageSubmitTransaction().setTopicId(topic).setMessage(long).freezeWith(s.client).sign(submitKey))
    .executeAll(s.client);
  for (const response of chunked) await response.getReceipt(s.client);
  steps.updated = await s.status(new TopicUpdateTransaction().setTopicId(topic).setTopicMemo('renamed').setSubmitKey(new KeyList()));
  steps.open = await s.status(new TopicMessageSubmitTransaction().setTopicId(topic).setMessage('anybody'));
  const info = await new TopicInfoQuery().setTopicId(topic).execute(s.client);
  const { messages } = await s.read(`topics/${topic}/messages`, (list) => list.messages.length === 5);
  const text = messages.map((m) => Buffer.from(m.message, 'base64').toString());
  const one = await s.read(`topics/${topic}/messages/1`);
  const at = await s.read(`topics/messages/${one.consensus_timestamp}`);
  const utf8 = await s.read(`topics/${topic}/messages?encoding=utf-8&limit=1`);
  steps.deleted = await s.status(new TopicDeleteTransaction().setTopicId(topic));
  steps.tooLate = await s.status(new TopicMessageSubmitTransaction().setTopicId(topic).setMessage('late'));
  const gone = await s.read(`topics/${topic}`, (t) => t.deleted);
  return {
    steps, sequence: first.receipt.topicSequenceNumber.toString(), whole: text.slice(1, 4).join('') === long, first: text[0],
    chunks: messages.slice(1, 4).map((m) => `${m.chunk_info.number}/${m.chunk_info.total}`), last: text[4], count: info.sequenceNumber.toString(),
    hash: Buffer.from(info.runningHash).toString('base64') === messages[4].running_hash, memo: info.topicMemo, utf8: utf8.messages[0].message,
    same: at.sequence_number === one.sequence_number && at.running_hash === Buffer.from(first.receipt.topicRunningHash).toString('base64'), gone: gone.deleted,
  };
}

// subscriptions follows a topic over the mirror node's gRPC API: what there is, and what comes.
async function subscriptions(input) {
  const s = session(input);
  s.client.setMirrorNetwork([input.topics]);
  const { receipt } = await s.execute(new TopicCreateTransaction().setTopicMemo('followed'));
  const topic = receipt.topicId;
  const submit = async (text) => {
    for (const response of await new TopicMessageSubmitTransaction().setTopicId(topic).setMessage(text).executeAll(s.client)) await response.getReceipt(s.client);
  };
  await submit('hello');
  const long = 'x'.repeat(2500);
  await submit(long);
  // follow gathers messages until there are so many, or the subscription is over.
  const follow = (query, wanted) => {
    const heard = [];
    const done = new Promise((resolve, reject) => {
      query.setTopicId(topic).setCompletionHandler(() => resolve(heard)).subscribe(s.client, (_, error) => reject(error), (message) => {
        heard.push(message);
        if (heard.length === wanted) resolve(heard);
      });
    });
    return { heard, done };
  };
  const all = follow(new TopicMessageQuery().setStartTime(0), 3);
  await until(async () => all.heard.length === 2 || null, 'what there is');
  await submit('later');
  const heard = await all.done;
  const text = (message) => Buffer.from(message.contents).toString();
  const first = heard[0].consensusTimestamp;
  const two = await follow(new TopicMessageQuery().setStartTime(0).setLimit(1), 9).done;
  const between = await follow(new TopicMessageQuery().setStartTime(first).setEndTime(new Timestamp(first.seconds, first.nanos.add(1))), 9).done;
  const mirrored = await s.read(`topics/${topic}/messages/1`);
  return {
    heard: heard.map((m) => (m.contents.length === long.length ? `whole: ${text(m) === long}` : text(m))),
    numbers: heard.map((m) => m.sequenceNumber.toString()), two: two.map(text), between: between.map(text),
    hash: Buffer.from(heard[0].runningHash).toString('base64') === mirrored.running_hash,
  };
}

// contracts goes through the life of a contract without the EVM's own ways, and draws random numbers.
async function contracts(input) {
  const s = session(input);
  const bytecode = input.artifact.bytecode.slice(2);
  const create = (setup) => s.execute(setup(new ContractCreateTransaction().setBytecode(Buffer.from(bytecode, 'hex')).setGas(2_000_000)));
  const mine = (await create((t) => t.setAdminKey(s.key).setContractMemo('mine'))).receipt.contractId;
  const nobodys = (await create((t) => t)).receipt.contractId;
  const steps = {};
  steps.updated = await s.status(new ContractUpdateTransaction().setContractId(mine).setContractMemo('changed').setMaxAutomaticTokenAssociations(7));
  steps.immutable = await s.status(new ContractUpdateTransaction().setContractId(nobodys).setContractMemo('changed'));
  const info = await new ContractInfoQuery().setContractId(mine).execute(s.client);
  steps.noObtainer = await s.status(new ContractDeleteTransaction().setContractId(mine));
  steps.undeletable = await s.status(new ContractDeleteTransaction().setContractId(nobodys).setTransferAccountId(s.id));
  steps.deleted = await s.status(new ContractDeleteTransaction().setContractId(mine).setTransferAccountId(s.id));
  steps.again = await s.status(new ContractDeleteTransaction().setContractId(mine).setTransferAccountId(s.id));
  const gone = await s.read(`contracts/${mine}`, (c) => c.deleted);
  const draw = async (range) => {
    const { response } = await s.execute(range ? new PrngTransaction().setRange(range) : new PrngTransaction());
    return response.getRecord(s.client);
  };
  const [bytes, number] = [await draw(0), await draw(10)];
  return {
    steps, memo: info.contractMemo, mirrored: gone.memo, associations: gone.max_automatic_token_associations,
    bytes: bytes.prngBytes.length, number: number.prngNumber >= 0 && number.prngNumber < 10,
  };
}

// schedules goes through the life of schedules: signed by and by, deleted, and executed in their time.
async function schedules(input) {
  const s = session(input);
  const alice = await s.account();
  const transfer = (amount) => new TransferTransaction().addHbarTransfer(alice.id, new Hbar(-amount)).addHbarTransfer(s.id, new Hbar(amount));
  const steps = {};

  const created = await s.execute(transfer(1).schedule().setScheduleMemo('a memo').setAdminKey(s.key));
  const { scheduleId, scheduledTransactionId } = created.receipt;
  const pending = await new ScheduleInfoQuery().setScheduleId(scheduleId).execute(s.client);
  steps.identical = await s.status(transfer(1).schedule().setScheduleMemo('a memo').setAdminKey(s.key));
  steps.nothingNew = await s.status(new ScheduleSignTransaction().setScheduleId(scheduleId));
  steps.signed = await s.status(new ScheduleSignTransaction().setScheduleId(scheduleId), alice.key);
  const record = await new TransactionRecordQuery().setTransactionId(scheduledTransactionId).execute(s.client);
  const done = await new ScheduleInfoQuery().setScheduleId(scheduleId).execute(s.client);
  steps.again = await s.status(new ScheduleSignTransaction().setScheduleId(scheduleId), alice.key);
  const mirrored = await s.read(`schedules/${scheduleId}`, (one) => one.executed_timestamp);
  const { transactions } = await s.read(`transactions/${mirrorId(scheduledTransactionId)}?scheduled=true`);

  const other = (await s.execute(transfer(2).schedule().setAdminKey(s.key))).receipt.scheduleId;
  steps.deleted = await s.status(new ScheduleDeleteTransaction().setScheduleId(other));
  steps.signedDeleted = await s.status(new ScheduleSignTransaction().setScheduleId(other), alice.key);
  const immutable = (await s.execute(transfer(3).schedule())).receipt.scheduleId;
  steps.immutable = await s.status(new ScheduleDeleteTransaction().setScheduleId(immutable));
  steps.notSchedulable = await s.status(new ScheduleCreateTransaction().setScheduledTransaction(
    new TokenAssociateTransaction().setAccountId(alice.id).setTokenIds(['0.0.9999'])));

  const expiry = Math.floor(Date.now() / 1000) + 3600;
  const timed = (await s.execute(transfer(4).schedule().setWaitForExpiry(true).setExpirationTime(new Timestamp(expiry, 0)), alice.key)).receipt.scheduleId;
  const waiting = await s.read(`schedules/${timed}`);
  const provider = new JsonRpcProvider(input.rpc, undefined, { cacheTimeout: -1 });
  await provider.send('evm_increaseTime', [3600]);
  await provider.send('evm_mine', []);
  const inTime = await s.read(`schedules/${timed}`, (one) => one.executed_timestamp);
  const balance = await new AccountBalanceQuery().setAccountId(alice.id).execute(s.client);
  return {
    steps, signers: [...pending.signers].length, pending: pending.executed === null, memo: pending.scheduleMemo, scheduled: record.transactionId.scheduled,
    ref: record.scheduleRef.toString() === scheduleId.toString(), moved: record.transfers.some((t) => t.accountId.toString() === alice.id.toString()),
    executed: done.executed !== null, signatures: mirrored.signatures.map((one) => one.type).sort(), at: mirrored.executed_timestamp === transactions[0].consensus_timestamp,
    listed: [transactions.length, transactions[0].name, transactions[0].scheduled], early: waiting.executed_timestamp, late: inTime.executed_timestamp >= String(expiry),
    balance: balance.hbars.toString(),
  };
}

const mirrorId = (id) => `${id.accountId}-${id.validStart.seconds}-${String(id.validStart.nanos).padStart(9, '0')}`;

await run({ accounts, fungible, nfts, fees, airdrops, batches, accountService, files, topics, subscriptions, contracts, schedules });
