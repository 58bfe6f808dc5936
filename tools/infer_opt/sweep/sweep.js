// The page of a sweep: variants of a model by accuracy, speed and size.
const made = v => v.made === true && object(v.speed_up).median !== undefined;
const sqnrOf = v => {
  const all = list(object(v.accuracy).outputs).map(o => o.sqnr_db === undefined ? Infinity : number(o.sqnr_db)).filter(x => !Number.isNaN(x));
  return all.length ? least(all) : NaN;
};
const MOST_DB = 120;  // outputs that are equal have no finite SQNR: they stand at the top

class Sweep {
  constructor(data) {
    this.data = data;
    this.all = list(data.variants).map(object);
    this.shown = this.all.filter(made);
    this.task = this.shown.some(v => object(v.accuracy).task);
    this.best = object(data.recommended);
  }

  accuracyOf(v) {
    return this.task ? 100 * number(v.accuracy_delta) : Math.min(sqnrOf(v), MOST_DB);
  }
  accuracyInterval(v) {  // of the loss, so that its ends change places
    const drop = numbers(object(object(v.accuracy).task).drop_ci95);
    return this.task && drop.length === 2 ? [-100 * drop[1], -100 * drop[0]] : [];
  }
  // Colour and form: the recommended one, the front, those that another beats; hollow: loses too much.
  kindOf(v) {
    return v.recommended ? 'c' : v.pareto ? 'a' : 'quiet';
  }

  point(v, x, xs) {
    return {
      x, xs,
      y: this.accuracyOf(v),
      ys: this.accuracyInterval(v),
      label: text(v.id),
      kind: this.kindOf(v),
      hollow: v.acceptable !== true,
      title: `${text(v.id)}: ${this.task ? `${show(this.accuracyOf(v), 3)} points` : `${show(this.accuracyOf(v), 3)} dB`}`
    };
  }

  plot(caption, about, xName, of, interval) {
    const points = this.shown.filter(v => Number.isFinite(this.accuracyOf(v)) && Number.isFinite(of(v))).map(v => this.point(v, of(v), interval(v)));
    if (!points.length) return html('figure', {}, html('figcaption', {}, caption, html('p', {}, 'accuracy is not known, because no data was given')));
    const xs = points.flatMap(p => [p.x, ...p.xs]), ys = points.flatMap(p => [p.y, ...p.ys]);
    return scatter(points, {
      caption,
      about,
      height: 380,
      x: axis(xName, xs, {pad: 0.12}),
      y: axis(this.task ? 'top-1 against FP32, points' : 'least SQNR of an output, dB', ys, {pad: 0.12})
    });
  }

  plots() {
    const key = (mark, name) => html('li', {}, svg('svg', {width: 14, height: 12, 'aria-hidden': 'true'}, mark), name), dot = kind => svg('circle', {cx: 7, cy: 6, r: 5, class: kind, 'stroke-width': 2});
    return [
      html('ul', {class: 'legend'}, key(dot('f-c s-c'), 'recommended'), key(dot('f-a s-a'), 'on the Pareto front: nothing is better in everything'),
           key(dot('f-quiet s-quiet'), 'beaten by another'), key(dot('f-page s-quiet'), 'hollow: does not keep the accuracy')),
      figures(
          this.plot('Accuracy and speed', 'bars: 95 % intervals; up and to the right is better', 'speed-up over FP32', v => number(v.speed_up.median), v => numbers(v.speed_up.median_ci95)),
          this.plot('Accuracy and size', 'up and to the left is better', 'size of the file, share of FP32', v => number(v.size_ratio), () => []))
    ];
  }

  fileOf(v) {
    const name = baseName(v.path);
    return typeof v.path === 'string' ? html('a', {href: `./${encodeURIComponent(name)}`, download: name}, name) : '–';
  }

