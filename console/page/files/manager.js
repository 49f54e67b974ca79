// The transaction manager's views: signers, intents, policies and switches.

import { svg } from './charts.js';
import { ask, bar, button, code, copied, facts, follow, form, h, json, keepFocus, link, may, number, optional, post, refresher, say, short, table } from './frame.js';

const api = '../v1/';

// ---- drawing ----

// amount writes a number of the chain's smallest unit.
const amount = (text) => (text === undefined || text === null ? h('span', { class: 'soft' }, 'unknown') : BigInt(text).toLocaleString('en'));

// perGas writes a price: in gwei where a unit has 18 digits, as people say it.
const perGas = (text, { decimals }) => (decimals === 18 && text ? `${(Number(text) / 1e9).toLocaleString('en', { maximumSignificantDigits: 6 })} gwei` : amount(text));

// money writes an amount in a chain's own unit, exactly as its title.
function money(text, { unit, decimals }) {
  if (!decimals || text === undefined || text === null) return amount(text);
  const digits = String(text).padStart(decimals + 1, '0'), whole = BigInt(digits.slice(0, -decimals)).toLocaleString('en'), part = digits.slice(-decimals).replace(/0+$/, '');
  const exact = `${whole}${part && '.'}${part} ${unit}`;
  const shown = part.slice(0, whole === '0' ? Math.max(4, part.search(/[1-9]/) + 3) : 4).replace(/0+$/, '');
  return h('span', { title: exact }, `${whole}${shown && '.'}${shown} ${unit}`);
}

