// Charts in SVG: axes with round ticks, marks by the numbers that they stand for.
// Narrower on phones, so that names keep their size.
const WIDTH = Math.min(600, Math.max(340, window.innerWidth - 24)), HEIGHT = 300;
const PLOT = {
  left: 64,
  right: 14,
  top: 12,
  bottom: 44
};

function linearTicks(low, high, about = 6) {
  const raw = (high - low) / about, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    out.push(Number((i * step).toPrecision(12)));
  return out;
}
function logTicks(low, high) {
  const decades = Math.log10(high / low),
        factors = decades < 1.2 ? [1, 2, 3, 5, 7] :
      decades < 3               ? [1, 2, 5] :
                                  [1],
        out = [];
  const every = Math.max(1, Math.ceil(decades / 8));
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e)
    for (const f of factors)
      if (e % every === 0 && f * 10 ** e >= low * 0.999 && f * 10 ** e <= high * 1.001) out.push(f * 10 ** e);
  return out;
}

// An axis over `values`: with room at the ends, through 0 where asked for; logarithmic where wanted and possible.
function axis(label, values, {zero = false, log = false, pad = 0.05, show: how} = {}) {
  const finite = values.filter(v => Number.isFinite(v) && (!log || v > 0));
  let low = least(finite), high = most(finite);
  if (!finite.length) [low, high] = log ? [1, 10] : [0, 1];
  if (log) {
    if (high / low < 1.5) [low, high] = [low / 1.3, high * 1.3];
    const room = (high / low) ** pad;
    [low, high] = [low / room, high * room];
  } else {
    if (zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    const span = high - low || Math.abs(high) * 0.1 || 1;
    [low, high] = [zero && low === 0 ? 0 : low - span * pad, zero && high === 0 ? 0 : high + span * pad];
  }
  const part = v => log ? Math.log(Math.max(v, low / 1e3) / low) / Math.log(high / low) : (v - low) / (high - low);
  const ticks = log ? logTicks(low, high) : linearTicks(low, high);
  return {
    label,
    low,
    high,
    log,
    part,
    ticks,
    tick: how ||
        (v => Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-4) ?
             v.toExponential(0) :
             String(Number(v.toPrecision(6))).replace('-', '−'))
  };
}

