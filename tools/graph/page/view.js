// The drawing on a canvas: only what is in sight is painted.
const RAMP_LIGHT = [[255, 247, 226], [253, 208, 134], [244, 146, 66], [205, 84, 22], [122, 40, 6]],
      RAMP_DARK = [[38, 34, 32], [92, 58, 30], [156, 84, 28], [222, 124, 44], [255, 196, 110]];

function rampColour(share, dark) {
  const ramp = dark ? RAMP_DARK : RAMP_LIGHT, at = Math.max(0, Math.min(1, share)) * (ramp.length - 1),
        low = Math.min(ramp.length - 2, Math.floor(at));
  const mixed = ramp[low].map((v, i) => Math.round(v + (ramp[low + 1][i] - v) * (at - low)));
  return {css: `rgb(${mixed.join(',')})`, light: mixed[0] * 0.3 + mixed[1] * 0.59 + mixed[2] * 0.11 > 140};
}

class View {
  constructor(model, canvas) {
    this.model = model;
    this.canvas = canvas;
    this.scale = 1;
    this.x = this.y = 0;
    this.selected = null;  // {kind, index}
    this.hits = new Set();
    this.hidden = new Set();  // fates
    this.heat = 'kind';
    this.compose();
    this.readColours();
  }

  compose() {
    this.drawing = new Composition(this.model);
    this.boxOf = new Map(this.drawing.boxes.map(b => [b.kind * 1e9 + b.index, b]));
    this.findRange();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(`--${name}`).trim();
    this.colours = {};
    for (const name of ['page', 'text', 'quiet', 'box', 'edge', 'wire', 'group-1', 'group-2', 'gone', 'new', 'other', 'hit', 'a', 'card'])
      this.colours[name] = get(name);
    this.kinds = KINDS.map((_, i) => get(`c${i}`));
    this.dark = style.colorScheme === 'dark';
  }

  // The largest number of a leaf box: the end of the ramp.
  findRange() {
    const m = METRICS[this.heat];
    if (!m) return;
    const all = this.drawing.boxes.filter(b => !b.open).map(b => this.metricOf(b)).filter(v => v !== undefined);
    this.range = m.worst ? [Math.min(60, most(all)), least(all)] : [0, most(all)];
    if (m.worst && this.range[0] <= this.range[1]) this.range[0] = this.range[1] + 1;
  }
  metricOf(b) {
    return b.kind === NODE ? this.model.nodes[b.index][this.heat] : this.model.groups[b.index].totals[this.heat];
  }
  share(b) {  // square roots: half of the colours for the lower quarter
    const v = this.metricOf(b);
    if (v === undefined) return undefined;
    const part = (v - this.range[0]) / (this.range[1] - this.range[0]);
    return METRICS[this.heat].worst ? part : Math.sqrt(Math.max(0, part));
  }

