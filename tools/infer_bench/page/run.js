// Reports of `infer-bench run`, and what reports of load show in the same way.
const QUANTILES = ['p50', 'p90', 'p95', 'p99', 'p99.9'];

// A percentile that the count of samples cannot bear is withheld in the report; it is shown as that, not left out.
function percentile(d, name) {
  const why = object(d.withheld)[name];
  return Number.isFinite(number(d[name])) ? show(d[name]) :
      why                                 ? html('span', {class: 'quiet', title: text(why)}, 'withheld') :
                                            '–';
}
function withheldRemarks(distributions) {
  const said = w => distributions.length > 1 ? text(w).split(',')[0] : text(w);  // the counts differ
  const why =
      new Set(distributions.flatMap(d => Object.entries(object(d.withheld)).map(([p, w]) => `${p} ${said(w)}`)));
  return why.size ? quiet(`Withheld: ${[...why].join('; ')}.`) : null;
}
function percentileTable(rows, caption) {  // [[name, distribution]]
  const columns =
      [{name: 'ms', kind: 'text'}, {name: 'min'}, {name: 'mean'}, ...QUANTILES.map(name => ({name})), {name: 'max'}];
  const bounds = rows.some(([, d]) => QUANTILES.some(p => Number.isFinite(number(object(d.upper_99)[p]))));
  const of = ([name, d]) => [name, show(d.min), show(d.mean), ...QUANTILES.map(p => percentile(d, p)), show(d.max)];
  const upper = ([name, d]) => [`${name}, at most`, '', '', ...QUANTILES.map(p => show(object(d.upper_99)[p])), ''];
  return html(
      'div', {}, table(columns, rows.flatMap(r => bounds ? [of(r), upper(r)] : [of(r)]), {caption}),
      bounds ? quiet('At most: what the percentile does not exceed, with 99 % confidence.') : null,
      withheldRemarks(rows.map(([, d]) => d)));
}

// Latency axis: logarithmic where stalls would press everything else flat.
function latencyAxis(label, values) {
  const known = ascending(values),
        wide = known.length > 0 && known[0] > 0 && known[known.length - 1] > 6 * quantile(known, 0.5);
  return axis(label, values, {log: wide});
}

function timeline(at, ms, {caption, about, outliers = [], d = {}, what = 'run', xLabel = 'since the first run, s'}) {
  const flagged = new Set(list(outliers)), ordered = ms.map((_, i) => i);
  const kept = ordered.filter(i => !flagged.has(i)), marked = ordered.filter(i => flagged.has(i));
  const chart = new Chart({caption, about, x: axis(xLabel, at, {pad: 0.01}), y: latencyAxis('latency, ms', ms)});
  const interval = numbers(d.median_ci95);
  chart.band(interval[0], interval[1], 'b', interval.length ? '95 % interval of the median' : '');
  chart.dots(kept.map(i => at[i]), kept.map(i => ms[i]), 'a', `a ${what}`);
  if (marked.length) chart.crosses(marked.map(i => at[i]), marked.map(i => ms[i]), 'bad', `outlier (${marked.length})`);
  return chart.level(number(d.median ?? d.p50), 'b', 'median', '');
}

