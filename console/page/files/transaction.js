// One transaction: what became of it in words, what it called and changed, and where its time went.

import { button, code, copied, facts, h, json, number, optional, plural, short, table } from './frame.js';
import { account, age, consensus, decimal, duration, hbar, hexOr, int, inWords, mirror, now, phrase, rpc, value } from './state.js';
import { svg } from './charts.js';
import { executedAt } from './lanes.js';

const kinds = { '0x0': 'legacy', '0x1': 'with an access list (EIP-2930)', '0x2': 'with a maximum fee (EIP-1559)', '0x3': 'with blobs (EIP-4844)', '0x4': 'which sets code (EIP-7702)' };

// failures are the network's words for what most often goes wrong.
const failures = {
  INSUFFICIENT_GAS: 'out of gas', CONTRACT_REVERT_EXECUTED: 'reverted', WRONG_NONCE: 'refused: wrong nonce', INSUFFICIENT_PAYER_BALANCE: 'the sender had too little for the fee', INSUFFICIENT_ACCOUNT_BALANCE: 'the balance was too low',
  INVALID_SOLIDITY_ADDRESS: 'an address that does not exist', INSUFFICIENT_TX_FEE: 'the gas price was too low', LOCAL_CALL_MODIFICATION_EXCEPTION: 'a static call tried to change something', MAX_CHILD_RECORDS_EXCEEDED: 'too many inner transactions',
};
export const failureWords = (status) => failures[status] ?? String(status).toLowerCase().replaceAll('_', ' ');

// asText reads what the network returns for failures of its own: its word for them, as ASCII.
function asText(hex) {
  const text = (hex.slice(2).match(/../g) ?? []).map((b) => String.fromCharCode(parseInt(b, 16))).join('');
  return /^[A-Z][A-Z0-9_]{3,63}$/.test(text) ? failureWords(text) : null;
}

// outOfGas tells by whatever says so: the mirror node's result, the trace, or that all of the gas is gone and nothing was returned.
function outOfGas(result, trace) {
  return result?.result === 'INSUFFICIENT_GAS' || /out of gas|INSUFFICIENT_GAS|0x494e53554646494349454e545f474153/i.test(`${trace?.error} ${result?.error_message}`);
}

function statusOf(tx, receipt, record, result, trace, reason) {
  if (!receipt) {
    if (record?.status === 'rejected') return h('span', { class: 'bad' }, 'refused, never executed', record.error ? `: ${record.error}` : '');
    if (record?.status === 'timedout') return h('span', { class: 'warn' }, 'unknown: it left for the network, and no verdict came in time');
    return h('span', { class: 'warn' }, tx ? 'no receipt yet' : 'on its way');
  }
  if (receipt.status === '0x1') return h('span', { class: 'good' }, 'executed');
  if (outOfGas(result, trace)) return h('span', { class: 'bad' }, `out of gas: all ${int(receipt.gasUsed)} were used`);
  return h('span', { class: 'bad' }, result?.result && result.result !== 'CONTRACT_REVERT_EXECUTED' ? failureWords(result.result) : 'reverted', reason ? [': ', reason] : ', without a reason');
}

// neighbours are the transactions before and after it: of the network where its mirror node can be asked, else of its block.
async function neighbours(tx, result) {
  if (result) {
    const near = async (op, order) => (await optional(mirror(`contracts/results?timestamp=${op}:${result.timestamp}&order=${order}&limit=1`)))?.results[0]?.hash;
    return Promise.all([near('lt', 'desc'), near('gt', 'asc')]);
  }
  if (!tx?.blockHash) return [];
  const list = (await optional(rpc('eth_getBlockByHash', tx.blockHash, false)))?.transactions ?? [], at = list.indexOf(tx.hash);
  return at < 0 ? [] : [list[at - 1], list[at + 1]];
}

