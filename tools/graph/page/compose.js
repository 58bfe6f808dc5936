// Absolute places of boxes and lines, with some groups open: what tools/graph/compose.cc does.
const ROW_GAP = 42, PORT_GAP = 14, HEAD = 30, SIDE = 18, FOOT = 14;
const NODE_HEIGHT = 42, GROUP_HEIGHT = 50, END_HEIGHT = 30, BOX_GAP = 26, BEND_GAP = 12;

// Places nearest to the wanted ones, by squares, at least `distances` apart: neighbours that would change order are pooled.
function spreadOut(wanted, distances) {
  const blocks = [], offsets = [0];
  distances.forEach((d, i) => offsets.push(offsets[i] + d));
  wanted.forEach((x, i) => {
    blocks.push({sum: x - offsets[i], count: 1});
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1], before = blocks[blocks.length - 2];
      if (before.sum / before.count <= last.sum / last.count) break;
      before.sum += last.sum;
      before.count += last.count;
      blocks.pop();
    }
  });
  return blocks.flatMap(b => new Array(b.count).fill(b.sum / b.count)).map((x, i) => x + offsets[i]);
}

class Composition {
  constructor(model) {
    this.model = model;
    this.levels = new Map();
    this.boxes = [];  // groups before what they hold
    this.lines = [];
    this.measure(0);
    this.place(0, 0, 0, 0);
    this.width = this.levels.get(0).width;
    this.height = this.levels.get(0).height;
  }

  isOpen(c) {
    return c.kind === GROUP && this.model.open.has(c.index);
  }
  widthOf(c) {
    return this.isOpen(c) ? this.levels.get(c.index).width : c.width;
  }
  heightOf(c) {
    if (c.kind === GROUP) return this.isOpen(c) ? this.levels.get(c.index).height : GROUP_HEIGHT;
    if (c.kind !== NODE) return 0;
    return this.model.nodes[c.index].kind === OPERATOR ? NODE_HEIGHT : END_HEIGHT;
  }
  isPort(c) {
    return c.kind === IN_PORT || c.kind === OUT_PORT;
  }

  measure(g) {
    const group = this.model.groups[g];
    for (const c of group.children)
      if (this.isOpen(c)) this.measure(c.index);
    const level = {x: group.rows.map(row => this.placesOf(group, row)), y: [], heights: [], ports: new Map()};
    let left = Infinity, right = -Infinity;
    group.rows.forEach((row, r) => row.forEach((p, i) => {
      const half = p.child < 0 ? 0 : this.widthOf(group.children[p.child]) / 2;
      left = Math.min(left, level.x[r][i] - half);
      right = Math.max(right, level.x[r][i] + half);
    }));
    if (left > right) left = right = 0;
    const more = Math.max(0, (g === 0 ? 0 : group.closedWidth) - (right - left) - 2 * SIDE) / 2;
    level.x.forEach(row => row.forEach((x, i) => {
      row[i] = x + SIDE + more - left;
    }));
    level.width = right - left + 2 * (SIDE + more);
    this.levels.set(g, level);
    this.giveHeights(group, level);
  }

  // As laid out with all groups closed; rows with an open group make room for it.
  placesOf(group, row) {
    const wanted = row.map(p => p.x), of = p => p.child < 0 ? null : group.children[p.child];
    if (!row.some(p => of(p) && this.isOpen(of(p)))) return wanted;
    const width = p => of(p) ? this.widthOf(of(p)) : 0;
    const gap = (a, b) => a.child < 0 && b.child < 0 ? BEND_GAP : a.child < 0 || b.child < 0 ? (BOX_GAP + BEND_GAP) / 2 : BOX_GAP;
    const distances = row.slice(1).map((p, i) => (width(row[i]) + width(p)) / 2 + gap(row[i], p));
    return spreadOut(wanted, distances);
  }