function histogram(ms, {caption, lines = [], what = 'runs'}) {
  const sorted = ascending(ms), n = sorted.length;
  if (n < 2) return null;
  const q = p => quantile(sorted, p), last = sorted[n - 1];
  // A long tail would press everything else into one bin: it is counted, and tailChart shows it.
  const end = Math.min(last, Math.max(q(0.5) + 6 * (q(0.75) - q(0.25)), q(0.95)));
  const width = 2 * (q(0.75) - q(0.25)) / Math.cbrt(n);  // Freedman and Diaconis
  const bins = Math.max(8, Math.min(70, width > 0 ? Math.ceil((end - sorted[0]) / width) : 8));
  const span = (end - sorted[0]) / bins || Math.abs(end) * 0.01 || 1, counts = new Array(bins).fill(0);
  const beyond = sorted.filter(v => v > end * (1 + 1e-12)).length;
  for (const v of sorted)
    if (v <= end * (1 + 1e-12)) ++counts[Math.min(bins - 1, Math.floor((v - sorted[0]) / span))];
  const about =
      beyond ? `${beyond} of ${n} ${what} lie beyond the right end, up to ${show(last)} ms` : `${n} ${what}, all shown`;
  const x = axis('latency, ms', [sorted[0], sorted[0] + bins * span], {pad: 0.02});
  const chart = new Chart({caption, about, x, y: axis(what, [0, most(counts) * 1.25], {zero: true, pad: 0})});
  chart.add(svg('path', {
    class: 'bars f-a',
    d: counts
           .map(
               (c, i) => c === 0 ? '' :
                                   `M${chart.px(sorted[0] + i * span)} ${chart.height}V${chart.py(c)}H${
                                       chart.px(sorted[0] + (i + 1) * span)}V${chart.height}z`)
           .join('')
  }));
  lines.filter(([, v]) => Number.isFinite(v) && v <= x.high)
      .forEach(([name, v], i) => chart.at(v, 'b', `${name} ${show(v)}`, i, i ? 'dash' : ''));
  return chart;
}
// The empirical distribution from its far end: which share of runs took longer.
function tailChart(ms, {caption = 'Tail', what = 'runs'} = {}) {
  const sorted = ascending(ms), n = sorted.length;
  if (n < 20) return null;
  const longer = sorted.map((_, i) => (n - i) / n);
  const percent = v => v >= 0.01 ? `${Number((100 * v).toPrecision(3))} %` : `${Number((100 * v).toPrecision(1))} %`;
  const chart = new Chart({
    caption,
    about: `share of ${what} that took at least so long`,
    x: latencyAxis('latency, ms', sorted),
    y: axis(`share of ${what}`, [1 / n, 1], {log: true, pad: 0.02, show: percent})
  });
  const steps = sorted.flatMap((v, i) => i ? [v, v] : [v]),
        shares = longer.flatMap((v, i) => i ? [longer[i - 1], v] : [v]);
  return chart.path(steps, shares, 'a');
}
const percentileLines =
    d => ['p50', 'p90', 'p99'].map(p => [p === 'p50' ? 'median' : p, number(p === 'p50' ? d.median ?? d.p50 : d[p])]);

function cellOverview(cells) {
  const d = c => object(c.latency_ms);
  const x = axis(
      'latency, ms', cells.flatMap(c => [...numbers(d(c).median_ci95), number(d(c).median), number(d(c).p99)]),
      {zero: true});
  const log = x.low >= 0 && most(cells.map(c => number(d(c).median))) > 8 * least(cells.map(c => number(d(c).median)));
  const s =
      strips(log ? axis('latency, ms', cells.flatMap(c => [number(d(c).median), number(d(c).p99)]), {log}) : x, 220);
  const columns = [
    {name: 'what was run'}, {name: 'median ms', sort: r => r.at.median}, {name: '95 % interval'}, {name: 'p90'},
    {name: 'p99'}, {name: 'CV %', sort: r => r.at.cv}, {name: 'outliers'}, {name: 'runs'},
    {name: 'per s', sort: r => r.at.rate}, {name: 'first ms'}, {name: 'cold ms'}
  ];
  if (cells.length > 1) columns.push({name: s.scale(), kind: 'strip'});
  const rows = cells.map(c => {
    const ms = d(c), ci = numbers(ms.median_ci95);
    const row = [
      text(c.name ?? baseName(object(c.model).path)), show(ms.median), showRange(ci), percentile(ms, 'p90'),
      percentile(ms, 'p99'), show(100 * number(ms.cv), 3), text(ms.outliers), text(ms.runs), show(c.throughput_per_s),
      show(c.first_ms), show(object(c.cold).median)
    ];
    if (cells.length > 1) {
      const mid = number(ms.median), far = number(ms.p99);
      const tail = Number.isFinite(mid) && Number.isFinite(far) ?
          svg('path', {class: 'line s-quiet dotted', d: `M${s.at(mid)} 10H${s.at(far)}v-4v8`}) :
          '';
      row.push(s.cell(
          [tail, ...s.interval(ci[0], mid, ci[1], 'a')],
          `median ${show(ms.median)} ms, 95 % interval ${showRange(ci)}`));
    }
    row.at = {median: number(ms.median), cv: number(ms.cv), rate: number(c.throughput_per_s)};
    return row;
  });
  return html(
      'div', {}, table(columns, rows, {caption: 'Latency of each cell of the grid'}),
      cells.length > 1 ?
          quiet(
              'Dot and bar: median with its 95 % interval; dotted: as far as p99, where the count of runs bears it.') :
          null);
}

const isInt8 = layer => text(layer.precision).endsWith('s32');

// Nodes need not have names.
const stepName = (layer, i) => text(layer.node || list(layer.fused_from).find(Boolean) || `step ${i + 1}`);

