// Reports of `infer-bench compare`, live and of files, and the history that it keeps.
function conclusion(verdict, effect) {
  const e = object(effect);
  return html(
      'p', {}, badge(text(verdict), verdictKind(verdict)),
      (Number.isFinite(number(e.value)) ?
           `B's time against A's: ${showShare(e.value)} (95 % interval ${showRange(e.ci95, showShare)})` :
           'nothing could be measured'));
}

// What a start says, as the decision takes it: the median over its rounds of the ratio of the fastest runs of a block.
function startEffect(a, b) {
  const rounds = side => {
    const undisturbed = numbers(side.undisturbed_ms), ms = undisturbed.length ? undisturbed : numbers(side.samples_ms),
          n = number(side.runs_of_block), out = [];
    for (let i = 0; n >= 1 && i + n <= ms.length; i += n) out.push(least(ms.slice(i, i + n)));
    return out;
  };
  const from = rounds(a), to = rounds(b), logs = from.map((ms, i) => Math.log(to[i] / ms));
  return logs.length && from.length === to.length ? Math.expm1(median(logs)) :
                                                    number(b.fastest_ms) / number(a.fastest_ms) - 1;
}

const sideName = s =>
    `${baseName(object(s.model).path)}, ${plural(number(s.threads), 'thread')}, level ${text(s.level)}`;

function lookParts(attempts) {
  if (!attempts.length) return {};
  const share = v => 100 * number(v), effects = attempts.map(a => share(a.effect)), fresh = a => a.confirming === true;
  const name = v => Number.isInteger(v) && attempts[v - 1] ?
      `${text(attempts[v - 1].starts)}${fresh(attempts[v - 1]) ? ' fresh' : ''}` :
      '';
  const ends = attempts.flatMap(a => numbers(a.interval).map(v => 100 * v)).filter(Number.isFinite);
  const chart = new Chart({
    caption: 'Every look at the starts',
    about: 'estimate and the interval that the look decided by; intervals narrow as starts are added',
    x: axis('starts looked at', [0.5, attempts.length + 0.5], {pad: 0, show: name}),
    y: axis('B\'s time against A\'s, %', [...effects, ...ends, 0])
  });
  chart.level(0, 'quiet', 'no difference', 'dotted');
  for (const [kind, label, of] of [['a', 'look', a => !fresh(a)], ['d', 'confirmation on fresh starts', fresh]]) {
    const at = attempts.map((_, i) => i + 1).filter(i => of(attempts[i - 1]));
    at.forEach(i => chart.interval(i, ...numbers(attempts[i - 1].interval).map(v => 100 * v), kind));
    if (at.length)
      chart.marks(
          at, at.map(i => effects[i - 1]), kind,
          {name: label, titles: at.map(i => `${text(attempts[i - 1].outcome)}: ${showShare(attempts[i - 1].effect)}`)});
  }
  const rows = attempts.map(
      a =>
          [text(a.starts), fresh(a) ? 'fresh starts' : 'all so far', showShare(a.effect),
           showRange(a.interval, showShare), text(a.outcome)]);
  return {
    chart,
    table: table(
        [
          {name: 'starts'}, {name: 'which', kind: 'text'}, {name: 'effect'}, {name: 'interval'},
          {name: 'outcome', kind: 'text'}
        ],
        rows, {caption: 'Looks'})
  };
}

// The axis of starts or comparisons, counted from 1.
const countAxis = (label, n) => axis(label, [0.5, n + 0.5], {pad: 0, show: v => Number.isInteger(v) ? String(v) : ''});

function startsChart(each, r) {
  const n = each.length, index = each.map((_, i) => i + 1), effect = object(r.effect),
        estimate = 100 * number(effect.value);
  const [low, high] = numbers(effect.ci95).map(v => 100 * v), small = 100 * number(object(r.settings).min_effect);
  const chart = new Chart({
    caption: 'Difference of each start',
    about: `B's time against A's of ${plural(n, 'start')}, each of both sides in fresh processes`,
    x: countAxis('start, in order', n),
    y: axis('B\'s time against A\'s, %', [...each, 0, estimate, low, high, -small, small])
  });
  return chart.band(-small, small, 'quiet', 'too small to count')
      .band(low, high, 'b', '95 % interval')
      .level(0, 'quiet', '', 'dotted')
      .level(estimate, 'b', 'estimate', '')
      .marks(index, each, 'a', {name: 'a start', titles: each.map((v, i) => `start ${i + 1}: ${showShare(v / 100)}`)});
}

function sidesChart(a, b) {
  const index = a.map((_, i) => i + 1);
  const chart = new Chart({
    caption: 'Time of each side',
    about: 'median over the blocks of a start of their fastest run',
    x: countAxis('start, in order', a.length),
    y: axis('time, ms', [...a, ...b])
  });
  return chart.line(index, a, 'a', '', 'dotted')
      .marks(index, a, 'a', {name: 'A'})
      .line(index, b, 'b', '', 'dotted')
      .marks(index, b, 'b', {name: 'B'});
}

