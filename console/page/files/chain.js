// The chain's views: the newest transactions and blocks, accounts, tokens, and the ABI.

import { button, code, copied, facts, failed, form, h, keepFocus, link, number, optional, page, plural, say, short, table, windowed } from './frame.js';
import { account, age, alias, consensus, decimal, forgetABI, hbar, hexOr, int, inWords, keepABI, learnAliases, mirror, now, phrase, rpc, storedABI, weibars, zeros } from './state.js';
import { strip } from './charts.js';
import { contractForms } from './contract.js';
import { executedAt, executedPerSecond } from './lanes.js';
import { failureWords } from './transaction.js';

// ---- lists of transactions ----

// maxListed bounds what one list has.
const maxListed = 5000;

// A list of transactions has rows of one form, whether they come from the mirror node or from a block.
const fromMirror = (r) => ({
  hash: r.hash, from: r.from, to: r.to, value: BigInt(r.amount ?? 0) * 10n ** 10n, input: r.function_parameters ?? '0x', at: consensus(r.timestamp), nonce: r.nonce, creates: (r.created_contract_ids ?? []).includes(r.contract_id),
  status: r.result === 'SUCCESS' ? ['good', 'executed'] : ['bad', failureWords(r.result)],
});
const fromBlock = (t, block, receipt) => ({
  hash: t.hash, from: t.from, to: t.to, value: BigInt(t.value), input: t.input, at: Number(block.timestamp) * 1000, nonce: Number(t.nonce), creates: !t.to,
  status: !receipt ? ['soft', 'unknown'] : receipt.status === '0x1' ? ['good', 'executed'] : ['bad', 'reverted'],
});

// methodNames are those of the calls of a list, in one request. An input that is very long is named by its selector.
async function named(list) {
  await learnAliases(list.flatMap((t) => [t.from, t.to]));
  const open = list.filter((t) => t.method === undefined);
  for (const t of open) t.method = t.creates ? 'new contract' : t.input === '0x' || t.input === '' ? t.value > 0n ? 'transfer ℏ' : 'call without data' : t.input.slice(0, 10);
  const asked = open.filter((t) => t.method.startsWith('0x')).slice(0, 500);
  if (!asked.length) return list;
  const answer = await optional(inWords({ calls: asked.map((t) => ({ call: t.input.length < 600 ? hexOr(t.input) : '0x', fail: '0x' })) }));
  asked.forEach((t, i) => { t.method = answer?.calls[i]?.call?.name ?? t.method; });
  return list;
}

const heads = ['Hash', 'Method', 'Status', 'From', 'To', '#Value', 'Age'];
const cells = (t) => [
  link('tx', t.hash, short(t.hash)), h('span', { class: 'method', title: t.method }, t.method), h('span', { class: `state ${t.status[0]}`, title: t.status[1] }, t.status[1]), account(alias(t.from)), t.creates && !t.to ? account(null) : account(alias(t.to)),
  number(t.value > 0n ? hbar(t.value) : h('span', { class: 'soft' }, '0 ℏ')), age(executedAt(t.hash) ?? t.at),
];

// pages reads a list of the mirror node page by page, as somebody scrolls.
function pages(caption, columns, path, of, row, prepare = async (list) => list) {
  const list = [];
  let next = path;
  const more = async () => {
    if (next && list.length < maxListed) {
      const answer = await mirror(next);
      list.push(...await prepare(answer[of].map((x) => x)));
      next = answer.links?.next;
    }
    return list.length;
  };
  const w = windowed(caption, columns, (i) => row(list[i]), more);
  return { node: w.node, more, start: async (empty) => { await more(); w.show(list.length); return list.length ? w.node : h('p', { class: 'soft' }, empty); } };
}

const prepared = (list) => named(list.map(fromMirror));
const transactionPages = (caption, path, empty) => pages(caption, heads, path, 'results', cells, prepared).start(empty);

// ---- home ----

const shownBlocks = 20, shownTransactions = 25;

const gasOf = new Map(); // by hash, of those that the home view has seen

