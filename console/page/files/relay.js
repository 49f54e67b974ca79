// The relay's part of the page: which views it has, and those of an operator besides the lanes.

import { code, facts, h, keepFocus, number, table } from './frame.js';
import { now, start, tinybars } from './state.js';
import { abiView, accountView, accountsView, blockView, foundView, homeView, tokenView, tokensView, transactionsView } from './chain.js';
import { chartsView, strip } from './charts.js';
import { lanesView, listen } from './lanes.js';
import { transactionView } from './transaction.js';

// quantile is the bound under which so many of the calls were.
function quantile(buckets, bounds, calls, q) {
  const at = buckets.findIndex((n) => n >= q * calls);
  return at < 0 ? `> ${bounds.at(-1)}` : `≤ ${bounds[at]}`;
}

const rateOver = 10_000; // milliseconds

function methodsView() {
  const place = h('div', {});
  const draw = () => {
    const { state, kept } = now, older = kept.find((k) => k.at >= Date.now() - rateOver) ?? kept[0], span = Math.max((kept.at(-1).at - older.at) / 1000, 1);
    const before = new Map(older.state.methods.map((m) => [m.name, m]));
    const calls = new Map(state.methods.map((m) => [m.name, []]));
    for (let i = 1; i < kept.length; i++) {
      const was = new Map(kept[i - 1].state.methods.map((m) => [m.name, m.calls]));
      for (const m of kept[i].state.methods) calls.get(m.name)?.push([kept[i].at, Math.max(0, m.calls - (was.get(m.name) ?? 0))]);
    }
    const seconds = (list) => { const out = new Array(60).fill(0); for (const [at, n] of list) { const i = 59 - Math.floor((Date.now() - at) / 1000); if (i >= 0 && i < 60) out[i] += n; } return out; };
    const rows = state.methods.map((m) => {
      const b = before.get(m.name) ?? { calls: 0, failed: 0, millis: 0, buckets: m.buckets.map(() => 0) };
      const busy = m.calls > b.calls;
      const n = busy ? m.calls - b.calls : m.calls, buckets = busy ? m.buckets.map((c, i) => c - b.buckets[i]) : m.buckets;
      return [code(m.name), h('td', { class: 'spark' }, strip('Last minute', seconds(calls.get(m.name)), (_, all) => all.toLocaleString('en'), 'one')), number(((m.calls - b.calls) / span).toFixed(1)), number(((busy ? m.millis - b.millis : m.millis) / n).toFixed(1)),
        number(quantile(buckets, m.bounds, n, 0.5)), number(quantile(buckets, m.bounds, n, 0.99)), number(m.calls.toLocaleString('en')), number(m.failed.toLocaleString('en'))];
    });
    place.replaceChildren(table('Methods: rates of the last ten seconds, times of these calls or, if there were none, of all', ['Method', 'Last minute', '#Calls/s', '#Mean ms', '#Half, ms', '#99 %, ms', '#Calls', '#Errors'], rows, 'Nobody has called a method yet.'));
  };
  return { title: 'Methods', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

function upstreamsView() {
  const place = h('div', {});
  const draw = () => {
    const rows = now.state.upstreams.map((u) => [u.kind, code(u.name), u.up ? h('span', { class: 'good' }, 'up') : h('span', { class: 'bad' }, 'down'),
      u.since ? new Date(u.since).toLocaleTimeString() : '', u.note ?? '', u.cause ?? '']);
    const c = now.state.costs, share = c.limit > 0 && c.remaining !== undefined ? c.remaining / c.limit : undefined;
    place.replaceChildren(
      table('What the relay depends on', ['Kind', 'Name', 'State', 'Since', 'Note', 'Cause'], rows, 'The relay depends on nothing.'),
      h('h2', {}, 'Cost'),
      facts([['Balance of the operator', tinybars(c.balance)], ['Left of this window\u2019s budget', c.limit > 0 ? `${tinybars(c.remaining)} of ${tinybars(c.limit)}` : 'there is no budget']]),
      share !== undefined && h('meter', { min: 0, max: 1, low: 0.2, value: share, 'aria-label': 'left of the budget' }) || '');
  };
  return { title: 'Upstreams and cost', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

// ---- the part ----

const dev = () => now.state.dev;

const views = {
  home: { text: 'Home', make: homeView, when: dev }, lanes: { text: 'Lanes', make: lanesView }, blocks: { text: 'Blocks', make: homeView, when: () => !dev() }, charts: { text: 'Charts', make: chartsView }, accounts: { text: 'Accounts', make: accountsView, when: dev },
  tokens: { text: 'Tokens', make: tokensView, when: dev }, methods: { text: 'Methods', make: methodsView }, upstreams: { text: 'Upstreams', make: upstreamsView },
  abi: { text: 'ABI', make: abiView }, block: { make: blockView, under: 'blocks' }, tx: { make: (hash) => transactionView(hash, blockView), under: 'blocks' }, transactions: { make: transactionsView, under: 'blocks' }, account: { make: accountView, under: 'accounts' }, token: { make: tokenView, under: 'tokens' }, found: { make: foundView },
};

// find leads to what a text names: by itself where its form tells, otherwise where it is looked for.
function find(text) {
  if (/^0x[0-9a-f]{64}$/i.test(text)) return `#/tx/${text.toLowerCase()}`;
  if (/^(0x)?[0-9a-f]{40}$/i.test(text)) return `#/account/0x${text.toLowerCase().replace(/^0x/, '')}`;
  if (/^\d+$/.test(text.replaceAll(',', '')) || /^0x[0-9a-f]{1,16}$/i.test(text)) return `#/block/${BigInt(text.replaceAll(',', ''))}`;
  if (text) return `#/found/${encodeURIComponent(text)}`;
  throw new Error('Write what to find: a hash, an address, an id such as 0.0.1002, the number of a block, or the symbol of a token.');
}

export const relay = {
  name: 'relay', views, start: async () => { await start(); listen(); }, find, home: () => (dev() ? 'home' : 'lanes'),
  wanted: 'Find a block, a transaction, an account or a token', example: '0x…, 0.0.1002, a block or a token',
};
