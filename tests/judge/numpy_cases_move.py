"""Further random calls with their NumPy meaning: what moves, multiplies and makes tensors."""

import math

import numpy as np

from numpy_cases import ANY, FLOATS, NUMBERS, Case, cases, i64


# ---- Moving ------------------------------------------------------------------------------------

@cases("Slice")
def slices(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1))
    axes = s.axes(x.ndim)
    index, starts, ends, steps = [slice(None)] * x.ndim, [], [], []
    for a in axes:
        n = x.shape[a]
        step = s.pick([1, 1, 2, 3, -1, -2, 7, -7])
        start, end = s.int(-n - 3, n + 3), s.int(-n - 3, n + 3)
        if s.chance(0.2):  # to the very end
            end = 2**63 - 1 if step > 0 else -2**63
        starts.append(start)
        ends.append(end)
        steps.append(step)
        if step < 0 and start < -n:
            start = 0  # here ONNX differs: NumPy would begin before the first element
        index[a] = slice(start, end, step)
    given = axes == list(range(len(axes))) and s.chance()
    inputs = [x, i64(starts), i64(ends), None if given else i64(axes), i64(steps)]
    return Case(op, inputs, [x[tuple(index)]])


@cases("Gather")
def gather(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1, 4, least=1))
    axis = s.axis(x.ndim)
    n = x.shape[axis]
    index = s.tensor(np.int64, s.dims(0, 3), -n, n - 1).astype(s.pick([np.int32, np.int64]))
    return Case(op, [x, index], [np.take(x, index, axis)], {"axis": axis})


@cases("GatherElements")
def gather_elements(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1, 4, least=1))
    axis = s.axis(x.ndim)
    dims = [s.int(1, d) for d in x.shape]
    dims[axis] = s.int(0, 4)
    n = x.shape[axis]
    index = s.tensor(np.int64, dims, -n, n - 1)
    part = x[tuple(slice(None) if a == axis % x.ndim else slice(0, d) for a, d in enumerate(dims))]
    return Case(op, [x, index], [np.take_along_axis(part, index % n, axis)], {"axis": axis})


def nd_index(s, dims, batch):
    """Random indices into dims[batch:] and their depth."""
    depth = s.int(1, len(dims) - batch)
    outer = dims[:batch] + [s.int(1, 4) for _ in range(s.int(0 if batch else 1, 2))]
    columns = [s.n.integers(-dims[batch + k], dims[batch + k], outer) for k in range(depth)]
    return np.stack(columns, -1).astype(np.int64), depth


@cases("GatherND")
def gather_nd(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1, 4, least=1))
    batch = s.int(0, x.ndim - 1)
    index, depth = nd_index(s, list(x.shape), batch)
    want = np.empty(index.shape[:-1] + x.shape[batch + depth:], x.dtype)
    for at in np.ndindex(*index.shape[:-1]):
        want[at] = x[at[:batch] + tuple(index[at])]
    return Case(op, [x, index], [want], {"batch_dims": batch} if batch else {})


def fold_at(y, at, value, how):
    if how == "none":
        y[at] = value
    elif how == "add":
        y[at] += value
    elif how == "mul":
        y[at] *= value
    elif how == "max":
        y[at] = np.maximum(y[at], value)
    else:
        y[at] = np.minimum(y[at], value)


@cases("ScatterElements")
def scatter_elements(op, s):
    dtype, how = s.pick([np.float32, np.int32, np.int64]), s.pick(["none", "add", "mul", "max", "min"])
    x = s.tensor(dtype, s.dims(1, 4, least=1))
    axis = s.axis(x.ndim)
    dims = [s.int(1, d) for d in x.shape]
    n = x.shape[axis]
    if how == "none":  # positions must differ then
        index = np.argsort(s.n.random(list(dims[:axis % x.ndim]) + [n] + dims[axis % x.ndim + 1:]),
                           axis)
        index = np.take(index, np.arange(dims[axis]), axis)
    else:
        index = s.n.integers(0, n, dims)
    updates = s.tensor(dtype, dims, -3, 3)
    y = x.copy()
    for at in np.ndindex(*dims):
        to = list(at)
        to[axis] = index[at]
        fold_at(y, tuple(to), updates[at], how)
    negative = np.where(s.n.random(dims) < 0.3, index - n, index).astype(np.int64)
    return Case(op, [x, negative, updates], [y], {"axis": axis, "reduction": how}, 4)


