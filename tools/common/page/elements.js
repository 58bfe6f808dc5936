// Elements, numbers and tables. What reports say goes into the page as text, never as markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(name, value);
  element.append(...children.flat().filter(c => c !== null && c !== undefined));
  return element;
}
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

const list = v => Array.isArray(v) ? v : [];
const object = v => v !== null && typeof v === 'object' && !Array.isArray(v) ? v : {};
// Reports spell infinities as texts; what is missing or no number is NaN.
const number = v => typeof v === 'number' ? v : v === 'inf' ? Infinity : v === '-inf' ? -Infinity : NaN;
const numbers = v => list(v).map(number);
const text = v => v === null || v === undefined || v === '' ? '–' :
    typeof v === 'object'                                   ? JSON.stringify(v) :
                                                              String(v);
const baseName = path => typeof path === 'string' ? path.replace(/.*[/\\]/, '') : 'model';

function show(v, digits = 4) {
  v = number(v);
  if (Number.isNaN(v)) return '–';
  if (!Number.isFinite(v)) return v < 0 ? '−∞' : '∞';
  const size = Math.abs(v);
  const plain = size !== 0 && (size < 1e-4 || size >= 1e9) ? v.toExponential(digits - 1) :
      size >= 10 ** (digits - 1)                           ? v.toFixed(0) :
      v === 0                                              ? '0' :
                                                             v.toPrecision(digits);
  return plain.replace('-', '−');
}
const showMB = v => show(number(v) / 1e6, 3);
function showShare(v) {  // of a difference: +1.25 %
  v = number(v);
  if (!Number.isFinite(v)) return show(v);
  return `${v < 0 ? '−' : '+'}${Math.abs(100 * v).toFixed(2)} %`;
}
const showRange = (pair, how = show) => list(pair).length === 2 ? `${how(pair[0])} to ${how(pair[1])}` : '–';
const plural = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

const ascending = values => values.filter(Number.isFinite).sort((a, b) => a - b);
function quantile(sorted, q) {  // as our reports: between neighbours
  if (!sorted.length) return NaN;
  const at = q * (sorted.length - 1), low = Math.floor(at), high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}
const median = values => quantile(ascending(values), 0.5);
// Math.min(...values) has a limit of its own.
const least = values => values.reduce((a, b) => b < a ? b : a, Infinity);
const most = values => values.reduce((a, b) => b > a ? b : a, -Infinity);

const badge = (label, kind = '') => html('span', {class: `badge ${kind}`}, label);
const verdictKind = v =>
    ({slower: 'bad',
      drifts: 'bad',
      INVALID: 'bad',
      faster: 'good',
      steady: 'good',
      VALID: 'good',
      inconclusive: 'warn'}[v] ||
     '');
const quiet = line => html('p', {class: 'quiet'}, line);

// The few numbers that a reader looks for first: [[name, value, remark]]; what has no value is left out.
function summary(items) {
  const cards = items.filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== '–')
                    .map(([name, v, remark]) => html('div', {}, html('span', {}, name), html('b', {}, v), remark ? html('small', {}, remark) : null));
  return cards.length ? html('div', {class: 'summary'}, cards) : null;
}
const details = (summary, ...children) => html('details', {}, html('summary', {}, summary), ...children);

function facts(pairs) {
  return html(
      'dl', {},
      pairs.filter(([, v]) => v !== undefined && v !== null && v !== '')
          .flatMap(([name, v]) => [html('dt', {}, name), html('dd', {}, v instanceof Node ? v : text(v))]));
}

function warnings(lines, title = 'Warnings') {
  if (!list(lines).length) return null;
  return html(
      'div', {class: 'warnings', role: 'note'}, html('b', {}, title),
      html('ul', {}, lines.map(w => html('li', {}, text(w)))));
}

// A name that may go on in the next line behind its separators.
const breakable = name =>
    typeof name === 'string' ? name.split(/(?<=[/_:+,])|(?<=[a-z])(?=[A-Z])/).flatMap((part, i) => i ? [html('wbr'), part] : [part]) : name;

// columns: [{name, kind: 'number' (default) | 'text' | 'strip' | 'long', sort: row => value}]; a row is a list of texts
// and elements, and the first cell names it; `row.chosen` marks it. With `first`, so many rows are shown until a button shows
// the others. A column without any text is left out. On a phone the rows of wide tables become cards.
function table(columns, rows, options = {}) {
  const used = columns.map((c, i) => rows.length === 0 || rows.some(row => row[i] !== '' && row[i] !== null && row[i] !== undefined));
  if (used.every(Boolean)) return tableOf(columns, rows, options);
  const kept = row => Object.assign(row.filter((_, i) => used[i]), {at: row.at, chosen: row.chosen});
  return tableOf(columns.filter((_, i) => used[i]), rows.map(kept), options);
}
function tableOf(columns, rows, {caption, first = Infinity} = {}) {
  const head = columns.map(c => html('th', {scope: 'col', class: c.kind || undefined}, c.name));
  const body = html('tbody');
  let shown = rows, all = rows.length <= first;
  const cellOf = (cell, i) => {
    const kind = columns[i].kind || undefined;
    if (!i) return html('th', {scope: 'row', class: kind}, breakable(cell));
    const name = typeof columns[i].name === 'string' ? columns[i].name : undefined;
    return html('td', {class: kind, 'data-name': name}, kind === 'text' ? breakable(cell) : cell);
  };
  const rowOf = row => html('tr', {class: row.chosen ? 'chosen' : undefined}, row.map(cellOf));
  const draw = () => body.replaceChildren(...(all ? shown : shown.slice(0, first)).map(rowOf));
  columns.forEach((c, i) => {
    if (!c.sort) return;
    const button = html('button', {type: 'button'}, c.name);
    head[i].replaceChildren(button);
    button.addEventListener('click', () => {
      const down = head[i].getAttribute('aria-sort') !== 'descending';
      head.forEach(h => h.removeAttribute('aria-sort'));
      head[i].setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => {
        const v = c.sort(row);
        return Number.isNaN(v) ? -Infinity : v;
      };
      shown = [...rows].sort((a, b) => (down ? -1 : 1) * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
      draw();
    });
  });
  draw();
  const out = html(
      'div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption || 'table'},
      html('table', {class: columns.length > 2 ? 'cards' : undefined}, caption ? html('caption', {}, caption) : null, html('thead', {}, html('tr', {}, head)), body));
  if (all) return out;
  const button = html('button', {type: 'button', class: 'more'}, `show all ${rows.length}`);
  const showAll = () => {
    all = true;
    draw();
    button.remove();
  };
  button.addEventListener('click', showAll);
  window.addEventListener('beforeprint', showAll);
  return html('div', {}, out, button);
}