class Chart {
  // caption: what is shown; about: one more line, also for those who do not see the chart.
  constructor({caption, about = '', x, y, height = HEIGHT}) {
    this.x = x;
    this.y = y;
    this.width = WIDTH - PLOT.left - PLOT.right;
    this.height = height - PLOT.top - PLOT.bottom;
    const bottom = PLOT.top + this.height, right = PLOT.left + this.width;
    this.frame = svg('svg', {viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': `${caption}. ${about}`});
    // Inside coordinates begin at the plot's corner, and what leaves it is cut off.
    this.labels = svg('g');  // stays above the marks
    this.plot = svg('svg', {x: PLOT.left, y: PLOT.top, width: this.width, height: this.height}, this.labels);
    let last = -Infinity;
    for (const t of x.ticks) {
      const px = PLOT.left + this.px(t), label = x.tick(t), half = label.length * 3.3;
      this.frame.append(svg('line', {class: 'grid', x1: px, x2: px, y1: PLOT.top, y2: bottom}));
      if (px - half < last + 6) continue;
      last = px + half;
      this.frame.append(svg('text', {x: px, y: bottom + 16, 'text-anchor': 'middle'}, label));
    }
    for (const t of y.ticks) {
      const py = PLOT.top + this.py(t);
      this.frame.append(
          svg('line', {class: 'grid', x1: PLOT.left, x2: right, y1: py, y2: py}),
          svg('text', {x: PLOT.left - 6, y: py + 4, 'text-anchor': 'end'}, y.tick(t)));
    }
    const middle = PLOT.top + this.height / 2;
    this.frame.append(
        svg('path', {class: 'axis', d: `M${PLOT.left} ${PLOT.top}V${bottom}H${right}`}), this.plot,
        svg('text', {x: PLOT.left + this.width / 2, y: height - 8, 'text-anchor': 'middle'},
            x.label + (x.log ? ' (log)' : '')),
        svg('text', {x: 12, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})`},
            y.label + (y.log ? ' (log)' : '')));
    this.keys = html('ul', {class: 'legend'});
    this.figure =
        html('figure', {}, html('figcaption', {}, caption, about ? html('p', {}, about) : null), this.frame, this.keys);
  }
  px(v) {
    return Number((this.x.part(v) * this.width).toFixed(1));
  }
  py(v) {
    return Number(((1 - this.y.part(v)) * this.height).toFixed(1));
  }
  add(...marks) {
    this.labels.before(...marks);
    return this;
  }
  key(name, mark) {
    if (name) this.keys.append(html('li', {}, svg('svg', {width: 22, height: 12, 'aria-hidden': 'true'}, mark), name));
    return this;
  }

  // One path for all: points that fall on the same pixel are drawn once.
  pixels(xs, ys, mark) {
    const seen = new Set();
    for (let i = 0; i < Math.min(xs.length, ys.length); ++i) {
      if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) continue;
      seen.add(mark(this.px(xs[i]).toFixed(0), this.py(ys[i]).toFixed(0)));
    }
    return [...seen].join('');
  }
  dots(xs, ys, kind, name) {
    return this.add(svg('path', {class: `dots s-${kind}`, d: this.pixels(xs, ys, (x, y) => `M${x} ${y}h0`)}))
        .key(name, svg('circle', {class: `f-${kind}`, cx: 11, cy: 6, r: 3}));
  }
  crosses(xs, ys, kind, name) {
    return this
        .add(
            svg('path',
                {class: `crosses s-${kind}`, d: this.pixels(xs, ys, (x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`)}))
        .key(name, svg('path', {class: `crosses s-${kind}`, d: 'M7.5 2.5l7 7m0 -7l-7 7'}));
  }
  // Gaps where there is no number.
  line(xs, ys, kind, name, style = '') {
    let d = '', on = false;
    xs.forEach((x, i) => {
      const known = Number.isFinite(x) && Number.isFinite(ys[i]);
      if (known) d += `${on ? 'L' : 'M'}${this.px(x)} ${this.py(ys[i])}`;
      on = known;
    });
    return this.add(svg('path', {class: `line s-${kind} ${style}`, d}))
        .key(name, svg('path', {class: `line s-${kind} ${style}`, d: 'M0 6h22'}));
  }
  // A line of very many points: those of one pixel once.
  path(xs, ys, kind, name, style = '') {
    let before = '', d = '';
    xs.forEach((x, i) => {
      const at = `${this.px(x).toFixed(0)} ${this.py(ys[i]).toFixed(0)}`;
      if (at !== before) d += (d ? 'L' : 'M') + at;
      before = at;
    });
    return this.add(svg('path', {class: `line s-${kind} ${style}`, d}))
        .key(name, svg('path', {class: `line s-${kind} ${style}`, d: 'M0 6h22'}));
  }
  // A circle for each, with the text that it stands for.
  marks(xs, ys, kind, {name, titles = [], radius = 4, hollow = () => false} = {}) {
    xs.forEach((x, i) => {
      if (!Number.isFinite(x) || !Number.isFinite(ys[i])) return;
      const size = typeof radius === 'function' ? radius(i) : radius;
      this.add(
          svg('circle', {
            cx: this.px(x),
            cy: this.py(ys[i]),
            r: size,
            'stroke-width': 1.6,
            class: hollow(i) ? `s-${kind} f-page` : `f-${kind}`
          },
              titles[i] ? svg('title', {}, titles[i]) : null));
    });
    return this.key(name, svg('circle', {cx: 11, cy: 6, r: 4, class: `f-${kind}`}));
  }
  interval(x, low, high, kind) {
    if (!Number.isFinite(x)) return this;
    const top = Number.isFinite(high) ? this.py(high) : -9,
          bottom = Number.isFinite(low) ? this.py(low) : this.height + 9, at = this.px(x);
    return this.add(
        svg('path', {class: `line s-${kind}`, d: `M${at} ${top}V${bottom}M${at - 4} ${top}h8M${at - 4} ${bottom}h8`}));
  }
  band(low, high, kind, name) {  // across the plot
    if (!Number.isFinite(low) || !Number.isFinite(high)) return this;
    const top = this.py(Math.max(low, high)), bottom = this.py(Math.min(low, high));
    return this
        .add(svg('rect', {class: `band f-${kind}`, x: 0, width: this.width, y: top, height: Math.max(bottom - top, 1)}))
        .key(name, svg('rect', {class: `band f-${kind}`, width: 22, height: 12}));
  }
  shade(from, to, kind, name) {  // from top to bottom
    if (!Number.isFinite(from) || !Number.isFinite(to)) return this;
    const left = this.px(from), right = this.px(to);
    return this
        .add(svg(
            'rect', {class: `band f-${kind}`, x: left, width: Math.max(right - left, 1), y: 0, height: this.height}))
        .key(name, svg('rect', {class: `band f-${kind}`, width: 22, height: 12}));
  }
  level(y, kind, name, style = 'dash') {
    if (!Number.isFinite(y)) return this;
    return this.add(svg('path', {class: `line s-${kind} ${style}`, d: `M0 ${this.py(y)}H${this.width}`}))
        .key(name, svg('path', {class: `line s-${kind} ${style}`, d: 'M0 6h22'}));
  }
  // A vertical line with its name at its head, in a row of its own among `of` rows.
  at(x, kind, label, row = 0, style = '') {
    if (!Number.isFinite(x)) return this;
    const px = this.px(x), left = px > this.width * 0.8;
    const anchor = {x: px + (left ? -4 : 4), y: 11 + 13 * row, 'text-anchor': left ? 'end' : 'start'};
    this.labels.append(svg('text', {class: 'halo', ...anchor}, label));
    return this.add(svg('path', {class: `line s-${kind} ${style}`, d: `M${px} 0V${this.height}`}));
  }
}

