// The data of the page: nodes, values, groups, and numbers to colour them by.
const NODE = 0, GROUP = 1, IN_PORT = 2, OUT_PORT = 3;          // kinds of children
const OPERATOR = 0, INPUT = 1;                                 // kinds of nodes; 2: output
const SAME = 0, CHANGED = 1, REMOVED = 2, ADDED = 3;           // fates
const REPLACED = 4;                                            // a kind of group: what a node replaced
const FATES = ['kept', 'changed', 'removed', 'added'], SIGNS = ['', '~ ', '− ', '+ '];
const KINDS = ['products', 'statistics', 'element by element', 'moves, shapes', 'codes, types', 'other'];

// The data name their keys by letters, since thousands of nodes repeat them.
function readNode(n, index) {
  return {
    index,
    kind: n.k,
    label: n.l,
    detail: n.d || '',
    group: n.g,
    fate: n.s || SAME,
    partners: n.x || [],
    news: n.w || [],
    bodies: n.y ?? -1,
    reads: n.i || [],
    makes: n.u || [],
    op: n.o || '',
    name: n.n || '',
    type: n.t || '',
    colour: n.c ?? 5,
    attributes: n.a || {},
    constants: n.q || [],
    fusedFrom: n.f || [],
    flops: n.F,
    bytes: n.B,
    parameters: n.P,
    ms: n.M,
    sqnr: n.E === undefined ? undefined : number(n.E),
    precision: n.R || '',
    kernel: n.K || ''
  };
}

function readGroup(g, index) {
  const children = [];
  for (let i = 0; i < g.c.length; i += 2) children.push({kind: g.c[i], index: g.c[i + 1], width: g.z[i / 2]});
  return {
    index,
    kind: g.k,
    label: g.l,
    parent: g.p,
    nodes: g.n,
    node: g.o ?? -1,
    children,
    wires: g.w.map(([value, source, ...sinks]) => ({value, source, sinks})),
    // A place: the child, or -1 and the wire that bends there.
    rows: g.r.map(row => {
      const places = [];
      for (let i = 0; i < row.length; i += 2)
        places.push({child: row[i] < 0 ? -1 : row[i], wire: row[i] < 0 ? -1 - row[i] : -1, x: row[i + 1]});
      return places;
    })
  };
}

const UNITS = ['', 'k', 'M', 'G', 'T', 'P'];
function counted(v) {  // 1234567 as 1.235 M
  if (Number.isInteger(v) && Math.abs(v) < 1000) return `${v} `;
  let unit = 0;
  for (; Math.abs(v) >= 1000 && unit + 1 < UNITS.length; ++unit) v /= 1000;
  return `${show(v)} ${UNITS[unit]}`;
}
const typeText = type => type.replace(/\[([^\]]*)\]/g, (_, dims) => dims ? ` ${dims.replaceAll(',', '×')}` : ' scalar');

// Numbers that colour the nodes; groups have the sum, of errors the worst.
const METRICS = {
  ms: {name: 'time', show: v => `${show(v, 3)} ms`},
  flops: {name: 'operations', show: v => `${counted(v)}FLOP`},
  bytes: {name: 'bytes moved', show: v => `${counted(v)}B`},
  parameters: {name: 'parameters', show: v => counted(v).trim()},
  sqnr: {name: 'error', show: v => `${show(v, 3)} dB SQNR`, worst: true}
};

class Model {
  constructor(data) {
    this.title = data.title;
    this.before = data.before;
    this.version = data.version;
    this.extents = data.extents || {};
    this.nodes = data.nodes.map(readNode);
    this.values = data.values.map(([name, type, fate]) => ({name, type, fate, maker: -1, readers: []}));
    this.groups = data.groups.map(readGroup);
    for (const g of this.groups)
      for (const c of g.children)
        if (c.kind === GROUP) this.groups[c.index].closedWidth = c.width;
    this.open = new Set(data.open);
    this.open.add(0);
    for (const n of this.nodes) {
      for (const v of n.makes) this.values[v].maker = n.index;
      for (const v of n.reads) this.values[v].readers.push(n.index);
    }
    this.operators = this.nodes.filter(n => n.kind === OPERATOR);
    this.metrics = Object.keys(METRICS).filter(m => this.operators.some(n => n[m] !== undefined));
    this.sumUp();
  }

  sumUp() {
    for (const g of this.groups) g.totals = {};
    this.total = {};
    for (const n of this.operators)
      for (const m of this.metrics) {
        const add = (old, v) => METRICS[m].worst ? Math.min(old ?? Infinity, v) : (old ?? 0) + v;
        if (n[m] === undefined) continue;
        if (n.fate !== REMOVED) this.total[m] = add(this.total[m], n[m]);
        for (let g = n.group; g >= 0; g = this.groups[g].parent)
          this.groups[g].totals[m] = add(this.groups[g].totals[m], n[m]);
      }
  }

  groupsAround(node) {  // from inside outwards, without the whole
    const out = [];
    for (let g = this.nodes[node].group; g > 0; g = this.groups[g].parent) out.push(g);
    return out;
  }

  // The box that stands for a node in the drawing: itself, or the outermost closed group around it.
  shownAs(node) {
    const n = this.nodes[node];
    let shown = n.bodies >= 0 ? {kind: GROUP, index: n.bodies} : {kind: NODE, index: node};
    for (const g of this.groupsAround(node))
      if (!this.open.has(g)) shown = {kind: GROUP, index: g};
    return shown;
  }

  nodesIn(group) {
    return this.operators.filter(n => {
      for (let g = n.group; g >= 0; g = this.groups[g].parent)
        if (g === group) return true;
      return false;
    });
  }
}
