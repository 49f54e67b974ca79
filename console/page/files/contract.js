// Reading and writing a contract by its ABI.

import { code, h, json, optional, short } from './frame.js';
import { account, hexOr, now, rpc, storedABI, value, weibars } from './state.js';

const typeOf = (input) => (input.type.startsWith('tuple') ? `(${(input.components ?? []).map(typeOf).join(',')})${input.type.slice(5)}` : input.type);
const signature = (name, inputs) => `${name}(${(inputs ?? []).map(typeOf).join(',')})`;
const utf8 = (text) => `0x${[...new TextEncoder().encode(text)].map((b) => b.toString(16).padStart(2, '0')).join('')}`;

const selectors = new Map();
async function selector(text) {
  if (!selectors.has(text)) selectors.set(text, (await rpc('web3_sha3', utf8(text))).slice(2, 10));
  return selectors.get(text);
}

// ---- encoding ----

const elements = (input) => { const m = /^(.*)\[(\d*)\]$/.exec(input.type); return m && { inner: { ...input, type: m[1] }, size: m[2] }; };
const hexWord = (n) => BigInt.asUintN(256, BigInt(n)).toString(16).padStart(64, '0');

function isDynamic(input) {
  const list = elements(input);
  if (list) return list.size === '' || isDynamic(list.inner);
  return input.type === 'tuple' ? input.components.some(isDynamic) : input.type === 'bytes' || input.type === 'string';
}

// encodeAll writes values one after another: those without a fixed length behind the others, which say where.
function encodeAll(inputs, values) {
  if (!Array.isArray(values) || values.length !== inputs.length) throw new Error(`want a list of ${inputs.length}`);
  const parts = inputs.map((input, i) => ({ dynamic: isDynamic(input), hex: encodeOne(input, values[i]) }));
  let at = parts.reduce((sum, p) => sum + (p.dynamic ? 32 : p.hex.length / 2), 0);
  const heads = parts.map((p) => { if (!p.dynamic) return p.hex; const head = hexWord(at); at += p.hex.length / 2; return head; });
  return heads.join('') + parts.filter((p) => p.dynamic).map((p) => p.hex).join('');
}

function encodeOne(input, v) {
  const wrong = (want) => new Error(`${input.name || input.type}: want ${want}`), list = elements(input), type = input.type;
  if (list) {
    if (!Array.isArray(v) || list.size !== '' && v.length !== Number(list.size)) throw wrong(`a list${list.size && ` of ${list.size}`}, such as [1, 2]`);
    return (list.size === '' ? hexWord(v.length) : '') + encodeAll(v.map(() => list.inner), v);
  }
  if (type === 'tuple') return encodeAll(input.components, Array.isArray(v) ? v : input.components.map((c) => v?.[c.name]));
  if (type === 'address') { if (!/^0x[0-9a-f]{40}$/i.test(v)) throw wrong('an address'); return v.slice(2).toLowerCase().padStart(64, '0'); }
  if (type === 'bool') return hexWord(v === true || /^(true|1|yes)$/i.test(v) ? 1 : 0);
  if (type.startsWith('bytes') || type === 'string') {
    const hex = type === 'string' ? utf8(String(v)) : String(v), size = Number(type.slice(5)) || 0, bytes = (hex.length - 2) / 2;
    if (!/^0x([0-9a-f]{2})*$/i.test(hex) || type !== 'string' && size > 0 && bytes !== size) throw wrong(size && type !== 'string' ? `0x… of ${size * 2} digits` : 'bytes as 0x…');
    const body = hex.slice(2).toLowerCase().padEnd(64 * Math.ceil(bytes / 32), '0');
    return size > 0 && type !== 'string' ? body : hexWord(bytes) + body;
  }
  const number = /^(u?)int(\d*)$/.exec(type);
  if (!number || !/^-?(\d+|0x[0-9a-f]+)$/i.test(String(v))) throw wrong(number ? 'a whole number' : 'another type');
  const text = String(v), n = text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text), bits = BigInt(number[2] || 256);
  if (number[1] ? n < 0n || n >> bits : n < -(1n << bits - 1n) || n >= 1n << bits - 1n) throw wrong(`a number of ${bits} bits`);
  return hexWord(n);
}

const encode = async (f, values) => `0x${await selector(signature(f.name, f.inputs))}${encodeAll(f.inputs ?? [], values)}`;

// usual are the functions of tokens, for contracts without an ABI.
const uint = [{ type: 'uint256' }], text = [{ type: 'string' }], who = [{ type: 'address', name: 'account' }];
const usual = [
  ['name', [], text, 'view'], ['symbol', [], text, 'view'], ['decimals', [], [{ type: 'uint8' }], 'view'], ['totalSupply', [], uint, 'view'], ['balanceOf', who, uint, 'view'], ['owner', [], [{ type: 'address' }], 'view'],
  ['transfer', [{ type: 'address', name: 'to' }, { type: 'uint256', name: 'amount' }], [{ type: 'bool' }], 'nonpayable'], ['approve', [{ type: 'address', name: 'spender' }, { type: 'uint256', name: 'amount' }], [{ type: 'bool' }], 'nonpayable'],
].map(([name, inputs, outputs, stateMutability]) => ({ type: 'function', name, inputs, outputs, stateMutability }));

