// Reports of `infer-bench kernels`: is every kernel right, and how near to the machine's limits?
function kernelsReport(r) {
  const cases = list(r.cases), state = c => object(c.check).state, wrong = cases.filter(c => state(c) === 'wrong'), coverage = object(r.coverage);
  const timed = cases.filter(c => Number.isFinite(number(object(c.time).median_us)));
  const s = strips(axis('of the roofline, %', [0, 100, ...timed.map(c => 100 * number(object(c.time).roofline))], {zero: true}), 220, 18);
  const rows = cases.map(c => {
    const t = object(c.time), roof = 100 * number(t.roofline);
    const row = [text(c.name), text(c.op), `${text(c.kernel)}, ${text(c.precision)}`, badge(text(state(c)), state(c) === 'wrong' ? 'bad' : state(c) === 'right' ? 'good' : ''),
                 show(t.median_us), show(t.gflop_per_s, 3), show(t.gb_per_s, 3), show(roof, 3),
                 s.cell(s.bar(roof), `${show(roof, 3)} %`),
                 text(c.used)];
    row.at = {us: number(t.median_us), roof, used: number(c.used)};
    return row;
  });
  return [
    summary([
      ['cases', String(cases.length)], ['wrong', String(wrong.length)],
      ['kernels covered', coverage.kernels === undefined ? undefined : `${text(coverage.covered)} of ${text(coverage.kernels)}`],
      ['models', list(r.models).length ? String(list(r.models).length) : undefined]
    ]),
    wrong.length ? warnings(wrong.slice(0, 20).map(c => `${text(c.name)}: ${text(object(c.check).wrong)} ${text(object(c.check).wrong_in)}`), 'Kernels that are wrong') : null,
    table(
        [{name: 'case', kind: 'text'}, {name: 'operators', kind: 'text'}, {name: 'kernel', kind: 'text'}, {name: 'check', kind: 'text'}, {name: 'us', sort: k => k.at.us},
         {name: 'GFLOP/s'}, {name: 'GB/s'}, {name: 'roofline %', sort: k => k.at.roof}, {name: s.scale(), kind: 'strip'}, {name: 'uses', sort: k => k.at.used}],
        rows, {caption: 'Cases', first: 40}),
    list(coverage.not_covered).length ?
        details(`${plural(coverage.not_covered.length, 'kernel')} that no case ran`,
                html('ul', {}, coverage.not_covered.map(k => html('li', {}, `${text(object(k).op)}: ${text(object(k).kernel)}`)))) :
        null
  ];
}
