// What the relay's views share: how they ask the relay, what it says of itself as time goes on, and how things are written.

import { code, follow, h, json, link, optional, page, short } from './frame.js';

// ---- asking ----

let lastCall = 0;
export async function rpc(method, ...params) {
  const reply = await json('rpc', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: ++lastCall, method, params }) });
  if (reply.error) throw new Error(reply.error.message);
  return reply.result;
}

// mirror asks the mirror node of a network for development. follow what it says in links.next.
export const mirror = (path) => json(`mirror/${path.replace(/^\/api\/v1\//, '')}`);

// ---- the ABI that is kept in this browser ----

const abiKey = 'lockstep.abi';

export function storedABI() {
  try { return JSON.parse(localStorage.getItem(abiKey) ?? '[]'); } catch { return []; }
}

// keepABI adds the entries of an ABI, or of an artifact that has one, if the relay can read them. It returns how many are kept now.
export async function keepABI(text) {
  const parsed = JSON.parse(text), list = Array.isArray(parsed) ? parsed : parsed.abi;
  if (!Array.isArray(list)) throw new Error('That is neither an ABI nor an artifact with one.');
  const all = [...new Map([...storedABI(), ...list].map((e) => [JSON.stringify(e), e])).values()];
  await json('decode', { method: 'POST', body: JSON.stringify({ abi: all }) });
  localStorage.setItem(abiKey, JSON.stringify(all));
  return all.length;
}

export const forgetABI = () => localStorage.removeItem(abiKey);

export const inWords = (question) => json('decode', { method: 'POST', body: JSON.stringify({ ...question, abi: storedABI() }) });

// ---- writing ----

export const account = (address) => (address ? link('account', address, short(address)) : h('span', { class: 'soft' }, 'a new contract'));
export const int = (n) => (n === null || n === undefined ? '' : BigInt(n).toLocaleString('en'));

// decimal writes a whole number of units that have so many decimals.
export function decimal(amount, decimals) {
  const n = BigInt(amount), unit = 10n ** BigInt(decimals), whole = n < 0n ? -n : n;
  const part = (whole % unit).toString().padStart(Number(decimals), '0').replace(/0+$/, '');
  return `${n < 0n ? '-' : ''}${(whole / unit).toLocaleString('en')}${decimals && part && `.${part}`}`;
}

// hbar writes weibars, of which 10^18 are one hbar.
export const hbar = (weibars) => (weibars === null || weibars === undefined ? 'unknown' : `${decimal(weibars, 18)} ℏ`);
export const tinybars = (t) => (t === undefined || t === null ? 'unknown' : `${(t / 1e8).toLocaleString('en', { maximumFractionDigits: 8 })} ℏ`);

// weibars reads an amount in hbar exactly.
export function weibars(text) {
  const match = /^(\d+)(?:\.(\d{1,18}))?$/.exec(text.trim().replaceAll(',', '') || '0');
  if (!match) throw new Error(`"${text}" is not an amount in hbar`);
  return '0x' + (BigInt(match[1]) * 10n ** 18n + BigInt((match[2] ?? '').padEnd(18, '0') || '0')).toString(16);
}

export function value(v) {
  if (Array.isArray(v)) return `[${v.map(value).join(', ')}]`;
  if (v !== null && typeof v === 'object') return `{${Object.entries(v).map(([k, x]) => `${k}: ${value(x)}`).join(', ')}}`;
  return String(v);
}

export const phrase = (p) => [h('strong', {}, p.name), '(', p.args.map((a, i) => [i > 0 && ', ', h('span', { class: 'soft', title: a.type }, a.name + ' '), a.type === 'address' ? link('account', a.value, short(a.value)) : code(value(a.value))]), ')'];

// duration writes milliseconds as people say them.
export function duration(ms) {
  if (ms < 1000) return `${ms < 10 && ms % 1 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`;
}

// age says how long ago a time was, in milliseconds since 1970; the whole time is its title.
// A chain for development may be ahead of the clock.
export const age = (at) => h('time', { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString(), class: 'state' }, Math.abs(Date.now() - at) < 1000 ? 'just now' : at > Date.now() ? `${duration(at - Date.now())} ahead` : `${duration(Date.now() - at)} ago`);

// consensus reads a time of Hedera, seconds with nine digits behind the point, in milliseconds.
export const consensus = (timestamp) => Number(timestamp.split('.')[0]) * 1000 + Number((timestamp.split('.')[1] ?? '0').padEnd(9, '0').slice(0, 9)) / 1e6;

export const hexOr = (text) => (/^0x([0-9a-fA-F]{2})*$/.test(text ?? '') ? text : '0x');

// zeros is the address of an entity's number.
export const zeros = (id) => `0x${BigInt(id.split('.')[2]).toString(16).padStart(40, '0')}`;

// aliases are the addresses by which accounts are known, by those of their numbers, which the mirror node often writes.
const aliases = new Map(), maxAliases = 2000;

// learnAliases asks for those of a list that are not known yet; alias then has them.
export async function learnAliases(addresses) {
  const open = [...new Set(addresses)].filter((a) => /^0x0{24}/.test(a ?? '') && BigInt(a) > 1000n && !aliases.has(a)).slice(0, 50);
  if (aliases.size > maxAliases) aliases.clear();
  await Promise.all(open.map(async (a) => {
    const entity = await optional(mirror(`accounts/0.0.${BigInt(a)}?limit=1`));
    aliases.set(a, entity?.evm_address ?? a);
  }));
}
export const alias = (address) => aliases.get(address) ?? address;

// ---- the state of the relay, as it comes ----

// relay has the newest state, and those of the last minute with the times at which they came.
export const now = { state: null, kept: [] };
const keptFor = 61_000;

// start ends when the first state has come.
export const start = () => new Promise((ready) => {
  if (now.state) ready();
  follow('events', 'the relay', (next) => {
    now.state = next;
    now.kept.push({ at: Date.now(), state: next });
    while (now.kept.length > 1 && now.kept[0].at < Date.now() - keptFor) now.kept.shift();
    document.getElementById('version').textContent = `${next.version}, chain ${next.chainId}`;
    ready();
    page.current?.fresh?.();
  });
});