  giveHeights(group, level) {
    const head = group.index === 0 ? SIDE : HEAD, last = group.rows.length - 1;
    let y = head;
    group.rows.forEach((row, r) => {
      let height = 0, ports = row.length > 0;
      row.forEach((p, i) => {
        const c = p.child < 0 ? null : group.children[p.child], port = c !== null && this.isPort(c);
        ports = ports && port;
        if (!c) return;
        height = Math.max(height, this.heightOf(c));
        if (port) level.ports.set(c.kind * 1e9 + c.index, level.x[r][i]);
      });
      if (ports && r === 0) {  // at the upper edge
        level.y.push(0);
        y = head + PORT_GAP;
      } else {
        if (ports) y += PORT_GAP - ROW_GAP;
        level.y.push(y);
        y += height + ROW_GAP;
      }
      level.heights.push(height);
    });
    level.height = y - (last < 0 ? 0 : ROW_GAP) + FOOT;
    const lowest = last < 0 ? undefined : group.rows[last][0];
    if (lowest && lowest.child >= 0 && group.children[lowest.child].kind === OUT_PORT) level.y[last] = level.height;
  }

  place(g, x, y, depth) {
    const group = this.model.groups[g], level = this.levels.get(g);
    group.rows.forEach((row, r) => row.forEach((p, i) => {
      const c = p.child < 0 ? null : group.children[p.child];
      if (!c || this.isPort(c)) return;
      const width = this.widthOf(c), left = x + level.x[r][i] - width / 2, top = y + level.y[r];
      this.boxes.push({kind: c.kind, index: c.index, x: left, y: top, width, height: this.heightOf(c), open: this.isOpen(c), depth});
      if (this.isOpen(c)) this.place(c.index, left, top, depth + 1);
    }));
    this.placeWires(group, level, x, y);
  }

  placeWires(group, level, x, y) {
    const of = new Array(group.children.length), bends = group.wires.map(() => []);
    group.rows.forEach((row, r) => row.forEach((p, i) => {
      const at = x + level.x[r][i], top = y + level.y[r], bottom = top + level.heights[r];
      if (p.child < 0) {
        bends[p.wire].push({row: r, x: at, top, edge: bottom, bottom});
        return;
      }
      const c = group.children[p.child];
      of[p.child] = this.isPort(c) ? {row: r, x: at, top, edge: top, bottom: top} :
                                     {row: r, x: at, top, edge: top + this.heightOf(c), bottom};
    }));
    group.wires.forEach((wire, w) => this.placeWire(group, wire, of, bends[w]));
  }

  portOf(c, kind, value, middle) {
    if (!this.isOpen(c)) return middle;
    const level = this.levels.get(c.index), port = level.ports.get(kind * 1e9 + value);
    return port === undefined ? middle : middle - level.width / 2 + port;
  }

  placeWire(group, wire, of, bends) {
    const {value} = wire, source = group.children[wire.source], begins = !this.isPort(source);
    const above = {...of[wire.source]};
    above.x = this.portOf(source, OUT_PORT, value, above.x);
    const add = (x0, y0, x1, y1, ends, first) => this.lines.push({x0, y0, x1, y1, value, ends, begins: first});
    const beside = above.bottom > above.edge + 1;
    if (beside) add(above.x, above.edge, above.x, above.bottom, false, begins);  // down past a higher neighbour
    const trunk = [above, ...bends];
    for (let i = 1; i < trunk.length; ++i) {
      add(trunk[i - 1].x, trunk[i - 1].bottom, trunk[i].x, trunk[i].top, false, i === 1 && begins && !beside);
      if (trunk[i].bottom > trunk[i].top) add(trunk[i].x, trunk[i].top, trunk[i].x, trunk[i].bottom, false, false);
    }
    for (const s of wire.sinks) {
      const sink = group.children[s], to = of[s], rows = to.row - above.row;
      // A wire without bends goes straight, one that closes a cycle goes up.
      const last = rows > 0 && rows <= trunk.length ? trunk[rows - 1] : above;
      add(last.x, last.bottom, this.portOf(sink, IN_PORT, value, to.x), to.top, !this.isPort(sink), last === above && begins && !beside);
    }
  }
}
