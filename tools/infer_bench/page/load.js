// Reports of `infer-bench load` and `soak`.
const LOADS = [['p50', 'a', 'p50'], ['p90', 'c', 'p90'], ['p99', 'b', 'p99']];

function targetFacts(r) {
  const t = object(r.target), s = object(r.settings);
  const loop = s.arrivals === 'closed' ?
      `closed loop, ${text(s.concurrency)} in flight` :
      Number.isFinite(number(s.rate_per_s)) ?
      `open loop, ${show(s.rate_per_s)} queries per s, ${text(s.arrivals)} arrivals` :
      text(s.arrivals);
  return facts([
    ['model', t.path], ['load', s.arrivals && !object(r.curve).points ? loop : undefined], ['batch', t.batch],
    ['lanes', t.lanes === undefined ? undefined : `${text(t.lanes)}, each with runs of ${plural(t.threads, 'thread')}`],
    ['device', t.device], ['seed', s.seed], ['meanwhile', watchLine(r.watch)]
  ]);
}

function resultFacts(r) {
  const q = object(r.queue);
  return facts([
    ['queries', `${text(r.issued)} in ${show(r.seconds, 3)} s, ${text(r.answered)} answered`],
    ['per second', `${show(r.offered_per_s)} offered, ${show(r.throughput_per_s)} answered`],
    [
      'queue',
      `${show(q.mean, 3)} on average, ${text(q.max)} at most, ${text(q.backlog)} left when the last query had come`
    ],
    ['ended by', r.ended]
  ]);
}

function resultParts(r, caption) {
  const samples = object(r.samples), ms = numbers(samples.ms), at = numbers(samples.at_ms).map(v => v / 1e3),
        d = object(r.latency_ms);
  const rows = [['latency', d], ['waiting', object(r.waiting_ms)], ['service', object(r.service_ms)]];
  if (number(object(r.lag_ms).count) > 0) rows.push(['generator\'s lag', object(r.lag_ms)]);
  const unanswered = number(r.unanswered);
  return [
    unanswered > 0 ?
        warnings(
            [`${unanswered} without an answer, the oldest for ${
                show(r.oldest_unanswered_ms)} ms: counted with their age, so percentiles are lower bounds`],
            'Not all was answered') :
        null,
    resultFacts(r),
    ms.length && at.length === ms.length ?
        figures(
            timeline(at, ms, {
              caption: 'Latency over time',
              about: `of ${text(d.count)} queries${
                  ms.length < number(d.count) ? `, the first ${ms.length} drawn` :
                                                ''}; counted from the moment at which each was due`,
              d: {median: d.p50},
              what: 'query',
              xLabel: 'query was due, s'
            }),
            histogram(ms, {caption: 'Distribution', lines: percentileLines(d), what: 'queries'}),
            tailChart(ms, {what: 'queries'})) :
        null,
    percentileTable(rows, caption)
  ];
}

function curveCharts(points, capacity, from) {
  const rate = points.map(p => number(p.rate_per_s)), all = points.flatMap(p => LOADS.map(([q]) => number(p.d[q]))),
        known = ascending(all);
  const x = axis('offered, queries per s', [...rate, capacity], {zero: true, pad: 0.04}),
        answered = points.map(p => number(p.result.throughput_per_s));
  const hollow = i => points[i].saturated === true;
  const latency = new Chart({
    caption: 'Latency against load',
    about: `capacity of a closed loop: ${show(capacity)} queries per s; ${
        Number.isFinite(from) ? `saturated from ${show(from)} on` : 'not saturated'}`,
    x,
    y: axis(
        'latency, ms', all,
        {log: known.length > 0 && known[0] > 0 && known[known.length - 1] > 6 * known[0], zero: true})
  });
  const throughput = new Chart({
    caption: 'Answered against offered',
    about: 'on the dashed line all that comes is answered',
    x,
    y: axis('answered, queries per s', [...answered, 0], {zero: true})
  });
  for (const chart of [latency, throughput]) {
    if (Number.isFinite(from)) chart.shade(from, x.high, 'bad', 'saturated');
    chart.at(capacity, 'quiet', 'capacity', 0, 'dotted');
  }
  for (const [q, kind, name] of LOADS) {
    const ms = points.map(p => number(p.d[q]));
    latency.line(rate, ms, kind).marks(rate, ms, kind, {
      name,
      hollow,
      titles: ms.map((v, i) => `${name} at ${show(rate[i])} per s: ${show(v)} ms`)
    });
  }
  throughput.line([0, x.high], [0, x.high], 'quiet', 'all', 'dash')
      .line(rate, answered, 'a')
      .marks(rate, answered, 'a', {name: 'answered', hollow});
  return figures(latency, throughput);
}

function loadCurve(r) {
  const curve = object(r.curve),
        points =
            list(curve.points).map(p => ({...p, result: object(p.result), d: object(object(p.result).latency_ms)}));
  if (!points.length) return [quiet('No point of the curve was measured.')];
  const columns = [
    ...['load', 'offered/s', 'answered/s', 'p50 ms', 'p90 ms', 'p99 ms', 'max ms', 'queue', 'longest', 'unanswered']
        .map(name => ({name})),
    {name: '', kind: 'text'}
  ];
  const rows = points.map(
      p =>
          [`${show(100 * number(p.share), 3)} %`, show(p.rate_per_s), show(p.result.throughput_per_s),
           ...LOADS.map(([q]) => percentile(p.d, q)), show(p.d.max), show(object(p.result.queue).mean, 3),
           text(object(p.result.queue).max), text(p.result.unanswered), p.saturated ? 'saturated' : '']);
  return [
    curveCharts(points, number(object(r.capacity).queries_per_s), number(curve.saturated_from)),
    table(columns, rows, {caption: 'Points of the curve'}), withheldRemarks(points.map(p => p.d))
  ];
}