@cases("ScatterND")
def scatter_nd(op, s):
    dtype, how = s.pick([np.float32, np.int32, np.int64]), s.pick(["none", "add", "mul", "max", "min"])
    x = s.tensor(dtype, s.dims(1, 4, least=1))
    index, depth = nd_index(s, list(x.shape), 0)
    updates = s.tensor(dtype, list(index.shape[:-1]) + list(x.shape[depth:]), -3, 3)
    if how == "none":  # equal updates: the order of equal positions does not matter
        updates = np.full_like(updates, 5)
    y = x.copy()
    for at in np.ndindex(*index.shape[:-1]):
        fold_at(y, tuple(index[at]), updates[at], how)
    return Case(op, [x, index, updates], [y], {"reduction": how}, 4)


@cases("Concat")
def concat(op, s):
    dtype, dims = s.pick(ANY), s.dims(1)
    axis = s.axis(len(dims))
    xs = []
    for _ in range(s.int(1, 4)):
        dims[axis] = s.int(0, 4)
        xs.append(s.tensor(dtype, dims))
    return Case(op, xs, [np.concatenate(xs, axis)], {"axis": axis})


@cases("Split")
def split(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1))
    axis, n = s.axis(x.ndim), s.int(1, 4)
    extent = x.shape[axis]
    if s.chance():
        cuts = sorted(s.int(0, extent) for _ in range(n - 1))
        parts, attrs = np.split(x, cuts, axis), {}
        sizes = i64([p.shape[axis] for p in parts])
    else:
        part = -(-extent // n)
        cuts, attrs, sizes = [min(part * (k + 1), extent) for k in range(n - 1)], {"num_outputs": n}, None
        parts = np.split(x, cuts, axis)
    return Case(op, [x, sizes], parts, {"axis": axis, **attrs})


@cases("Transpose")
def transpose(op, s):
    x = s.tensor(s.pick(ANY), s.dims())
    perm = s.r.sample(range(x.ndim), x.ndim)
    if s.chance(0.3):
        return Case(op, [x], [np.transpose(x)])
    return Case(op, [x], [np.transpose(x, perm)], {"perm": perm} if perm else {})


@cases("Reshape")
def reshape(op, s):
    x = s.tensor(s.pick(ANY), s.dims())
    allow_zero = s.chance(0.3)
    factors = list(x.shape)
    s.r.shuffle(factors)
    dims = []
    for f in factors:  # merge some, split none; ones in between
        if dims and s.chance(0.4):
            dims[-1] *= f
        else:
            dims.append(f)
        if s.chance(0.2):
            dims.append(1)
    wanted = list(dims)
    for k, d in enumerate(wanted):
        if not allow_zero and k < x.ndim and d == x.shape[k] and s.chance():
            wanted[k] = 0  # a copy
        elif d == 0 and not allow_zero:
            return Case(op, [x, i64(x.shape)], [x])  # 0 would be a copy of another extent
    if dims and x.size and s.chance():
        wanted[s.int(0, len(dims) - 1)] = -1
        allow_zero = allow_zero and 0 not in wanted
    return Case(op, [x, i64(wanted)], [x.reshape(dims)], {"allowzero": 1} if allow_zero else {})


@cases("Expand")
def expand(op, s):
    x_dims, to = s.broadcastable(2)
    x = s.tensor(s.pick(ANY), x_dims)
    return Case(op, [x, i64(to)],
                [np.broadcast_to(x, np.broadcast_shapes(tuple(x_dims), tuple(to)))])


@cases("Tile")
def tile(op, s):
    x = s.tensor(s.pick(ANY), s.dims(0, 4))
    repeats = [s.int(0 if s.chance(0.1) else 1, 3) for _ in x.shape]
    return Case(op, [x, i64(repeats)], [np.tile(x, repeats) if repeats else x])


@cases("Squeeze")
def squeeze(op, s):
    dims = [1 if s.chance() else d for d in s.dims()]
    x = s.tensor(s.pick(ANY), dims)
    ones = [a for a, d in enumerate(dims) if d == 1]
    if s.chance(0.3):
        return Case(op, [x], [np.squeeze(x)])
    axes = s.r.sample(ones, s.int(0, len(ones)))
    given = [a - len(dims) if s.chance(0.4) else a for a in axes]
    return Case(op, [x, i64(given)] if given else [x, i64([])],
                [np.squeeze(x, tuple(axes))])


@cases("Unsqueeze")
def unsqueeze(op, s):
    x = s.tensor(s.pick(ANY), s.dims(0, 3))
    count = s.int(1, 2)
    axes = s.axes(x.ndim + count, count)
    return Case(op, [x, i64(axes)], [np.expand_dims(x, tuple(axes))])


@cases("Flatten")
def flatten(op, s):
    x = s.tensor(s.pick(ANY), s.dims())
    axis = s.int(-x.ndim, x.ndim)
    at = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:at], dtype=np.int64))
    columns = int(np.prod(x.shape[at:], dtype=np.int64))
    return Case(op, [x], [x.reshape(rows, columns)], {"axis": axis})


