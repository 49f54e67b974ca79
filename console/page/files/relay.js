// The relay's views: lanes, methods and upstreams for an operator, the chain for a developer.

import { ask, bar, button, code, facts, failed, follow, form, h, json, keepFocus, link, number, optional, page, plural, say, short, table } from './frame.js';

// ---- asking ----

const abiKey = 'lockstep.abi';

let lastCall = 0;
async function rpc(method, ...params) {
  const reply = await json('rpc', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: ++lastCall, method, params }) });
  if (reply.error) throw new Error(reply.error.message);
  return reply.result;
}

function storedABI() {
  try { return JSON.parse(localStorage.getItem(abiKey) ?? '[]'); } catch { return []; }
}

const inWords = (question) => json('decode', { method: 'POST', body: JSON.stringify({ ...question, abi: storedABI() }) });

// ---- drawing ----

const account = (address) => (address ? link('account', address, short(address)) : h('span', { class: 'soft' }, 'a new contract'));
const int = (hex) => (hex === null || hex === undefined ? '' : BigInt(hex).toLocaleString('en'));

// hbar writes weibars, of which 10^18 are one hbar.
function hbar(weibars) {
  if (weibars === null || weibars === undefined) return 'unknown';
  const w = BigInt(weibars), unit = 10n ** 18n;
  const part = (w % unit).toString().padStart(18, '0').replace(/0+$/, '');
  return `${(w / unit).toLocaleString('en')}${part && '.' + part} ℏ`;
}

const tinybars = (t) => (t === undefined || t === null ? 'unknown' : `${(t / 1e8).toLocaleString('en', { maximumFractionDigits: 8 })} ℏ`);

// weibars reads an amount in hbar exactly.
function weibars(text) {
  const match = /^(\d+)(?:\.(\d{1,18}))?$/.exec(text.trim() || '0');
  if (!match) throw new Error(`"${text}" is not an amount in hbar`);
  return '0x' + (BigInt(match[1]) * 10n ** 18n + BigInt((match[2] ?? '').padEnd(18, '0') || '0')).toString(16);
}

function value(v) {
  if (Array.isArray(v)) return `[${v.map(value).join(', ')}]`;
  if (v !== null && typeof v === 'object') return `{${Object.entries(v).map(([k, x]) => `${k}: ${value(x)}`).join(', ')}}`;
  return String(v);
}

const phrase = (p) => [h('strong', {}, p.name), '(', p.args.map((a, i) => [i > 0 && ', ', h('span', { class: 'soft', title: a.type }, a.name + ' '), code(value(a.value))]), ')'];

// ---- the state of the relay, as it comes ----

let state = null;
const kept = []; // the states of the last seconds, for rates

// start ends when the first state has come.
const start = () => new Promise((ready) => {
  if (state) ready();
  follow('events', 'the relay', (next) => {
    state = next;
    kept.push({ at: performance.now(), state });
    while (kept.length > 11) kept.shift();
    document.getElementById('version').textContent = `${state.version}, chain ${state.chainId}`;
    ready();
    page.current?.fresh?.();
  });
});

// ---- views of the operator ----

const seconds = (nanoseconds) => `${(nanoseconds / 1e9).toFixed(1)} s`;

function gap(lane) {
  const next = lane.held ? undefined : lane.nonces?.[0];
  if (lane.expected === undefined || next === undefined || next <= lane.expected) return '';
  return h('span', { class: 'warn' }, `waits for ${lane.expected}`);
}