function liveFacts(r) {
  const settings = object(r.settings), floor = object(r.noise_floor);
  const side = s => `${text(object(s.model).path)}${s.binary ? `, ${text(s.binary)}` : ''} ${
      list(s.environment).map(text).join(' ')}`;
  const [a, b] = list(r.sides).map(object);
  return facts([
    ['A', a && side(a)], ['B', b && side(b)], ['least effect that counts', showShare(settings.min_effect)],
    ['fails above', showShare(settings.fail_above)],
    [
      'noise floor of the series',
      floor.share === undefined ? 'none learnt' : `${showShare(floor.share)}, of ${text(floor.comparisons)} comparisons`
    ],
    ['ratio of the wall medians', showShare(object(r.effect).of_medians)],
    ['measured for', `${show(r.seconds, 3)} s, budget ${show(settings.budget_seconds, 3)} s`],
    ['processors', list(r.cpus).map(text).join(', ')], ['seed', settings.seed]
  ]);
}

function liveReport(r) {
  const sides = list(r.sides), [a, b] = [object(sides[0]), object(sides[1])],
        n = Math.min(list(a.starts).length, list(b.starts).length);
  const from = list(a.starts).slice(0, n).map(object), to = list(b.starts).slice(0, n).map(object);
  const head = [
    conclusion(r.verdict, r.effect), html('p', {}, `A: ${sideName(a)}. B: ${sideName(b)}.`),
    r.passed === false ? html('p', {class: 'bad'}, 'The gate failed.') : null
  ];
  if (!n) return [...head, quiet('No start was completed.'), details('Settings', liveFacts(r))];
  const each = from.map((_, i) => 100 * startEffect(from[i], to[i])),
        fastest = starts => starts.map(s => number(s.fastest_ms));
  const looks = lookParts(list(r.attempts));
  const columns = [
    'start', 'difference', 'A fastest ms', 'A median ms', 'A first ms', 'B fastest ms', 'B median ms', 'B first ms'
  ].map(name => ({name}));
  const rows = each.map(
      (e, i) =>
          [String(i + 1), showShare(e / 100),
           ...[from, to].flatMap(s => [show(s[i].fastest_ms), show(s[i].median_ms), show(s[i].first_ms)])]);
  return [
    ...head, figures(startsChart(each, r), looks.chart, sidesChart(fastest(from), fastest(to)), looks.table),
    details(`The ${plural(n, 'start')}`, table(columns, rows, {caption: 'Starts'})), details('Settings', liveFacts(r))
  ];
}

const shares = e => [number(object(e).value), ...numbers(object(e).ci95)].map(v => 100 * v);

function pairStrip(s, p) {
  const [value, low, high] = shares(p.effect), [runs, runsLow, runsHigh] = shares(p.of_runs),
                     small = 100 * number(p.min_effect), marks = [];
  const kind = p.verdict === 'slower' ? 'bad' : p.verdict === 'faster' ? 'c' : 'a';
  if (Number.isFinite(small))
    marks.push(svg(
        'rect', {class: 'band f-quiet', x: s.at(-small), width: s.at(small) - s.at(-small), y: 0, height: s.height}));
  marks.push(svg('path', {class: 'line s-quiet dotted', d: `M${s.at(0)} 0V${s.height}`}));
  if ([runs, runsLow, runsHigh].every(Number.isFinite))
    marks.push(svg('path', {class: 'line s-quiet', d: `M${s.at(runsLow)} 16H${s.at(runsHigh)}`}));
  marks.push(...s.interval(low, value, high, kind));
  return s.cell(marks, `difference ${showShare(object(p.effect).value)}`);
}

function filesReport(r) {
  const pairs = list(r.pairs),
        ends = pairs.flatMap(
            p => [...shares(p.effect), ...shares(p.of_runs), 100 * number(p.min_effect), -100 * number(p.min_effect)]);
  const s = strips(axis('B\'s time against A\'s, %', [0, ...ends]), 260);
  const columns = [
    {name: 'what was measured'}, {name: 'verdict', kind: 'text'}, {name: 'A ms'}, {name: 'B ms'}, {name: 'effect'},
    {name: '95 % interval'}, {name: s.scale(), kind: 'strip'}, {name: 'starts'}, {name: 'p'},
    {name: 'why', kind: 'long'}
  ];
  const rows = pairs.map(
      p =>
          [text(p.series), badge(text(p.verdict), verdictKind(p.verdict)), show(median(numbers(p.a_starts_ms))),
           show(median(numbers(p.b_starts_ms))), showShare(object(p.effect).value),
           showRange(object(p.effect).ci95, showShare), pairStrip(s, p),
           `${list(p.a_starts_ms).length}, ${list(p.b_starts_ms).length}`, show(p.mann_whitney_p, 2),
           text(p.reason || '')]);
  const reports = side => list(object(side).reports).map(text).join(', ');
  return [
    r.passed === false ? html('p', {class: 'bad'}, 'The gate failed.') : null,
    facts([['A', reports(r.a)], ['B', reports(r.b)]]), warnings(r.unmatched, 'What one side alone has'),
    table(columns, rows, {caption: 'Pairs'}),
    quiet(
        'Dot and bar: effect with its 95 % interval; thin grey line: single runs of the first start, of which no ' +
        'verdict is made; grey band: too small to count.')
  ];
}