@cases("Pad")
def pad(op, s):
    mode = s.pick(["constant", "constant", "reflect", "edge", "wrap"])
    x = s.tensor(s.pick(NUMBERS + [np.bool_] if mode == "constant" else NUMBERS),
                 s.dims(1, 4, least=0 if mode == "constant" else 1))
    axes = s.axes(x.ndim) if s.chance() else list(range(x.ndim))
    pads, cut = [[0, 0] for _ in x.shape], [slice(None)] * x.ndim
    for a in axes:
        n = x.shape[a]
        most = {"constant": 3, "edge": 3, "reflect": n - 1, "wrap": n}[mode]
        low = -1 if mode == "constant" and n >= 2 else 0  # negative pads cut off
        pads[a] = [s.int(low, max(most, 0)), s.int(low, max(most, 0))]
        cut[a] = slice(max(0, -pads[a][0]), n - max(0, -pads[a][1]))
    flat = i64([pads[a][0] for a in axes] + [pads[a][1] for a in axes])
    widths = [(max(0, p[0]), max(0, p[1])) for p in pads]
    value = s.tensor(x.dtype, []) if mode == "constant" and s.chance() else None
    more = {"constant_values": value if value is not None else np.zeros((), x.dtype)}
    want = np.pad(x[tuple(cut)], widths, mode=mode, **(more if mode == "constant" else {}))
    given = None if axes == list(range(x.ndim)) and s.chance() else i64(axes)
    return Case(op, [x, flat, value, given], [want], {"mode": mode})


@cases("Trilu")
def trilu(op, s):
    x = s.tensor(s.pick(ANY), s.dims(2))
    upper, k = s.chance(), s.int(-5, 5)
    want = (np.triu if upper else np.tril)(x, k)
    return Case(op, [x, np.array(k, np.int64)], [want], {"upper": int(upper)})


# ---- Products ----------------------------------------------------------------------------------

@cases("MatMul")
def matmul(op, s):
    dtype = s.pick([np.float32, np.float64, np.float16, np.int32, np.int64])
    a_rank, b_rank = s.int(1, 4), s.int(1, 4)
    m, k, n = (s.int(0 if s.chance(0.1) else 1, 4) for _ in range(3))
    a_batch, b_batch = s.broadcastable(2)
    a = a_batch[:max(a_rank - 2, 0)] + [m, k] if a_rank > 1 else [k]
    b = b_batch[:max(b_rank - 2, 0)] + [k, n] if b_rank > 1 else [k]
    try:
        np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
    except ValueError:
        a = a[-2:]
    x, y = s.tensor(dtype, a), s.tensor(dtype, b)
    wide = np.float64 if dtype in FLOATS else dtype
    return Case(op, [x, y], [np.asarray(np.matmul(x.astype(wide), y.astype(wide))).astype(dtype)],
                tolerance_factor=4)