async function newest() {
  if (now.state.dev) {
    const [{ results }, { blocks }] = await Promise.all([mirror('contracts/results?limit=100&order=desc'), mirror(`blocks?limit=${shownBlocks}&order=desc`)]);
    for (const r of results) gasOf.set(r.hash, r.gas_used);
    while (gasOf.size > maxListed) gasOf.delete(gasOf.keys().next().value);
    return { list: results.slice(0, shownTransactions).map(fromMirror), blocks: blocks.map((b) => ({ number: b.number, at: consensus(b.timestamp.from), count: b.count, gas: b.gas_used })) };
  }
  const head = Number(await rpc('eth_blockNumber'));
  const blocks = (await Promise.all(Array.from({ length: Math.min(shownBlocks, head + 1) }, (_, i) => rpc('eth_getBlockByNumber', '0x' + (head - i).toString(16), true)))).filter(Boolean);
  const busy = blocks.filter((b) => b.transactions.length).slice(0, 5);
  const receipts = new Map((await Promise.all(busy.map((b) => optional(rpc('eth_getBlockReceipts', b.number))))).flatMap((list) => (list ?? []).map((r) => [r.transactionHash, r])));
  for (const list of receipts.values()) gasOf.set(list.transactionHash, Number(list.gasUsed));
  return {
    list: blocks.flatMap((b) => b.transactions.toReversed().map((t) => fromBlock(t, b, receipts.get(t.hash)))).slice(0, shownTransactions),
    blocks: blocks.map((b) => ({ number: Number(b.number), at: Number(b.timestamp) * 1000, count: b.transactions.length, gas: Number(b.gasUsed) })),
  };
}

export async function homeView() {
  const strips = h('div', { class: 'strips' }), transactions = h('div', {}), blocks = h('div', {});
  let last = null, busy = false;
  const drawStrips = () => strips.replaceChildren(
    strip('Transactions in the last minute', executedPerSecond(60), (list, all) => `${all.toLocaleString('en')}, ${list.at(-2)}/s now`, 'good'),
    strip('Gas in the last minute', executedPerSecond(60, (hash) => gasOf.get(hash) ?? 0), (list, all) => all.toLocaleString('en'), 'one'));
  const draw = async () => {
    if (busy) return;
    busy = true;
    try {
      const found = await newest(), key = `${found.blocks[0]?.number} ${found.list[0]?.hash}`;
      await named(found.list);
      const first = !last || `${last.blocks[0]?.number} ${last.list[0]?.hash}` !== key;
      last = found;
      drawStrips();
      if (first || page.current) {
        transactions.replaceChildren(table('Newest transactions', heads, found.list.map(cells), 'There is no transaction yet. Point your wallet or your scripts at this chain, or send some test hbar.'));
        blocks.replaceChildren(table('Newest blocks', ['Block', 'Age', '#Txs', '#Gas used'], found.blocks.slice(0, shownBlocks).map((b) => [link('block', b.number, b.number.toLocaleString('en')), age(b.at), number(String(b.count)), number(int(b.gas))]), 'There is no block yet.'));
      }
    } finally { busy = false; }
  };
  const fresh = [keepFocus(draw, transactions)];
  const more = now.state.dev && h('p', {}, h('a', { href: '#/transactions' }, 'All transactions'));
  return {
    title: now.state.dev ? 'Home' : 'Blocks', draw, fresh: fresh[0], stepped: () => drawStrips(), nodes: [
      strips, now.state.dev && h('div', { class: 'actions' }, await sendForm(), abiForm()),
      h('div', { class: 'beside' }, h('section', { 'aria-label': 'Transactions' }, transactions, more), h('section', { 'aria-label': 'Blocks' }, blocks)),
    ],
  };
}

// sendForm gives test hbar to an address.
async function sendForm() {
  return h('details', {}, h('summary', {}, 'Send test hbar'), form([['Address', 'faucet', { required: true, placeholder: '0x…' }], ['Amount, ℏ', 'amount', { value: '100', inputmode: 'numeric' }]], 'Send test hbar', async (v) => {
    await rpc('lockstep_faucet', v.faucet, Number(v.amount.replaceAll(',', '')));
    say(`${v.faucet} got ${v.amount} ℏ.`);
    await page.current?.draw?.();
  }));
}

// abiForm takes an ABI as text, or artifacts as files that are chosen or dropped.
function abiForm() {
  const taken = async (texts) => {
    let n = 0;
    for (const text of texts) n = await keepABI(text);
    say(`${plural(n, 'entry', 'entries')} of ABIs ${n === 1 ? 'is' : 'are'} kept in this browser: the calls, events and errors that they name are shown in words.`);
    await page.current?.draw?.();
  };
  const files = async (list) => { try { await taken(await Promise.all([...list].map((f) => f.text()))); } catch (err) { failed(err); } };
  const text = h('textarea', { placeholder: '[{"type":"function", …}], or an artifact with "abi"; drop files here', ondragover: (e) => e.preventDefault(), ondrop: (e) => { e.preventDefault(); void files(e.dataTransfer.files); } });
  return h('details', {}, h('summary', {}, 'Add an ABI: paste it, or drop artifacts'),
    form([['ABI', 'abi', text], ['Artifacts', 'file', h('input', { type: 'file', accept: '.json', multiple: true, onchange: (e) => void files(e.target.files) })]], 'Add ABI', async (v) => { if (v.abi) await taken([v.abi]); }));
}

