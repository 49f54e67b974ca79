// The frame of the page: how its views ask, draw and follow what happens. Views draw with nodes
// of the DOM alone, never with text as HTML, and ask nobody but their own origin.

// ---- asking ----

const tokenKey = 'lockstep.token';
let token = sessionStorage.getItem(tokenKey) ?? '';

// The link that a process prints at its start has its token behind the #, which no browser sends. It leaves the address bar at once.
function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (!given) return;
  token = given[1];
  sessionStorage.setItem(tokenKey, token);
  history.replaceState(null, '', location.pathname);
}
takeToken();

class Unauthorized extends Error { name = 'Unauthorized'; }

// reason is what an answer that is no success says, as text or as a problem of RFC 9457.
async function reason(answer) {
  const text = (await answer.text()).trim();
  if (/^application\/(problem\+)?json/.test(answer.headers.get('Content-Type') ?? '')) {
    try { return JSON.parse(text).detail ?? text; } catch { return text; }
  }
  return text || `status ${answer.status}`;
}

// ask sends the token alone: without it the browser neither sends nor asks for a password of its own.
export async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(options.body ? { 'Content-Type': 'application/json' } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(path, { ...options, headers, credentials: 'omit' });
  if (answer.status === 401) throw new Unauthorized(await reason(answer));
  if (!answer.ok) throw Object.assign(new Error(await reason(answer)), { status: answer.status });
  return answer;
}

export const json = async (path, options) => (await ask(path, options)).json();

export const post = (path, body) => json(path, { method: 'POST', ...(body !== undefined && { body: JSON.stringify(body) }) });

// optional is null where nothing can be had.
export const optional = (promise) => promise.catch(() => null);

// ---- drawing ----

export function h(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
  return node;
}

export const code = (text) => h('code', {}, String(text));
export const number = (text) => h('td', { class: 'number' }, text);
export const link = (view, of, text = of) => h('a', { href: `#/${view}/${encodeURIComponent(of)}`, class: 'mono', title: of }, text);
// plural is a number with its noun: 1 byte, 2 bytes.
export const plural = (n, one, several = `${one}s`) => `${Number(n).toLocaleString('en')} ${Number(n) === 1 ? one : several}`;
export const short = (hex) => (hex && hex.length > 20 ? `${hex.slice(0, 10)}…${hex.slice(-6)}` : hex);

export function table(caption, heads, rows, empty) {
  if (!rows.length) return h('p', { class: 'soft' }, empty);
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': caption }, h('table', {},
    h('caption', {}, caption),
    h('thead', {}, h('tr', {}, heads.map((head) => h('th', { scope: 'col', class: head.startsWith('#') && 'number' }, head.replace('#', ''))))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell) => (cell instanceof Element && cell.tagName === 'TD' ? cell : h('td', {}, cell))))))));
}

// copied is a text with a button that copies it.
export const copied = (text) => h('span', { class: 'copied' }, code(text), button('Copy', async () => {
  await navigator.clipboard.writeText(text);
  say('Copied.');
}, `copy ${text}`));

// windowed is a table of any length, of which only the rows in sight are made: row makes the cells of the one at an index. All rows have
// the same height. more, if there is more, is called when the last rows come into sight; it returns the new number of rows.
const rowHeight = 33, beyond = 10;
export function windowed(caption, heads, row, more) {
  let count = 0, asked = null;
  const head = h('thead', {}, h('tr', {}, heads.map((text) => h('th', { scope: 'col', class: text.startsWith('#') && 'number' }, text.replace('#', '')))));
  const body = h('tbody', {}), node = h('div', { class: 'wide windowed', tabindex: '0', role: 'region', 'aria-label': caption }, h('table', {}, h('caption', {}, caption), head, body));
  const space = (rows) => { const tr = h('tr', { 'aria-hidden': 'true' }, h('td', { colspan: heads.length })); tr.firstChild.style.height = `${rows * rowHeight}px`; tr.className = 'space'; return tr; };
  const draw = () => {
    const first = Math.max(0, Math.floor(node.scrollTop / rowHeight) - beyond), last = Math.min(count, first + Math.ceil((node.clientHeight || 600) / rowHeight) + 2 * beyond);
    body.replaceChildren(...(first > 0 ? [space(first)] : []), ...Array.from({ length: last - first }, (_, i) => h('tr', {}, row(first + i).map((cell) => (cell instanceof Element && cell.tagName === 'TD' ? cell : h('td', {}, cell))))), ...(last < count ? [space(count - last)] : []));
    if (more && last >= count - beyond && !asked) asked = more().then((n) => { asked = n > count ? null : true; if (n !== count) { count = n; draw(); } }, failed);
  };
  let frame = null;
  node.addEventListener('scroll', () => { frame ??= requestAnimationFrame(() => { frame = null; draw(); }); });
  return { node, show: (n) => { count = n; draw(); } };
}