function layerTable(cell) {
  const layers = list(cell.layers), total = layers.reduce((sum, l) => sum + (number(l.ms) || 0), 0);
  const s = strips(axis('time, ms', layers.map(l => number(l.ms)), {zero: true}), 280, 18);
  const columns = [
    {name: 'step', kind: 'text'}, {name: 'operators', kind: 'text'}, {name: 'kernel', kind: 'text'},
    {name: 'ms', sort: r => r.at.ms}, {name: '% of run', sort: r => r.at.ms}, {name: s.scale(), kind: 'strip'},
    {name: 'roofline %', sort: r => r.at.roof}, {name: 'GFLOP/s', sort: r => r.at.rate}
  ];
  const rows =
      layers
          .map((l, i) => {
            const ms = number(l.ms), floor = number(l.floor_ms), rate = number(object(l.cost).flops) / ms / 1e6,
                  roof = floor > 0 && ms > 0 ? 100 * floor / ms : NaN;
            const row = [
              stepName(l, i), text(l.op), `${text(l.kernel)}${l.precision ? `, ${l.precision}` : ''}`, show(ms),
              show(100 * ms / total, 3),
              s.cell(
                  [s.bar(ms, 'a', 3, 12), s.bar(Math.min(floor, ms), 'b', 6, 6)],
                  `${show(ms)} ms, at least ${show(floor)} ms by the roofline`),
              show(roof, 3), show(rate, 3)
            ];
            row.at = {ms, roof, rate};
            return row;
          })
          .sort((a, b) => b.at.ms - a.at.ms);
  return html(
      'div', {}, table(columns, rows, {caption: 'Time of each step', first: 15}),
      quiet(
          'Bar: measured time; inside it the least that the machine could take by its roofline. Above 100 %: fewer ' +
          'operations than the direct algorithm has, or data that lay nearer than its size says.'));
}

function kernelTable(layers) {
  const kernels = new Map();
  let total = 0;
  for (const l of layers) {
    const k = kernels.get(text(l.kernel)) || {ms: 0, steps: 0, floor: 0};
    k.ms += number(l.ms) || 0;
    k.floor += number(l.floor_ms) || 0;
    k.steps += 1;
    total += number(l.ms) || 0;
    kernels.set(text(l.kernel), k);
  }
  const rows =
      [...kernels]
          .sort((a, b) => b[1].ms - a[1].ms)
          .map(([name,
                 k]) => [name, text(k.steps), show(k.ms), show(100 * k.ms / total, 3), show(100 * k.floor / k.ms, 3)]);
  return table(
      [{name: 'kernel'}, {name: 'steps'}, {name: 'ms'}, {name: '% of run'}, {name: 'roofline %'}], rows,
      {caption: 'Time by kernel', first: 14});
}

// The roofs: a slope for each level of memory, a ceiling for each kind of arithmetic.
function drawRoofs(chart, levels, peaks) {
  const top = most(peaks.map(([v]) => v)), fastest = most(levels.map(l => number(l.gb_per_s))), {low} = chart.x,
        names = [];
  levels.forEach((l, i) => {
    const rate = number(l.gb_per_s);
    chart.line([low, top / rate], [low * rate, top], 'quiet', '', i === levels.length - 1 ? '' : 'dotted');
    // Each name at a height of its own, right of its line.
    const y = Math.max(chart.y.low * (chart.y.high / chart.y.low) ** (0.1 + 0.13 * i), low * rate * 1.1);
    names.push(
        svg('text', {class: 'quiet halo', x: Math.min(chart.px(y / rate) + 7, chart.width - 100), y: chart.py(y) + 8},
            `${text(l.name)} ${show(rate, 3)} GB/s`));
  });
  for (const [v, label] of peaks) {
    chart.line([v / fastest, chart.x.high], [v, v], 'quiet');
    names.push(
        svg('text', {class: 'quiet halo', x: chart.width - 4, y: chart.py(v) - 5, 'text-anchor': 'end'},
            `${label} ${show(v, 3)}`));
  }
  return names;
}