export async function transactionsView() {
  return { title: 'All transactions', nodes: [await transactionPages('Transactions of the chain, the newest first', 'contracts/results?limit=100&order=desc', 'There is no transaction yet.')] };
}

// ---- blocks ----

export async function blockView(which) {
  const block = await (which.startsWith('0x') && which.length === 66 ? rpc('eth_getBlockByHash', which, true) : rpc('eth_getBlockByNumber', '0x' + BigInt(which).toString(16), true));
  if (!block) throw new Error(`There is no block ${which}.`);
  const at = Number(block.number), receipts = new Map(((await optional(rpc('eth_getBlockReceipts', block.number))) ?? []).map((r) => [r.transactionHash, r]));
  const list = await named(block.transactions.slice(0, maxListed).map((t) => fromBlock(t, block, receipts.get(t.hash))));
  const w = windowed('Transactions of the block, in order', heads, (i) => cells(list[i]));
  w.show(list.length);
  return {
    title: `Block ${at.toLocaleString('en')}`, nodes: [
      h('p', { class: 'headline' }, copied(block.hash), h('span', { class: 'steps' }, at > 0 && h('a', { href: `#/block/${at - 1}` }, '← previous'), h('a', { href: `#/block/${at + 1}` }, 'next →'))),
      facts([['Time', [new Date(Number(block.timestamp) * 1000).toLocaleString(), ' · ', age(Number(block.timestamp) * 1000)]], ['Parent', at > 0 ? link('block', at - 1, short(block.parentHash)) : code(block.parentHash)], ['Gas used', int(block.gasUsed)]]),
      h('h2', {}, 'Transactions'), list.length ? w.node : h('p', { class: 'soft' }, 'It has none.'),
    ],
  };
}

// ---- accounts and contracts ----

export async function accountsView() {
  const place = h('div', {});
  const draw = async () => {
    const list = await rpc('eth_accounts');
    const rows = await Promise.all(list.map(async (a) => [link('account', a), number(hbar(await rpc('eth_getBalance', a, 'latest'))), number(int(await rpc('eth_getTransactionCount', a, 'latest')))]));
    place.replaceChildren(table('Accounts whose keys the chain has', ['Address', '#Balance', '#Nonce'], rows, 'The chain has no keys.'));
  };
  const list = await rpc('eth_accounts');
  const from = h('select', {}, list.map((a) => h('option', { value: a }, a)));
  return {
    title: 'Accounts', draw, nodes: [place,
      h('h2', {}, 'Send test hbar to an address'),
      form([['Address', 'faucet', { required: true, placeholder: '0x…' }], ['Amount, ℏ', 'amount', { value: '100', inputmode: 'numeric' }]], 'Send test hbar', async (v) => {
        await rpc('lockstep_faucet', v.faucet, Number(v.amount.replaceAll(',', '')));
        say(`${v.faucet} got ${v.amount} ℏ.`);
        await draw();
      }),
      h('h2', {}, 'Send a transaction'),
      form([['From', 'from', from], ['To', 'to', { placeholder: '0x…; nothing makes a contract' }], ['Amount, ℏ', 'value', { value: '0', inputmode: 'decimal' }], ['Data', 'data', { placeholder: '0x' }]], 'Send', async (v) => {
        const hash = await rpc('eth_sendTransaction', { from: v.from, ...(v.to && { to: v.to }), value: weibars(v.value), ...(v.data && { data: v.data }) });
        location.hash = `#/tx/${hash}`;
      })],
  };
}

