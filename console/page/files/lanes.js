// The lanes, drawn: each sender is a track, and each of its transactions a box, in the order of the nonces. What happened to them
// comes from the relay step by step; the page keeps the steps of the last minute and can play them again.

import { ask, button, failed, h, json, keepFocus, page, plural, say, short } from './frame.js';
import { duration, now } from './state.js';

// ---- the steps, as they come ----

const keptFor = 60_000, maxKept = 8000;

// steps are those of the last minute. clock is how far the relay's clock is ahead of this one's.
const steps = { list: [], next: 0, clock: 0, timer: null };

const relayTime = () => Date.now() + steps.clock;

// listen asks for what is new: twice a second while somebody watches the lanes, otherwise every other second, so that the last
// minute can be played to whoever comes then.
export function listen() {
  steps.timer ??= setTimeout(async () => {
    let full = false;
    try {
      const more = await json(`steps?from=${steps.next}`);
      full = more.steps.length === 1000;
      steps.clock = more.now - Date.now();
      if (more.next < steps.next) live.reset(); // the relay was started again
      steps.next = more.next;
      for (const s of more.steps) { live.take(s); note(s); }
      steps.list.push(...more.steps);
      const old = relayTime() - keptFor;
      let gone = Math.max(0, steps.list.length - maxKept);
      while (gone < steps.list.length && steps.list[gone].at < old) gone++;
      steps.list.splice(0, gone);
      if (more.steps.length) page.current?.stepped?.();
    } catch { /* the stream of states says what is wrong */ }
    steps.timer = null;
    if (full) listen();
    else setTimeout(listen, document.hidden || !page.current?.stepped ? 2000 : 400);
  }, 0);
}

// executedPerSecond adds up what the network executed in each of the last seconds, the newest last: amount says how much a hash counts.
export function executedPerSecond(seconds, amount = () => 1) {
  const sums = new Array(seconds).fill(0), end = relayTime();
  for (const s of steps.list) {
    const at = seconds - 1 - Math.floor((end - s.at) / 1000);
    if (s.step === 'consensus' && at >= 0 && at < seconds) sums[at] += amount(s.hash);
  }
  return sums;
}

// executedAt is when a transaction was executed, by this clock, if the page has heard of it. A chain for development may have another.
const executed = new Map(), maxExecuted = 10_000;
export const executedAt = (hash) => executed.get(hash);

function note(step) {
  if (step.step === 'consensus') executed.set(step.hash, step.at - steps.clock);
  if (executed.size > maxExecuted) executed.delete(executed.keys().next().value);
}

// ---- what they add up to ----

const maxLanes = 200, maxBoxes = 240;

// states are what a box can be, with what it says in the legend.
const states = {
  waiting: 'waits in line', holding: 'has the turn', node: 'at a node', executed: 'executed', reverted: 'executed and failed', refused: 'refused', unknown: 'no verdict yet', missing: 'missing nonce',
};
const final = new Set(['executed', 'reverted', 'refused']);

// tracks makes lanes of steps. Both are bounded: the lane that was quiet longest, and the lowest nonces, make room.
function tracks() {
  const lanes = new Map();
  const box = (s) => {
    let lane = lanes.get(s.sender);
    if (!lane) {
      lane = { sender: s.sender, boxes: new Map(), since: s.at, at: s.at };
      lanes.set(s.sender, lane);
      if (lanes.size > maxLanes) lanes.delete([...lanes.values()].reduce((a, b) => (b.at < a.at ? b : a)).sender);
    }
    lane.at = s.at;
    let b = lane.boxes.get(s.nonce);
    if (!b || b.hash !== s.hash && (final.has(b.state) ? b.state === 'refused' : s.step === 'consensus')) {
      if (![...lane.boxes.values()].some((x) => !final.has(x.state))) lane.since = s.at;
      b = { nonce: s.nonce, hash: s.hash, state: 'waiting', first: s.at, times: {} };
      lane.boxes.set(s.nonce, b);
      if (lane.boxes.size > maxBoxes) lane.boxes.delete(Math.min(...lane.boxes.keys()));
    }
    return b.hash === s.hash ? b : null;
  };
  return {
    lanes, reset: () => lanes.clear(),
    take(s) {
      const b = box(s);
      if (!b || final.has(b.state) && b.state !== 'refused') return;
      b.times[s.step] = s.at;
      b.at = s.at;
      switch (s.step) {
        case 'received': case 'queued': b.state = 'waiting'; break;
        case 'submitted': case 'accepted': b.state = 'node'; b.node = s.node; break;
        case 'consensus': b.state = s.status === 'SUCCESS' ? 'executed' : 'reverted'; b.status = s.status; break;
        case 'rejected': b.state = 'refused'; b.status = s.error || s.status; break;
        case 'unknown': b.state = 'unknown'; break;
      }
    },
  };
}

