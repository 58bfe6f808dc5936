// The page: what keys, fingers and the mouse do.
const $ = id => document.getElementById(id);

class Page {
  constructor(data) {
    this.model = new Model(data);
    this.view = new View(this.model, $('canvas'));
    this.panel = new Panel(this.model, $('side'), target => this.go(target));
    const title = this.model.before ? `${this.model.before} → ${this.model.title}` : this.model.title;
    $('title').textContent = document.title = title;
    $('theme').append(themeButton());
    this.addHeats();
    this.listen();
    this.listenToPointers();
    this.showKeys();
    this.panel.whole();
    this.view.fit();
  }

  addHeats() {
    const heats = [['kind', this.model.before ? 'difference, kind' : 'kind of operator'], ...this.model.metrics.map(m => [m, METRICS[m].name]), ['precision', 'precision']];
    $('heat').append(...heats.map(([value, name]) => html('option', {value}, name)));
    $('heat').addEventListener('change', () => {
      this.view.heat = $('heat').value;
      this.view.findRange();
      this.showKeys();
      this.view.draw();
    });
  }

  key(colour, name) {
    return html('li', {}, html('i', {style: `background:${colour}`}), name);
  }
  showKeys() {
    const {view, model} = this, m = METRICS[view.heat], keys = [];
    if (m && view.range) {
      const stops = [0, 0.25, 0.5, 0.75, 1].map(s => rampColour(s, view.dark).css).join(',');
      keys.push(html('li', {}, m.show(view.range[0]), ' ', html('i', {class: 'ramp', style: `background:linear-gradient(90deg,${stops})`}), ' ', m.show(view.range[1])));
    } else if (view.heat === 'precision') {
      view.precisionColour('');
      keys.push(...view.precisions.filter(Boolean).map(p => this.key(view.precisionColour(p), p)));
    } else {
      const used = new Set(model.operators.map(n => n.colour));
      keys.push(...KINDS.map((name, i) => used.has(i) ? this.key(view.kinds[i], name) : null).filter(Boolean));
    }
    if (model.before) keys.push(...[CHANGED, REMOVED, ADDED].map(f => this.fateKey(f)));
    $('keys').replaceChildren(...keys);
  }
  fateKey(fate) {
    const {hidden} = this.view, button = html('button', {type: 'button', 'aria-pressed': String(!hidden.has(fate)), title: 'Show or fade'},
                                              html('i', {style: `background:${this.view.edgeColour(fate)}`}), `${SIGNS[fate]}${FATES[fate]}`);
    button.addEventListener('click', () => {
      if (hidden.has(fate)) hidden.delete(fate);
      else hidden.add(fate);
      this.showKeys();
      this.view.draw();
    });
    return html('li', {}, button);
  }

  // Selects and shows what is hidden in closed groups, too; null: nothing.
  go(target) {
    if (target) {
      const around = target.kind === NODE ? this.model.groupsAround(target.index) : this.groupsAround(target.index);
      if (around.some(g => !this.model.open.has(g))) {
        around.forEach(g => this.model.open.add(g));
        this.view.compose();
      }
      const n = target.kind === NODE ? this.model.nodes[target.index] : null;
      if (n && n.bodies >= 0) target = {kind: GROUP, index: n.bodies};
    }
    this.select(target);
    const box = target && this.view.boxOf.get(target.kind * 1e9 + target.index);
    if (box) this.view.centre(box);
  }
  groupsAround(group) {
    const out = [];
    for (let g = this.model.groups[group].parent; g > 0; g = this.model.groups[g].parent) out.push(g);
    return out;
  }

  select(target) {
    this.view.selected = target;
    if (!target) this.panel.whole();
    else if (target.kind === NODE) this.panel.node(target.index);
    else this.panel.group(target.index);
    this.view.draw();
  }

  // The group's upper left corner stays where it is.
  toggle(group) {
    const {view, model} = this, key = GROUP * 1e9 + group, before = view.boxOf.get(key);
    if (model.open.has(group)) model.open.delete(group);
    else model.open.add(group);
    view.compose();
    const after = view.boxOf.get(key);
    if (before && after) {
      view.x += (before.x + before.width / 2 - after.x - after.width / 2) * view.scale;
      view.y += (before.y - after.y) * view.scale;
    }
    this.showKeys();
    view.draw();
  }

  all(open) {
    const {model} = this;
    model.open = new Set([0]);
    if (open) model.groups.forEach(g => g.kind === REPLACED || model.open.add(g.index));
    this.view.compose();
    this.showKeys();
    this.view.fit();
  }

  search(text) {
    const wanted = text.toLowerCase(), {nodes, values} = this.model;
    this.hits = [];
    this.at = -1;
    if (wanted)
      for (const n of nodes)
        if ([n.op, n.name, n.type, ...n.makes.map(v => values[v].name)].some(s => s.toLowerCase().includes(wanted))) this.hits.push(n.index);
    this.view.hits = new Set(this.hits);
    $('found').textContent = wanted ? `${this.hits.length} found${this.hits.length ? ', Enter goes on' : ''}` : '';
    this.view.draw();
  }
  nextHit(step) {
    if (!this.hits || !this.hits.length) return;
    this.at = (this.at + step + this.hits.length) % this.hits.length;
    $('found').textContent = `${this.at + 1} of ${this.hits.length}`;
    this.go({kind: NODE, index: this.hits[this.at]});
  }