// tabs are what an account has, each with when there is such a thing, and how it is shown.
const tabs = {
  transactions: ['Transactions', () => now.state.dev, (a) => transactionPages('Its transactions, the newest first', a.contract ? `contracts/${a.contract.contract_id}/results?limit=100&order=desc` : `contracts/results?from=${a.address}&limit=100&order=desc`, 'It has none yet.')],
  call: ['Read and write', (a) => a.code !== '0x', (a) => contractForms(a.address, a.code, abiForm)],
  events: ['Events', (a) => a.contract, (a) => pages('Its events, the newest first', ['Transaction', 'Event', 'Age'], `contracts/${a.contract.contract_id}/results/logs?limit=100&order=desc`, 'logs',
    (l) => [link('tx', l.transaction_hash, short(l.transaction_hash)), l.said ? h('span', { class: 'state' }, phrase(l.said)) : code(short(l.topics[0] ?? l.data)), age(consensus(l.timestamp))],
    async (list) => { const said = await optional(inWords({ logs: list.map(({ topics, data }) => ({ topics, data: hexOr(data) })) })); return list.map((l, i) => ({ ...l, said: said?.logs[i] })); }).start('It has none yet.')],
  tokens: ['Tokens', (a) => a.entity, tokensOf],
  nfts: ['NFTs', (a) => a.entity, (a) => pages('Its NFTs', ['Token', '#Serial', 'Metadata'], `accounts/${a.entity.account}/nfts?limit=100`, 'nfts', (n) => [link('token', n.token_id), number(String(n.serial_number)), code(short(metadata(n.metadata)))]).start('It has none.')],
  storage: ['Storage', (a) => a.contract, (a) => pages('Its storage', ['Slot', 'Value', 'Written'], `contracts/${a.contract.contract_id}/state?limit=100`, 'state', (s) => [code(bare(s.slot)), h('code', { title: s.value }, bare(s.value)), age(consensus(s.timestamp))]).start('It has written nothing.')],
  code: ['Code', (a) => a.code !== '0x', (a) => [h('p', {}, button('Copy code', () => navigator.clipboard.writeText(a.code))), h('pre', { class: 'wrapped', tabindex: '0', role: 'region', 'aria-label': 'Code' }, a.code.slice(0, 100_000))]],
};

// bare writes a word without the zeros in front.
const bare = (hex) => `0x${hex.slice(2).replace(/^0+(?=.)/, '')}`;

// metadata is text, if its bytes are.
function metadata(base64) {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))) || 'none'; } catch { return base64; }
}

async function tokensOf(a) {
  const list = (await mirror(`accounts/${a.entity.account}/tokens?limit=100`)).tokens;
  const known = await Promise.all(list.slice(0, 50).map((t) => optional(mirror(`tokens/${t.token_id}`))));
  return table('Token balances', ['Token', 'Symbol', '#Balance'], list.map((t, i) => [link('token', t.token_id), known[i]?.symbol ?? '', number(known[i]?.type === 'NON_FUNGIBLE_UNIQUE' ? plural(t.balance, 'NFT') : decimal(t.balance, t.decimals ?? 0))]), 'It has none.');
}

export async function accountView(name, tab) {
  const address = /^\d+\.\d+\.\d+$/.test(name) ? (now.state.dev && (await optional(mirror(`accounts/${name}?limit=1`)))?.evm_address) || zeros(name) : name.toLowerCase();
  if (!/^0x[0-9a-f]{40}$/.test(address)) throw new Error(`${name} is no address`);
  const [balance, latest, pending, bytes, entity] = await Promise.all([
    rpc('eth_getBalance', address, 'latest'), rpc('eth_getTransactionCount', address, 'latest'), rpc('eth_getTransactionCount', address, 'pending'), rpc('eth_getCode', address, 'latest'),
    now.state.dev ? optional(mirror(`accounts/${address}?limit=1`)) : null,
  ]);
  const contract = now.state.dev && bytes !== '0x' ? await optional(mirror(`contracts/${address}`)) : null;
  const made = contract ? (await optional(mirror(`contracts/${contract.contract_id}/results?order=asc&limit=1`)))?.results[0] : null;
  if (made) await learnAliases([made.from]);
  const lane = now.state.lanes.find((l) => l.sender.toLowerCase() === address), a = { address, code: bytes, entity, contract };
  const open = Object.entries(tabs).filter(([, [, when]]) => when(a)), [shown, [, , make]] = open.find(([key]) => key === tab) ?? open[0] ?? ['', ['', null, () => '']];
  const created = contract?.created_timestamp ?? entity?.created_timestamp, id = contract?.contract_id ?? entity?.account;
  return {
    title: bytes === '0x' ? 'Account' : 'Contract', nodes: [h('p', { class: 'headline' }, copied(address)), facts([
      ['Balance', hbar(balance)], ['Nonce', int(latest) + (pending !== latest ? `, ${int(pending)} with what is on its way` : '')], id && ['Hedera id', copied(id)],
      ['Code', bytes === '0x' ? 'none' : plural((bytes.length - 2) / 2, 'byte')],
      made?.created_contract_ids?.includes(contract.contract_id) && ['Creator', [account(alias(made.from)), ' in ', link('tx', made.hash, short(made.hash))]],
      created && ['Created', age(consensus(created))], (contract?.memo || entity?.memo) && ['Memo', contract?.memo || entity.memo],
      lane && ['Lane', h('a', { href: '#/lanes' }, lane.waiting ? plural(lane.waiting, 'transaction waits', 'transactions wait') : 'in use')],
    ]), open.length > 0 && [
      h('ul', { class: 'tabs', 'aria-label': 'What it has' }, open.map(([key, [text]]) => h('li', {}, h('a', { href: `#/account/${address}/${key}`, 'aria-current': key === shown && 'true' }, text)))),
      h('section', { 'aria-label': open.find(([key]) => key === shown)[1][0] }, await make(a))]],
  };
}

