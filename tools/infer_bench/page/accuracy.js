// Reports of `infer-opt quantize` and `compare`: what a model lost, layer by layer, and what it gained.
const decibel = v => Number.isNaN(number(v)) ? '–' : number(v) === Infinity ? 'equal' : `${show(v, 3)} dB`;
const verdictOf = r => r.verdict || (r.passed === true ? 'passed' : r.passed === false ? 'failed' : undefined);
const gateKind = v => ({passed: 'good', failed: 'bad', inconclusive: 'warn'}[v] || '');

function accuracyParts(a) {
  a = object(a);
  const outputs = list(a.outputs), task = object(a.task);
  const rows = outputs.map(o => [
    text(o.name), text(o.op), decibel(o.sqnr_db), show(o.cosine, 6), show(o.max_error_ratio, 3), show(o.unequal),
    Number.isFinite(number(object(o.rows).top1_agreement)) ? `${show(100 * number(o.rows.top1_agreement), 4)} %` : '–'
  ]);
  return [
    outputs.length ? table(
                         [{name: 'output'}, {name: 'operator', kind: 'text'}, {name: 'SQNR'}, {name: 'cosine'}, {name: 'max|d| / max|golden|'},
                          {name: 'unequal'}, {name: 'same top-1'}],
                         rows, {caption: `Outputs beside the golden model, ${text(a.samples)} samples`}) :
                     null,
    task.samples === undefined ? null : facts([
      ['top-1', `golden ${show(100 * number(task.golden_top1), 4)} %, candidate ${show(100 * number(task.candidate_top1), 4)} % of ${text(task.samples)} samples`],
      ['lost, gained', `${text(task.lost)}, ${text(task.gained)} (McNemar p = ${show(task.mcnemar_p, 2)})`],
      ['drop', `${show(100 * number(task.drop), 3)} points, 95 % interval ${showRange(task.drop_ci95, v => show(100 * number(v), 3))}`]
    ])
  ];
}

// SQNR of each layer: in the order of the model it falls where the error begins.
function layerErrors(layers, caption, order = 'in the order of the model') {
  const known = layers.map(l => Math.min(number(l.sqnr_db), 140));
  if (known.filter(Number.isFinite).length < 2) return null;
  const index = known.map((_, i) => i + 1), chart = new Chart({
    caption,
    about: `SQNR of ${plural(layers.length, 'layer')}, ${order}; lower is worse`,
    x: countAxis('layer', layers.length),
    y: axis('SQNR, dB', known)
  });
  chart.line(index, known, 'a', '', 'dotted').marks(index, known, 'a', {
    radius: layers.length > 120 ? 2 : 4,
    titles: layers.map(l => `${text(l.name)} (${text(l.op)}): ${decibel(l.sqnr_db)}`)
  });
  return chart;
}

function layerErrorTable(layers) {
  const s = strips(axis('SQNR, dB', layers.map(l => Math.min(number(l.sqnr_db), 140)), {zero: true}), 200, 18);
  const rows = layers.map(l => {
    const v = Math.min(number(l.sqnr_db), 140);
    const row = [text(l.name), text(l.op), decibel(l.sqnr_db), s.cell(s.bar(v), decibel(l.sqnr_db)), show(l.cosine, 6), show(l.max_error_ratio, 3)];
    row.at = number(l.sqnr_db);
    return row;
  });
  rows.sort((a, b) => a.at - b.at);
  return table(
      [{name: 'layer', kind: 'text'}, {name: 'operator', kind: 'text'}, {name: 'SQNR', sort: r => -r.at}, {name: s.scale(), kind: 'strip'},
       {name: 'cosine'}, {name: 'max|d| / max|golden|'}],
      rows, {caption: 'Layers, the worst first', first: 20});
}

function gateTable(gates) {
  if (!gates.length) return null;
  const rows = gates.map(g => {
    const verdict = g.passed === true ? 'passed' : g.inconclusive === true ? 'inconclusive' : 'failed';
    return [g.where ? `${text(g.name)}, ${text(g.where)}` : text(g.name), badge(verdict, gateKind(verdict)), text(g.message)];
  });
  return table([{name: 'gate'}, {name: 'verdict', kind: 'text'}, {name: 'why', kind: 'long'}], rows, {caption: 'Gates'});
}

function worstSqnr(a) {
  const all = list(object(a).outputs).map(o => number(o.sqnr_db)).filter(v => !Number.isNaN(v));
  return all.length ? decibel(least(all)) : undefined;
}

function accuracyReport(r) {
  const a = object(r.accuracy), layers = list(a.layers), isolated = list(r.isolated), speed = object(object(r.latency).speedup);
  return [
    summary([
      ['verdict', verdictOf(r)], ['worst output', worstSqnr(a), 'signal to noise'],
      ['speed-up', Number.isFinite(number(speed.median)) ? `${show(speed.median, 3)} x` : undefined, showRange(speed.median_ci95, v => show(v, 3))]
    ]),
    facts([['golden', baseName(object(r.golden).path)], ['candidate', baseName(object(r.candidate).path)]]), gateTable(list(r.gates)),
    ...accuracyParts(a),
    figures(
        layers.length ? layerErrors(layers, 'Error that adds up') : null,
        isolated.length ? layerErrors(isolated.map(l => ({name: l.layer, op: l.candidate_op, sqnr_db: l.output_sqnr_db})), 'Outputs when one layer alone is the candidate\'s', 'the worst first') : null),
    layers.length ? layerErrorTable(layers) : null
  ];
}