const figures = (...charts) => html('div', {class: 'figures'}, charts.filter(Boolean).map(c => c.figure || c));

// Cells of a table that share one horizontal axis: `strip.cell(draw)` is one, `strip.scale()` belongs below all.
function strips(x, width = 300, height = 20) {
  const at = v => Number((8 + Math.max(-0.02, Math.min(1.02, x.part(v))) * (width - 16)).toFixed(1));
  const cell = (marks, label) =>
      svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label},
          x.ticks.map(t => svg('line', {class: 'grid', x1: at(t), x2: at(t), y1: 0, y2: height})), marks);
  const scale = () => svg(
      'svg', {width, height: 30, viewBox: `0 0 ${width} 30`, role: 'img', 'aria-label': `axis: ${x.label}`},
      x.ticks.filter((t, i) => i % Math.ceil(x.ticks.length / 7) === 0)
          .map(t => svg('text', {class: 'quiet', x: at(t), y: 11, 'text-anchor': 'middle'}, x.tick(t))),
      svg('text', {class: 'quiet', x: width / 2, y: 26, 'text-anchor': 'middle'}, x.label + (x.log ? ' (log)' : '')));
  const interval = (low, value, high, kind) => {
    if (!Number.isFinite(value)) return [];
    const [from, to] = [low, high].map(v => at(Number.isFinite(v) ? v : value)), middle = height / 2;
    const ends = [from, to].map(x => `M${x} ${middle - 4}v8`).join('');
    return [
      svg('path', {class: `line s-${kind}`, d: `M${from} ${middle}H${to}${ends}`}),
      svg('circle', {class: `f-${kind}`, cx: at(value), cy: middle, r: 4})
    ];
  };
  const bar = (value, kind = 'a', top = 4, thick = 10) => Number.isFinite(value) ?
      svg('rect', {class: `f-${kind}`, x: at(0), y: top, height: thick, width: Math.max(0, at(value) - at(0))}) :
      '';
  return {at, cell, scale, interval, bar, height};
}

// Labels of points, none on another: each tries places around its point, then farther away with a line to it. `points`:
// [{x, y, label, kind}] in pixels of the plot; `taken`: boxes [x0, y0, x1, y1] where none may stand.
function placeLabels(points, width, height, taken = []) {
  const boxes = [...taken, ...points.map(p => [p.x - 6, p.y - 6, p.x + 6, p.y + 6])];
  const free = b => b[0] >= 0 && b[1] >= 0 && b[2] <= width && b[3] <= height &&
      !boxes.some(o => b[0] < o[2] && b[2] > o[0] && b[1] < o[3] && b[3] > o[1]);
  return points.map(p => {
    const w = 6.6 * p.label.length + 6, h = 15;
    for (let far = 9; far < 190; far += 9)
      for (const [dx, dy] of [[1, 0], [-1, 0], [0.7, -0.7], [0.7, 0.7], [-0.7, -0.7], [-0.7, 0.7], [0, -1], [0, 1]]) {
        const x = p.x + far * dx + (dx > 0.1 ? 0 : dx < -0.1 ? -w : -w / 2), y = p.y + far * dy - h / 2;
        const box = [x, y, x + w, y + h];
        if (!free(box)) continue;
        boxes.push(box);
        return {...p, left: x + 3, base: y + 11.5, far: far > 9, anchor: [Math.max(x, Math.min(p.x, x + w)), y + h / 2]};
      }
    return {...p, left: p.x + 9, base: p.y + 4, far: false};
  });
}

// Points with intervals on both axes and names: [{x, y, xs: [low, high], ys: [low, high], label, kind, hollow, title}].
function scatter(points, options) {
  const chart = new Chart(options), ends = pair => numbers(pair).filter(Number.isFinite);
  for (const p of points) {
    const cross = [], [x, y] = [chart.px(p.x), chart.py(p.y)], [xs, ys] = [ends(p.xs), ends(p.ys)];
    if (xs.length === 2) cross.push(`M${chart.px(xs[0])} ${y}H${chart.px(xs[1])}`);
    if (ys.length === 2) cross.push(`M${x} ${chart.py(ys[0])}V${chart.py(ys[1])}`);
    if (cross.length) chart.add(svg('path', {class: `line s-${p.kind}`, d: cross.join('')}));
    chart.add(svg('circle', {cx: x, cy: y, r: 5.5, 'stroke-width': 2.2, class: p.hollow ? `s-${p.kind} f-page` : `f-${p.kind} s-${p.kind}`},
                  p.title ? svg('title', {}, p.title) : null));
  }
  const placed = placeLabels(points.map(p => ({x: chart.px(p.x), y: chart.py(p.y), label: p.label, kind: p.kind})), chart.width, chart.height);
  for (const p of placed) {
    if (p.far) chart.add(svg('path', {class: 'line thin s-quiet', d: `M${p.x} ${p.y}L${p.anchor[0]} ${p.anchor[1]}`}));
    chart.labels.append(svg('text', {class: 'halo', x: p.left, y: p.base}, p.label));
  }
  return chart;
}

