// The start of the page: it asks the process which parts it has, and shows their views. A part
// has views, a way to find things, and a start that ends when its views can be drawn.

import { askForToken, failed, h, json, page, say, show } from './frame.js';
import { manager } from './manager.js';
import { relay } from './relay.js';
import { watchers } from './watchers.js';

const known = { relay, manager, watchers };
let parts = [], views = {};

// A view has a text if it is in the menu, otherwise the view under which it is found; make draws it for what stands behind its name.
function menu(name) {
  const under = views[name]?.under ?? name, at = views[under]?.when?.() === false ? parts[0].home() : under;
  document.getElementById('views').replaceChildren(
    ...Object.entries(views).filter(([, v]) => v.text && (!v.when || v.when())).map(([n, v]) => h('li', {}, h('a', { href: `#/${n}`, 'aria-current': n === at && 'page' }, v.text))),
    ...(page.about.beside ?? []).map((other) => h('li', {}, h('a', { href: other.url }, `${other.text} ↗`))));
}

async function route() {
  if (!parts.length) return;
  const asked = location.hash, [, name = '', of, more] = asked.split('/');
  const which = name || parts[0].home();
  menu(which);
  page.current = null;
  if (!Object.hasOwn(views, which)) {
    document.getElementById('main').dataset.view = which;
    document.title = 'Not found – Lockstep';
    show(h('h1', {}, 'Not found'), h('p', {}, 'The page has no such view. ', h('a', { href: `#/${parts[0].home()}` }, 'Begin again'), '.'));
    return;
  }
  try {
    const view = await views[which].make(of === undefined ? undefined : decodeURIComponent(of), more);
    await view.draw?.();
    if (location.hash !== asked) return; // another view was asked for meanwhile
    page.current = view;
    document.title = `${view.title} – Lockstep`;
    show(h('h1', {}, view.title), view.nodes);
  } catch (err) {
    if (location.hash !== asked) return;
    if (err.name === 'Unauthorized') { askForToken(); return; }
    show(h('h1', {}, views[which].text ?? 'Not found'), h('p', { class: 'bad' }, err.message));
  }
  document.getElementById('main').dataset.view = which;
}

// start begins again when a token was given.
async function start() {
  const about = await json('about');
  page.about = about;
  if (!about.role) { askForToken(); return; }
  parts = about.parts.map((name) => known[name]).filter(Boolean);
  views = Object.assign({}, ...parts.map((p) => p.views));
  const wanted = document.getElementById('wanted');
  wanted.placeholder = parts[0].example;
  document.querySelector('label[for=wanted]').textContent = parts[0].wanted;
  document.getElementById('version').textContent = `${parts.map((p) => p.name).join(', ')}, ${about.version}`;
  await Promise.all(parts.map((p) => p.start()));
  await route();
}

page.start = start;

document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  if (!parts.length) return;
  try { location.hash = parts[0].find(document.getElementById('wanted').value.trim()); } catch (err) { failed(err); }
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName)) return;
  event.preventDefault();
  document.getElementById('wanted').focus();
});
document.getElementById('skip').addEventListener('click', (event) => { event.preventDefault(); document.getElementById('main').focus(); });
window.addEventListener('hashchange', async () => { if (location.hash.startsWith('#token=')) { location.reload(); return; } say(''); await route(); document.getElementById('main').focus({ preventScroll: true }); });

for (;;) {
  try { await start(); break; } catch (err) {
    failed(err);
    await new Promise((done) => setTimeout(done, 2000));
  }
}
