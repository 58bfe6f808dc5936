// The panel beside the drawing: the model as a whole, or what is selected.
class Panel {
  // `go`: selects {kind, index} and shows it.
  constructor(model, element, go) {
    this.model = model;
    this.element = element;
    this.go = go;
  }

  show(...parts) {
    this.element.replaceChildren(...parts.flat().filter(Boolean));
    this.element.scrollTop = 0;
  }

  link(label, target) {
    const button = html('button', {type: 'button'}, label);
    button.addEventListener('click', () => this.go(target));
    return button;
  }
  links(title, nodes, most = 30) {
    if (!nodes.length) return null;
    const items = nodes.slice(0, most).map(n => html('li', {}, this.nodeLink(n)));
    if (nodes.length > most) items.push(html('li', {class: 'quiet'}, `${nodes.length - most} more`));
    return [html('h3', {}, title), html('ul', {}, items)];
  }
  nodeLink(index) {
    const n = this.model.nodes[index];
    return this.link(`${SIGNS[n.fate]}${n.label}${n.name ? ` ${n.name}` : ''}`, {kind: NODE, index});
  }

  whole() {
    const m = this.model, kept = m.operators.filter(n => n.fate !== REMOVED);
    const counts = FATES.map((name, fate) => [name, m.operators.filter(n => n.fate === fate).length]);
    const extents = Object.entries(m.extents).map(([k, v]) => `${k} = ${v}`).join(', ');
    const ends = kind => m.nodes.filter(n => n.kind === kind && n.group === 0);
    const list = (title, nodes) => nodes.length ?
        [html('h3', {}, title), html('ul', {}, nodes.map(n => html('li', {}, this.link(n.name, {kind: NODE, index: n.index}),
                                                                   html('span', {class: 'quiet'}, ` ${typeText(n.type)}`))))] :
        null;
    this.show(
        html('h2', {}, m.before ? 'Difference' : 'Model'),
        m.before ? facts([['before', m.before], ['after', m.title], ...counts.map(([k, v]) => [k, `${v} nodes`])]) : null,
        facts([
          ['nodes', String(kept.length)],
          ...m.metrics.map(k => [METRICS[k].name, METRICS[k].show(m.total[k]) + (METRICS[k].worst ? ', the worst' : '')]),
          ['with', extents]
        ]),
        list('Inputs', ends(INPUT)), list('Outputs', ends(2)), this.operatorTable(kept), this.groupList());
  }

  operatorTable(nodes) {
    const metric = this.model.metrics.find(k => k === 'ms') || this.model.metrics.find(k => k === 'flops');
    const byOp = new Map();
    for (const n of nodes) {
      const o = byOp.get(n.op) || {count: 0, sum: 0};
      o.count += 1;
      o.sum += metric ? n[metric] || 0 : 0;
      byOp.set(n.op, o);
    }
    const total = most([...byOp.values()].map(o => o.sum)) || 1;
    const rows = [...byOp].sort((a, b) => b[1].sum - a[1].sum || b[1].count - a[1].count).slice(0, 24).map(([op, o]) => html(
        'tr', {}, html('th', {scope: 'row'}, breakable(op)), html('td', {}, String(o.count)),
        metric ? html('td', {style: 'text-align:left;width:46%'},
                      html('span', {class: 'part', style: `width:${(36 * o.sum / total).toFixed(1)}%`}), ` ${METRICS[metric].show(o.sum)}`) :
                 null));
    return [
      html('h3', {}, 'Operators'),
      html('table', {}, html('thead', {}, html('tr', {}, html('th', {scope: 'col'}, 'operator'), html('th', {scope: 'col'}, 'nodes'),
                                               metric ? html('th', {scope: 'col', style: 'text-align:left'}, METRICS[metric].name) : null)),
           html('tbody', {}, rows))
    ];
  }

