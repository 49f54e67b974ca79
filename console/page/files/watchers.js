// The watchers' views: watches, sinks, the processes of the fleet, and what was handed on.

import { code, facts, follow, h, json, keepFocus, link, number, optional, plural, refresher, short, table } from './frame.js';

const api = '../v1/';

// ---- drawing ----

const mark = (kind, text) => h('span', { class: `state ${kind}` }, text);
const int = (n) => Number(n ?? 0).toLocaleString('en');

function age(micros) {
  const seconds = Math.max(0, Date.now() / 1000 - micros / 1e6);
  return seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

// behind is the lag from which a watch is marked, in blocks: as docs/watch-alerts.yml has it.
const behind = 100;
const lag = (w) => h('td', { class: w.lag > behind ? 'number warn' : 'number' }, int(w.lag));

// left is how long a watch needs to catch up.
function left(w) {
  if (w.done) return mark('good', 'done');
  if (!w.eta) return w.lag > behind ? mark('warn', 'not known yet') : '';
  return w.eta < 120 ? `${w.eta} s` : w.eta < 7200 ? `${Math.round(w.eta / 60)} min` : `${(w.eta / 3600).toFixed(1)} h`;
}

// pace is what this page saw come, or what the process says while the watch catches up: what is old comes faster than the page reads it.
const pace = (w) => (w.lag > behind ? w.eventsPerSecond.toLocaleString('en', { maximumFractionDigits: 1 }) : rate(w.name));

const owner = (o) => [o.instance || mark('warn', 'nobody'), ` (${[o.factory && 'factory', o.shards > 0 && plural(o.shards, 'shard')].filter(Boolean).join(', ')})`];
const owners = (list) => (list.length ? list.map((o, i) => [i > 0 && ', ', owner(o)]) : mark('warn', 'nobody'));

// rates counts the events of each watch that came by the stream, second by second, for as long as a rate looks back.
const lookBack = 60; // seconds
const rates = { since: null, counts: new Map() };
const second = () => Math.floor(performance.now() / 1000);

function count(event) {
  const now = second(), own = rates.counts.get(event.watch) ?? new Map();
  rates.counts.set(event.watch, own.set(now, (own.get(now) ?? 0) + 1));
  for (const at of own.keys()) if (at <= now - lookBack) own.delete(at);
}

// rate is events a second in the time that the page has seen of the last minute.
function rate(watch) {
  const now = second();
  let n = 0;
  for (const [at, k] of rates.counts.get(watch) ?? []) if (at > now - lookBack) n += k;
  return (n / Math.min(lookBack, Math.max(1, now - (rates.since ?? now)))).toLocaleString('en', { maximumFractionDigits: 2 });
}

// view is one that draws itself again.
function view(title, draw) {
  const place = h('div', {});
  const again = async () => place.replaceChildren(...(await draw()).flat(Infinity).filter(Boolean));
  return { title, nodes: [place], draw: again, fresh: keepFocus(again, place) };
}

// ---- views ----

const watchesView = () => view('Watches', async () => {
  const { watches } = await json(`${api}watches`);
  return [table('What is followed, and how far it is; events a second are those that this page saw come in the last minute', ['Watch', 'Chain', '#Read up to', '#Head', '#Lag', '#Time left', '#Blocks/s', '#Final up to', '#Events/s', '#Contracts', 'Sinks', 'Owners'], watches.map((w) => [
    link('watch', w.name), String(w.chain), number(int(w.block)), number(int(w.head)), lag(w), number(left(w)), number(w.blocksPerSecond.toLocaleString('en', { maximumFractionDigits: 1 })), number(int(w.safe)), number(pace(w)), number(int(w.contracts)), w.sinks.join(', '), h('span', {}, owners(w.owners)),
  ]), 'Nothing is followed.')];
});

const shownContracts = 100;

const watchView = (name) => view(`Watch ${name}`, async () => {
  const [{ watches }, { contracts, cursor }, filled] = await Promise.all([
    json(`${api}watches`), json(`${api}contracts?watch=${encodeURIComponent(name)}&limit=${shownContracts}`), optional(json(`${api}watches/${encodeURIComponent(name)}/backfills`)),
  ]);
  const w = watches.find((x) => x.name === name);
  if (!w) throw new Error(`This process has no watch ${name}.`);
  return [
    facts([
      ['Chain', String(w.chain)], ['First block', int(w.start)], w.end !== undefined && ['Last block', [int(w.end), ' ', left(w)]], ['Read up to', `${int(w.block)} of ${int(w.head)}, ${int(w.lag)} behind`], ['Depth', w.depth],
      w.factory && ['Factory', code(w.factory)], ['Events', h('ul', { class: 'rules' }, w.events.map((e) => h('li', {}, code(e))))], ['Owners', owners(w.owners)],
      ['Handed on', h('a', { href: `#/events/${encodeURIComponent(name)}` }, 'its newest events')],
    ]),
    h('h2', {}, 'Contracts'),
    table(cursor ? `The first ${shownContracts} of ${int(w.contracts)}` : 'All contracts', ['Contract', 'Kind', 'Status', 'Fields', '#Found at', '#Read up to', '#Messages', 'Unit'], contracts.map((c) => [
      h('a', { href: `#/found/${encodeURIComponent(c.address)}`, class: 'mono', title: c.address }, short(c.address)), c.kind, c.status,
      h('span', {}, Object.entries(c.fields ?? {}).map(([k, v], i) => [i > 0 && ', ', `${k} `, code(v === null ? "–" : short(v))])), number(int(c.discoveredBlock)), number(int(c.lastMonitoredBlock)), number(int(c.messages)), code(c.unit),
    ]), 'No contract was found yet.'),
    h('h2', {}, 'Backfills'),
    table('The newest backfills', ['Backfill', '#From', '#To', 'Repeats', 'Acts', '#Messages', 'State'], (filled?.backfills ?? []).map((b) => [
      code(short(b.id)), number(int(b.from)), number(int(b.to)), b.repeat ? 'yes' : 'no', b.act ? 'yes' : 'no', number(int(b.messages)), b.done ? mark('good', 'done') : mark('warn', 'on its way'),
    ]), 'Nobody has asked for blocks to be read again.'),
  ];
});

const counted = 10_000; // of a backlog: the maximum that is counted

const sinksView = () => view('Sinks', async () => {
  const { sinks } = await json(`${api}sinks`);
  return [table('Where events go; an error is what this process has seen', ['Sink', 'Watches', 'State', '#Backlog', 'Oldest that waits', 'Last error'], sinks.map((s) => [
    code(s.sink), s.watches.join(', '), s.failingSince ? mark('bad', `has taken nothing for ${age(s.failingSince)}`) : mark('good', 'takes messages'),
    h('td', { class: s.backlog > 0 && s.failingSince ? 'number warn' : 'number' }, s.backlog >= counted ? `${int(counted)} or more` : int(s.backlog)),
    s.backlog > 0 && s.oldest ? age(s.oldest) : '', s.lastError ? h('span', { class: 'bad' }, s.lastError) : s.failingSince ? h('span', { class: 'soft' }, 'shown to administrators') : '',
  ]), 'The watches name no sink.')];
});

const nodeMarks = { active: 'good', stopping: 'warn', dead: 'bad' };

const nodesView = () => view('Processes', async () => {
  const { nodes } = await json(`${api}nodes`);
  return [table('The processes of the fleet, the newest heartbeat first', ['Process', 'State', '#Heartbeat', 'Share', '#Contracts', '#Read up to', 'Owns a factory', 'Version'], nodes.map((n) => [
    n.instance, mark(nodeMarks[n.status] ?? '', n.status), number(`${int(n.heartbeatAge)} s ago`), n.partitions > 1 ? `one of ${n.partitions}` : 'all', number(int(n.contracts)), number(int(n.currentBlock)), n.leader ? 'yes' : 'no', n.version,
  ]), 'No process has told of itself yet.')];
});

const shownEvents = 50;

function words(args) {
  const text = (v) => (v !== null && typeof v === 'object' ? JSON.stringify(v) : String(v));
  return Object.entries(args ?? {}).map(([name, v], i) => [i > 0 && ', ', h('span', { class: 'soft' }, `${name} `), code(short(text(v)))]);
}

const events = (caption, empty, filter) => async () => {
  const { events: list } = await json(`${api}events?newest=true&limit=${filter.address || filter.argument ? 500 : shownEvents}&${new URLSearchParams(filter)}`);
  return [table(caption, ['Event', 'Arguments', 'Watch', 'Contract', '#Block', 'Transaction', 'Time', '#Message'], list.map((e) => [
    h('span', {}, h('strong', {}, e.event), e.removed && [' ', mark('warn', 'removed')], e.backfill && h('span', { class: 'soft' }, ' backfill')), h('span', {}, words(e.args)), link('watch', e.watch),
    h('a', { href: `#/found/${encodeURIComponent(e.address)}`, class: 'mono', title: e.address }, short(e.address)), number(int(e.blockNumber)), code(short(e.transactionHash)),
    new Date(e.timestamp * 1000).toLocaleString(), number(int(e.seq)),
  ]), empty)];
};

const eventsView = (watch) => view(watch ? `Events of ${watch}` : 'Events', events(`The newest ${shownEvents} events that were handed on, as they come`, 'Nothing was handed on yet.', watch ? { watch } : {}));
const isAddress = (text) => /^0x[0-9a-fA-F]{40}$/.test(text);
const foundView = (text) => view(isAddress(text) ? 'Events of an address' : 'Events with an argument', async () => [
  h('p', { class: 'mono' }, text),
  isAddress(text) && await events('Its own events among the newest 500 that were handed on', 'It has no event among the newest 500. GET /v1/events?address= has all that are kept.', { address: text })(),
  await events('Events among the newest 500 that have it as an argument', 'No event among the newest 500 has it as an argument. GET /v1/events?argument= looks through all that are kept.', { argument: text })(),
]);

// ---- the part ----

let soon = null;

async function start() {
  soon ??= refresher(3000);
  rates.since ??= second();
  follow(`${api}events/stream`, 'the watchers', (event) => { count(event); soon(); });
}

function find(text) {
  if (text.length > 256) throw new Error('That is longer than any argument that is looked for.');
  return `#/found/${encodeURIComponent(text)}`;
}

export const watchers = {
  name: 'watchers', start, find, home: () => 'watches', wanted: 'Find events by contract or argument', example: '0x…, or amount=100',
  views: {
    watches: { text: 'Watches', make: watchesView }, events: { text: 'Events', make: eventsView }, sinks: { text: 'Sinks', make: sinksView }, processes: { text: 'Processes', make: nodesView },
    watch: { make: watchView, under: 'watches' }, found: { make: foundView, under: 'events' },
  },
};
