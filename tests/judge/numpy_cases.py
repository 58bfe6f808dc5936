"""Random calls of operators that have a NumPy meaning, with that meaning. Used by numpy_semantics.py."""


import random

import numpy as np

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
INTS = SIGNED + UNSIGNED
NUMBERS = INTS + FLOATS
ANY = NUMBERS + [np.bool_]


class Case:
    def __init__(self, op, inputs, outputs, attrs=None, tolerance_factor=1):
        self.op, self.attrs, self.tolerance_factor = op, attrs or {}, tolerance_factor
        self.inputs = [None if x is None else np.ascontiguousarray(x).reshape(np.shape(x))
                       for x in inputs]
        self.outputs = [np.asarray(x) for x in outputs]


class Source:
    """Everything random about one case."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.n = np.random.default_rng(seed)

    def int(self, low, high):
        return self.r.randint(low, high)

    def chance(self, p=0.5):
        return self.r.random() < p

    def pick(self, items):
        return self.r.choice(items)

    def dims(self, least_rank=0, most_rank=5, least=0, most=4):
        # An empty tensor in about one case of ten, not in half of them.
        low = least if self.chance(0.1) else max(least, 1)
        return [self.int(low, most) for _ in range(self.int(least_rank, most_rank))]

    def tensor(self, dtype, dims, low=-9, high=9):
        if dtype == np.bool_:
            return self.n.integers(0, 2, dims).astype(bool)
        if np.issubdtype(dtype, np.floating):
            return np.asarray(self.n.uniform(low, high, dims)).astype(dtype)
        if np.issubdtype(dtype, np.unsignedinteger):
            low = max(low, 0)
        return np.asarray(self.n.integers(low, high + 1, dims)).astype(dtype)

    def broadcastable(self, count):
        """`count` shapes that broadcast to one."""
        full = self.dims()
        shapes = []
        for _ in range(count):
            own = [1 if self.chance(0.3) else d for d in full]
            shapes.append(own[self.int(0, len(own)) if self.chance(0.4) else 0:])
        return shapes

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank, count=None):
        """Different axes in any order, some counted from the end."""
        count = self.int(1, rank) if count is None else count
        return [a - rank if self.chance(0.4) else a for a in self.r.sample(range(rank), count)]


def i64(values):
    return np.array(values, dtype=np.int64)


MAKERS = []  # (operator, function of operator and source)


def cases(*ops):
    def register(function):
        MAKERS.extend((op, function) for op in ops)
        return function
    return register


# ---- Elementwise -------------------------------------------------------------------------------

def truncated_quotient(a, b):
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    a, b = np.broadcast_arrays(a, b)
    exact = [int(p) // int(q) if (p < 0) == (q < 0) else -(abs(int(p)) // abs(int(q)))
             for p, q in zip(a.ravel(), b.ravel())]
    return np.array(exact, a.dtype).reshape(a.shape)


BINARY = {
    "Add": (np.add, NUMBERS), "Sub": (np.subtract, NUMBERS), "Mul": (np.multiply, NUMBERS),
    "And": (np.logical_and, [np.bool_]), "Or": (np.logical_or, [np.bool_]),
    "Xor": (np.logical_xor, [np.bool_]), "Equal": (np.equal, ANY),
    "Less": (np.less, NUMBERS), "LessOrEqual": (np.less_equal, NUMBERS),
    "Greater": (np.greater, NUMBERS), "GreaterOrEqual": (np.greater_equal, NUMBERS),
    "BitwiseAnd": (np.bitwise_and, INTS), "BitwiseOr": (np.bitwise_or, INTS),
    "BitwiseXor": (np.bitwise_xor, INTS),
}


@cases(*BINARY)
def binary(op, s):
    function, types = BINARY[op]
    dtype = s.pick(types)
    a, b = (s.tensor(dtype, d, -3, 3) for d in s.broadcastable(2))
    return Case(op, [a, b], [np.asarray(function(a, b))])


@cases("Div")
def div(op, s):
    dtype = s.pick(NUMBERS)
    a, b = (s.tensor(dtype, d, -99, 99) for d in s.broadcastable(2))
    b = np.where(b == 0, np.asarray(1, dtype), b)
    return Case(op, [a, b], [np.asarray(truncated_quotient(a, b)).astype(dtype)])


@cases("Mod")
def mod(op, s):
    fmod = s.chance()
    dtype = s.pick(NUMBERS if fmod else INTS)
    a, b = (s.tensor(dtype, d, -50, 50) for d in s.broadcastable(2))
    b = np.where(b == 0, np.asarray(3, dtype), b)
    want = np.fmod(a, b) if fmod else np.mod(a, b)
    return Case(op, [a, b], [np.asarray(want)], {"fmod": 1} if fmod else {})


@cases("Pow")
def power(op, s):
    dtype = s.pick([np.float32, np.float64, np.int32, np.int64])
    other = s.pick([np.float32, np.int32, np.int64])
    d, e = s.broadcastable(2)
    a = s.tensor(dtype, d, 1, 5)
    b = s.tensor(other, e, 0, 3)
    if np.issubdtype(dtype, np.integer):
        b = np.floor(b).astype(other)
    return Case(op, [a, b], [np.power(a, b.astype(dtype))], tolerance_factor=4)


@cases("BitShift")
def bit_shift(op, s):
    dtype = s.pick(UNSIGNED)
    left = s.chance()
    d, e = s.broadcastable(2)
    a, b = s.tensor(dtype, d, 0, 200), s.tensor(dtype, e, 0, 7)
    want = np.left_shift(a, b) if left else np.right_shift(a, b)
    return Case(op, [a, b], [np.asarray(want)], {"direction": "LEFT" if left else "RIGHT"})


@cases("Max", "Min", "Sum", "Mean")
def variadic(op, s):
    dtype = s.pick(NUMBERS if op in ("Max", "Min") else FLOATS)
    xs = [s.tensor(dtype, d) for d in s.broadcastable(s.int(1, 4))]
    wide = xs if op in ("Max", "Min") else [x.astype(np.float64) for x in xs]
    fold = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add, "Mean": np.add}[op]
    want = wide[0]
    for x in wide[1:]:
        want = fold(want, x)
    if op == "Mean":
        want = want / len(xs)
    return Case(op, xs, [np.asarray(want).astype(dtype)], tolerance_factor=2)


UNARY = {
    "Abs": (np.abs, NUMBERS), "Neg": (np.negative, SIGNED + FLOATS), "Sign": (np.sign, NUMBERS),
    "Floor": (np.floor, FLOATS), "Ceil": (np.ceil, FLOATS), "Round": (np.rint, FLOATS),
    "Sqrt": (np.sqrt, FLOATS), "Exp": (np.exp, FLOATS), "Sin": (np.sin, FLOATS),
    "Cos": (np.cos, FLOATS), "Tanh": (np.tanh, FLOATS), "Reciprocal": (np.reciprocal, FLOATS),
    "Not": (np.logical_not, [np.bool_]), "BitwiseNot": (np.bitwise_not, INTS),
    "IsNaN": (np.isnan, FLOATS), "Identity": (np.array, ANY),
}


@cases(*UNARY)
def unary(op, s):
    function, types = UNARY[op]
    dtype = s.pick(types)
    x = s.tensor(dtype, s.dims())
    if op == "Round" and s.chance():
        x = (np.floor(x) + 0.5).astype(dtype)  # ties go to even
    if op == "IsNaN":
        x = np.sqrt(x)
    wide = x.astype(np.float64) if dtype in FLOATS and op != "IsNaN" else x
    want = np.asarray(function(wide))
    return Case(op, [x], [want if op == "IsNaN" else want.astype(dtype)], tolerance_factor=2)


@cases("Where")
def where(op, s):
    dtype = s.pick(ANY)
    c, d, e = s.broadcastable(3)
    c, x, y = s.tensor(np.bool_, c), s.tensor(dtype, d), s.tensor(dtype, e)
    return Case(op, [c, x, y], [np.where(c, x, y)])


@cases("Clip")
def clip(op, s):
    dtype = s.pick(NUMBERS)
    x = s.tensor(dtype, s.dims())
    low = s.tensor(dtype, [], -3, 3) if s.chance(0.7) else None
    high = s.tensor(dtype, [], -3, 6) if s.chance(0.7) else None
    want = x if low is None else np.maximum(x, low)
    want = want if high is None else np.minimum(want, high)
    return Case(op, [x, low, high], [np.asarray(want)])


# ---- Reductions --------------------------------------------------------------------------------

REDUCE = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **k: np.sum(np.abs(x), **k),
    "ReduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "ReduceSumSquare": lambda x, **k: np.sum(x * x, **k),
    "ReduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.sum(np.exp(x), **k)),
}


@cases(*REDUCE)
def reduce(op, s):
    logs = op.startswith("ReduceLog")
    whole = [np.int32, np.int64] if op in ("ReduceSum", "ReduceProd", "ReduceSumSquare",
                                           "ReduceL1", "ReduceMax", "ReduceMin") else []
    dtype = s.pick([np.float32, np.float64] + whole)
    dims = s.dims(least=1 if op in ("ReduceMean", "ReduceMax", "ReduceMin") else 0)
    x = s.tensor(dtype, dims, 1 if logs else -3, 3)
    how = s.pick(["none", "empty", "given"]) if dims else s.pick(["none", "empty"])
    axes = {"none": None, "empty": i64([]), "given": i64(s.axes(len(dims)) if dims else [])}[how]
    keep, noop = s.chance(), s.chance(0.3)
    attrs = {"keepdims": int(keep)}
    if noop:
        attrs["noop_with_empty_axes"] = 1
    if how != "given" and noop:
        over = ()
    else:
        over = tuple(int(a) % len(dims) for a in axes) if how == "given" else None
    wide = x.astype(np.float64) if dtype in FLOATS else x
    want = REDUCE[op](wide, axis=over, keepdims=keep)
    return Case(op, [x, axes], [np.asarray(want).astype(dtype)], attrs, tolerance_factor=4)


@cases("ArgMax", "ArgMin")
def arg(op, s):
    dtype = s.pick(NUMBERS)
    x = s.tensor(dtype, s.dims(1, 5, least=1), -2, 2)
    axis, keep, last = s.axis(x.ndim), s.chance(), s.chance()
    find = np.argmax if op == "ArgMax" else np.argmin
    want = find(np.flip(x, axis), axis) if last else find(x, axis)
    want = np.asarray(x.shape[axis] - 1 - want if last else want).astype(np.int64)
    if keep:
        want = np.expand_dims(want, axis)
    return Case(op, [x], [want],
                {"axis": axis, "keepdims": int(keep), "select_last_index": int(last)})


@cases("CumSum")
def cumsum(op, s):
    dtype = s.pick([np.int32, np.int64, np.float32, np.float64])
    x = s.tensor(dtype, s.dims(1))
    axis, exclusive, reverse = s.axis(x.ndim), s.chance(), s.chance()
    y = np.flip(x, axis) if reverse else x
    want = np.cumsum(y, axis).astype(dtype)
    if exclusive:
        want = want - y
    want = np.flip(want, axis) if reverse else want
    return Case(op, [x, np.array(axis, s.pick([np.int32, np.int64]))], [want],
                {"exclusive": int(exclusive), "reverse": int(reverse)}, tolerance_factor=8)


@cases("TopK")
def top_k(op, s):
    dtype = s.pick([np.float32, np.float64, np.int32, np.int64, np.uint8])
    x = s.tensor(dtype, s.dims(1, 4, least=1), -3, 3)
    axis, largest = s.axis(x.ndim), s.chance()
    k = s.int(0, x.shape[axis])
    wide = x.astype(np.float64)
    order = np.argsort(-wide if largest else wide, axis, kind="stable")  # equal ones: lower index
    order = np.take(order, np.arange(k), axis)
    return Case(op, [x, i64([k])], [np.take_along_axis(x, order, axis), order.astype(np.int64)],
                {"axis": axis, "largest": int(largest), "sorted": 1})