function scenarioParts(s) {
  s = object(s);
  if (!s.name) return [];
  const met = v => v === true ? 'met' : v === false ? 'not met' : '–';
  return [
    html(
        'p', {}, badge(text(s.verdict), verdictKind(s.verdict)), `${text(s.name)}, ${text(s.metric)}: `,
        html('b', {}, show(s.value, 5))),
    warnings(s.reasons, 'Why it is not valid'), facts([
      ['percentile', s.percentile],
      [
        'target latency',
        s.target_latency_ms === null ?
            undefined :
            `${show(s.target_latency_ms)} ms, ${met(s.target_met)}; ${text(s.over_target)} queries beyond`
      ],
      ['least duration', `${show(s.min_duration_s)} s, ${met(s.min_duration_met)}`],
      ['least queries', `${text(s.min_queries)}, ${met(s.min_queries_met)}`],
      ['early stopping', met(s.early_stopping_met)], ['samples per query', s.samples_per_query], ['rules', s.rules]
    ]),
    list(s.deviations).length ?
        details('Where this is not by the book', html('ul', {}, s.deviations.map(v => html('li', {}, text(v))))) :
        null
  ];
}

function loadReport(r) {
  const curve = object(r.curve);
  return [
    ...scenarioParts(r.scenario), ...(Array.isArray(curve.points) ? loadCurve(r) : []),
    ...(r.result                        ? resultParts(object(r.result), 'Percentiles') :
            Array.isArray(curve.points) ? [] :
                                          [quiet('The report has no result.')]),
    details('What was loaded, and how', targetFacts(r))
  ];
}

// Seconds as people read them along an axis.
function timeUnit(seconds) {
  const end = most(seconds.filter(Number.isFinite));
  return end > 3 * 3600 ? ['hours', 3600] : end > 300 ? ['minutes', 60] : ['seconds', 1];
}

function driftChart(caption, unit, name, scale, windows, drift, skipped, series) {
  const end = w => number(w.at_s) + number(w.seconds), [timeName, second] = timeUnit(windows.map(end));
  const at = windows.map(w => (number(w.at_s) + number(w.seconds) / 2) / second),
        slope = number(drift.slope_per_hour) / scale, level = number(drift.level) / scale;
  const values = series.map(([key]) => windows.map(w => number(w[key]) / scale)), all = values.flat(),
        known = ascending(all);
  const log = known.length > 0 && known[0] > 0 && known[known.length - 1] > 6 * median(all),
        told = v => show(number(v) / scale, 3);
  const about = Number.isFinite(slope) ?
      `${show(slope, 3)} ${unit} per hour (95 % interval ${showRange(drift.slope_ci95, told)}); limit ${
          told(drift.limit_per_hour)}: ${text(drift.verdict)}` :
      `no slope${drift.reason ? `: ${text(drift.reason)}` : ''}`;
  const chart = new Chart({
    caption,
    about,
    x: axis(`since the start, ${timeName}`, [0, ...windows.map(end).map(s => s / second)], {pad: 0.01}),
    y: axis(`${name}, ${unit}`, all, {log})
  });
  if (windows[skipped - 1]) chart.shade(0, end(windows[skipped - 1]) / second, 'quiet', 'left out of the slope');
  series.forEach(([, label, kind], i) => chart.line(at, values[i], kind, label).dots(at, values[i], kind));
  if (Number.isFinite(slope)) {
    const used = at.slice(skipped), middle = median(used), ends = [used[0], used[used.length - 1]];
    chart.line(
        ends, ends.map(t => level + slope * (t - middle) * second / 3600), 'bad', `slope of the ${series[0][1]}`,
        'dash');
  }
  return chart;
}

function soakReport(r) {
  const windows = list(r.windows), drift = object(r.drift), skipped = number(r.skipped_windows) || 0;
  if (!windows.length) return [quiet('No window was completed.'), details('What was loaded, and how', targetFacts(r))];
  const rows = windows.map(
      w =>
          [show(w.at_s), text(w.answered), show(w.median_ms), show(w.p99_ms), show(w.max_ms),
           showMB(w.resident_bytes)]);
  return [
    figures(
        driftChart(
            'Latency over time', 'ms', 'latency of a window', 1, windows, object(drift.latency_ms), skipped,
            [['median_ms', 'median', 'a'], ['p99_ms', 'p99', 'b'], ['max_ms', 'maximum', 'd']]),
        driftChart(
            'Resident memory over time', 'MB', 'resident set', 1e6, windows, object(drift.resident_bytes), skipped,
            [['resident_bytes', 'resident set', 'c']])),
    r.result ? percentileTable(
                   [
                     ['latency', object(r.result.latency_ms)], ['waiting', object(r.result.waiting_ms)],
                     ['service', object(r.result.service_ms)]
                   ],
                   'Percentiles of the whole') :
               null,
    details(
        `The ${plural(windows.length, 'window')}`,
        table(
            [
              {name: 'from, s'}, {name: 'answered'}, {name: 'median ms'}, {name: 'p99 ms'}, {name: 'max ms'},
              {name: 'resident MB'}
            ],
            rows, {caption: `Windows of ${show(r.window_s)} s`})),
    details('What was loaded, and how', targetFacts(r))
  ];
}
