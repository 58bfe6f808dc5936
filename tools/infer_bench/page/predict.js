// Reports of `infer-bench predict`: what models would take, and how wrong that was where it was measured.
function predictedTable(results) {
  const ms = results.flatMap(r => [number(r.predicted_ms), number(r.measured_ms)]);
  const s = strips(axis('ms', ms, {log: most(ascending(ms)) > 8 * least(ascending(ms)), zero: true}), 260);
  const rows = results.map(r => {
    const predicted = number(r.predicted_ms), measured = number(r.measured_ms);
    const marks = [];
    if (Number.isFinite(predicted)) marks.push(svg('circle', {class: 'f-a', cx: s.at(predicted), cy: 10, r: 4.5}));
    if (Number.isFinite(measured)) marks.push(svg('path', {class: 'line s-b', d: `M${s.at(measured)} 2V18`}));
    const row = [baseName(r.path ?? object(r.model).path), show(predicted), show(measured), Number.isFinite(number(r.error)) ? showShare(r.error) : '–',
                 s.cell(marks, `predicted ${show(predicted)} ms`), text(r.launches), `${show(100 * number(r.general_share), 3)} %`, `${show(100 * number(r.extrapolated_share), 3)} %`];
    row.at = {predicted, error: Math.abs(number(r.error))};
    return row;
  });
  return html(
      'div', {},
      table(
          [{name: 'model'}, {name: 'predicted ms', sort: r => r.at.predicted}, {name: 'measured ms'}, {name: 'error', sort: r => r.at.error},
           {name: s.scale(), kind: 'strip'}, {name: 'launches'}, {name: 'general kernels'}, {name: 'extrapolated'}],
          rows, {caption: 'Predicted time of each model', first: 40}),
      quiet('Dot: predicted; bar: measured.'));
}

function predictedLayers(r) {
  const layers = list(r.layers);
  if (!layers.length) return null;
  const s = strips(axis('predicted, ms', layers.map(l => number(l.ms)), {zero: true}), 220, 18);
  const rows = layers.map((l, i) => {
    const row = [stepName(l, i), text(l.op), `${text(l.kernel)}, ${text(l.precision)}`, show(l.ms), show(l.measured_ms),
                 s.cell(s.bar(number(l.ms)), `${show(l.ms)} ms`),
                 text(l.family), l.extrapolated ? 'yes' : ''];
    row.at = number(l.ms);
    return row;
  });
  rows.sort((a, b) => b.at - a.at);
  return details(`Steps of ${baseName(r.path ?? object(r.model).path)}`,
                 table([{name: 'step', kind: 'text'}, {name: 'operators', kind: 'text'}, {name: 'kernel', kind: 'text'}, {name: 'predicted ms', sort: k => k.at},
                        {name: 'measured ms'}, {name: s.scale(), kind: 'strip'}, {name: 'family', kind: 'text'}, {name: 'extrapolated', kind: 'text'}],
                       rows, {caption: 'Steps, the longest first', first: 25}));
}

function predictReport(r) {
  const results = list(r.results), sum = object(r.summary), machine = object(r.machine), one = results.length === 1 ? object(results[0]) : {};
  return [
    summary([
      ['predicted', Number.isFinite(number(one.predicted_ms)) ? `${show(one.predicted_ms)} ms` : undefined, 'a run'],
      ['measured', Number.isFinite(number(one.measured_ms)) ? `${show(one.measured_ms)} ms` : undefined],
      ['models', results.length > 1 ? String(results.length) : undefined],
      ['error, median', Number.isFinite(number(sum.median_error)) ? `${show(100 * number(sum.median_error), 3)} %` : undefined],
      ['error, 90th percentile', Number.isFinite(number(sum.p90_error)) ? `${show(100 * number(sum.p90_error), 3)} %` : undefined]
    ]),
    facts([['machine', machine.cpu], ['measured on', machine.date], ['threads', r.threads], ['batch', r.batch], ['precision', r.precision]]),
    predictedTable(results), ...results.map(k => guarded(() => predictedLayers(k)))
  ];
}