  table() {
    const {task} = this, eval_ = this.shown.some(v => Number.isFinite(number(v.eval_score)));
    const strip = strips(axis('speed-up', [1, ...this.shown.flatMap(v => [number(v.speed_up.median), ...numbers(v.speed_up.median_ci95)])], {zero: true}), 180);
    // Deciding columns come first; wide tables scroll.
    const columns = [
      {name: 'variant'}, {name: 'keeps the accuracy'}, {name: task ? 'top-1 %' : 'cosine', sort: r => r.at.score}, ...(task ? [{name: 'points'}] : []),
      {name: 'SQNR dB', sort: r => r.at.sqnr}, ...(eval_ ? [{name: 'eval'}] : []), {name: 'speed-up', sort: r => r.at.speed}, {name: '95 % interval'},
      {name: strip.scale(), kind: 'strip'}, {name: 'ms', sort: r => r.at.ms}, {name: 'MB', sort: r => r.at.bytes}, {name: '× size'}, {name: 'peak MB'}, {name: 'resident MB'},
      {name: 'device', kind: 'text'}, {name: 'file', kind: 'text'}, {name: 'quantization', kind: 'text'}
    ];
    const rows = this.shown.map(v => {
      const known = v.accuracy !== undefined && v.accuracy !== null, s = sqnrOf(v), speed = object(v.speed_up), ci = numbers(speed.median_ci95), m = object(v.memory);
      const marks = [svg('path', {class: 'line s-quiet dotted', d: `M${strip.at(1)} 0V${strip.height}`}), ...strip.interval(ci[0], number(speed.median), ci[1], this.kindOf(v))];
      const row = [
        text(v.id), known || eval_ ? badge(v.acceptable ? 'yes' : 'no', v.acceptable ? 'good' : 'bad') : 'not known',
        !known ? 'not known' : task ? show(100 * number(v.accuracy_score), 4) : show(v.accuracy_score, 5), ...(task ? [known ? show(100 * number(v.accuracy_delta), 3) : ''] : []),
        known ? (s === Infinity ? 'equal' : show(s, 3)) : '', ...(eval_ ? [show(v.eval_score)] : []), `${show(speed.median, 3)} x`, showRange(speed.median_ci95, x => show(x, 3)),
        strip.cell(marks, `speed-up ${show(speed.median, 3)}`), show(object(v.latency_ms).median), showMB(v.bytes), show(v.size_ratio, 3),
        showMB(m.allocated_peak_bytes ?? m.resident_peak_bytes), showMB(m.resident_peak_bytes), text(v.device), this.fileOf(v), [v.quantization, ...list(v.arguments)].map(text).join(' ')
      ];
      row.chosen = v.recommended === true;
      row.at = {bytes: number(v.bytes), ms: number(object(v.latency_ms).median), speed: number(speed.median), score: number(v.accuracy_score), sqnr: s};
      return row;
    });
    return table(columns, rows, {caption: 'Variants'});
  }

  failures() {
    const lines = this.all.filter(v => !made(v)).map(v => `${text(v.id)}: ${text(v.failure || 'not measured')}`);
    return warnings(lines, 'Variants that were not made');
  }

  card() {
    const v = this.shown.find(k => k.recommended === true), fp32 = this.shown.find(k => k.id === 'fp32');
    if (!v) return null;
    const delta = this.accuracyOf(v);
    return summary([
      ['recommended', text(v.id), [v.quantization, ...list(v.arguments)].map(text).join(' ')],
      ['speed-up', `${show(number(v.speed_up.median), 3)} x`, `95 %: ${showRange(v.speed_up.median_ci95, x => show(x, 3))}, on ${text(v.device)}`],
      ['size', `${showMB(v.bytes)} MB`, fp32 ? `${show(100 * number(v.size_ratio), 3)} % of ${showMB(fp32.bytes)} MB` : null],
      ['accuracy', !Number.isFinite(delta) ? undefined : this.task ? `${show(delta, 3)} points` : delta === MOST_DB ? 'equal' : `${show(delta, 3)} dB`, this.task ? 'top-1 against FP32' : 'worst output'],
      ['latency', `${show(object(v.latency_ms).median)} ms`], ['variants', String(this.shown.length)]
    ]);
  }

  draw() {
    const name = baseName(object(this.data.model).path);
    document.title = document.getElementById('title').textContent = `Sweep: ${name}`;
    document.getElementById('theme').append(themeButton());
    document.getElementById('why').textContent = this.best.id ? `Recommended: ${text(this.best.id)}, ${text(this.best.why)}` : '';
    document.getElementById('content').replaceChildren(...[this.card(), this.plots(), this.table(), this.failures()].flat().filter(Boolean));
  }
}
new Sweep(JSON.parse(document.getElementById('data').textContent)).draw();