// Models stand in a history by their digest alone.
function seriesName(s) {
  const series = object(s.series), side = v => {
    const {model, threads, level, environment} = object(v);
    return [
      `${text(model).slice(0, 12)}`, plural(number(threads), 'thread'), `level ${text(level)}`,
      ...list(environment).map(text)
    ].join(', ');
  };
  const settings = ['device', 'level', 'rewrites'].filter(k => k in series).map(k => `${k}=${text(series[k])}`);
  const labelled = () => [series.label, ...settings, ...list(series.environment)].map(text).join(' ');
  return text(
      series.name ?? (series.label ? labelled() : null) ??
      (series.a ? `${side(series.a)} against ${side(series.b)}` : 'a series without a name'));
}

function historySeries(s) {
  const entries = list(s.entries), n = entries.length, index = entries.map((_, i) => i + 1);
  const effects = entries.map(e => 100 * number(e.effect)), floors = entries.map(e => 100 * number(e.floor)),
        known = floors.filter(Number.isFinite);
  const x = () => countAxis('comparison, in order', n);
  const chart = new Chart({
    caption: 'Effect of each comparison',
    x: x(),
    y: axis('B\'s time against A\'s, %', [...effects, 0, ...known, ...known.map(v => -v)]),
    about: known.length ? `noise floor now ${show(floors[n - 1], 3)} %, learnt from the comparisons before` :
                          'too few comparisons (eight) for a noise floor'
  });
  let d = '';
  floors.forEach((f, i) => {
    if (Number.isFinite(f))
      d += `M${chart.px(i + 0.5)} ${chart.py(f)}H${chart.px(i + 1.5)}V${chart.py(-f)}H${chart.px(i + 0.5)}z`;
  });
  if (d)
    chart.add(svg('path', {class: 'band f-quiet', d}))
        .key('noise floor at that time', svg('rect', {class: 'band f-quiet', width: 22, height: 12}));
  chart.level(0, 'quiet', '', 'dotted');
  for (const [verdict, kind] of [['slower', 'bad'], ['faster', 'c'], ['same', 'a'], ['inconclusive', 'd']]) {
    const at = index.filter(i => entries[i - 1].verdict === verdict);
    if (at.length)
      chart.marks(at, at.map(i => effects[i - 1]), kind, {
        name: verdict,
        titles: at.map(i => `${text(entries[i - 1].time)}: ${showShare(entries[i - 1].effect)}, ${verdict}`)
      });
  }
  const ms = entries.map(e => number(e.b_ms)), trend = new Chart({
                                                 caption: 'Time of B',
                                                 about: `last ${show(ms[n - 1])} ms, on ${text(entries[n - 1].time)}`,
                                                 x: x(),
                                                 y: axis('time, ms', ms)
                                               });
  trend.line(index, ms, 'a', '').marks(index, ms, 'a', {
    titles: entries.map(e => `${text(e.time)}: ${show(e.b_ms)} ms`)
  });
  const rows = entries
                   .map(
                       e =>
                           [text(e.time), showShare(e.effect),
                            Number.isFinite(number(e.floor)) ? showShare(e.floor).slice(1) : '–', text(e.verdict),
                            show(e.b_ms), text(e.starts)])
                   .reverse();
  return html(
      'div', {}, html('h3', {}, seriesName(s)),
      quiet(
          s.kind === 'live' ? 'Compared live, A and B in turns.' :
                              'Compared from files: A and B were measured at different times.'),
      figures(chart, trend),
      details(
          `The ${plural(n, 'comparison')}`,
          table(
              [
                {name: 'when'}, {name: 'effect'}, {name: 'floor'}, {name: 'verdict', kind: 'text'}, {name: 'B ms'},
                {name: 'starts'}
              ],
              rows, {caption: 'Latest first', first: 40})),
      details('What makes it one series', html('code', {}, JSON.stringify(s.series))));
}

function historyParts(h) {
  const damaged = list(h.damaged);
  return [
    damaged.length ? warnings(
                         [...damaged.slice(0, 5), ...(damaged.length > 5 ? [`${damaged.length - 5} more`] : [])],
                         'Lines that are no comparisons') :
                     null,
    ...list(h.series).map(s => guarded(() => historySeries(s)))
  ];
}