function lanesView() {
  const place = h('div', {});
  const draw = () => {
    const rows = state.lanes.map((l) => [
      account(l.sender), l.strategy, l.held ? `here, nonce ${l.nonce}` : l.heldBy ? `relay ${l.heldBy}` : 'nobody',
      number(l.held ? seconds(l.heldFor) : ''), number(l.held ? seconds(l.left) : ''), number(String(l.waiting)),
      h('td', { class: 'mono' }, (l.nonces ?? []).slice(0, 12).join(' ') + ((l.nonces ?? []).length > 12 ? ' …' : '')),
      number(l.expected === undefined ? 'unknown' : String(l.expected)), gap(l),
      l.held || l.heldBy ? button('End the turn', async () => {
        if (!confirm(`End the turn of ${l.sender}? The next in line goes; what the holder has sent may still execute.`)) return;
        const done = await json(`../locks/${l.sender}/release`, { method: 'POST' });
        say(done.released ? 'The turn was ended.' : 'Nobody had the turn any more.');
      }, `end ${l.sender}`) : '',
    ]);
    place.replaceChildren(
      facts([['Order', state.ordering ? h('span', { class: state.ordered === '0 % of senders' ? 'bad' : 'good' }, state.ordered === 'all senders' ? 'kept' : `kept for ${state.ordered}`) : h('span', { class: 'bad' }, 'not kept')], ['Window for a missing nonce', `${state.window} ms`]]),
      h('p', {}, button(state.ordering ? 'Stop keeping the order' : 'Keep the order', async () => {
        if (state.ordering && !confirm('Without the order, a burst of one sender fails in part. Stop keeping it?')) return;
        await ask('../ordering', { method: 'PUT', body: JSON.stringify({ enabled: !state.ordering }) });
      }, 'order')),
      table('Senders whose transactions are on their way', ['Sender', 'Order kept by', 'Holder', '#Held for', '#Left', '#Waiting', 'Nonces that wait', '#Expected nonce', 'Gap', 'Act'], rows, 'No transaction is on its way. A lane shows here while one waits or is being sent.'));
  };
  return { title: 'Lanes', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

// quantile is the bound under which so many of the calls were.
function quantile(buckets, bounds, calls, q) {
  const at = buckets.findIndex((n) => n >= q * calls);
  return at < 0 ? `> ${bounds.at(-1)}` : `≤ ${bounds[at]}`;
}

function methodsView() {
  const place = h('div', {});
  const draw = () => {
    const older = kept[0], span = Math.max((kept.at(-1).at - older.at) / 1000, 1);
    const before = new Map(older.state.methods.map((m) => [m.name, m]));
    const rows = state.methods.map((m) => {
      const b = before.get(m.name) ?? { calls: 0, failed: 0, millis: 0, buckets: m.buckets.map(() => 0) };
      const busy = m.calls > b.calls;
      const calls = busy ? m.calls - b.calls : m.calls, buckets = busy ? m.buckets.map((n, i) => n - b.buckets[i]) : m.buckets;
      return [code(m.name), number(((m.calls - b.calls) / span).toFixed(1)), number(((busy ? m.millis - b.millis : m.millis) / calls).toFixed(1)),
        number(quantile(buckets, m.bounds, calls, 0.5)), number(quantile(buckets, m.bounds, calls, 0.99)), number(m.calls.toLocaleString('en')), number(m.failed.toLocaleString('en'))];
    });
    place.replaceChildren(table('Methods: rates of the last ten seconds, times of these calls or, if there were none, of all', ['Method', '#Calls/s', '#Mean ms', '#Half, ms', '#99 %, ms', '#Calls', '#Errors'], rows, 'Nobody has called a method yet.'));
  };
  return { title: 'Methods', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

function upstreamsView() {
  const place = h('div', {});
  const draw = () => {
    const rows = state.upstreams.map((u) => [u.kind, code(u.name), u.up ? h('span', { class: 'good' }, 'up') : h('span', { class: 'bad' }, 'down'),
      u.since ? new Date(u.since).toLocaleTimeString() : '', u.note ?? '', u.cause ?? '']);
    const c = state.costs, share = c.limit > 0 && c.remaining !== undefined ? c.remaining / c.limit : undefined;
    place.replaceChildren(
      table('What the relay depends on', ['Kind', 'Name', 'State', 'Since', 'Note', 'Cause'], rows, 'The relay depends on nothing.'),
      h('h2', {}, 'Cost'),
      facts([['Balance of the operator', tinybars(c.balance)], ['Left of this window\u2019s budget', c.limit > 0 ? `${tinybars(c.remaining)} of ${tinybars(c.limit)}` : 'there is no budget']]),
      share !== undefined && h('meter', { min: 0, max: 1, low: 0.2, value: share, 'aria-label': 'left of the budget' }) || '');
  };
  return { title: 'Upstreams and cost', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

// ---- views of a developer ----

const shownBlocks = 20;

async function blocksView() {
  const place = h('div', {});
  let newest = -1;
  const draw = async () => {
    const head = Number(await rpc('eth_blockNumber'));
    if (head === newest) return;
    newest = head;
    const blocks = (await Promise.all(Array.from({ length: Math.min(shownBlocks, head + 1) }, (_, i) => rpc('eth_getBlockByNumber', '0x' + (head - i).toString(16), true)))).filter(Boolean);
    place.replaceChildren(
      table('Newest blocks', ['Block', 'Time', '#Transactions', '#Gas used'], blocks.map((b) => [link('block', Number(b.number)), when(b), number(String(b.transactions.length)), number(int(b.gasUsed))]), 'There is no block yet.'),
      h('h2', {}, 'Newest transactions'), transactions(blocks.flatMap((b) => b.transactions).slice(0, 30)));
  };
  return { title: 'Blocks', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

const when = (block) => new Date(Number(block.timestamp) * 1000).toLocaleTimeString();

const transactions = (list) => table('Transactions', ['Hash', 'From', 'To', '#Nonce', '#Value'],
  list.map((t) => [link('tx', t.hash, short(t.hash)), account(t.from), account(t.to), number(int(t.nonce)), number(hbar(t.value))]), 'There are no transactions.');

async function blockView(which) {
  const block = await (which.startsWith('0x') && which.length === 66 ? rpc('eth_getBlockByHash', which, true) : rpc('eth_getBlockByNumber', '0x' + BigInt(which).toString(16), true));
  if (!block) throw new Error(`There is no block ${which}.`);
  const at = Number(block.number);
  return {
    title: `Block ${at}`, nodes: [
      facts([['Hash', code(block.hash)], ['Parent', at > 0 ? link('block', at - 1, short(block.parentHash)) : code(block.parentHash)], ['Time', new Date(Number(block.timestamp) * 1000).toLocaleString()], ['Gas used', int(block.gasUsed)]]),
      h('h2', {}, 'Transactions'), transactions(block.transactions),
    ],
  };
}

async function transactionView(hash) {
  const [tx, receipt, trace, record] = await Promise.all([
    rpc('eth_getTransactionByHash', hash), optional(rpc('eth_getTransactionReceipt', hash)),
    optional(rpc('debug_traceTransaction', hash, { tracer: 'callTracer' })), state.records ? optional(json(`records/${hash}`)) : null,
  ]);
  if (!tx && !record) {
    const block = await optional(rpc('eth_getBlockByHash', hash, false));
    if (block) return blockView(hash);
    throw new Error(`Nothing is known of ${hash}.`);
  }
  const logs = receipt?.logs ?? [];
  const failure = receipt?.status === '0x0' ? (trace?.output ?? receipt.revertReason ?? '0x') : '0x';
  const said = tx ? await optional(inWords({ call: tx.input ?? '0x', fail: hexOr(failure), logs: logs.map(({ topics, data }) => ({ topics, data })) })) : null;
  const reason = failure !== '0x' && (said?.fail ? phrase(said.fail) : code(failure));
  return {
    title: 'Transaction', nodes: [
      h('p', { class: 'mono' }, hash),
      tx && facts([
        ['Status', !receipt ? h('span', { class: 'warn' }, 'no receipt yet') : receipt.status === '0x1' ? h('span', { class: 'good' }, 'executed') : h('span', { class: 'bad' }, 'reverted')],
        receipt?.status === '0x0' && ['Reason', reason || trace?.revertReason || trace?.error || 'none was given'],
        tx.blockNumber && ['Block', link('block', Number(tx.blockNumber))],
        ['From', account(tx.from)], ['To', receipt?.contractAddress && !tx.to ? [account(receipt.contractAddress), ' (made here)'] : account(tx.to)],
        ['Value', hbar(tx.value)], ['Nonce', int(tx.nonce)], ['Gas', receipt ? `${int(receipt.gasUsed)} of ${int(tx.gas)}` : int(tx.gas)],
        ['Call', said?.call ? phrase(said.call) : tx.input === '0x' ? 'none' : code(tx.input.length > 400 ? `${tx.input.slice(0, 400)}…` : tx.input)],
      ]),
      record && timeline(record),
      logs.length > 0 && [h('h2', {}, 'Events'), table('Events in order', ['#Index', 'Contract', 'Event'], logs.map((l, i) => [number(int(l.logIndex)), account(l.address), said?.logs[i] ? h('span', {}, phrase(said.logs[i])) : code([...l.topics, l.data].join(' '))]), '')],
      trace && [h('h2', {}, 'Calls'), h('ul', { class: 'tree' }, await callTree(trace))],
    ],
  };
}

const hexOr = (text) => (/^0x([0-9a-fA-F]{2})*$/.test(text) ? text : '0x');

// A tree of calls is shown up to this many calls, and put in words up to this many digits of them: as much as the
// relay decodes in one answer, with room for an ABI.
const shownCalls = 200, decodedDigits = 400_000;

// callTree draws a call and those in it. All of them are put in words by one request.
async function callTree(root) {
  const calls = [], questions = [];
  let room = decodedDigits;
  const visit = (call) => {
    if (calls.length === shownCalls) return;
    const question = { call: hexOr(call.input ?? '0x'), fail: call.error ? hexOr(call.output ?? '0x') : '0x' };
    room -= question.call.length + question.fail.length;
    calls.push(call);
    questions.push(room >= 0 ? question : { call: '0x', fail: '0x' });
    for (const inner of call.calls ?? []) visit(inner);
  };
  visit(root);
  const answer = await optional(inWords({ calls: questions }));
  const said = new Map(calls.map((call, i) => [call, answer?.calls[i]]));
  return tree(root, said);
}

// tree draws the calls that said has, and mentions that there are more.
function tree(call, said) {
  if (!said.has(call)) return h('li', { class: 'soft' }, 'and more');
  const words = said.get(call), inner = [];
  for (const c of call.calls ?? []) {
    inner.push(tree(c, said));
    if (!said.has(c)) break;
  }
  return h('li', {}, h('span', { class: 'soft' }, call.type + ' '), account(call.to), ' ', words?.call ? phrase(words.call) : code(short(call.input ?? '')), BigInt(call.value ?? '0x0') > 0n && ` ${hbar(call.value)}`,
    h('span', { class: 'soft' }, ` gas ${int(call.gasUsed)}`), call.error && h('span', { class: 'bad' }, ' ', words?.fail ? phrase(words.fail) : call.error), inner.length > 0 && h('ul', {}, inner));
}

const stages = { received: 'it has its place in line', queued: 'it waits for its turn', submitted: 'its bytes left for a node', accepted: 'a node has it', consensus: 'the network executed it', rejected: 'it was not executed', unknown: 'no verdict came in time' };

// timeline shows what happened when, and which stage took longest.
function timeline(record) {
  // When somebody asks for the mirror node's view says nothing of how long the transaction took.
  const steps = (record.steps ?? []).filter((s) => s.step !== 'mirror');
  const took = steps.map((s, i) => (i === 0 ? 0 : s.timestamp - steps[i - 1].timestamp));
  const longest = Math.max(...took, 0), all = Math.max(steps.length ? steps.at(-1).timestamp - steps[0].timestamp : 0, 1);
  const rows = steps.map((s, i) => [
    h('strong', {}, s.step), stages[s.step] ?? '', new Date(s.timestamp).toISOString().slice(11, 23), number(i === 0 ? '' : `${took[i]} ms`),
    h('td', {}, i > 0 && bar(took[i], all, took[i] === longest), took[i] === longest && longest > 0 ? 'longest' : ''),
    [s.node, s.hederaStatus, s.error].filter(Boolean).join(', '),
  ]);
  return [h('h2', {}, 'Timeline'), table(`Status: ${record.status}`, ['Step', 'Meaning', 'At (UTC)', '#After', 'Share', 'Note'], rows, 'No step is recorded.')];
}

async function accountsView() {
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
      h('h2', {}, 'Faucet'),
      form([['Address', 'faucet', { required: true, placeholder: '0x…' }], ['Amount, ℏ', 'amount', { value: '100', inputmode: 'numeric' }]], 'Give', async (v) => {
        await rpc('lockstep_faucet', v.faucet, Number(v.amount));
        say(`${v.faucet} got ${v.amount} ℏ.`);
        await draw();
      }),
      h('h2', {}, 'Send'),
      form([['From', 'from', from], ['To', 'to', { placeholder: '0x…; nothing makes a contract' }], ['Amount, ℏ', 'value', { value: '0', inputmode: 'decimal' }], ['Data', 'data', { placeholder: '0x' }]], 'Send', async (v) => {
        const hash = await rpc('eth_sendTransaction', { from: v.from, ...(v.to && { to: v.to }), value: weibars(v.value), ...(v.data && { data: v.data }) });
        location.hash = `#/tx/${hash}`;
      })],
  };
}

async function accountView(address) {
  const [balance, latest, pending, bytes] = await Promise.all([rpc('eth_getBalance', address, 'latest'), rpc('eth_getTransactionCount', address, 'latest'), rpc('eth_getTransactionCount', address, 'pending'), rpc('eth_getCode', address, 'latest')]);
  const lane = state.lanes.find((l) => l.sender.toLowerCase() === address.toLowerCase());
  return {
    title: 'Account', nodes: [h('p', { class: 'mono' }, address), facts([
      ['Balance', hbar(balance)], ['Nonce', int(latest) + (pending !== latest ? `, ${int(pending)} with what is on its way` : '')],
      ['Code', bytes === '0x' ? 'none' : plural((bytes.length - 2) / 2, 'byte')],
      lane && ['Lane', h('a', { href: '#/lanes' }, plural(lane.waiting, 'waits', 'wait'))],
    ])],
  };
}

async function tokensView() {
  const list = (await json('mirror/tokens?limit=100&order=desc')).tokens;
  return { title: 'Tokens', nodes: [table('Tokens, newest first', ['Token', 'Symbol', 'Name', 'Kind', '#Decimals'], list.map((t) => [link('token', t.token_id), t.symbol, t.name, t.type === 'NON_FUNGIBLE_UNIQUE' ? 'NFT' : 'fungible', number(String(t.decimals))]), 'There are no tokens yet.')] };
}

async function tokenView(id) {
  if (!/^\d+\.\d+\.\d+$/.test(id)) throw new Error(`${id} is not the id of a token`);
  const [token, holders] = await Promise.all([json(`mirror/tokens/${id}`), json(`mirror/tokens/${id}/balances?limit=100`)]);
  const units = (n) => { // of a supply, with its decimals
    const digits = String(n).padStart(Number(token.decimals) + 1, '0'), cut = digits.length - Number(token.decimals);
    return BigInt(digits.slice(0, cut)).toLocaleString('en') + (Number(token.decimals) ? `.${digits.slice(cut)}` : '');
  };
  return {
    title: `${token.name} (${token.symbol})`, nodes: [
      facts([['Token', code(id)], ['Kind', token.type], ['Supply', units(token.total_supply)], ['Treasury', code(token.treasury_account_id)], ['Paused', token.pause_status], ['Memo', token.memo || 'none']]),
      h('h2', {}, 'Holders'), table('Holders', ['Account', '#Balance'], holders.balances.map((b) => [code(b.account), number(units(b.balance))]), 'Nobody holds it.')],
  };
}

const keptABI = (list) => plural(list.length, 'entry is kept in this browser.', 'entries are kept in this browser.');

async function abiView() {
  const known = storedABI(), shown = h('p', {}, known.length ? keptABI(known) : 'None is kept. Signatures of tokens and of Hedera\u2019s system contracts are known without.');
  const take = async (text) => {
    const parsed = JSON.parse(text), list = Array.isArray(parsed) ? parsed : parsed.abi;
    if (!Array.isArray(list)) throw new Error('That is neither an ABI nor an artifact with one.');
    const all = [...new Map([...storedABI(), ...list].map((e) => [JSON.stringify(e), e])).values()];
    await json('decode', { method: 'POST', body: JSON.stringify({ abi: all }) });
    localStorage.setItem(abiKey, JSON.stringify(all));
    shown.textContent = keptABI(all);
    say('The ABI is kept: calls, events and errors that it names are shown in words.');
  };
  const text = h('textarea', {
    placeholder: '[{"type":"function", …}], or an artifact with "abi"; files can be dropped here', ondragover: (e) => e.preventDefault(),
    ondrop: async (e) => { e.preventDefault(); try { for (const f of e.dataTransfer.files) await take(await f.text()); } catch (err) { failed(err); } },
  });
  return {
    title: 'ABI', nodes: [shown, form([['ABI', 'abi', text]], 'Keep', (v) => take(v.abi)),
      form([['File', 'file', h('input', { type: 'file', accept: '.json', multiple: true, onchange: async (e) => { try { for (const f of e.target.files) await take(await f.text()); } catch (err) { failed(err); } } })]], 'Take', async () => {}),
      h('p', {}, button('Forget all', async () => { localStorage.removeItem(abiKey); shown.textContent = 'None is kept.'; }))],
  };
}

// ---- the part ----

const views = {
  lanes: { text: 'Lanes', make: lanesView }, blocks: { text: 'Blocks', make: blocksView }, accounts: { text: 'Accounts', make: accountsView, when: () => state.dev },
  tokens: { text: 'Tokens', make: tokensView, when: () => state.dev }, methods: { text: 'Methods', make: methodsView }, upstreams: { text: 'Upstreams', make: upstreamsView },
  abi: { text: 'ABI', make: abiView }, block: { make: blockView, under: 'blocks' }, tx: { make: transactionView, under: 'blocks' }, account: { make: accountView, under: 'accounts' }, token: { make: tokenView, under: 'tokens' },
};

function find(text) {
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return `#/tx/${text.toLowerCase()}`;
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return `#/account/${text}`;
  if (/^\d+$/.test(text) || /^0x[0-9a-fA-F]{1,16}$/.test(text)) return `#/block/${BigInt(text)}`;
  throw new Error('That is neither a hash, an address nor the number of a block.');
}

export const relay = {
  name: 'relay', views, start, find, home: () => (state.dev ? 'blocks' : 'lanes'),
  wanted: 'Find a block, a transaction or an account', example: '0x… or a number',
};