function rooflineChart(cell) {
  const roof = object(object(cell.profile).roofline), levels = list(roof.levels).filter(l => number(l.gb_per_s) > 0);
  const f32 = number(roof.f32_gflops), int8 = number(roof.int8_gops), layers = list(cell.layers);
  const points = layers
                     .map(l => {
                       const cost = object(l.cost), flops = number(cost.flops),
                             moved = number(cost.bytes_read) + number(cost.bytes_written), ms = number(l.ms);
                       return {l, ms, x: flops / moved, y: flops / ms / 1e6};
                     })
                     .filter(p => p.x > 0 && p.y > 0 && Number.isFinite(p.x) && Number.isFinite(p.y));
  if (!points.length || !levels.length || !(f32 > 0)) return null;
  const peaks = [[f32, 'f32 peak']];
  if (points.some(p => isInt8(p.l)) && int8 > 0) peaks.push([int8, 'int8 peak']);
  const ridge = most(peaks.map(([v]) => v)) / least(levels.map(l => number(l.gb_per_s)));
  const left = layers.length - points.length, total = points.reduce((sum, p) => sum + p.ms, 0);
  const chart = new Chart({
    caption: 'Roofline',
    height: 360,
    about: `each step by operations per byte and speed; area: its time${
        left ? `; ${plural(left, 'step')} without operations not shown` : ''}`,
    x: axis('operations per byte, FLOP/B', [...points.map(p => p.x), ridge * 1.5], {log: true}),
    y: axis('speed, GFLOP/s', [...points.map(p => p.y), ...peaks.map(([v]) => v)], {log: true, pad: 0.08})
  });
  const names = drawRoofs(chart, levels, peaks);
  for (const [kind, name, of] of [['a', 'f32', p => !isInt8(p.l)], ['c', 'int8', p => isInt8(p.l)]]) {
    const some = points.filter(of).sort((a, b) => b.ms - a.ms);
    const told = p => `${stepName(p.l, layers.indexOf(p.l))} (${text(p.l.op)}): ${show(p.ms)} ms, ${
        show(p.y, 3)} GFLOP/s at ${show(p.x, 3)} FLOP/B`;
    if (some.length)
      chart.marks(
          some.map(p => p.x), some.map(p => p.y), kind,
          {name, radius: i => 2.5 + 13 * Math.sqrt(some[i].ms / total), titles: some.map(told)});
  }
  return chart.add(...names);
}

function watchLine(w) {
  w = object(w);
  if (!Object.keys(w).length) return undefined;
  return `${show(w.own_cores, 3)} cores used by us, ${show(w.other_cores, 3)} by others, ${
             show(w.stolen_cores, 3)} taken by a hypervisor; ` +
      `${text(w.preemptions)} preemptions; fixed arithmetic ${show(w.spin_before_ms)} ms before, ${
             show(w.spin_after_ms)} ms after`;
}

function cellFacts(c) {
  const cold = object(c.cold), stages = object(cold.stages_ms), memory = object(c.memory), warm = object(c.warmup),
        model = object(c.model);
  const ms = pairs =>
      pairs.filter(([, v]) => Number.isFinite(number(v))).map(([name, v]) => `${name} ${show(v)}`).join(', ');
  return facts([
    [
      'model',
      `${text(model.path)} (${text(model.nodes)} nodes, ${showMB(model.bytes)} MB, SHA-256 ${
          text(model.sha256).slice(0, 12)})`
    ],
    ['batch, threads', `${text(c.batch)}, ${text(c.threads)}`],
    ['dimensions', Object.entries(object(c.extents)).map(([k, v]) => `${k} = ${text(v)}`).join(', ')],
    [
      'warm-up',
      warm.runs === undefined ?
          undefined :
          `${text(warm.runs)} runs, ended: ${text(warm.ended)}${warm.stable === false ? ', not stable' : ''}`
    ],
    ['measuring ended by', c.ended],
    [
      'before, ms',
      ms([['load', c.load_ms], ['convert', c.convert_ms], ['compile', c.compile_ms], ['first run', c.first_ms]])
    ],
    [
      'cold start, ms',
      cold.starts ? `median ${show(cold.median)} of ${text(cold.starts)} (${ms(Object.entries(stages))})` : undefined
    ],
    [
      'memory, MB',
      ['arena', 'weight', 'lower_bound', 'peak_resident', 'cold_peak_resident', 'allocated_peak']
          .map(k => [k, memory[`${k}_bytes`]])
          .filter(([, v]) => Number.isFinite(number(v)))
          .map(([k, v]) => `${k.replaceAll('_', ' ')} ${showMB(v)}`)
          .join(', ')
    ],
    ['meanwhile', watchLine(c.watch)]
  ]);
}