  // Groups as a list that opens: what the drawing shows, for those who do not see it.
  groupList() {
    const inside = g => this.model.groups.filter(k => k.parent === g && k.nodes > 0);
    const of = (g, depth) => html('ul', {}, inside(g).slice(0, 200).map(k => html(
        'li', {}, this.link(k.label, {kind: GROUP, index: k.index}), html('span', {class: 'quiet'}, ` ${plural(k.nodes, 'node')}`),
        depth < 1 && inside(k.index).length ? html('div', {style: 'padding-left:14px'}, of(k.index, depth + 1)) : null)));
    return inside(0).length ? [html('h3', {}, 'Groups'), of(0, 0)] : null;
  }

  group(index) {
    const g = this.model.groups[index], nodes = this.model.nodesIn(index);
    const out = this.model.groups.filter(k => k.parent === index && k.nodes > 0);
    this.show(
        html('p', {}, this.link('← whole model', null)), html('h2', {}, g.label),
        facts([
          ['nodes', String(g.nodes)],
          ...this.model.metrics.filter(k => g.totals[k] !== undefined).map(k => [METRICS[k].name, this.withShare(k, g.totals[k])])
        ]),
        g.node >= 0 ? this.links('Runs for', [g.node]) : null,
        out.length ? [html('h3', {}, 'Groups'), html('ul', {}, out.map(k => html('li', {}, this.link(k.label, {kind: GROUP, index: k.index}))))] : null,
        this.links('Nodes', nodes.map(n => n.index)));
  }

  withShare(metric, v) {
    const total = this.model.total[metric], share = !METRICS[metric].worst && total > 0 ? `, ${show(100 * v / total, 3)} %` : '';
    return METRICS[metric].show(v) + share;
  }

  values(title, list) {
    const {values} = this.model;
    if (!list.length) return null;
    return [
      html('h3', {}, title),
      html('ul', {}, list.map(v => html('li', {}, values[v].name || '–', html('span', {class: 'quiet'}, ` ${typeText(values[v].type)}`))))
    ];
  }

  node(index) {
    const m = this.model, n = m.nodes[index], known = m.metrics.filter(k => n[k] !== undefined);
    const above = [...new Set(n.reads.map(v => m.values[v].maker).filter(i => i >= 0))],
          below = [...new Set(n.makes.flatMap(v => m.values[v].readers))];
    const kindName = ['', 'input', 'output'][n.kind];
    const partnerTitle = n.fate === REMOVED ? 'Replaced by' : 'Replaces';
    this.show(
        html('p', {}, this.link('← whole model', null)), html('h2', {}, kindName ? `${kindName} ${n.name}` : n.op),
        n.fate === SAME ? null : html('p', {}, badge(FATES[n.fate], n.fate === ADDED ? 'good' : n.fate === REMOVED ? 'warn' : '')),
        n.news.length ? html('ul', {}, n.news.map(line => html('li', {}, line))) : null,
        facts([
          ['name', kindName ? '' : n.name], ['type', n.type && typeText(n.type)],
          ...known.map(k => [METRICS[k].name, this.withShare(k, n[k])]), ['precision', n.precision], ['kernel', n.kernel],
          ['kind', kindName ? '' : KINDS[n.colour]]
        ]),
        Object.keys(n.attributes).length ? [html('h3', {}, 'Attributes'), facts(Object.entries(n.attributes))] : null,
        this.values('Reads', n.reads), this.constantsOf(n), this.values('Makes', n.makes),
        this.links(partnerTitle, n.partners), this.links('After', above), this.links('Before', below),
        n.fusedFrom.length ? [html('h3', {}, 'Stands for'), html('ul', {}, n.fusedFrom.slice(0, 40).map(f => html('li', {}, f)))] : null);
  }

  constantsOf(n) {
    if (!n.constants.length) return null;
    return [
      html('h3', {}, 'Constants'),
      html('ul', {}, n.constants.map(([name, type]) => html('li', {}, name, html('span', {class: 'quiet'}, ` ${typeText(type)}`))))
    ];
  }
}