  listen() {
    const {view} = this;
    $('search').addEventListener('input', e => this.search(e.target.value));
    $('search').addEventListener('keydown', e => {
      if (e.key === 'Enter') this.nextHit(e.shiftKey ? -1 : 1);
      if (e.key === 'Escape') $('canvas').focus();
    });
    $('open').addEventListener('click', () => this.all(true));
    $('close').addEventListener('click', () => this.all(false));
    $('fit').addEventListener('click', () => view.fit(true));
    $('in').addEventListener('click', () => view.zoom(1.4));
    $('out').addEventListener('click', () => view.zoom(1 / 1.4));
    new ResizeObserver(() => view.draw()).observe($('view'));
    document.addEventListener('themechange', () => {
      view.readColours();
      this.showKeys();
      view.draw();
    });
    document.addEventListener('keydown', e => {
      if (e.key !== '/' || e.target === $('search')) return;
      e.preventDefault();
      $('search').focus();
    });
    $('canvas').addEventListener('keydown', e => this.onKey(e));
  }

  onKey(e) {
    const {view} = this, [, h] = view.size(), ways = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0]};
    const s = view.selected;
    if (ways[e.key] && e.shiftKey) view.move(...ways[e.key].map(v => -80 * v));
    else if (ways[e.key]) this.step(...ways[e.key]);
    else if (e.key === 'PageDown' || e.key === 'PageUp') view.move(0, (e.key === 'PageUp' ? 0.8 : -0.8) * h);
    else if (e.key === '+' || e.key === '=') view.zoom(1.25);
    else if (e.key === '-') view.zoom(0.8);
    else if (e.key === '0') view.fit(true);
    else if (e.key === 'Home') view.fit();
    else if (e.key === 'Escape') this.select(null);
    else if ((e.key === 'Enter' || e.key === ' ') && s && s.kind === GROUP) this.toggle(s.index);
    else return;
    e.preventDefault();
  }

  // The next box that way: along a line first, else the nearest.
  step(dx, dy) {
    const {view} = this, s = view.selected, from = s && view.boxOf.get(s.kind * 1e9 + s.index);
    if (!from) {
      const first = view.drawing.boxes.find(b => !b.open);
      if (first) this.choose(first);
      return;
    }
    const middle = b => [b.x + b.width / 2, b.y + Math.min(b.height, 50) / 2], [x, y] = middle(from);
    const linked = dy ? this.linked(from, dy) : null;
    let best = null, least = Infinity;
    for (const b of view.drawing.boxes) {
      if (b === from || b.open) continue;
      const [bx, by] = middle(b), along = dx ? (bx - x) * dx : (by - y) * dy, across = Math.abs(dx ? by - y : bx - x);
      if (along <= 1) continue;
      const far = along + 3 * across - (linked && linked.has(b) ? 1e6 : 0);
      if (far < least) [best, least] = [b, far];
    }
    if (best) this.choose(best);
  }
  linked(box, dy) {
    const {model, view} = this, out = new Set();
    if (box.kind !== NODE) return out;
    const n = model.nodes[box.index];
    const near = dy > 0 ? n.makes.flatMap(v => model.values[v].readers) : n.reads.map(v => model.values[v].maker);
    for (const i of near) {
      const shown = i >= 0 ? model.shownAs(i) : null, b = shown && view.boxOf.get(shown.kind * 1e9 + shown.index);
      if (b) out.add(b);
    }
    return out;
  }
  choose(box) {
    this.select({kind: box.kind, index: box.index});
    this.view.reveal(box);
  }

  listenToPointers() {
    const c = $('canvas'), {view} = this, down = new Map();
    let moved = false, spread = 0;
    const place = e => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    c.addEventListener('wheel', e => {
      e.preventDefault();
      const lines = e.deltaMode === 1 ? 18 : 1;
      if (e.shiftKey) view.move(-e.deltaY * lines, 0);
      else view.zoom(Math.exp(-e.deltaY * lines / (e.ctrlKey ? 120 : 420)), ...place(e));
    }, {passive: false});
    c.addEventListener('pointerdown', e => {
      c.setPointerCapture(e.pointerId);
      down.set(e.pointerId, place(e));
      moved = down.size > 1;
      spread = 0;
    });
    c.addEventListener('pointermove', e => {
      const was = down.get(e.pointerId);
      if (!was) return;
      const now = place(e), dx = now[0] - was[0], dy = now[1] - was[1];
      if (!moved && Math.abs(dx) + Math.abs(dy) < 5) return;
      moved = true;
      down.set(e.pointerId, now);
      if (down.size === 1) view.move(dx, dy);
      else spread = this.pinch([...down.values()], spread);
    });
    const up = e => {
      const at = down.get(e.pointerId);
      down.delete(e.pointerId);
      spread = 0;
      if (at && !moved && e.type === 'pointerup') this.click(...at);
    };
    c.addEventListener('pointerup', up);
    c.addEventListener('pointercancel', up);
    c.addEventListener('dblclick', e => {
      const b = view.boxAt(...place(e));
      if (b && b.kind === GROUP && !view.onHandle(b, ...place(e))) this.toggle(b.index);
    });
  }
  // Two fingers: their distance zooms, their middle moves. Gives the distance.
  pinch([a, b], before) {
    const apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (before > 0) this.view.zoom(apart / before, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
    return apart;
  }
  click(x, y) {
    const b = this.view.boxAt(x, y);
    if (b && this.view.onHandle(b, x, y)) this.toggle(b.index);
    this.select(b ? {kind: b.kind, index: b.index} : null);
  }
}

const page = new Page(JSON.parse($('data').textContent));
