"""Generated models of a few kinds of layers, for ort_costs.py: each kind as chains of K equal layers, drawn at random
in channels and extents, in f32 or between Q and DQ as our quantizer writes them (u8 activations, s8 weights with a
scale per channel, i32 bias); and small networks of the blocks that classifiers are made of.

Chain(kind, int8, seed) and Mixture(int8, seed) draw; .model(k) is an onnx.ModelProto, of a chain with k layers."""
from judging import np, onnx

helper, TensorProto = onnx.helper, onnx.TensorProto
CHANNELS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EXTENTS = (4, 7, 8, 14, 16, 28, 32, 56)


class Builder:
    """Nodes of one model. Values that are quantized are named by what DequantizeLinear gives."""

    def __init__(self, int8, seed):
        self.int8, self.rng, self.count = int8, np.random.default_rng(seed), 0
        self.nodes, self.constants, self.inputs = [], [], []

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        name = self.name()
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def input(self, shape):
        name = self.name()
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return self.quantized(name) if self.int8 else name

    def quantized(self, value, zero_point=128):
        scale, zero = self.constant(np.float32(0.05)), self.constant(np.uint8(zero_point))
        codes = self.node("QuantizeLinear", [value, scale, zero])
        return self.node("DequantizeLinear", [codes, scale, zero])

    def op(self, op, inputs, **attributes):
        """A node, and behind it Q and DQ where the model is in INT8."""
        out = self.node(op, inputs, **attributes)
        return self.quantized(out) if self.int8 else out

    def weights(self, shape, axis):
        if not self.int8:
            return self.constant((self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))
        codes = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        scales = self.constant(np.full(shape[axis], 0.002, np.float32))
        zeros = self.constant(np.zeros(shape[axis], np.int8))
        return self.node("DequantizeLinear", [codes, scales, zeros], axis=axis)

    def bias(self, n):
        if not self.int8:
            return self.constant(np.zeros(n, np.float32))
        scales = self.constant(np.full(n, 1e-4, np.float32))
        return self.node("DequantizeLinear", [self.constant(np.ones(n, np.int32)), scales,
                                              self.constant(np.zeros(n, np.int32))], axis=0)

    def conv(self, x, ins, outs, kernel, group=1, relu=True, stride=1, op="Conv"):
        shape = (outs, ins // group, *kernel) if op == "Conv" else (ins, outs // group, *kernel)
        pads = [(k - 1) // 2 for k in kernel] * 2
        inputs = [x, self.weights(shape, 0 if op == "Conv" else 1), self.bias(outs)]
        attributes = dict(group=group, kernel_shape=list(kernel), pads=pads, strides=[stride] * len(kernel))
        if not relu:
            return self.op(op, inputs, **attributes)
        out = self.node("Relu", [self.node(op, inputs, **attributes)])
        return self.quantized(out, 0) if self.int8 else out  # the codes repeat the bound

    def model(self, out):
        final = self.node("Identity", [out])
        graph = helper.make_graph(self.nodes, "g", self.inputs, [helper.make_tensor_value_info(final, 1, None)],
                                  self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- kinds: f(builder, x, second input, channels, extent, drawn number) -> x of the same extents ----------------


def square(k, group=lambda c: 1):
    return lambda b, x, x0, c, e, r: b.conv(x, c, c, (k, k), group(c))


def few_channels(b, x, x0, c, e, r):
    few = (1, 3)[r % 2]
    return b.conv(b.conv(x, c, few, (1, 1), relu=False), few, c, ((3, 3), (5, 5), (1, 1))[r % 3])


def multiplied(b, x, x0, c, e, r):
    """Two results of each channel: no depthwise kernel knows that."""
    k = (3, 5, 7)[r % 3]
    return b.conv(b.conv(x, c, 2 * c, (k, k), c), 2 * c, c, (1, 1))


def gated(b, x, x0, c, e, r):
    gate = b.op("GlobalAveragePool", [x])
    return b.op("Mul", [x, gate])


def between(b, x, x0, c, e, r):
    """Q and DQ around what has no integer kernel."""
    return b.op("Sub", [x, x0])


def dequantized(b, x, x0, c, e, r):
    """One result in codes, dequantized again and again, by another scale each time."""
    if b.int8:
        if not hasattr(b, "codes"):
            b.codes = b.node("QuantizeLinear", [x0, b.constant(np.float32(0.05)), b.constant(np.uint8(128))])
        b.scale = getattr(b, "scale", 0.05) * 1.01
        x0 = b.node("DequantizeLinear", [b.codes, b.constant(np.float32(b.scale)), b.constant(np.uint8(128))])
    return b.node("Sub", [x, x0])


def returned(b, x, x0, c, e, r):
    """A convolution in f32 between those in INT8."""
    y = b.conv(x, c, c, (1, 1))
    b.int8, was = False, b.int8
    # Behind a bound alone ONNX Runtime would quantize the weights itself.
    y = b.node("Sigmoid", [b.conv(y, c, c, (3, 3) if r % 2 else (1, 1), relu=False)])
    b.int8 = was
    return b.quantized(y) if was else y


def concatenated(b, x, x0, c, e, r):
    return b.conv(b.op("Concat", [x, x0], axis=1), 2 * c, c, (1, 1))


def product(b, x, x0, c, e, r):
    y = b.node("MatMul", [x, b.weights((c, c), 1)])
    if r % 2:
        bias = b.constant(np.zeros(c, np.float32))
        y = b.quantized(y) if b.int8 and r % 4 == 1 else y
        y = b.node("Add", [y, bias])
    return b.quantized(y) if b.int8 else y


def widened(b, x, x0, c, e, r):
    return b.op("MatMul", [b.op("MatMul", [x, b.weights((c, 4 * c), 1)]), b.weights((4 * c, c), 1)])


def layered(b, x, x0, c, e, r):
    y = b.op("LayerNormalization", [x, b.constant(np.ones(e, np.float32)), b.constant(np.zeros(e, np.float32))])
    return b.op("Sub", [y, x0])


def reduced(b, x, x0, c, e, r):
    return b.op("Sub", [x, b.node("ReduceMean", [x], axes=[-1], keepdims=1)])


def pooled(op, k):
    def layer(b, x, x0, c, e, r):
        return b.op(op, [x], kernel_shape=[k, k], pads=[k // 2] * 4, strides=[1, 1])
    return layer


def pooled_behind(op):
    """A pool of a convolution's result, in the layout that it has."""
    def layer(b, x, x0, c, e, r):
        y = b.conv(x, c, c, (1, 1))
        k = (2, 3)[r % 2]
        y = b.op(op, [y], kernel_shape=[k, k], pads=[k // 2] * 2 + [(k - 1) // 2] * 2, strides=[1, 1])
        return y
    return layer


def added_behind(b, x, x0, c, e, r):
    y = b.conv(x, c, c, (1, 1), relu=False)
    return b.op(("Add", "Mul")[r % 2], [b.op("Sigmoid", [y]), y])


def of(op, **attributes):
    return lambda b, x, x0, c, e, r: b.op(op, [x], **attributes)


def plain_between(b, x, x0, c, e, r):
    return b.op("Transpose", [b.conv(x, c, c, (1, 1))], perm=[0, 1, 3, 2])


def gathered(b, x, x0, c, e, r):
    y = b.op("Gather", [x, b.constant(np.arange(c)[::-1].copy())], axis=1)
    return b.op("Sub" if r % 2 else "Add", [y, x0])


def reshaped(b, x, x0, c, e, r):
    y = b.node("Reshape", [x, b.constant(np.array([1, c, e * e], np.int64))])
    y = b.op("Sub" if r % 2 else "Add", [b.quantized(y) if b.int8 else y, b.constant(np.float32(0.5))])
    y = b.node("Reshape", [y, b.constant(np.array([1, c, e, e], np.int64))])
    return b.quantized(y) if b.int8 else y


def dequantized_weights(b, x, x0, c, e, r):
    """A MatMul whose weights alone are codes of a kind that no kernel takes."""
    return b.node("MatMul", [x, b.weights((c, c), 1)])


def dequantized_fused(b, x, x0, c, e, r):
    """The same of a Gemm that takes an activation in first, by rows or by columns."""
    by_rows = r % 2
    w = b.weights((c, c), 0 if by_rows else 1)
    return b.node("Relu", [b.node("Gemm", [x, w, b.constant(np.zeros(c, np.float32))], transB=int(by_rows))])


def dequantized_windows(b, x, x0, c, e, r):
    k = (1, 3)[r % 2]
    return b.node("Conv", [x, b.weights((c, c, k, k), 0)], kernel_shape=[k, k], pads=[k // 2] * 4)


def residual(b, x, x0, c, e, r):
    y = b.conv(b.conv(x, c, c, (3, 3)), c, c, (3, 3), relu=False)
    y = b.node("Add", [y, x])
    y = b.node("Relu", [y])
    return b.quantized(y, 0) if b.int8 else y


def inverted(b, x, x0, c, e, r):
    y = b.conv(b.conv(x, c, 4 * c, (1, 1)), 4 * c, 4 * c, (3, 3), 4 * c)
    return b.op("Add", [b.conv(y, 4 * c, c, (1, 1), relu=False), x])


def convnext(b, x, x0, c, e, r):
    y = b.conv(x, c, c, (7, 7), c, relu=False)
    y = b.node("Transpose", [y], perm=[0, 2, 3, 1])
    y = b.quantized(y) if b.int8 else y
    y = b.op("LayerNormalization", [y, b.constant(np.ones(c, np.float32)), b.constant(np.zeros(c, np.float32))])
    y = b.op("MatMul", [y, b.weights((c, 4 * c), 1)])
    y = b.op("Sigmoid" if r % 2 else "Tanh", [y])
    y = b.op("MatMul", [y, b.weights((4 * c, c), 1)])
    y = b.node("Transpose", [y], perm=[0, 3, 1, 2])
    y = b.quantized(y) if b.int8 else y
    return b.op("Add", [y, x])


def separable(b, x, x0, c, e, r):
    return b.conv(b.conv(x, c, c, ((3, 3), (5, 5))[r % 2], c), c, c, (1, 1))


def silu_block(b, x, x0, c, e, r):
    y = b.conv(x, c, c, (3, 3), relu=False)
    y = b.op("Mul", [y, b.op("Sigmoid", [y])])
    g = b.conv(b.op("GlobalAveragePool", [y]), c, c // 4, (1, 1))
    return b.op("Mul", [y, b.op("Sigmoid", [b.conv(g, c // 4, c, (1, 1), relu=False)])])


def dense_block(b, x, x0, c, e, r):
    y = b.conv(b.op("Concat", [x, b.conv(x, c, c, (3, 3))], axis=1), 2 * c, c, (1, 1))
    return b.op("MaxPool", [y], kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])


def transformer(b, x, x0, c, e, r):
    ones, zeros = b.constant(np.ones(c, np.float32)), b.constant(np.zeros(c, np.float32))
    y = b.op("LayerNormalization", [x, ones, zeros])
    q, k, v = (b.op("MatMul", [y, b.weights((c, c), 1)]) for _ in range(3))
    scores = b.op("MatMul", [q, b.op("Transpose", [k], perm=[1, 0])])
    y = b.op("MatMul", [b.op("Softmax", [scores], axis=-1), v])
    x = b.op("Add", [b.op("MatMul", [y, b.weights((c, c), 1)]), x])
    y = b.op("LayerNormalization", [x, ones, zeros])
    y = b.op("Tanh", [b.op("MatMul", [y, b.weights((c, 4 * c), 1)])])
    return b.op("Add", [b.op("MatMul", [y, b.weights((4 * c, c), 1)]), x])


# [1, c, e, e], [1, c, 4 e], [e, c], [1, e, e, c]
PLANES, LINES, ROWS, MANY = "planes", "lines", "rows", "many"
LAYERS = {
    "conv3": (PLANES, square(3)), "conv5": (PLANES, square(5)), "conv1": (PLANES, square(1)),
    "grouped": (PLANES, square(3, lambda c: 4)), "grouped-by-2": (PLANES, square(3, lambda c: c // 2)),
    "grouped-by-8": (PLANES, square(3, lambda c: c // 8)), "depthwise3": (PLANES, square(3, lambda c: c)),
    "depthwise7": (PLANES, square(7, lambda c: c)), "multiplied": (PLANES, multiplied),
    "few": (PLANES, few_channels),
    "line3": (LINES, lambda b, x, x0, c, e, r: b.conv(x, c, c, (3,))),
    "line1": (LINES, lambda b, x, x0, c, e, r: b.conv(x, c, c, (1,))),
    "line-depthwise": (LINES, lambda b, x, x0, c, e, r: b.conv(x, c, c, ((3,), (9,), (17,), (29,))[r % 4], c)),
    "transposed": (PLANES, lambda b, x, x0, c, e, r: b.conv(x, c, c, (3, 3), op="ConvTranspose")),
    "product": (ROWS, product), "product-of-one": ("row", product), "widened": (MANY, widened), "widened-of-one": ("row", widened),
    "add": (PLANES, lambda b, x, x0, c, e, r: b.op("Add", [x, x0])),
    "mul": (PLANES, lambda b, x, x0, c, e, r: b.op("Mul", [x, x0])),
    "between": (PLANES, between), "sigmoid": (PLANES, of("Sigmoid")), "tanh": (PLANES, of("Tanh")),
    "leaky": (PLANES, of("LeakyRelu", alpha=0.1)), "max3": (PLANES, pooled("MaxPool", 3)),
    "average3": (PLANES, pooled("AveragePool", 3)), "max-behind": (PLANES, pooled_behind("MaxPool")),
    "average-behind": (PLANES, pooled_behind("AveragePool")), "gate-behind": (PLANES, added_behind), "gated": (PLANES, gated),
    "softmax": (PLANES, of("Softmax", axis=-1)), "layernorm": (PLANES, layered), "mean": (PLANES, reduced),
    "concat": (PLANES, concatenated),
    "gathered": (PLANES, gathered), "dequantized": (PLANES, dequantized), "returned": (PLANES, returned), "plain": (PLANES, plain_between), "reshape": (PLANES, reshaped),
    "weights-only": (ROWS, dequantized_weights), "weights-only-gemm": (ROWS, dequantized_fused),
    "weights-only-conv": (PLANES, dequantized_windows),
}
NETWORKS = {
    "residual": (PLANES, residual), "inverted": (PLANES, inverted), "convnext": (PLANES, convnext),
    "silu": (PLANES, silu_block), "dense": (PLANES, dense_block), "transformer": (ROWS, transformer),
}


def gemm(b, x, ins, outs):
    y = b.node("Gemm", [x, b.weights((ins, outs), 1), b.bias(outs)])
    return b.quantized(y) if b.int8 else y


class Nothing:
    """A model that only passes eight numbers on."""

    def shape(self):
        return [1, 8]

    def model(self, layers):
        b = Builder(False, 0)
        return b.model(b.input(self.shape()))


class Mixture:
    """A classifier of images: blocks at random, fewer positions and more channels on the way, a pool and a Gemm."""

    def __init__(self, int8, seed):
        self.kind, self.int8, self.seed = "mixture", int8, seed
        self.rng = np.random.default_rng([seed, 7])
        self.channels, self.extent = int(self.rng.choice((1, 3))), int(self.rng.choice((28, 32, 48, 64)))
        self.first = int(self.rng.choice((8, 16, 24, 32)))
        self.drawn = [(int(self.rng.integers(8)), int(self.rng.integers(12)), bool(self.rng.integers(4) == 0))
                      for _ in range(int(self.rng.integers(2, 12)))]

    def shape(self):
        return [1, self.channels, self.extent, self.extent]

    def model(self, layers):
        b = Builder(self.int8, self.seed)
        x = b.input(self.shape())
        c, e = self.first, self.extent // 2
        x = b.conv(x, self.channels, c, (3, 3), stride=2)
        blocks = (residual, inverted, silu_block, dense_block, convnext, square(3), square(1), separable)
        for kind, r, narrower in self.drawn:
            if narrower and e > 4:
                if r % 2:
                    x = b.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
                    e //= 2
                wide = min(2 * c, 128)
                x, c = b.conv(x, c, wide, (1, 1)), wide
            x = blocks[kind](b, x, x, c, e, r)
        if self.seed % 2:
            x = b.op("Flatten", [b.op("GlobalAveragePool", [x])], axis=1)
            x = gemm(b, x, c, 10)
        else:
            x = b.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
            x = gemm(b, gemm(b, b.op("Flatten", [x], axis=1), c * (e // 2)**2, 64), 64, 10)
        return b.model(x)


class Chain:
    def __init__(self, kind, int8, seed):
        self.form, self.layer = {**LAYERS, **NETWORKS}[kind]
        rng = np.random.default_rng([seed, *kind.encode()])
        self.kind, self.int8, self.seed = kind, int8, seed
        self.r = int(rng.integers(12))
        while True:  # neither minutes nor nothing
            self.c, self.e = int(rng.choice(CHANNELS)), int(rng.choice(EXTENTS))
            if self.c * self.e * self.e <= 2**17 and (self.c * self.e)**2 <= 2**22:
                break

    def shape(self):
        c, e = self.c, self.e
        return {PLANES: [1, c, e, e], LINES: [1, c, 4 * e], ROWS: [e, c], MANY: [1, e, e, c], "row": [1, c]}[self.form]

    def model(self, layers):
        b = Builder(self.int8 and not self.kind.startswith("weights-only"), self.seed)
        x, x0 = b.input(self.shape()), b.input(self.shape())
        b.int8 = self.int8
        for _ in range(layers):
            x = self.layer(b, x, x0, self.c, self.e, self.r)
        return b.model(x)