export const facts = (pairs) => h('dl', {}, pairs.filter(Boolean).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

export function say(text, bad) {
  const status = document.getElementById('status');
  status.textContent = text;
  status.className = bad ? 'bad' : '';
}

export const button = (text, act, key = text) => h('button', {
  type: 'button', 'data-key': key, onclick: async (event) => {
    event.target.disabled = true;
    try { await act(); } catch (err) { failed(err); } finally { event.target.disabled = false; }
  },
}, text);

// form has a row for each field: [label, name, attributes or a control].
export function form(fields, text, act) {
  const controls = {};
  return h('form', {
    class: 'form', onsubmit: async (event) => {
      event.preventDefault();
      try { await act(Object.fromEntries(Object.entries(controls).map(([name, c]) => [name, c.value.trim()]))); } catch (err) { failed(err); }
    },
  }, fields.map(([label, name, control]) => {
    controls[name] = control instanceof Element ? control : h('input', { autocomplete: 'off', spellcheck: 'false', ...control });
    controls[name].id = `field-${name}`;
    return [h('label', { for: `field-${name}` }, label), controls[name]];
  }), h('button', {}, text));
}

export function failed(err) {
  if (err instanceof Unauthorized) askForToken();
  else say(err.message, true);
}

// keepFocus draws again, and gives the focus to what had it: to the thing with the same key, link or name. What is being drawn is
// not drawn twice, and an error is shown until drawing works again.
const keyOf = (node) => node.dataset.key ?? node.getAttribute('href') ?? node.getAttribute('aria-label');
export const keepFocus = (draw, place) => {
  let busy = false, troubled = false;
  return async () => {
    if (busy) return;
    busy = true;
    try {
      const at = document.activeElement, key = place.contains(at) ? keyOf(at) : null;
      await draw();
      if (troubled) say('');
      troubled = false;
      if (key) [...place.querySelectorAll('a, button, [tabindex]')].find((node) => keyOf(node) === key)?.focus({ preventScroll: true });
    } catch (err) {
      troubled = true;
      failed(err);
    } finally { busy = false; }
  };
};

// A browser clicks nothing if what was pressed has been drawn again before the button comes up. A link is followed all the same.
let pressed = null;
document.addEventListener('pointerdown', (event) => { pressed = { link: event.target.closest('a[href]'), x: event.x, y: event.y }; });
document.addEventListener('pointerup', (event) => {
  const { link, x, y } = pressed ?? {};
  if (link && !link.isConnected && event.button === 0 && Math.hypot(event.x - x, event.y - y) < 10) link.click();
  pressed = null;
});

// bar shows how much of the whole something took.
export function bar(part, whole, longest) {
  const node = h('span', { class: longest ? 'bar longest' : 'bar' });
  node.style.width = `${Math.round(100 * part / Math.max(whole, 1))}%`;
  return node;
}

// ---- the page ----

// page is what is shown: about is what the process says of itself, current the view. The start is app.js's.
export const page = { about: null, current: null, start: null };

export const may = (role) => ['read', 'send', 'admin'].indexOf(page.about.role) >= ['read', 'send', 'admin'].indexOf(role);

export function show(...nodes) {
  document.getElementById('main').replaceChildren(...nodes.flat(Infinity).filter(Boolean));
}

export function askForToken() {
  if (document.getElementById('field-token')) {
    say('That is not the token.', true);
    return;
  }
  page.current = null;
  document.getElementById('main').dataset.view = 'token';
  show(h('h1', {}, 'Token'), h('p', {}, 'This page needs ', page.about.needs.split('`').map((part, i) => (i % 2 ? h('code', {}, part) : part)), '.'),
    form([['Token', 'token', { type: 'password', required: true }]], 'Enter', async (values) => {
      token = values.token;
      document.getElementById('field-token').value = '';
      sessionStorage.setItem(tokenKey, token);
      say('');
      await page.start();
    }));
}

// ---- what happens, as it comes ----

const followed = new Set();

// follow reads server-sent events until the page goes. take gets the data of each.
export async function follow(path, who, take) {
  if (followed.has(path)) return;
  followed.add(path);
  const at = { broken: false };
  try {
    for (;;) {
      try {
        await readEvents(path, at, take);
        throw new Error('the stream was closed');
      } catch (err) {
        if (err instanceof Unauthorized) { askForToken(); return; }
        at.broken = true;
        say(`No news from ${who}: ${err.message}. Trying again.`, true);
      }
      await new Promise((done) => setTimeout(done, 2000));
    }
  } finally { followed.delete(path); }
}

async function readEvents(path, at, take) {
  const reader = (await ask(path)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value: more, done } = await reader.read();
    if (done) return;
    if (at.broken) say('');
    at.broken = false;
    text += more;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).split('\n').find((line) => line.startsWith('data: '));
      if (data) take(JSON.parse(data.slice(6)));
    }
  }
}

// refresher draws the current view again: soon after it is called, however often, and every so many milliseconds besides.
export function refresher(every) {
  let soon = null;
  setInterval(() => { if (!document.hidden) page.current?.fresh?.(); }, every);
  return () => {
    soon ??= setTimeout(() => { soon = null; page.current?.fresh?.(); }, 300);
  };
}