const live = tracks();

// ---- drawing ----

const shownLanes = 24, shownBoxes = 120, closeGap = 3;

// laneOf is what the relay says of a sender's lane at a moment.
const laneOf = (state, sender) => state.lanes.find((l) => l.sender.toLowerCase() === sender.toLowerCase());

// row is one track. It stays the same element as long as it is shown, and so do its boxes.
function row(sender) {
  const who = h('a', { href: `#/account/${sender}`, class: 'mono', title: sender }, short(sender)), what = h('span', {}), window_ = h('span', { class: 'window', hidden: true }, h('span', {})), act = h('span', {});
  const boxes = h('ol', { class: 'boxes', 'aria-label': `Transactions of ${sender}, by nonce` });
  const node = h('li', { class: 'lane' }, h('p', {}, who, ' ', what, window_, act), boxes);
  const drawn = new Map();
  let order = '', words = '';

  boxes.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], links = [...boxes.querySelectorAll('a')], at = links.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
  });

  const item = (key, make, className, title, label) => {
    let li = drawn.get(key);
    if (!li) drawn.set(key, li = h('li', {}, make()));
    const inner = li.firstChild;
    if (inner.className !== className) inner.className = className;
    if (inner.title !== title) { inner.title = title; inner.setAttribute('aria-label', label); }
    return li;
  };

  // draw returns nothing; info is what the relay says of the lane, if it is in use.
  const draw = (lane, info, at, window) => {
    const holder = info?.held ? info.nonce ?? 0 : undefined; // nonce 0 is left out
    const list = [...(lane?.boxes.values() ?? [])];
    const have = new Set(list.map((b) => b.nonce));
    for (const n of info?.nonces ?? []) if (!have.has(n)) { list.push({ nonce: n, state: 'waiting', times: {} }); have.add(n); }
    if (holder !== undefined && !have.has(holder)) list.push({ nonce: holder, state: 'holding', times: {} });
    list.sort((a, b) => a.nonce - b.nonce);
    const shown = list.slice(-shownBoxes), first = shown.find((b) => !final.has(b.state));
    const gap = info && !info.held && !info.heldBy && info.expected !== undefined && first && first.nonce > info.expected;
    const items = [];
    if (list.length > shown.length) items.push(['more', `${(list.length - shown.length).toLocaleString('en')} before`]);
    let last = gap && shown[0].nonce > info.expected ? info.expected - 1 : shown.length ? shown[0].nonce - 1 : 0;
    for (const b of shown) {
      const missing = b.nonce - last - 1;
      if (missing > 0 && missing <= closeGap) for (let n = last + 1; n < b.nonce; n++) items.push([n]);
      else if (missing > 0) items.push([last + 1, missing]);
      items.push(b);
      last = b.nonce;
    }
    const tab = document.activeElement && boxes.contains(document.activeElement) ? document.activeElement : null;
    const nodes = items.map((b) => {
      if (!Array.isArray(b)) {
        const state = b.state === 'waiting' && holder === b.nonce ? 'holding' : b.state;
        const took = b.first && b.at > b.first ? `, ${duration(b.at - b.first)}` : '', title = `nonce ${b.nonce}: ${states[state]}${took}${b.status && b.status !== 'SUCCESS' ? `, ${b.status}` : ''}`;
        return item(`${b.nonce} ${b.hash ?? ''}`, () => (b.hash ? h('a', { href: `#/tx/${b.hash}` }, String(b.nonce)) : h('span', { role: 'img' }, String(b.nonce))), `box ${state}`, title, title);
      }
      if (b[0] === 'more') return item('more', () => h('span', { class: 'soft' }, b[1]), 'soft', b[1], b[1]);
      const title = b[1] ? `${plural(b[1], 'nonce')} missing, from ${b[0]} on` : `nonce ${b[0]} is missing`;
      return item(`missing ${b[0]} ${b[1] ?? ''}`, () => h('span', { role: 'img' }, b[1] ? `+${b[1]}` : String(b[0])), 'box missing', title, title);
    });
    const keys = items.map((b) => (Array.isArray(b) ? `-${b}` : b.nonce + (b.hash ?? ''))).join();
    if (keys !== order) {
      order = keys;
      boxes.replaceChildren(...nodes);
      for (const [key, li] of drawn) if (li.parentNode !== boxes) drawn.delete(key);
      // One box of a track is reached by Tab, the others from there with the arrow keys.
      const links = [...boxes.querySelectorAll('a')];
      links.forEach((a, i) => { a.tabIndex = i === links.length - 1 ? 0 : -1; });
      if (tab?.isConnected) tab.focus({ preventScroll: true });
    }
    // How much of the time for a missing nonce is left, or of the holder's time.
    const waitsSince = gap ? first.first : undefined;
    const left = gap && waitsSince && window ? Math.max(0, 1 - (at - waitsSince) / window) : info?.held && info.left > 0 ? info.left / (info.left + info.heldFor) : undefined;
    window_.hidden = left === undefined;
    if (left !== undefined) window_.firstChild.style.width = `${(100 * left).toFixed(1)}%`;
    window_.title = gap ? 'the time that is left for the missing nonce' : 'the time that is left of the turn';
    const text = [
      info?.held ? `here, nonce ${holder}` : info?.heldBy ? `relay ${info.heldBy} has the turn` : info?.waiting ? 'nobody has the turn' : '',
      gap && `waits for ${info.expected}`, info?.waiting ? plural(info.waiting, 'transaction waits', 'transactions wait') : '',
      list.length > 0 && !info && summary(list), info && `kept by ${info.strategy}`,
    ].filter(Boolean).join(' · ');
    if (text !== words) { what.textContent = words = text; what.className = gap ? 'warn' : info ? '' : 'soft'; }
    const turn = Boolean(info && (info.held || info.heldBy) && !replay.on);
    if (turn !== act.hasChildNodes()) {
      act.replaceChildren(...(turn ? [' ', button('End the turn', async () => {
        if (!confirm(`End the turn of ${sender}? The next in line goes; what the holder has sent may still execute.`)) return;
        const done = await json(`../locks/${sender}/release`, { method: 'POST' });
        say(done.released ? 'The turn was ended.' : 'Nobody had the turn any more.');
      }, `end ${sender}`)] : []));
    }
  };
  return { node, draw };
}

