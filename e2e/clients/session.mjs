// One payer's client of the Hedera SDK, and what came of what it sent.

import { AccountCreateTransaction, AccountId, Client, Hbar, PrivateKey } from '@hiero-ledger/sdk';
import { patient, until } from './task.mjs';

// A session is one payer's client with what every flow needs.
export function session({ consensus, operator, mirror }) {
  const key = PrivateKey.fromStringECDSA(operator.privateKey);
  const id = AccountId.fromString(operator.id);
  const client = patient(Client.forNetwork({ [consensus]: '0.0.3' })).setOperator(id, key).setNetworkUpdatePeriod(2 ** 31 - 1)
    .setDefaultMaxTransactionFee(new Hbar(100));
  const execute = async (transaction, ...keys) => {
    const frozen = transaction.freezeWith(client);
    for (const one of keys) await frozen.sign(one);
    const response = await frozen.execute(client);
    return { response, receipt: await response.getReceipt(client) };
  };
  // status is what becomes of a transaction: the name of its status, where the network refuses it.
  const status = (transaction, ...keys) => execute(transaction, ...keys)
    .then(({ receipt }) => receipt.status.toString(), (error) => error.status?.toString() ?? String(error));
  const account = async (setup = (t) => t, key = PrivateKey.generateED25519()) => {
    const { receipt } = await execute(setup(new AccountCreateTransaction().setKeyWithoutAlias(key).setInitialBalance(new Hbar(50))), key);
    return { id: receipt.accountId, key };
  };
  // read asks the mirror node until the answer is as wanted: it lags behind consensus.
  const read = (path, wanted = () => true) => until(async () => {
    const answer = await fetch(`${mirror}/api/v1/${path}`);
    if (!answer.ok) return null;
    const body = await answer.json();
    return wanted(body) ? body : null;
  }, path);
  return { client, id, key, execute, status, account, read };
}