  size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }

  // Everything, where that leaves names readable; else the upper end.
  fit(whole = false) {
    const [w, h] = this.size(), d = this.drawing;
    const across = w / (d.width + 24), down = h / (d.height + 24);
    this.scale = whole ? Math.min(1.2, Math.max(Math.min(across, down), 90 / d.width)) : Math.min(1.2, Math.max(Math.min(across, down), Math.min(0.62, Math.max(across, 0.3))));
    this.x = d.width * this.scale <= w ? (w - d.width * this.scale) / 2 : this.middleOfFirst(w);
    this.y = Math.max(8, (h - d.height * this.scale) / 2);
    this.draw();
  }
  middleOfFirst(w) {  // the first box stands in the middle
    const first = this.drawing.boxes.find(b => !b.open);
    return first ? w / 2 - (first.x + first.width / 2) * this.scale : 0;
  }

  centre(box) {
    const [w, h] = this.size();
    this.scale = Math.max(this.scale, 0.8);
    this.x = w / 2 - (box.x + box.width / 2) * this.scale;
    this.y = h / 2 - (box.y + Math.min(box.height, h / this.scale) / 2) * this.scale;
    this.draw();
  }
  // Moves as little as shows the box.
  reveal(box) {
    const [w, h] = this.size(), edge = 30, s = this.scale;
    const left = this.x + box.x * s, right = left + box.width * s, top = this.y + box.y * s, bottom = top + box.height * s;
    if (left < edge) this.x += edge - left;
    else if (right > w - edge) this.x -= right - (w - edge);
    if (top < edge) this.y += edge - top;
    else if (bottom > h - edge) this.y -= bottom - (h - edge);
    this.draw();
  }

  zoom(factor, px, py) {
    const [w, h] = this.size();
    px ??= w / 2;
    py ??= h / 2;
    const scale = Math.min(4, Math.max(0.01, this.scale * factor));
    this.x = px - (px - this.x) * scale / this.scale;
    this.y = py - (py - this.y) * scale / this.scale;
    this.scale = scale;
    this.draw();
  }
  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.draw();
  }

  boxAt(px, py) {
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale, {boxes} = this.drawing;
    for (let i = boxes.length - 1; i >= 0; --i) {
      const b = boxes[i];
      if (x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height) return b;
    }
    return null;
  }
  onHandle(b, px, py) {  // the sign in a group's upper right corner, and the whole of a small group
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale;
    return b.kind === GROUP && x > b.x + b.width - 26 && y < b.y + 26;
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  paint() {
    const c = this.canvas, ratio = window.devicePixelRatio || 1, [w, h] = this.size();
    if (!w || !h) return;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    const g = c.getContext('2d');
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, c.width, c.height);
    g.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, ratio * this.x, ratio * this.y);
    const sight = {
      left: -this.x / this.scale - 10,
      top: -this.y / this.scale - 10,
      right: (w - this.x) / this.scale + 10,
      bottom: (h - this.y) / this.scale + 10
    };
    const seen = this.drawing.boxes.filter(
        b => b.x < sight.right && b.x + b.width > sight.left && b.y < sight.bottom && b.y + b.height > sight.top);
    for (const b of seen)
      if (b.open) this.paintOpen(g, b);
    this.paintLines(g, sight);
    g.textAlign = 'center';
    for (const b of seen)
      if (!b.open) this.paintBox(g, b);
    g.globalAlpha = 1;
  }

  faded(fate) {
    return this.hidden.has(fate) ? 0.12 : 1;
  }
  edgeColour(fate) {
    return [this.colours.edge, this.colours.other, this.colours.gone, this.colours.new][fate];
  }

  paintOpen(g, b) {
    const group = this.model.groups[b.index], gone = group.kind === REPLACED;
    g.globalAlpha = gone ? this.faded(REMOVED) : 1;
    g.fillStyle = b.depth % 2 ? this.colours['group-2'] : this.colours['group-1'];
    g.beginPath();
    g.roundRect(b.x, b.y, b.width, b.height, 8);
    g.fill();
    this.outline(g, b, gone ? REMOVED : SAME, 1);
    if (this.scale * b.width < 60) return;
    g.fillStyle = this.colours.quiet;
    g.textAlign = 'left';
    // Names stay readable from farther away than those of boxes.
    const size = Math.min(11.5 / Math.min(1, this.scale), 22);
    g.font = `${size}px system-ui, sans-serif`;
    if (this.scale * size > 6) g.fillText(group.label, b.x + 10, b.y + 8 + size * 0.85, b.width - 40);
    g.textAlign = 'center';
    if (this.scale > 0.35) g.fillText('−', b.x + b.width - 13, b.y + 18);
  }

  outline(g, b, fate, width) {
    const chosen = this.selected && this.selected.kind === b.kind && this.selected.index === b.index;
    const hit = b.kind === NODE && this.hits.has(b.index);
    g.lineWidth = chosen || hit ? 3 / Math.min(1, this.scale) : fate === SAME ? width : 2;
    g.strokeStyle = chosen ? this.colours.a : hit ? this.colours.hit : this.edgeColour(fate);
    g.setLineDash(fate === REMOVED ? [6, 4] : []);
    g.stroke();
    g.setLineDash([]);
  }

  // Lines of a colour are one path.
  paintLines(g, sight) {
    const curved = this.scale > 0.12, chosen = this.chosenValues(), {values, nodes} = this.model;
    const batches = new Map();
    const types = [], seen = new Set();
    for (const l of this.drawing.lines) {
      const top = Math.min(l.y0, l.y1), bottom = Math.max(l.y0, l.y1);
      if (bottom < sight.top || top > sight.bottom || Math.max(l.x0, l.x1) < sight.left || Math.min(l.x0, l.x1) > sight.right) continue;
      const key = chosen.has(l.value) ? 4 : values[l.value].fate;
      if (!batches.has(key)) batches.set(key, []);
      batches.get(key).push(l);
      if (l.begins && !seen.has(l.value)) {
        seen.add(l.value);
        types.push(l);
      }
    }
    for (const key of [...batches.keys()].sort()) {
      g.globalAlpha = key < 4 ? this.faded(key) : 1;
      g.strokeStyle = g.fillStyle = key === 4 ? this.colours.a : key === SAME ? this.colours.wire : this.edgeColour(key);
      g.lineWidth = (key === 4 ? 2.6 : 1.2) / Math.min(1, Math.max(this.scale, 0.25));
      g.setLineDash(key === REMOVED ? [6, 4] : []);
      g.beginPath();
      for (const l of batches.get(key)) {
        g.moveTo(l.x0, l.y0);
        const bend = Math.max(12, Math.abs(l.y1 - l.y0) / 2);
        if (!curved || l.x0 === l.x1)
          g.lineTo(l.x1, l.y1);
        else
          g.bezierCurveTo(l.x0, l.y0 + bend, l.x1, l.y1 - bend, l.x1, l.y1);
      }
      g.stroke();
      g.setLineDash([]);
      if (this.scale < 0.3) continue;
      g.beginPath();
      for (const l of batches.get(key))
        if (l.ends) {
          g.moveTo(l.x1, l.y1);
          g.lineTo(l.x1 - 3.5, l.y1 - 6.5);
          g.lineTo(l.x1 + 3.5, l.y1 - 6.5);
        }
      g.fill();
    }
    g.globalAlpha = 1;
    if (this.scale < 0.6) return;
    g.textAlign = 'left';
    g.font = '10.5px system-ui, sans-serif';
    g.lineWidth = 3;
    g.strokeStyle = this.colours.page;
    g.fillStyle = this.colours.quiet;
    const taken = [];
    for (const l of types) {
      const {type, maker} = values[l.value], text = typeText(type), box = [l.x0 + 4, l.y0 + 3, l.x0 + 8 + 5.6 * text.length, l.y0 + 17];
      if (maker >= 0 && this.hidden.has(nodes[maker].fate)) continue;
      if (taken.some(t => box[0] < t[2] && box[2] > t[0] && box[1] < t[3] && box[3] > t[1])) continue;  // the panel tells it
      taken.push(box);
      g.strokeText(text, l.x0 + 6, l.y0 + 14);
      g.fillText(text, l.x0 + 6, l.y0 + 14);
    }
  }

  chosenValues() {
    const s = this.selected;
    if (!s || s.kind !== NODE) return new Set();
    const n = this.model.nodes[s.index];
    return new Set([...n.reads, ...n.makes]);
  }

  // Fill, and whether dark text stands on it.
  fillOf(b) {
    if (METRICS[this.heat]) {
      const share = this.share(b);
      if (share !== undefined) {
        const {css, light} = rampColour(share, this.dark);
        return [css, light ? '#1b1f24' : '#ffffff'];
      }
    }
    return [this.colours.box, this.colours.text];
  }

  stripOf(b) {
    if (b.kind !== NODE) return null;
    const n = this.model.nodes[b.index];
    if (n.kind !== OPERATOR) return null;
    return this.heat === 'precision' ? this.precisionColour(n.precision) : this.kinds[n.colour];
  }
  precisionColour(precision) {
    const all = this.precisions ??= [...new Set(this.model.operators.map(n => n.precision))].sort();
    return this.kinds[all.indexOf(precision) % this.kinds.length];
  }

  paintBox(g, b) {
    const node = b.kind === NODE ? this.model.nodes[b.index] : null, group = node ? null : this.model.groups[b.index],
          fate = node ? node.fate : group.kind === REPLACED ? REMOVED : SAME, [fill, ink] = this.fillOf(b);
    g.globalAlpha = this.faded(fate);
    g.fillStyle = fill;
    g.beginPath();
    if (this.scale < 0.2)
      g.rect(b.x, b.y, b.width, b.height);
    else
      g.roundRect(b.x, b.y, b.width, b.height, node ? node.kind === OPERATOR ? 5 : b.height / 2 : 8);
    g.fill();
    this.outline(g, b, fate, node ? 1 : 1.6);
    const strip = this.stripOf(b);
    if (strip) {
      g.fillStyle = strip;
      if (this.scale < 0.35)
        g.fillRect(b.x, b.y, 12, b.height);
      else
        g.fillRect(b.x + 3, b.y + 4, 5, b.height - 8);
    }
    if (group && this.scale > 0.2) {
      g.beginPath();
      g.roundRect(b.x + 3, b.y + 3, b.width - 6, b.height - 6, 6);
      g.lineWidth = 0.7;
      g.strokeStyle = this.edgeColour(fate);
      g.stroke();
    }
    this.paintText(g, b, node, group, fate, ink);
  }

  paintText(g, b, node, group, fate, ink) {
    if (this.scale * 12.5 < 5) return;
    const middle = b.x + b.width / 2 + (node && node.kind === OPERATOR ? 3 : 0), room = b.width - 20;
    g.fillStyle = ink;
    g.font = '600 12.5px system-ui, sans-serif';
    const v = METRICS[this.heat] ? this.metricOf(b) : undefined;
    const under = v !== undefined      ? METRICS[this.heat].show(v) :
        group                          ? plural(group.nodes, 'node') :
        this.heat === 'precision'      ? node.precision :
                                         node.detail;
    const two = Boolean(under) && !(node && node.kind !== OPERATOR);
    g.fillText(SIGNS[fate] + (node || group).label, middle, two ? b.y + (group ? 21 : 18) : b.y + b.height / 2 + 4.5, room);
    if (two) {
      g.font = '11px system-ui, sans-serif';
      g.globalAlpha *= 0.8;
      g.fillText(under, middle, b.y + (group ? 38 : 34), room);
    }
    if (group) {
      g.font = '13px system-ui, sans-serif';
      g.fillText('+', b.x + b.width - 13, b.y + 18);
    }
  }
}