// ---- tokens ----

export async function tokensView() {
  return {
    title: 'Tokens', nodes: [await pages('Tokens, newest first', ['Token', 'Symbol', 'Name', 'Kind', '#Decimals'], 'tokens?limit=100&order=desc', 'tokens',
      (t) => [link('token', t.token_id), t.symbol, t.name, t.type === 'NON_FUNGIBLE_UNIQUE' ? 'NFT' : 'fungible', number(String(t.decimals))]).start('There are no tokens yet.')],
  };
}

export async function tokenView(id) {
  if (!/^\d+\.\d+\.\d+$/.test(id)) throw new Error(`${id} is not the id of a token`);
  const token = await mirror(`tokens/${id}`), units = (n) => decimal(n, token.decimals), nft = token.type === 'NON_FUNGIBLE_UNIQUE';
  return {
    title: `${token.name} (${token.symbol})`, nodes: [
      facts([
        ['Token', copied(id)], ['Kind', nft ? 'NFT' : 'fungible'], ['Supply', nft ? plural(token.total_supply, 'NFT') : `${units(token.total_supply)} ${token.symbol}`], ['Address', account(zeros(id))], ['Treasury', link('account', token.treasury_account_id)],
        ['Paused', { PAUSED: 'yes', UNPAUSED: 'no' }[token.pause_status] ?? 'it cannot be'], ['Memo', token.memo || 'none'],
      ]),
      h('h2', {}, 'Holders'), await pages('Who holds how much of it', ['Account', '#Balance'], `tokens/${id}/balances?limit=100`, 'balances', (b) => [link('account', b.account), number(units(b.balance))]).start('Nobody holds it.')],
  };
}

// ---- the ABI ----

export async function abiView() {
  const shown = h('div', {});
  const draw = () => {
    const known = storedABI(), of = (type) => known.filter((e) => e.type === type);
    shown.replaceChildren(h('p', {}, known.length ? plural(known.length, 'entry is kept in this browser.', 'entries are kept in this browser.') : 'None is kept. Signatures of tokens and of Hedera\u2019s system contracts are known without.'),
      ...[['function', 'Functions'], ['event', 'Events'], ['error', 'Errors']].filter(([type]) => of(type).length).map(([type, text]) => h('details', {}, h('summary', {}, `${text} (${of(type).length})`), h('ul', {}, of(type).slice(0, 500).map((e) => h('li', {}, code(`${e.name}(${(e.inputs ?? []).map((i) => `${i.type} ${i.name ?? ''}`.trim()).join(', ')})`)))))));
  };
  const form_ = abiForm();
  form_.open = true;
  return { title: 'ABI', draw, nodes: [form_, shown, h('p', {}, button('Forget all', async () => { forgetABI(); draw(); }))] };
}

// ---- what somebody looks for ----

// foundView leads to what a text names, when that has to be asked for: the symbol of a token, or its name.
export async function foundView(text) {
  if (/^\d+\.\d+\.\d+$/.test(text) && now.state.dev && await optional(mirror(`tokens/${text}`))) return tokenView(text);
  if (/^\d+\.\d+\.\d+$/.test(text)) return accountView(text);
  const wanted = text.toLowerCase(), found = [];
  let next = now.state.dev ? 'tokens?limit=100&order=desc' : null;
  for (let i = 0; next && i < 20; i++) {
    const answer = await mirror(next);
    found.push(...answer.tokens.filter((t) => t.symbol.toLowerCase() === wanted || t.name.toLowerCase() === wanted || wanted.length > 2 && t.name.toLowerCase().includes(wanted)));
    next = answer.links.next;
  }
  if (found.length === 1) return tokenView(found[0].token_id);
  if (!found.length) throw new Error(`Nothing is named ${text}. A hash, an address, an id such as 0.0.1002, a block's number or a token's symbol can be found.`);
  return { title: `Tokens named ${text}`, nodes: [table('Tokens', ['Token', 'Symbol', 'Name'], found.map((t) => [link('token', t.token_id), t.symbol, t.name]), '')] };
}
