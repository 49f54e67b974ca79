// Charts of the relay's last minute, quarter of an hour or hour, drawn as SVG.

import { h, json, keepFocus } from './frame.js';
import { duration, tinybars } from './state.js';

const svgSpace = 'http://www.w3.org/2000/svg';
export function svg(tag, properties, ...children) {
  const node = document.createElementNS(svgSpace, tag);
  for (const [name, v] of Object.entries(properties)) if (v !== undefined && v !== false) node.setAttribute(name, v);
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

const width = 320, height = 120;

// nice is the next number above one that people like on a scale.
export function nice(n) {
  if (n <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].map((f) => f * unit).find((x) => x >= n * 0.999);
}

// line is a path through values, with holes where there is none.
function line(points, x, y) {
  let path = '', pen = false;
  points.forEach((v, i) => {
    if (v === null || v === undefined) { pen = false; return; }
    path += `${pen ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = true;
  });
  // A value between two holes is a dot.
  return path.replace(/M([\d.]+) ([\d.]+)(?=M|$)/g, 'M$1 $2h5');
}

// chart draws lines over time: [name, class, values]. say writes one value.
function chart(title, lines, times, say, span) {
  const top = nice(Math.max(...lines.flatMap(([, , values]) => values.filter((v) => v !== null)), 0));
  const end = times.at(-1) ?? Date.now(), begin = end - span * 1000;
  const x = (i) => ((times[i] - begin) / (span * 1000)) * width, y = (v) => height - (Math.min(v, top) / top) * (height - 6);
  const newest = (values) => values.findLast((v) => v !== null && v !== undefined);
  const words = lines.map(([name, , values]) => `${name}: now ${newest(values) === undefined ? 'nothing' : say(newest(values))}, at most ${say(Math.max(0, ...values.filter((v) => v !== null)))}`).join('; ');
  const cursor = svg('line', { class: 'cursor', y1: 0, y2: height, visibility: 'hidden' });
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}. ${words}` },
    [0.25, 0.5, 0.75].map((f) => svg('line', { class: 'grid', x1: 0, x2: width, y1: y(top * f), y2: y(top * f) })),
    lines.map(([, kind, values]) => svg('path', { class: `line ${kind}`, d: line(values, x, y) })), cursor);
  const legend = h('p', { class: 'values' });
  const tell = (at) => {
    legend.replaceChildren(...lines.flatMap(([name, kind, values]) => {
      const v = at === undefined ? newest(values) : values[at];
      return [h('span', { class: `key ${kind}`, 'aria-hidden': 'true' }), `${name} `, h('strong', {}, v === null || v === undefined ? '–' : say(v)), ' '];
    }), h('span', { class: 'soft' }, at === undefined ? '' : new Date(times[at]).toLocaleTimeString()));
  };
  tell();
  picture.addEventListener('pointermove', (event) => {
    if (!times.length) return;
    const box = picture.getBoundingClientRect(), wanted = begin + ((event.clientX - box.left) / box.width) * span * 1000;
    const at = times.reduce((best, t, i) => (Math.abs(t - wanted) < Math.abs(times[best] - wanted) ? i : best), 0);
    cursor.setAttribute('x1', x(at));
    cursor.setAttribute('x2', x(at));
    cursor.setAttribute('visibility', 'visible');
    tell(at);
  });
  picture.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); tell(); });
  return h('figure', { class: 'chart' }, h('figcaption', {}, title), h('div', { class: 'plot' }, h('span', { class: 'scale' }, say(top)), picture), legend);
}

const kinds = ['one', 'two', 'good', 'bad', 'five'];
const spans = [[60, '1 m', 'the last minute'], [900, '15 m', 'the last 15 minutes'], [3600, '1 h', 'the last hour']];

const rate = (n) => `${n >= 100 ? Math.round(n).toLocaleString('en') : Number(n.toFixed(n < 10 ? 1 : 0))}/s`;
const count = (n) => Math.round(n).toLocaleString('en');

export function chartsView(of) {
  const [span] = spans.find(([, name]) => name.replace(' ', '') === of) ?? spans[0];
  const place = h('div', { class: 'charts' });
  let last = 0;
  const draw = async () => {
    const { points, methods } = await json(`history?seconds=${span}`);
    last = Date.now();
    const times = points.map((p) => p.at), all = (name) => points.map((p) => p[name]), quantile = (name, i) => points.map((p) => p[name][i]);
    const ms = (name) => [['half under', 'one', quantile(name, 0)], ['99 of 100 under', 'two', quantile(name, 1)]];
    const one = (title, lines, write) => chart(title, lines, times, write, span);
    const cost = points.reduce((sum, p) => sum + p.wrongCost, 0);
    place.replaceChildren(
      one('Transactions', [['executed', 'good', all('executed')], ['refused', 'bad', all('refused')]], rate),
      one('Time of a transaction, from arrival to verdict', ms('txs'), duration),
      one('Queue', [['wait for their turn', 'one', all('waiting')], ['on their way', 'two', all('onWay')]], count),
      one(`Wrong nonces${cost > 0 ? `, which cost ${tinybars(cost)}` : ''}`, [['wrong', 'bad', all('wrong')]], count),
      one('Calls', [['answered', 'one', all('calls')], ['with an error', 'bad', all('failed')]], rate),
      one('Time of a call', ms('methods'), duration),
      methods.length ? one('Calls by method', methods.map((m, i) => [m.name, kinds[i], m.calls]), rate) : '',
      methods.length ? one('Time by method, 99 of 100 under', methods.map((m, i) => [m.name, kinds[i], m.slow]), duration) : '',
      one('Time of the mirror node', ms('mirror'), duration),
      one('Time of the consensus nodes', ms('nodes'), duration));
  };
  const fresh = keepFocus(draw, place);
  return {
    title: 'Charts', draw, fresh: () => (Date.now() - last > (span > 60 ? 10_000 : 1900) ? fresh() : null), nodes: [
      h('ul', { class: 'tabs', 'aria-label': 'Time shown' }, spans.map(([s, name, words]) => h('li', {}, h('a', { href: `#/charts/${name.replace(' ', '')}`, 'aria-current': s === span && 'true', title: words }, name)))), place],
  };
}

// strip draws one bar for each second of the last minute.
export function strip(title, values, say, kind) {
  const top = Math.max(...values, 1e-9), w = width / values.length, all = values.reduce((a, b) => a + b, 0);
  return h('figure', { class: 'strip' }, h('figcaption', {}, title, ' ', h('strong', {}, say(values, all))),
    svg('svg', { viewBox: `0 0 ${width} 40`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}, second by second: ${say(values, all)}` },
      values.map((v, i) => (v > 0 ? svg('rect', { class: kind, x: (i * w).toFixed(2), width: (w * 0.8).toFixed(2), y: (40 - Math.max(2, (v / top) * 38)).toFixed(1), height: Math.max(2, (v / top) * 38).toFixed(1) }) : null)),
      svg('line', { class: 'grid', x1: 0, x2: width, y1: 39.5, y2: 39.5 })));
}