@cases("Einsum")
def einsum(op, s):
    equation = s.pick(["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "ii->", "i,j->ij",
                       "...ij,...jk->...ik", "ij,ij->i", "ijk,k", "abcd,cd->ab", "a,ab,b->",
                       "...a->a...", "iij->j", "ij,kj", "...,...->..."])
    dtype = s.pick([np.float32, np.float64, np.int32, np.int64])
    extents = {c: s.int(1, 4) for c in "abcdijk"}
    ellipsis = s.dims(0, 2, least=1)
    xs = []
    for term in equation.split("->")[0].split(","):
        dims = ellipsis if "..." in term else []
        before, _, after = term.partition("...") if "..." in term else ("", "", term)
        xs.append(s.tensor(dtype, [extents[c] for c in before] + list(dims) +
                           [extents[c] for c in after], -3, 3))
    wide = [x.astype(np.float64) if dtype in FLOATS else x for x in xs]
    return Case(op, xs, [np.asarray(np.einsum(equation, *wide)).astype(dtype)],
                {"equation": equation}, tolerance_factor=8)


# ---- Made from values --------------------------------------------------------------------------

@cases("Range")
def ranges(op, s):
    dtype = s.pick([np.int32, np.int64, np.int16, np.float32, np.float64])
    if dtype in FLOATS:
        start, delta = s.int(-8, 8) / 4, s.pick([-1.5, -0.25, 0.25, 0.5, 2.0])
        limit = start + s.int(-6, 12) * delta + s.pick([0, delta / 2])
    else:
        start, limit, delta = s.int(-9, 9), s.int(-9, 9), s.pick([-3, -1, 1, 2])
    count = max(math.ceil((limit - start) / delta), 0)
    want = np.array([start + i * delta for i in range(count)], dtype)
    return Case(op, [np.array(v, dtype) for v in (start, limit, delta)], [want])


@cases("OneHot")
def one_hot(op, s):
    depth = s.int(1, 5)
    index = s.tensor(s.pick([np.int32, np.int64]), s.dims(0, 3), -depth - 2, depth + 1)
    values = s.tensor(s.pick([np.float32, np.int32, np.int64]), [2])
    axis = s.int(-index.ndim - 1, index.ndim)
    inside = (index >= -depth) & (index < depth)
    at = np.where(inside, index % depth, -1)
    hot = np.expand_dims(at, axis) == np.arange(depth).reshape(
        [depth if a == axis % (index.ndim + 1) else 1 for a in range(index.ndim + 1)])
    return Case(op, [index, np.array([depth], np.int64), values],
                [np.where(hot, values[1], values[0])], {"axis": axis})


@cases("NonZero")
def non_zero(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1), -1, 1)
    if x.dtype in FLOATS:
        x = np.rint(x)
    return Case(op, [x], [np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)])


@cases("Unique")
def unique(op, s):
    dtype, in_order = s.pick([np.float32, np.int64, np.int8, np.float64]), s.chance()
    x = np.rint(s.tensor(dtype, s.dims(1, 4, least=1), -2, 2)).astype(dtype) + 0
    axis = None if s.chance() else s.axis(x.ndim)
    y, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.ravel()
    if not in_order:  # by first appearance
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        y, first, counts = np.take(y, order, axis if axis is not None else 0), first[order], counts[order]
        inverse = rank[inverse]
    attrs = {"sorted": int(in_order)}
    if axis is not None:
        attrs["axis"] = axis
    return Case(op, [x], [y] + [v.astype(np.int64) for v in (first, inverse, counts)], attrs)


@cases("Compress")
def compress(op, s):
    x = s.tensor(s.pick(ANY), s.dims(1, 4))
    axis = None if s.chance() else s.axis(x.ndim)
    extent = x.size if axis is None else x.shape[axis]
    chosen = s.tensor(np.bool_, [s.int(0, extent)])
    want = np.compress(chosen, x, axis)
    return Case(op, [x, chosen], [want], {} if axis is None else {"axis": axis})