// smallest reads an amount in a chain's own unit.
function smallest(text, { unit, decimals = 0 }) {
  const [, whole, part = ''] = /^(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  if (whole === undefined || part.length > decimals) throw new Error(`${text} is no amount: want a number such as 0.5 with up to ${decimals} digits behind the point${unit ? `, in ${unit}` : ''}.`);
  return (whole + part.padEnd(decimals, '0')).replace(/^0+(?=\d)/, '');
}

const time = (at) => (at ? new Date(at).toLocaleString() : '');
const mark = (kind, text) => h('span', { class: `state ${kind}` }, text);

// meanings are of statuses: how good each is, and what it says.
const meanings = {
  accepted: ['', 'it is stored and has no nonce yet'], assigned: ['', 'it has a nonce; nothing is signed'], signed: ['', 'it is signed; nothing has left the manager'],
  broadcast: ['', 'an endpoint has taken it'], unknown: ['warn', 'it may have left, and nobody has confirmed it; this never means failed'], mined: ['', 'it was executed in a block that may still be replaced'],
  confirmed: ['good', 'it was executed, and the block is final'], reverted: ['bad', 'it was executed and failed, and the block is final'], failed: ['bad', 'it can never have an effect'],
  cancelled: ['warn', 'it was never executed, and never will be'], expired: ['warn', 'its time was over before anything was signed'], replaced: ['warn', 'another payload took its place'],
};
const status = (name) => mark(meanings[name]?.[0] ?? '', name);

const since = (at) => {
  const seconds = Math.max(0, (Date.now() - new Date(at)) / 1000);
  return seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
};

const account = (address) => code(short(address));
const query = (filter) => new URLSearchParams(Object.entries(filter).filter(([, v]) => v !== undefined && v !== '')).toString();

// ---- signers ----

// slow is how long a head can wait before it is marked, in milliseconds.
const slow = 60_000;

function stateOf(s) {
  if (!s.ours) return mark('soft', 'its callers sign');
  if (s.halted) return mark('bad', `halted: ${s.halted}`);
  if (!s.enabled) return mark('warn', `paused: ${s.pausedReason ?? ''}`);
  if (s.draining) return mark('warn', 'draining');
  if (s.passedOver) return mark('warn', `passed over: ${s.passedOver}`);
  return mark('good', 'ready');
}

function head(s) {
  if (!s.oldestPendingAt) return '';
  const stuck = Date.now() - new Date(s.oldestPendingAt) > slow;
  return h('a', { href: `#/intents/${encodeURIComponent(query({ chain: s.chain, signer: s.address, nonce: s.chainNonce }))}`, class: stuck && 'warn' }, `${stuck ? 'stuck for' : 'waits for'} ${since(s.oldestPendingAt)}`);
}

// backlogs has what this page has seen of each signer's backlog: [when, how many].
const backlogs = new Map(), longest = 120;

function sparkline(s) {
  const key = `${s.chain}/${s.address}`, seen = backlogs.get(key) ?? [];
  backlogs.set(key, seen);
  if (!seen.length || Date.now() - seen.at(-1)[0] > 900) seen.push([Date.now(), s.pending]);
  if (seen.length > longest) seen.shift();
  const top = Math.max(1, ...seen.map(([, n]) => n)), begin = seen[0][0], span = Math.max(1, seen.at(-1)[0] - begin);
  const path = seen.map(([at, n], i) => `${i ? 'L' : 'M'}${(((at - begin) / span) * 96 + 2).toFixed(1)} ${(22 - (n / top) * 20).toFixed(1)}`).join('') + (seen.length === 1 ? 'h96' : '');
  return h('td', { class: 'number spark', 'data-points': seen.length }, svg('svg', { viewBox: '0 0 100 24', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${s.pending} now, ${top === 1 && !s.pending ? 0 : top} at most in the last ${Math.round(span / 1000)} s` },
    svg('path', { class: 'line one', d: path })), ` ${s.pending}`);
}

const low = (s) => s.balance !== undefined && s.minBalance !== undefined && BigInt(s.balance) < BigInt(s.minBalance);

function signersView() {
  const place = h('div', {});
  const draw = async () => {
    const [{ signers }, { switches }] = await Promise.all([json(`${api}signers`), json(`${api}kill-switch`)]);
    const rows = signers.map((s) => [
      h('a', { href: `#/intents/${encodeURIComponent(query({ chain: s.chain, signer: s.address }))}`, class: 'mono', title: s.address }, short(s.address)), s.chain, stateOf(s),
      h('td', { class: low(s) ? 'number warn' : 'number' }, money(s.balance, s), low(s) && ' too low'), sparkline(s), head(s), number(String(s.nextNonce)), number(String(s.chainNonce)), number(String(s.gaps)),
      s.owner ? `${s.owner}, term ${s.term}` : mark('warn', 'nobody'), s.lastError ? h('span', { title: `${s.errorStreak} in a row` }, s.lastError) : '', s.pools.join(', '),
    ]);
    const troubles = (await Promise.all(signers.filter((s) => s.ours).map((s) => trouble(s, draw)))).filter(Boolean);
    place.replaceChildren(...killed(switches),
      troubles.length ? table('What holds signers up', ['Signer', 'Chain', 'What it is', 'What helps'], troubles, '') : '',
      table('Signers, and what is on its way from them', ['Signer', 'Chain', 'State', '#Balance', '#Pending', 'Head of its line', '#Next nonce', '#On chain', '#Gaps', 'Owner', 'Last error', 'Pools'], rows, 'The manager has no signers.'));
  };
  return { title: 'Signers', nodes: [place], draw, fresh: keepFocus(draw, place) };
}

// trouble is a row for a signer that gets nothing new, or whose line does not go on: what it is, and what the caller may do about it.
async function trouble(s, draw) {
  const path = `${api}signers/${encodeURIComponent(s.chain)}/${encodeURIComponent(s.address)}`;
  const act = (text, what, done, sure) => button(text, async () => {
    if (sure && !confirm(sure)) return;
    await what();
    say(done);
    await draw();
  }, `${text} ${s.chain} ${s.address}`);
  const reconcile = (body) => () => post(`${path}/reconcile`, body);
  const what = [], help = [];
  if (s.halted) {
    what.push(`halted: ${s.halted}`);
    if (may('admin')) {
      help.push(act('Go on', reconcile(), `${short(s.address)} goes on.`, 'Has the cause been found? The signer signs again.'),
        act('Go on after others\u2019 transactions', reconcile({ adopt: true }), `${short(s.address)} goes on.`, 'Somebody else\u2019s transactions of this key wait. Go on after them?'),
        act('The chain began anew', reconcile({ reset: true }), `${short(s.address)} goes on.`, 'Forget what was on its way? Do this only if the chain was reset.'));
    }
  } else if (!s.enabled || s.draining) {
    what.push(s.enabled ? 'it is drained: it finishes what it has, and gets nothing new' : `paused${s.pausedReason ? `: ${s.pausedReason}` : ''}`);
    if (may('admin')) help.push(act('Resume', () => post(`${path}/resume`), `${short(s.address)} is used again.`));
  } else if (s.passedOver) {
    what.push(s.passedOver);
  }
  if (low(s) || /pay|fund|balance/.test(s.passedOver ?? '')) {
    if (may('admin')) help.push(act('Top up', () => ask(`${path}/top-up`, { method: 'POST' }), 'The treasury fills it up.'));
    help.push(['or send money to ', code(s.address)]);
  }
  if (s.oldestPendingAt && Date.now() - new Date(s.oldestPendingAt) > slow) {
    const { transactions: [t] } = await json(`${api}transactions?${query({ chain: s.chain, signer: s.address, nonce: s.chainNonce, limit: 1 })}`);
    what.push([what.length > 0 && '; ', `nonce ${s.chainNonce} waits for ${since(s.oldestPendingAt)}: `, t ? [link('intent', t.id, short(t.id)), ` is ${t.status}${t.waiting ? `, ${t.waiting}` : ''}`] : 'it fills a hole, and the manager raises its fee by itself']);
    if (t && !t.final && may('send')) help.push(cancelling(t, draw));
  }
  return what.length ? [code(short(s.address)), s.chain, h('span', { class: 'warn' }, what), h('span', { class: 'acts' }, help)] : null;
}

const cancelling = (t, draw) => button('Cancel the intent', async () => {
  if (!confirm('Cancel it? What may have left already can still be executed; the manager sends a transaction with the same nonce and a higher price.')) return;
  await post(`${api}transactions/${encodeURIComponent(t.id)}/cancel`);
  say('Its cancellation is asked for.');
  await draw();
}, `cancel ${t.id}`);

// killed warns of switches that are on.
const killed = (switches) => (Object.keys(switches ?? {}).length ? [h('p', { class: 'bad' }, `The kill switch is on: ${Object.keys(switches).join(', ')}. `, h('a', { href: '#/policies' }, 'Switches'))] : []);

// ---- intents ----

const statuses = Object.keys(meanings);

const intentRows = (list) => list.map((t) => [
  link('intent', t.id, short(t.id)), t.chain, status(t.status), t.waiting ?? (t.error && t.error.class !== t.status ? t.error.class : ''), t.signer ? account(t.signer) : '', number(t.nonce === undefined ? '' : String(t.nonce)),
  t.to ? account(t.to) : h('span', { class: 'soft' }, 'a new contract'), t.idempotencyKey ? code(short(t.idempotencyKey)) : '', t.hash ? code(short(t.hash)) : '', time(t.acceptedAt),
]);
const intentHeads = ['Intent', 'Chain', 'Status', 'Why it waits or failed', 'Signer', '#Nonce', 'To', 'Idempotency key', 'Hash', 'Accepted'];

// intentsView lists the newest intents that a filter selects: chain, signer, nonce, status, hash, idempotencyKey.
function intentsView(text = '') {
  const filter = Object.fromEntries(new URLSearchParams(text)), place = h('div', {});
  let pages = 1; // of the list that are shown
  const draw = async () => {
    const list = [];
    let cursor;
    for (let i = 0; i < pages; i++) {
      const more = await json(`${api}transactions?${query({ ...filter, limit: 50, cursor })}`);
      list.push(...more.transactions);
      if (!(cursor = more.cursor)) break;
    }
    place.replaceChildren(
      table('Intents, the newest first', intentHeads, intentRows(list), 'No intent is like this.'),
      cursor ? h('p', {}, button('Show older ones', async () => { pages++; await draw(); })) : '');
  };
  const choice = h('select', { id: 'status-filter', onchange: (e) => { location.hash = `#/intents/${encodeURIComponent(query({ ...filter, status: e.target.value }))}`; } },
    h('option', { value: '' }, 'all'), statuses.map((s) => h('option', { value: s, selected: s === filter.status }, s)));
  const others = Object.entries(filter).filter(([name]) => name !== 'status').map(([name, v]) => h('span', {}, `${name} `, code(short(v))));
  return {
    title: 'Intents', draw, fresh: keepFocus(draw, place), nodes: [
      h('div', { class: 'filter' }, h('label', { for: 'status-filter' }, 'Status'), choice, others, others.length > 0 && h('a', { href: '#/intents' }, 'show all')), place],
  };
}

// longestName is how long each name of an intent can be, for the API refuses longer ones.
const longestName = { id: 64, hash: 80, idempotencyKey: 256 };

// foundView looks for an intent by all that can name one.
async function foundView(text) {
  if (text.length <= longestName.id && !text.includes('/')) {
    try { return await intentView(text); } catch (err) { if (err.status !== 404) throw err; }
  }
  for (const name of ['hash', 'idempotencyKey'].filter((n) => text.length <= longestName[n])) {
    const { transactions } = await json(`${api}transactions?${query({ [name]: text, limit: 2 })}`);
    if (transactions.length === 1) return intentView(transactions[0].id);
    if (transactions.length) return intentsView(query({ [name]: text }));
  }
  throw new Error(`No intent has the id, the idempotency key or the hash ${text}.`);
}

const failure = (e) => h('span', { class: 'bad' }, `${e.class}: ${e.message}`);

async function intentView(id) {
  const place = h('div', {});
  let unit;
  const draw = async () => {
    const t = await json(`${api}transactions/${encodeURIComponent(id)}`);
    unit ??= (await optional(json(`${api}signers`)))?.signers.find((s) => s.chain === t.chain && s.unit) ?? {};
    const r = t.receipt;
    place.replaceChildren(
      h('p', { class: 'headline' }, copied(t.id)),
      facts([
        [t.final ? 'Fate' : 'Status', [status(t.status), ` – ${meanings[t.status]?.[1] ?? ''}`, t.final ? '; this never changes again' : '']],
        t.waiting && ['It waits', t.waiting], t.error && ['Error', failure(t.error)], t.cancelling && ['Cancelling', 'its cancellation was asked for'],
        ['Chain', t.chain], ['Kind', t.kind], t.idempotencyKey && ['Idempotency key', code(t.idempotencyKey)],
        t.hash && ['Hash', copied(t.hash)], t.signer && ['Signer', code(t.signer)], t.nonce !== undefined && ['Nonce', String(t.nonce)],
        ['To', t.to ? code(t.to) : 'a new contract'], t.value !== undefined && ['Value', money(t.value, unit)],
        t.data && t.data !== '0x' && ['Data', code(t.data.length > 400 ? `${t.data.slice(0, 400)}…` : t.data)], t.gas && ['Gas limit', t.gas.toLocaleString('en')],
        t.orderKey && ['Order key', code(t.orderKey)], t.pool && ['Pool', t.pool], t.subject && ['Subject', code(t.subject)], t.actor && ['Actor', code(t.actor)],
        t.replaces && ['Takes the place of', link('intent', t.replaces)], t.metadata && ['Metadata', code(JSON.stringify(t.metadata))],
        r && ['Receipt', [r.success ? mark('good', 'executed') : mark('bad', 'reverted'), ` in block ${r.blockNumber.toLocaleString('en')}, gas ${r.gasUsed.toLocaleString('en')}`, r.contractAddress ? [', made ', code(r.contractAddress)] : '', r.final ? '; the block is final' : '; the block may still be replaced']],
        ['Accepted', time(t.acceptedAt)],
      ].filter(Boolean)),
      !t.final && !t.cancelling && may('send') ? h('p', {}, cancelling(t, draw)) : '',
      h('h2', {}, 'Attempts'),
      table('Signed transactions of this intent, in order', ['Hash', '#Nonce', '#Version', 'Purpose', 'State', '#Maximum price', '#Offers', 'Signed', 'Sent', 'Error'], (t.attempts ?? []).map((a) => [
        h('code', { title: a.hash }, short(a.hash)), number(String(a.nonce)), number(String(a.version)), a.purpose, a.state === 'mined' ? mark('good', a.state) : a.state, number(perGas(a.maxFeePerGas, unit)), number(String(a.offers)), time(a.signedAt), time(a.sentAt), a.error ? failure(a.error) : '',
      ]), 'Nothing is signed yet.'),
      h('h2', {}, 'Timeline'), timeline(t.timeline ?? []));
  };
  await draw(); // an intent that is not there is an error of the view
  return { title: 'Intent', nodes: [place], fresh: keepFocus(draw, place) };
}

// timeline shows what happened when, and which step took longest.
function timeline(steps) {
  const at = steps.map((s) => new Date(s.at).getTime()), took = at.map((t, i) => (i === 0 ? 0 : t - at[i - 1]));
  const longest = Math.max(...took, 0), all = at.length ? at.at(-1) - at[0] : 0;
  return table('What happened, in order', ['Step', 'At (UTC)', '#After', 'Share', 'Note'], steps.map((s, i) => [
    h('strong', {}, s.kind.replace(/^tx\./, '')), new Date(s.at).toISOString().slice(0, 23).replace('T', ' '), number(i === 0 ? '' : `${took[i].toLocaleString('en')} ms`),
    h('td', {}, i > 0 && bar(took[i], all, took[i] === longest && longest > 0), took[i] === longest && longest > 0 ? 'longest' : ''),
    [s.body?.nonce !== undefined && `nonce ${s.body.nonce}`, s.body?.blockNumber && `block ${s.body.blockNumber}`, s.body?.waiting, s.body?.error && `${s.body.error.class}: ${s.body.error.message}`].filter(Boolean).join(', '),
  ]), 'Its steps are not kept any more.');
}

// sendView hands an intent over. Its idempotency key is drawn once, so that pressing the button again after a lost answer sends nothing twice.
const drawn = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');

async function sendView() {
  if (!may('send')) return { title: 'Send', nodes: [h('p', {}, 'Your key may look, and not send.')] };
  const { signers } = await json(`${api}signers`), chains = new Map(signers.filter((s) => s.ours).map((s) => [s.chain, s]));
  if (!chains.size) return { title: 'Send', nodes: [h('p', { class: 'soft' }, 'The manager has no signers.')] };
  const choice = h('select', {}, [...chains].map(([chain, s]) => h('option', { value: chain }, `${chain}${s.unit ? ` (${s.unit})` : ''}`)));
  const speed = h('select', {}, ['standard', 'slow', 'fast'].map((v) => h('option', {}, v)));
  let key = drawn(), body = '';
  return {
    title: 'Send', nodes: [
      h('p', {}, 'A signer of the manager sends it and pays for it. A deployment has no receiver, and the code as its data.'),
      form([['Chain', 'chain', choice], ['To', 'to', { maxlength: 80, placeholder: '0x…, none for a deployment' }], ['Amount', 'value', { inputmode: 'decimal', placeholder: '0, in the chain\u2019s unit' }],
        ['Function', 'function', { maxlength: 1000, placeholder: 'transfer(address,uint256), or none' }], ['Arguments', 'args', { placeholder: '["0x…","1000"], as JSON' }],
        ['Or data', 'data', { placeholder: '0x…' }], ['Speed', 'speed', speed]], 'Send it', async (v) => {
        let args;
        try { args = v.args ? JSON.parse(v.args) : undefined; } catch { throw new Error('The arguments are not JSON: want a list such as ["0x…","1000"].'); }
        const unit = chains.get(v.chain), kept = Object.entries({ to: v.to, data: v.data, function: v.function }).filter(([, text]) => text);
        const intent = JSON.stringify({ chain: v.chain, ...Object.fromEntries(kept), args, value: smallest(v.value || '0', unit), speed: v.speed });
        if (body && body !== intent) key = drawn(); // another one is meant
        body = intent;
        const t = await (await ask(`${api}transactions`, { method: 'POST', body: intent, headers: { 'Idempotency-Key': key } })).json();
        say('It is accepted.');
        location.hash = `#/intent/${encodeURIComponent(t.id)}`;
      })],
  };
}

// ---- policies, budgets, switches ----

const ruleWords = {
  chains: 'only on', receivers: 'only to', selectors: 'only the functions', maxValue: 'maximum value', maxGasPrice: 'maximum price per gas', maxGas: 'maximum gas',
  tenantPerMinute: 'a tenant\u2019s transactions a minute:', actorPerMinute: 'an actor\u2019s transactions a minute:', tenantDailyGas: 'a tenant\u2019s budget a day:', actorDailyGas: 'an actor\u2019s budget a day:',
};
const shownItems = 5; // of a list in a rule

const rule = (name, v) => h('li', {}, `${ruleWords[name] ?? name} `, Array.isArray(v)
  ? [v.slice(0, shownItems).map((x, i) => [i > 0 && ', ', code(x)]), v.length > shownItems && ` and ${v.length - shownItems} more`] : code(typeof v === 'number' || /^\d+$/.test(v) ? BigInt(v).toLocaleString('en') : v));

function policiesView() {
  const place = h('div', {});
  const draw = async () => {
    const [{ policies }, { day, budgets }, { switches }] = await Promise.all([json(`${api}policies`), json(`${api}budgets`), json(`${api}kill-switch`)]);
    const on = Object.entries(switches ?? {});
    place.replaceChildren(
      h('h2', {}, 'Kill switch'),
      on.length ? table('Switches that are on', ['What it stops', 'Why', 'Act'], on.map(([scope, why]) => [code(scope), why, may('admin') ? button('Let it go on', async () => {
        await post(`${api}kill-switch`, { scope, on: false });
        say(`${scope} goes on.`);
        await draw();
      }, `on ${scope}`) : '']), '') : h('p', { class: 'good' }, 'No switch is on: new intents are accepted.'),
      h('h2', {}, 'Policies'),
      table('What intents may do', ['Policy', 'Tenant', 'State', 'Rules'], policies.map((p) => [
        code(short(p.id)), p.tenant || 'all', p.disabled ? mark('warn', 'off') : mark('good', 'on'),
        Object.keys(p.rules).length ? h('ul', { class: 'rules' }, Object.entries(p.rules).map(([name, v]) => rule(name, v))) : h('span', { class: 'soft' }, 'none'),
      ]), 'There is no policy: every intent of a caller with the role send is accepted.'),
      h('h2', {}, 'Budgets'),
      table(`Used on ${day} (UTC), in the chain\u2019s smallest unit`, ['Policy', 'Tenant', 'Actor', '#Limit', '#Held', '#Spent', 'Used'], budgets.map((b) => {
        const used = Number((BigInt(b.held) + BigInt(b.settled)) * 1000n / (BigInt(b.limit) || 1n)) / 10;
        return [code(short(b.policy)), b.tenant || 'none', b.actor ?? '', number(amount(b.limit)), number(amount(b.held)), number(amount(b.settled)), h('td', {}, bar(Math.min(used, 100), 100, used > 80), `${used} %`)];
      }), 'No budget was used today.'));
  };
  return {
    title: 'Policies and switches', draw, fresh: keepFocus(draw, place), nodes: [place,
      may('admin') && [h('h2', {}, 'Stop something'), h('p', {}, 'What is signed already is followed to its end.'),
        form([['What', 'scope', { required: true, placeholder: 'all, chain/ID, pool/ID/NAME or signer/ID/ACCOUNT' }], ['Why', 'reason', { maxlength: 256 }]], 'Stop it', async (v) => {
          if (!confirm(`Stop ${v.scope}? No new intent of it is signed until you let it go on.`)) return;
          await post(`${api}kill-switch`, { scope: v.scope, on: true, reason: v.reason });
          say(`${v.scope} is stopped.`);
          await draw();
        })]],
  };
}

// ---- the part ----

let soon = null;

async function start() {
  soon ??= refresher(5000);
  follow(`${api}transactions/stream`, 'the transaction manager', soon);
}

export const manager = {
  name: 'transaction manager', start, home: () => 'signers', find: (text) => `#/found/${encodeURIComponent(text)}`,
  wanted: 'Find an intent by its id, idempotency key or hash', example: 'id, key or 0x…',
  views: {
    signers: { text: 'Signers', make: signersView }, intents: { text: 'Intents', make: intentsView }, send: { text: 'Send', make: sendView }, policies: { text: 'Policies and switches', make: policiesView },
    intent: { make: intentView, under: 'intents' }, found: { make: foundView, under: 'intents' },
  },
};