const maxFunctions = 200;

// functionsOf are the functions whose selectors stand in the code: those of the contract, with some luck and a few more.
async function functionsOf(bytes) {
  const all = new Map();
  for (const f of [...storedABI().filter((e) => e.type === 'function'), ...usual].slice(0, 1000)) if (!all.has(signature(f.name, f.inputs))) all.set(signature(f.name, f.inputs), f);
  const found = await Promise.all([...all].map(async ([text, f]) => {
    const s = await optional(selector(text));
    return s && bytes.includes(s.replace(/^(00)+/, '')) && f;
  }));
  // A proxy has other code than its functions': then everything that is kept may be meant.
  const own = found.filter(Boolean);
  return (own.length ? own : [...all.values()].filter((f) => !usual.includes(f))).slice(0, maxFunctions);
}

// argument reads a field: text as it is, and lists and tuples as JSON.
const argument = (input, text) => (/\]$|^tuple/.test(input.type) ? JSON.parse(text.replace(/(?<![\w"])(-?\d{16,})(?![\w"])/g, '"$1"')) : text);

async function results(f, output) {
  if (!f.outputs?.length) return 'nothing';
  const names = f.outputs.map((o, i) => ({ ...o, name: o.name || `result${f.outputs.length > 1 ? i : ''}`, indexed: false }));
  const said = await optional(json('decode', { method: 'POST', body: JSON.stringify({ abi: [{ type: 'function', name: 'result', inputs: names }], call: `0x${await selector(signature('result', names))}${output.slice(2)}` }) }));
  if (!said?.call) return code(output);
  return said.call.args.map((a, i) => [i > 0 && ', ', f.outputs[i]?.name && h('span', { class: 'soft' }, `${f.outputs[i].name} `), a.type === 'address' ? account(a.value) : h('code', { title: a.type }, value(a.value))]);
}

export async function contractForms(address, bytes, abiForm) {
  const list = await functionsOf(bytes), reads = list.filter((f) => /^(view|pure)$/.test(f.stateMutability)), writes = list.filter((f) => !reads.includes(f));
  const senders = now.state.dev ? (await optional(rpc('eth_accounts'))) ?? [] : [];
  const from = h('select', { id: 'contract-from' }, senders.map((a) => h('option', { value: a }, a)));
  const one = (f, n, act, verb) => {
    const out = h('p', { role: 'status' }), fields = (f.inputs ?? []).map((input, i) => [input, h('input', { id: `f${verb}${n}-${i}`, autocomplete: 'off', spellcheck: 'false', placeholder: typeOf(input) })]);
    const pays = f.stateMutability === 'payable' ? h('input', { id: `f${verb}${n}-value`, inputmode: 'decimal', value: '0' }) : null;
    const run = async () => {
      out.replaceChildren('…');
      try {
        const args = fields.map(([input, field]) => argument(input, field.value.trim()));
        const data = await encode(f, args);
        out.replaceChildren(...[await act(f, data, pays?.value ?? '0')].flat(Infinity).filter((x) => x !== false && x !== undefined && x !== null));
      } catch (err) { out.replaceChildren(h('span', { class: 'bad' }, err.message)); }
    };
    return h('details', { class: 'function' }, h('summary', {}, h('strong', {}, f.name), h('span', { class: 'soft' }, `(${(f.inputs ?? []).map((i) => `${typeOf(i)} ${i.name ?? ''}`.trim()).join(', ')})`)),
      h('form', { class: 'form', onsubmit: (e) => { e.preventDefault(); void run(); } },
        fields.map(([input, field]) => [h('label', { for: field.id }, input.name || typeOf(input)), field]), pays && [h('label', { for: pays.id }, 'Amount, ℏ'), pays], h('button', {}, verb)), out);
  };
  const read = async (f, data) => results(f, hexOr(await rpc('eth_call', { to: address, data, ...(senders[0] && { from: senders[0] }) }, 'latest')));
  const write = async (f, data, amount) => {
    const hash = await rpc('eth_sendTransaction', { from: from.value, to: address, data, value: weibars(amount) });
    const receipt = await optional(rpc('eth_getTransactionReceipt', hash));
    return [receipt?.status === '0x0' ? h('span', { class: 'bad' }, 'reverted ') : receipt ? h('span', { class: 'good' }, 'executed ') : 'sent ', h('a', { href: `#/tx/${hash}`, class: 'mono' }, short(hash))];
  };
  return [
    list.length === 0 && h('p', { class: 'soft' }, 'No function of this contract is known. Add its ABI.'), abiForm(),
    reads.length > 0 && [h('h2', {}, 'Read'), reads.map((f, n) => one(f, n, read, 'Read'))],
    writes.length > 0 && senders.length > 0 && [h('h2', {}, 'Write'), h('p', { class: 'filter' }, h('label', { for: 'contract-from' }, 'Sender'), from), writes.map((f, n) => one(f, n, write, 'Send'))],
  ].flat(Infinity).filter(Boolean);
}