function summary(list) {
  const counts = {};
  for (const b of list) counts[b.state] = (counts[b.state] ?? 0) + 1;
  return Object.entries(counts).map(([state, n]) => `${n.toLocaleString('en')} ${states[state]}`).join(', ');
}

// ---- the last minute again ----

// replay shows the lanes as they were so many milliseconds ago; at is that moment in the relay's time.
const replay = { on: false, at: 0, end: 0, playing: null };

export function lanesView() {
  const rows = new Map(), list = h('ul', { class: 'lanes' }), note = h('p', { class: 'soft', role: 'note' }), top = h('div', {});
  const slider = h('input', { type: 'range', min: 0, max: keptFor, step: 100, value: keptFor, id: 'moment', 'aria-label': 'Moment of the last minute' });
  const shows = h('output', { for: 'moment' }, 'now'), play = button('Replay the last minute', async () => { replay.playing ? stop() : begin(); }, 'replay'), back = button('Back to now', async () => { stop(); replay.on = false; slider.value = keptFor; draw(); }, 'now');
  let past = tracks(), applied = 0;
  clearInterval(replay.playing);
  Object.assign(replay, { on: false, playing: null });

  const stop = () => { clearInterval(replay.playing); replay.playing = null; };
  const freeze = () => {
    if (!replay.on) Object.assign(replay, { on: true, end: relayTime(), steps: [...steps.list], states: [...now.kept] });
  };
  const begin = () => {
    replay.on = false;
    freeze();
    const from = replay.steps[0]?.at ?? replay.end;
    replay.at = Math.max(replay.end - keptFor, Math.min(from - 500, replay.end));
    let last = performance.now();
    replay.playing = setInterval(() => {
      if (page.current?.lanes !== list) { stop(); replay.on = false; return; }
      const t = performance.now();
      replay.at = Math.min(replay.end, replay.at + (t - last));
      last = t;
      slider.value = keptFor - (replay.end - replay.at);
      if (replay.at >= replay.end) stop();
      draw();
    }, 100);
    draw();
  };
  slider.addEventListener('input', () => {
    stop();
    freeze();
    replay.at = replay.end - (keptFor - Number(slider.value));
    if (Number(slider.value) === keptFor) replay.on = false;
    draw();
  });

  // before makes the lanes of the moment that is replayed, from the ones it made last if time has only gone on.
  const before = () => {
    if (applied > replay.steps.length || applied > 0 && replay.steps[applied - 1].at > replay.at) { past = tracks(); applied = 0; }
    while (applied < replay.steps.length && replay.steps[applied].at <= replay.at) past.take(replay.steps[applied++]);
    const at = replay.at - steps.clock, state = replay.states.findLast((k) => k.at <= at + 1000)?.state ?? replay.states[0]?.state ?? now.state;
    // A state is told once a second, the steps are exact: a nonce that has its verdict does not wait.
    return { lanes: past.lanes, state, at: replay.at };
  };

  const draw = () => {
    const { lanes, state, at } = replay.on ? before() : { lanes: live.lanes, state: now.state, at: relayTime() };
    const senders = new Map();
    for (const l of lanes.values()) senders.set(l.sender.toLowerCase(), { sender: l.sender, lane: l, since: l.since });
    for (const l of state.lanes) {
      const key = l.sender.toLowerCase();
      senders.set(key, { since: at, ...senders.get(key), sender: l.sender, info: l });
    }
    const all = [...senders.values()].sort((a, b) => (Boolean(b.info) - Boolean(a.info)) || b.since - a.since || a.sender.localeCompare(b.sender));
    const shown = all.slice(0, shownLanes).sort((a, b) => b.since - a.since || a.sender.localeCompare(b.sender));
    const nodes = shown.map((s) => {
      let r = rows.get(s.sender.toLowerCase());
      if (!r) rows.set(s.sender.toLowerCase(), r = row(s.sender));
      r.draw(s.lane, s.info, at, state.window);
      return r.node;
    });
    if (nodes.length !== list.children.length || nodes.some((n, i) => n !== list.children[i])) {
      const focus = document.activeElement;
      list.replaceChildren(...nodes);
      if (list.contains(focus)) focus.focus({ preventScroll: true });
    }
    for (const [key, r] of rows) if (!r.node.isConnected) rows.delete(key);
    const inUse = state.allLanes ?? state.lanes.length, more = Math.max(all.length, inUse) - shown.length;
    note.textContent = [
      !inUse && !replay.on ? `No transaction is on its way.${all.length ? ' These were the last.' : ' A lane shows here as soon as a sender has one.'}` : '', more > 0 ? `${plural(more, 'further lane')} ${more === 1 ? 'is' : 'are'} not drawn.` : '',
    ].filter(Boolean).join(' ');
    const ago = replay.end - replay.at;
    shows.textContent = replay.on ? (ago < 100 ? 'the moment at which the replay began' : `${(ago / 1000).toFixed(1)} s before that`) : 'now';
    play.textContent = replay.playing ? 'Pause' : 'Replay the last minute';
    back.hidden = !replay.on;
  };

  const drawTop = () => {
    const s = now.state;
    top.replaceChildren(h('p', { class: 'filter' },
      h('span', {}, 'The order is ', s.ordering ? h('span', { class: s.ordered === '0 % of senders' ? 'bad' : 'good' }, s.ordered === 'all senders' ? 'kept' : `kept for ${s.ordered}`) : h('span', { class: 'bad' }, 'not kept'), `; a missing nonce has ${duration(s.window)}.`),
      button(s.ordering ? 'Stop keeping the order' : 'Keep the order', async () => {
        if (now.state.ordering && !confirm('Without the order, a burst of one sender fails in part. Stop keeping it?')) return;
        await ask('../ordering', { method: 'PUT', body: JSON.stringify({ enabled: !now.state.ordering }) });
      }, 'order')));
  };
  let told = '';
  const both = () => {
    const s = now.state, text = `${s.ordering} ${s.ordered} ${s.window}`;
    if (text !== told) { told = text; drawTop(); }
    draw();
  };
  const legend = h('ul', { class: 'legend', 'aria-label': 'What the boxes mean' }, Object.entries(states).map(([state, text]) => h('li', {}, h('span', { class: `box ${state}`, 'aria-hidden': 'true' }), text)));
  const stepped = () => { try { if (!replay.on) draw(); } catch (err) { failed(err); } };
  return {
    title: 'Lanes', draw: both, fresh: keepFocus(both, top), stepped, lanes: list,
    nodes: [top, legend, h('div', { class: 'replay' }, play, slider, shows, back), note, list],
  };
}