// Precision of the layers, and what rounding does to their weights.
function quantizedLayers(layers) {
  if (!layers.length) return null;
  const kb = v => Number.isFinite(number(v)) ? show(number(v) / 1e3, 3) : '–', has = key => layers.some(l => Number.isFinite(number(l[key])));
  const columns = [{name: 'layer', kind: 'text'}, {name: 'operator', kind: 'text'}, {name: 'precision', kind: 'text'},
                   {name: 'weights kB', sort: r => r.at.before}, {name: 'then kB'}];
  if (has('weight_error')) columns.push({name: 'weight error', sort: r => r.at.weight});
  if (has('output_error')) columns.push({name: 'output error', sort: r => r.at.output});
  columns.push({name: 'why', kind: 'long'});
  const rows = layers.map(l => {
    const row = [text(l.name), text(l.op), badge(text(l.precision), /8|4|2/.test(text(l.precision)) && !/32|16/.test(text(l.precision)) ? 'good' : ''),
                 kb(l.weight_bytes_before), kb(l.weight_bytes_after)];
    if (has('weight_error')) row.push(show(l.weight_error, 3));
    if (has('output_error')) row.push(show(l.output_error, 3));
    row.push([l.reason, l.note].filter(Boolean).map(text).join('; '));
    row.at = {before: number(l.weight_bytes_before), weight: number(l.weight_error), output: number(l.output_error)};
    return row;
  });
  return table(columns, rows, {caption: 'Layers', first: 30});
}

function precisionBars(layers) {
  const by = new Map();
  for (const l of layers) {
    const p = by.get(text(l.precision)) || {count: 0, bytes: 0};
    p.count += 1;
    p.bytes += number(l.weight_bytes_before) || 0;
    by.set(text(l.precision), p);
  }
  const total = most([...by.values()].map(p => p.bytes)) || 1, s = strips(axis('weights before, kB', [0, total / 1e3], {zero: true}), 260, 18);
  const rows = [...by].sort((a, b) => b[1].bytes - a[1].bytes).map(
      ([name, p]) => [name, text(p.count), show(p.bytes / 1e3, 4),
                      s.cell(s.bar(p.bytes / 1e3), `${show(p.bytes / 1e3)} kB`)]);
  return table([{name: 'precision'}, {name: 'layers'}, {name: 'weights kB'}, {name: s.scale(), kind: 'strip'}], rows, {caption: 'Precisions'});
}

function recipeTable(recipe) {
  const steps = list(recipe.steps);
  if (!steps.length) return null;
  const rows = steps.map(s => [text(s.name), text(s.note), decibel(s.sqnr_db_before), decibel(s.sqnr_db_after), s.kept ? 'yes' : 'no', show(s.seconds, 3)]);
  return table([{name: 'step'}, {name: 'what', kind: 'text'}, {name: 'before'}, {name: 'after'}, {name: 'kept', kind: 'text'}, {name: 'seconds'}], rows,
               {caption: `Recipe ${text(recipe.name)}, judged on ${text(recipe.held_out_samples)} held-out samples`});
}

function quantizeReport(r) {
  const q = object(r.quantization), layers = list(q.layers), a = object(r.accuracy), task = object(a.task), worth = object(r.worth),
        ratio = object(object(worth.latency).ratio), shareOf = (after, before) => number(after) / number(before);
  const rows = list(a.layers);
  return [
    summary([
      ['verdict', verdictOf(r)], ['mode', text(r.mode)],
      ['layers quantized', q.quantizable_layers === undefined ? undefined : `${text(q.integer_layers)} of ${text(q.quantizable_layers)}`],
      ['weights', q.weight_bytes_before > 0 ? `${show(100 * shareOf(q.weight_bytes_after, q.weight_bytes_before), 3)} %` : undefined,
       `${showMB(q.weight_bytes_before)} MB to ${showMB(q.weight_bytes_after)} MB`],
      ['top-1 lost', Number.isFinite(number(task.drop)) ? `${show(100 * number(task.drop), 3)} points` : undefined,
       `95 %: ${showRange(task.drop_ci95, v => show(100 * number(v), 3))}`],
      ['worst output', worstSqnr(a), 'signal to noise'],
      ['time', Number.isFinite(number(ratio.median)) ? `${show(number(ratio.median), 3)} x` : undefined, `of fused FP32; 95 %: ${showRange(ratio.median_ci95, v => show(v, 3))}`]
    ]),
    gateTable(list(r.gates)), ...accuracyParts(a),
    figures(layers.length ? precisionBars(layers) : null, rows.length ? layerErrors(rows, 'Error that adds up') : null), recipeTable(object(r.recipe)),
    quantizedLayers(layers), rows.length ? layerErrorTable(rows) : null
  ];
}