export async function transactionView(hash, blockView) {
  const [tx, receipt, trace, record, result] = await Promise.all([
    rpc('eth_getTransactionByHash', hash), optional(rpc('eth_getTransactionReceipt', hash)),
    optional(rpc('debug_traceTransaction', hash, { tracer: 'callTracer' })), now.state.records ? optional(json(`records/${hash}`)) : null, now.state.dev ? optional(mirror(`contracts/results/${hash}`)) : null,
  ]);
  if (!tx && !record) {
    const block = await optional(rpc('eth_getBlockByHash', hash, false));
    if (block) return blockView(hash);
    throw new Error(`Nothing is known of ${hash}.`);
  }
  const logs = receipt?.logs ?? [];
  const failure = receipt?.status === '0x0' ? hexOr(trace?.output ?? receipt.revertReason) : '0x';
  const [said, tree, [before, after], block] = await Promise.all([
    tx ? optional(inWords({ call: hexOr(tx.input), fail: failure, logs: logs.map(({ topics, data }) => ({ topics, data })) })) : null,
    trace ? callTree(trace) : null, neighbours(tx, result), !result && tx?.blockHash ? optional(rpc('eth_getBlockByHash', tx.blockHash, false)) : null,
  ]);
  const reason = said?.fail ? phrase(said.fail) : failure !== '0x' ? asText(failure) ?? code(failure) : trace?.revertReason;
  const at = result ? consensus(result.timestamp) : block ? Number(block.timestamp) * 1000 : record?.steps?.[0]?.timestamp;
  const price = BigInt(receipt?.effectiveGasPrice ?? tx?.gasPrice ?? 0), changes = (result?.state_changes ?? []).filter((c) => c.value_written !== null);
  const hedera = record?.transactionId ?? record?.steps?.findLast((s) => s.transactionId)?.transactionId;
  const step = (to, text) => (to ? h('a', { href: `#/tx/${to}`, title: to }, text) : h('span', { class: 'soft' }, text));
  return {
    title: 'Transaction', nodes: [
      h('p', { class: 'headline' }, copied(hash), h('span', { class: 'steps' }, step(before, '← previous'), step(after, 'next →'))),
      facts([
        ['Status', statusOf(tx, receipt, record, result, trace, reason)],
        at && ['Time', [new Date(at).toLocaleString(), ' · ', age(executedAt(hash) ?? at)]],
        tx?.blockNumber && ['Block', h('a', { href: `#/block/${Number(tx.blockNumber)}` }, int(tx.blockNumber))],
        tx && ['From', [account(tx.from), ` with nonce ${int(tx.nonce)}`]], tx && ['To', receipt?.contractAddress && !tx.to ? [account(receipt.contractAddress), ' (made here)'] : account(tx.to)],
        tx && ['Value', hbar(tx.value)],
        tx && ['Call', said?.call ? phrase(said.call) : tx.input === '0x' ? 'none' : tx.to ? code(short(tx.input.slice(0, 200))) : made(tx.input)],
        receipt && ['Fee', `${hbar(BigInt(receipt.gasUsed) * price)}`],
        tx && ['Gas', receipt ? `${int(receipt.gasUsed)} of ${int(tx.gas)} (${Math.round(100 * Number(receipt.gasUsed) / Number(tx.gas))} %)` : int(tx.gas)],
        tx && ['Gas price', `${decimal(price, 10)} tinybars; ${kinds[tx.type] ?? `type ${tx.type}`}`],
        hedera && ['Hedera id', copied(hedera)], result && ['Consensus', copied(result.timestamp)],
      ].map((pair) => pair && pair[1] !== undefined && pair)),
      record && timeline(record),
      tree?.lines.length > 0 && [h('h2', {}, 'console.log'), h('pre', { class: 'log' }, tree.lines.join('\n'))],
      logs.length > 0 && [h('h2', {}, 'Events'), table('Events in order', ['#Index', 'Contract', 'Event'], logs.map((l, i) => [number(int(l.logIndex)), account(l.address), said?.logs[i] ? h('span', {}, phrase(said.logs[i])) : code([...l.topics, l.data].join(' '))]), '')],
      tree && [h('h2', {}, 'Calls'), h('ul', { class: 'tree' }, tree.node)],
      changes.length > 0 && [h('h2', {}, 'State changes'), table('Storage that it wrote', ['Contract', 'Slot', 'Before', 'After'], changes.map((c) => [account(c.address), code(word(c.slot)), code(word(c.value_read)), code(word(c.value_written))]), '')],
      h('h2', {}, 'Raw'), raw('Transaction', tx), raw('Receipt', receipt), raw('Record of its way', record), raw('Result at the mirror node', result),
    ],
  };
}

