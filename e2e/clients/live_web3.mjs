// Live events over WebSocket with web3.js v4, used as its manual shows.

import { Web3 } from 'web3';
import { run, until } from './task.mjs';

async function live(input) {
  const web3 = new Web3(input.ws);
  const account = web3.eth.accounts.wallet.add(input.privateKey)[0];
  const from = account.address;
  const { abi, bytecode } = input.artifact;
  const gasPrice = (await web3.eth.getGasPrice()).toString();
  const contract = await new web3.eth.Contract(abi).deploy({ data: bytecode }).send({ from, gasPrice });
  contract.options.address = contract.options.address ?? contract._address;

  const blocks = [], positions = [], pending = [], sent = [], mined = [];
  const heads = await web3.eth.subscribe('newBlockHeaders');
  heads.on('data', (header) => blocks.push(Number(header.number)));
  const entries = contract.events.Entry();
  entries.on('data', (event) => positions.push(Number(event.returnValues.position)));
  await new Promise((resolve, reject) => {
    entries.on('connected', resolve);
    entries.on('error', reject);
  });
  (await web3.eth.subscribe('pendingTransactions')).on('data', (hash) => pending.push(hash));
  for (let i = 0; i < input.count; i++) {
    const receipt = await contract.methods.write(i).send({ from, gasPrice });
    sent.push(receipt.transactionHash);
    mined.push(Number(receipt.blockNumber));
  }
  const last = mined.at(-1);
  await until(() => (positions.length >= input.count && pending.length >= input.count && blocks.includes(last) ? true : null), 'all events');

  await entries.unsubscribe();
  await contract.methods.write(input.count).send({ from, gasPrice });
  await until(() => (blocks.some((number) => number > last) ? true : null), 'a block after the end of the subscription');
  return { blocks, positions, pending: pending.slice(0, input.count), sent, mined };
}

await run({ live });
