// The page: a section for each report.
const KINDS = {
  'infer-bench/run': ['Latency', runReport],
  'infer-bench/load': ['Load', loadReport],
  'infer-bench/soak': ['Soak', soakReport],
  'infer-bench/compare': ['Comparison', liveReport],
  'infer-bench/compare-files': ['Comparison of reports', filesReport],
  'infer-bench/peers': ['Beside other engines', peersReport],
  'infer-bench/predict': ['Prediction', predictReport],
  'infer-bench/kernels': ['Kernels', kernelsReport],
  'infer-opt/quantize': ['Quantization', quantizeReport],
  'infer-opt/compare': ['Accuracy', accuracyReport]
};

// A part that cannot be drawn says so, and leaves the others alone.
function guarded(draw) {
  try {
    return draw();
  } catch (error) {
    return warnings([`${error}`], 'This part of the report cannot be shown');
  }
}

function cacheText(c) {
  const shared = number(c.shared_by) > 1 ? `, shared by ${text(c.shared_by)}` : '';
  return `L${text(c.level)} ${text(c.type)} ${Math.round(number(c.bytes) / 1024)} KiB${shared}`;
}

function environment(r) {
  const h = object(r.host), e = object(r.environment), known = v => v !== undefined && v !== null;
  const pairs = o => Object.entries(object(o)).map(([k, v]) => `${k} ${text(v)}`).join(', ');
  const revision = e.git_revision ? `revision ${text(e.git_revision)}` : null;
  const cores = known(h.usable_cores) ? plural(number(h.usable_cores), 'core') : null;
  const line = [h.cpu, h.isa, cores, h.os, h.build_type, revision, e.date].filter(known).map(text).join(' · ');
  const command = list(r.command).map(text).join(' ');
  return html(
      'div', {}, quiet(line),
      details('Environment and command', facts([
                ['command', command ? html('code', {}, command) : null],
                ['tool', pairs(r.tool)],
                ['date', e.date],
                ['host', e.host_name],
                ['processor', h.cpu],
                ['instruction set', h.isa],
                ['logical CPUs', h.logical_cpus],
                ['usable cores', h.usable_cores],
                ['affinity', list(e.affinity).map(text).join(', ')],
                ['caches', list(e.caches).map(object).map(cacheText).join('; ')],
                ['memory', known(h.memory_bytes) ? `${show(number(h.memory_bytes) / 1e9, 3)} GB` : null],
                ['governor', h.governor],
                ['MHz', known(e.mhz) ? show(e.mhz) : null],
                ['hypervisor', known(e.hypervisor) ? e.hypervisor ? 'yes' : 'no' : null],
                ['load, 1 min', h.load_1min],
                ['system', h.os],
                ['compiler', h.compiler],
                ['build', h.build_type],
                ['revision', e.git_revision],
                ['libraries', pairs(e.libraries)],
                ['variables', pairs(e.variables)],
                ['settings', pairs(r.settings)],
                ['steps', list(r.timings).map(object).map(t => `${text(t.step)} ${show(t.ms)} ms`).join(', ')]
              ])));
}

function modelsOf(r) {
  const paths = [
    object(r.model).path, ...list(r.results).map(c => object(c.model).path ?? c.path), object(r.target).path,
    ...list(r.sides).map(s => object(s.model).path), ...list(r.models).map(m => m.name), object(r.golden).path,
    object(r.candidate).path
  ];
  return [...new Set(paths.filter(p => typeof p === 'string').map(baseName))];
}

function titleOf(r, kind) {
  const models = modelsOf(r), more = models.length > 3 ? ` and ${models.length - 3} more` : '';
  return models.length ? `${kind}: ${models.slice(0, 3).join(', ')}${more}` : kind;
}

// `single`: the page's title says it already.
function reportSection(part, index, single) {
  const r = object(part.report), schema = text(r.schema).split('@')[0], [kind, draw] = KINDS[schema];
  const title = titleOf(r, Array.isArray(object(r.curve).points) ? 'Load curve' : kind);
  return {
    title,
    section: html(
        'section', {class: 'report', id: `report-${index}`, 'aria-label': title}, single ? null : html('h2', {}, title),
        html(
            'p', {}, r.interrupted === true ? badge('interrupted: what was measured until then', 'warn') : null,
            r.error ? badge(`not complete: ${text(r.error)}`, 'bad') : null,
            schema === 'infer-bench/soak' && r.verdict ? badge(text(r.verdict), verdictKind(r.verdict)) : null,
            html('span', {class: 'quiet'}, part.path ? baseName(part.path) : '')),
        warnings(r.warnings), guarded(() => environment(r)), guarded(() => html('div', {}, draw(r))))
  };
}

function historySection(part, index) {
  const title = `History: ${baseName(part.path)}`;
  return {
    title,
    section: html(
        'section', {class: 'report', id: `report-${index}`, 'aria-label': title}, html('h2', {}, title),
        guarded(() => html('div', {}, historyParts(object(part.history)))))
  };
}

function main() {
  const data = JSON.parse(document.getElementById('data').textContent), content = document.getElementById('content');
  const sections = [
    ...list(data.reports).map((p, i) => reportSection(p, i, list(data.reports).length + list(data.histories).length === 1)),
    ...list(data.histories).map((p, i) => historySection(p, list(data.reports).length + i))
  ];
  content.replaceChildren(...sections.map(s => s.section));
  if (sections.length > 1)
    document.getElementById('contents')
        .append(html('ul', {}, sections.map((s, i) => html('li', {}, html('a', {href: `#report-${i}`}, s.title)))));
  const title = sections.length === 1 ? sections[0].title : plural(sections.length, 'report');
  document.title = document.getElementById('title').textContent = title;
  document.getElementById('theme').append(themeButton());
  document.getElementById('about').append(
      `made by infer-bench ${text(data.version)}; times in milliseconds unless another unit is named`);
  window.addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => {
    d.open = true;
  }));
}
main();