const made = (input) => `makes a contract: ${plural((input.length - 2) / 2, 'byte')} of code and arguments`;

// word writes 32 bytes without the zeros in front.
const word = (hex) => (hex ? `0x${hex.slice(2).replace(/^0+(?=.)/, '')}` : '');

function raw(title, what) {
  if (!what) return null;
  const text = JSON.stringify(what, null, 2);
  return h('details', {}, h('summary', {}, title), button('Copy', () => navigator.clipboard.writeText(text), `copy ${title}`), h('pre', { tabindex: '0', role: 'region', 'aria-label': title }, text.length > 200_000 ? `${text.slice(0, 200_000)}…` : text));
}

// A tree of calls is shown up to this many calls, and put in words up to this many digits of them: as much as the
// relay decodes in one answer, with room for an ABI.
const shownCalls = 200, decodedDigits = 400_000;

const consoleAddress = '0x000000000000000000636f6e736f6c652e6c6f67';

// callTree draws a call and those in it, and collects what they wrote to the console. All of them are put in words by one request.
async function callTree(root) {
  const calls = [], questions = [];
  let room = decodedDigits;
  const visit = (call) => {
    if (calls.length === shownCalls) return;
    const question = { call: hexOr(call.input), fail: call.error ? hexOr(call.output) : '0x' };
    room -= question.call.length + question.fail.length;
    calls.push(call);
    questions.push(room >= 0 ? question : { call: '0x', fail: '0x' });
    for (const inner of call.calls ?? []) visit(inner);
  };
  visit(root);
  const answer = await optional(inWords({ calls: questions }));
  const said = new Map(calls.map((call, i) => [call, answer?.calls[i]]));
  const lines = calls.filter((c) => c.to?.toLowerCase() === consoleAddress).map((c) => logged(said.get(c)?.call?.args.map((a) => a.value), c.input));
  return { node: tree(root, said), lines };
}

// logged writes a line as JavaScript's console does: values in the places of a format, the rest after it.
function logged(values, input) {
  if (!values) return String(input);
  const rest = values.map(value);
  if (typeof values[0] !== 'string' || !values[0].includes('%')) return rest.join(' ');
  const text = rest.shift().replace(/%[sdioO%]/g, (mark) => (mark === '%%' ? '%' : rest.length ? rest.shift() : mark));
  return [text, ...rest].join(' ');
}

// tree draws the calls that said has, and mentions that there are more.
function tree(call, said) {
  if (!said.has(call)) return h('li', { class: 'soft' }, 'and more');
  const words = said.get(call), inner = [];
  for (const c of call.calls ?? []) {
    inner.push(tree(c, said));
    if (!said.has(c)) break;
  }
  const returned = !call.error && call.type !== 'CREATE' && call.type !== 'CREATE2' && call.output && call.output !== '0x' ? call.output : null;
  return h('li', {}, h('span', { class: 'soft' }, call.type + ' '), call.to?.toLowerCase() === consoleAddress ? 'console' : account(call.to), ' ', words?.call ? phrase(words.call) : code(short(call.input ?? '')), BigInt(call.value ?? '0x0') > 0n && ` ${hbar(call.value)}`,
    returned && [h('span', { class: 'soft' }, ' returns '), h('code', { title: returned }, returned.length === 66 ? word(returned) : short(returned))],
    h('span', { class: 'soft' }, ` gas ${int(call.gasUsed)}`), call.error && h('span', { class: 'bad' }, ' ', words?.fail ? phrase(words.fail) : call.error), inner.length > 0 && h('ul', {}, inner));
}