// Distributions of several series in one picture: shares of runs that took at most so long. [{name, ms, kind}]
const SERIES_KINDS = ['a', 'b', 'c', 'd', 'e', 'f'], SERIES_STYLES = ['', 'dash', 'dotted'];
function overlaid(series, {caption = 'Distributions', about = '', what = 'runs'} = {}) {
  const known = series.map(s => ({...s, sorted: ascending(s.ms)})).filter(s => s.sorted.length > 1).slice(0, 12);
  if (known.length < 2) return null;
  const all = known.flatMap(s => [s.sorted[0], s.sorted[s.sorted.length - 1]]),
        chart = new Chart({
          caption,
          about: about || `share of ${what} that took at most so long; the steeper, the steadier`,
          x: axis('latency, ms', all, {log: all[0] > 0 && most(all) > 6 * least(all)}),
          y: axis(`share of ${what}`, [0, 1], {zero: true, pad: 0, show: v => `${Math.round(100 * v)} %`})
        });
  known.forEach((s, k) => {
    const n = s.sorted.length, xs = s.sorted.flatMap(v => [v, v]), ys = s.sorted.flatMap((_, i) => [i / n, (i + 1) / n]);
    chart.path(xs, ys, SERIES_KINDS[k % 6], s.name, SERIES_STYLES[Math.floor(k / 6)]);
  });
  return chart;
}

// Where the time of a run goes: a bar for all, under it bars for the scopes that names of steps spell, down to the steps.
// steps: [{path: ['encoder', 'layer.0', 'Add'], ms, kind, title}], in the order of the run.
function flame(steps, {caption, about}) {
  const total = steps.reduce((sum, s) => sum + s.ms, 0), depth = Math.min(7, most(steps.map(s => s.path.length)));
  if (!(total > 0)) return null;
  const width = 1000, line = 21, rows = Array.from({length: depth + 1}, () => []);
  let at = 0;
  for (const s of steps) {
    const from = at, to = at + s.ms / total * width;
    at = to;
    for (let d = 0; d <= depth; ++d) {
      const part = d === 0 ? '' : d === depth ? s.path[s.path.length - 1] : s.path.length > d ? s.path[d - 1] : undefined;
      if (part === undefined) continue;
      const scope = d === depth ? s : s.path.slice(0, d).join('/'), row = rows[d], last = row[row.length - 1];
      if (last && d < depth && last.scope === scope && Math.abs(last.to - from) < 0.01) {
        last.to = to;
        last.ms += s.ms;
      } else {
        row.push({scope, from, to, ms: s.ms, label: d === 0 ? 'one run' : part, kind: d === depth ? s.kind : null, title: d === depth ? s.title : null});
      }
    }
  }
  const frame = svg('svg', {viewBox: `0 0 ${width} ${(depth + 1) * line}`, role: 'img', 'aria-label': `${caption}. ${about}`, style: 'min-width:640px'});
  rows.forEach((row, d) => row.forEach(b => {
    const w = b.to - b.from;
    if (w < 0.2) return;
    const title = b.title || `${b.label}: ${show(b.ms)} ms, ${show(100 * b.ms / total, 3)} %`;
    frame.append(svg('rect', {class: `bars ${b.kind ? `f-${b.kind}` : 'f-quiet'}`, opacity: b.kind ? 1 : 0.28 + 0.08 * (d % 2), x: b.from.toFixed(2), y: d * line,
                              width: w.toFixed(2), height: line - 1, rx: w > 6 ? 2 : 0}, svg('title', {}, title)));
    const letters = Math.floor((w - 8) / 6.4);
    if (letters >= 3) {
      const label = b.label.length > letters ? `${b.label.slice(0, letters - 1)}…` : b.label;
      frame.append(svg('text', {class: b.kind ? 'on' : '', x: (b.from + 4).toFixed(1), y: d * line + 14.5, 'pointer-events': 'none'}, label));
    }
  }));
  return html('figure', {class: 'full'}, html('figcaption', {}, caption, html('p', {}, about)), html('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption}, frame));
}