function runCell(c, several) {
  const d = object(c.latency_ms), ms = numbers(c.samples_ms), at = numbers(c.samples_at_ms);
  const seconds = ms.map((_, i) => at.length === ms.length ? (at[i] - at[0]) / 1e3 : i);
  const ordered = at.length === ms.length, layers = list(c.layers), p = object(c.profile);
  return html(
      'div', {}, several ? html('h3', {}, text(c.name)) : null,
      c.interrupted ? badge('interrupted: as far as it went', 'warn') : null,
      warnings(c.warnings, 'While this was measured'),
      ms.length === 0 ? quiet('The report has no samples of it.') :
                        figures(
                            timeline(seconds, ms, {
                              caption: 'Every run, in order',
                              d,
                              outliers: d.outlier_indices,
                              xLabel: ordered ? undefined : 'run',
                              about: `${plural(ms.length, 'run')}, median ${show(d.median)} ms, 95 % interval ${
                                  showRange(d.median_ci95)} ms`
                            }),
                            histogram(ms, {caption: 'Distribution', lines: percentileLines(d)}), tailChart(ms),
                            percentileTable([['latency', d]], 'Percentiles')),
      ms.length === 0 ? percentileTable([['latency', d]], 'Percentiles') : null,
      details('Stages, memory and conditions', cellFacts(c)),
      layers.length ?
          html(
              'div', {}, html('h3', {}, `Where the time goes${several ? `: ${text(c.name)}` : ''}`),
              quiet(
                  `Median of ${text(p.runs)} profiled runs: ${show(p.wall_ms)} ms (${
                      show(p.overhead, 4)} x unprofiled), ${show(100 * number(p.unexplained), 2)} % in no step` +
                  (Number.isFinite(number(p.roofline_percent)) ?
                       `; ${show(p.roofline_percent, 3)} % of the machine's peak.` :
                       '.')),
              guarded(() => flameOf(c)), figures(rooflineChart(c), kernelTable(layers)), layerTable(c)) :
          null);
}

const cellName = c => text(c.name ?? baseName(object(c.model).path));

function runSummary(cells) {
  const fastest = [...cells].sort((a, b) => (number(object(a.latency_ms).median) || Infinity) - (number(object(b.latency_ms).median) || Infinity))[0],
        d = object(fastest.latency_ms), memory = object(fastest.memory), half = numbers(d.median_ci95),
        ms = v => Number.isFinite(number(v)) ? `${show(v)} ms` : undefined,
        mb = v => Number.isFinite(number(v)) ? `${showMB(v)} MB` : undefined;
  return summary([
    ['median', ms(d.median), `${cells.length > 1 ? `the fastest: ${cellName(fastest)}; ` : ''}${half.length === 2 ? `95 %: ${showRange(half)}` : ''}`],
    ['99th percentile', ms(d.p99), object(d.withheld).p99 ? 'withheld' : null],
    ['per second', show(fastest.throughput_per_s)],
    ['spread', Number.isFinite(number(d.cv)) ? `${show(100 * number(d.cv), 3)} %` : undefined, `of ${text(d.runs)} runs, ${text(d.outliers)} outliers`],
    ['first run', ms(fastest.first_ms)], ['cold start', ms(object(fastest.cold).median)],
    ['memory, peak', mb(memory.allocated_peak_bytes ?? memory.peak_resident_bytes)]
  ]);
}

// Names of steps spell scopes: /encoder/layer.0/Add. Scopes that all share say nothing.
function flameOf(cell) {
  const steps = list(cell.layers).map((l, i) => {
    const name = stepName(l, i), ms = number(l.ms) || 0, parts = name.split('/').filter(Boolean);
    return {path: parts, ms, kind: isInt8(l) ? 'c' : text(l.kernel) === 'reference' ? 'b' : 'a',
            title: `${name} (${text(l.op)}, ${text(l.kernel)}): ${show(ms)} ms`};
  });
  return steps.length < 2 ? null : flame(steps, {
    caption: 'One run, step by step',
    about: 'width: time; from left to right as the steps run, under the scopes that their names spell; f32 blue, int8 green, reference kernels orange'
  });
}

function runReport(r) {
  const cells = list(r.results);
  if (!cells.length) return [quiet('The report has no results.')];
  const series = cells.map(c => ({name: cellName(c), ms: numbers(c.samples_ms)}));
  return [runSummary(cells), cellOverview(cells), cells.length > 1 ? figures(overlaid(series)) : null, ...cells.map(c => guarded(() => runCell(c, cells.length > 1)))];
}