// ---- where the time went ----

// parts are the ways of a transaction's time, each from one step to another.
const parts = [['waiting in line', 'waiting', 'received', 'submitted'], ['with the node', 'node', 'submitted', 'accepted'], ['to consensus', 'executed', 'accepted', 'consensus'], ['to the mirror node', 'mirror', 'consensus', 'mirror']];
const meanings = { received: 'it has its place in line', queued: 'it waits for its turn', submitted: 'its bytes left for a node', accepted: 'a node has it', consensus: 'the network executed it', mirror: 'somebody was shown it in a block', rejected: 'it was not executed', unknown: 'no verdict came in time' };

// timeline draws how long each part took. The mirror node's part ends when somebody asked for the transaction: it took so long at most,
// is never called the longest, and gets a fifth of the drawing at most.
export function timeline(record) {
  const list = record.steps ?? [], at = (name, last) => (last ? list.findLast((s) => s.step === name) : list.find((s) => s.step === name))?.timestamp;
  const drawn = [];
  for (const [name, kind, from, to] of parts) {
    const begin = at(from, from === 'submitted'), end = at(to, to === 'submitted') ?? (to === 'accepted' ? at('consensus') ?? at('rejected') : undefined);
    if (begin !== undefined && end !== undefined && end >= begin) drawn.push({ name, kind, took: end - begin });
  }
  const longest = drawn.filter((p) => p.kind !== 'mirror').reduce((a, b) => (a && a.took >= b.took ? a : b), null);
  const own = drawn.filter((p) => p.kind !== 'mirror').reduce((sum, p) => sum + p.took, 0), part = (p) => (p.kind === 'mirror' ? Math.min(p.took, own / 4) : p.took);
  const all = Math.max(1, drawn.reduce((sum, p) => sum + part(p), 0)), least = 8, room = 1000 - least * drawn.length;
  let x = 0;
  const picture = drawn.length > 0 && svg('svg', { viewBox: '0 0 1000 28', preserveAspectRatio: 'none', role: 'img', 'aria-label': drawn.map((p) => `${p.name}: ${duration(p.took)}${p === longest && p.took > 0 ? ', the longest' : ''}`).join('; ') },
    drawn.map((p) => { const w = least + (room * part(p)) / all, r = svg('rect', { class: `part ${p.kind}`, x: x.toFixed(1), width: Math.max(w - 2, 1).toFixed(1), y: 0, height: 28 }); x += w; return r; }));
  return [
    h('h2', {}, 'Timeline'),
    h('div', { class: 'timeline' }, picture, h('ul', {}, drawn.map((p) => h('li', {}, h('span', { class: `key part ${p.kind}`, 'aria-hidden': 'true' }), `${p.name} `, h('strong', {}, `${p.kind === 'mirror' ? 'at most ' : ''}${duration(p.took)}`), p === longest && p.took > 0 && h('span', { class: 'warn' }, ' longest'))))),
    h('details', {}, h('summary', {}, 'Its steps'), table(`Status: ${record.status}`, ['Step', 'Meaning', 'At (UTC)', '#After', 'Note'], list.map((s, i) => [
      h('strong', {}, s.step), meanings[s.step] ?? '', new Date(s.timestamp).toISOString().slice(11, 23), number(i === 0 ? '' : `${s.timestamp - list[i - 1].timestamp} ms`), [s.node, s.hederaStatus, s.error].filter(Boolean).join(', '),
    ]), 'No step is recorded.')),
  ];
}
