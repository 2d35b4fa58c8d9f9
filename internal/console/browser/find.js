// The accessible name, as far as the console's pages need it.
function nameOf(e) {
  const text = (x) => (x?.innerText ?? x?.textContent ?? '').replace(/\s+/g, ' ').trim();
  const labelled = e.getAttribute('aria-labelledby');
  if (labelled) return labelled.split(' ').map((id) => text(document.getElementById(id))).join(' ');
  if (e.getAttribute('aria-label')) return e.getAttribute('aria-label');
  if (e.labels?.length) {
    const label = e.labels[0];
    if (!label.contains(e)) return text(label);
    return [...label.childNodes].filter((n) => n.nodeType !== 8 && !n.contains(e)).map((n) => (n.nodeType === 3 ? n.data : text(n))).join(' ').replace(/\s+/g, ' ').trim();
  }
  return text(e) || e.getAttribute('title') || '';
}

var roles = {
  button: 'button, summary, [role=button], input[type=submit]',
  link: 'a[href]',
  field: 'input, select, textarea, [role=textbox], [contenteditable=true]',
  option: '[role=option], option',
  tab: '[role=tab]',
  row: 'tr',
  checkbox: 'input[type=checkbox], input[type=radio]',
  any: '*',
};

// all goes through the shadow roots of editors, too. In an open modal, what is behind it cannot be reached.
function all(selector, root = document) {
  const found = [...root.querySelectorAll(selector)];
  for (const host of root.querySelectorAll('*')) if (host.shadowRoot) found.push(...all(selector, host.shadowRoot));
  return found;
}

function find(role, name) {
  const modal = [...document.querySelectorAll('dialog[open]')].at(-1);
  const found = all(roles[role], modal ?? document).filter((e) => e.getClientRects().length > 0 && !e.disabled);
  return found.find((e) => nameOf(e) === name) ?? found.find((e) => nameOf(e).startsWith(name));
}

var pause = () => new Promise((done) => setTimeout(done, 30));

// place returns where the mouse can click the element; null while something covers it, or while it moves.
async function place(e) {
  if (!e) return null;
  e.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  const before = e.getBoundingClientRect();
  await pause();
  const box = e.getBoundingClientRect();
  if (box.x !== before.x || box.y !== before.y) return null;
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const root = e.getRootNode();
  const top = (root.elementFromPoint ? root : document).elementFromPoint(x, y);
  return top && (e.contains(top) || top.contains(e)) ? [x, y] : null;
}

function focus(e) {
  if (!e) return false;
  e.scrollIntoView({ block: 'nearest' });
  e.focus();
  if (e.select) e.select();
  return true;
}

function choose(select, option) {
  const found = [...(select?.options ?? [])].find((o) => o.textContent.trim() === option || o.value === option);
  if (!found) return false;
  select.value = found.value;
  select.dispatchEvent(new Event('input', { bubbles: true }));
  select.dispatchEvent(new Event('change', { bubbles: true }));
  return true;
}
