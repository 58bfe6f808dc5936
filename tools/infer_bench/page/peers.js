// Reports of `infer-bench peers`: our time beside that of other engines.
const engineName = e => [text(e.name), ...Object.values(object(e.versions)).slice(0, 1).map(text)].join(' ');

function ratioTable(results) {
  const all = results.flatMap(r => list(r.comparisons).map(c => ({r, c})));
  if (!all.length) return null;
  const ends = all.flatMap(({c}) => [number(object(c.ratio).median), ...numbers(object(c.ratio).ci95)]);
  const s = strips(axis('our time over theirs', [1, ...ends], {log: true}), 280);
  const rows = all.map(({r, c}) => {
    const ratio = object(c.ratio), [low, high] = numbers(ratio.ci95), v = number(ratio.median);
    const kind = c.verdict === 'slower' ? 'bad' : c.verdict === 'faster' ? 'c' : 'a';
    const marks = [svg('path', {class: 'line s-quiet dotted', d: `M${s.at(1)} 0V${s.height}`}), ...s.interval(low, v, high, kind)];
    const row = [baseName(object(r.model).path), text(c.peer), text(r.threads), badge(text(c.verdict), verdictKind(c.verdict)), show(v, 3), showRange(ratio.ci95, x => show(x, 3)),
                 s.cell(marks, `ratio ${show(v, 3)}`), c.outputs_agree === true ? 'agree' : c.outputs_agree === false ? 'differ' : '–', text(c.reason || '')];
    row.at = v;
    return row;
  });
  return table(
      [{name: 'model'}, {name: 'engine', kind: 'text'}, {name: 'threads'}, {name: 'we are', kind: 'text'}, {name: 'ratio', sort: r => r.at}, {name: '95 % interval'},
       {name: s.scale(), kind: 'strip'}, {name: 'outputs', kind: 'text'}, {name: 'why', kind: 'long'}],
      rows, {caption: 'Our time over theirs: left of the dotted line we are faster', first: 40});
}

function peerRounds(r) {
  const names = list(r.engines).map(e => text(e.name)), rounds = list(r.rounds);
  if (rounds.length < 2) return null;
  const ms = names.map(n => rounds.map(k => number(object(k.median_ms)[n]))), index = rounds.map((_, i) => i + 1);
  const chart = new Chart({
    caption: `Every round: ${baseName(object(r.model).path)}, ${plural(number(r.threads), 'thread')}`,
    about: `median of each engine's block, ${text(r.quiet_rounds)} of ${rounds.length} rounds undisturbed; hollow: other processes were busy`,
    x: countAxis('round, in order', rounds.length),
    y: axis('time, ms', ms.flat())
  });
  names.forEach((n, k) => chart.marks(index, ms[k], SERIES_KINDS[k % 6], {
    name: n,
    radius: 3,
    hollow: i => rounds[i].quiet === false,
    titles: ms[k].map((v, i) => `${n}, round ${i + 1}: ${show(v)} ms`)
  }));
  return chart;
}

function peersReport(r) {
  const results = list(r.results), means = list(r.geometric_means).filter(m => Number.isFinite(number(object(m.ratio).median)));
  return [
    summary(means.map(m => [`${text(m.peer)}, ${plural(number(m.threads), 'thread')}`, `${show(object(m.ratio).median, 3)} x`,
                            `of its time; 95 %: ${showRange(object(m.ratio).ci95, v => show(v, 3))}`])),
    facts(list(r.engines).map(e => [engineName(e), e.status === 'ok' ? 'ran' : `${text(e.status)}: ${text(e.message)}`])), ratioTable(results),
    figures(...results.slice(0, 12).map(k => guarded(() => peerRounds(k))))
  ];
}
