"""Single layers drawn at random, as models of one operator: what layer_map.py measures."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 18
LARGEST_MFLOP = 800  # of one layer


class Layer:
    """One operator: constants become initializers, the others inputs."""

    of_codes = False  # its result is compared by steps of a code

    def __init__(self, op, inputs, constants=None, attributes=None, name="", opset=OPSET, order=None, outputs=("y",)):
        self.op, self.inputs, self.opset, self.order, self.outputs = op, inputs, opset, order, list(outputs)
        self.constants = constants or {}
        self.attributes = attributes or {}
        self.name = name or op

    def operands(self):
        return self.order or list(self.inputs) + list(self.constants)

    def model(self):
        constants = {n: v for n, v in self.constants.items() if n}  # "": an operand that is left out
        node = helper.make_node(self.op, self.operands(), self.outputs, **self.attributes)
        graph = helper.make_graph(
            [node], "layer",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in self.inputs.items()],
            [helper.make_empty_tensor_value_info(n) for n in self.outputs if n],
            [numpy_helper.from_array(v, n) for n, v in constants.items()])
        domains = {self.attributes.get("domain", ""): 1, "": self.opset}
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in domains.items()], ir_version=9)
        return onnx.shape_inference.infer_shapes(made)


class Generator:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def pick(self, *values):
        return values[self.r.integers(len(values))]

    def floats(self, *shape):
        return self.r.normal(size=shape).astype(np.float32)

    def extents(self, dims, mflop_of, sizes):
        """`dims` equal-ish spatial extents, the largest whose work fits."""
        size = self.pick(*sizes)
        while size > 3 and mflop_of(size) > LARGEST_MFLOP:
            size = max(3, size * 2 // 3)
        return [size] * dims

    def channels(self):
        return int(self.pick(1, 3, 4, 8, 12, 16, 24, 32, 40, 64, 96, 100, 128, 160, 256, 384, 512, 1024, 2048))

    # ---- convolutions

    def conv(self):
        dims = int(self.pick(1, 2, 2, 2, 2, 3))
        kind = self.pick("full", "full", "depthwise", "depthwise", "few")
        window = int(self.pick(1, 1, 2, 3, 3, 3, 4, 5, 5, 7))
        stride, dilation = int(self.pick(1, 1, 1, 2, 2, 3)), int(self.pick(1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 6, 12))
        if window == 1:
            dilation = 1
        c = self.channels()
        groups = 1
        if kind == "depthwise":
            c = max(c, 4)
            groups = c
            m = c * int(self.pick(1, 1, 1, 1, 2))
        elif kind == "few":
            c = max(c // 4 * 4, 8)
            groups = int(self.pick(2, 4))
            m = max(self.channels() // groups * groups, groups)
        else:
            m = self.channels()
        sizes = {1: (16, 50, 128, 400, 1000), 2: (4, 7, 14, 28, 56, 112), 3: (4, 8, 14, 20)}[dims]
        work = lambda s: 2e-6 * (s / stride) ** dims * m * (c // groups) * window ** dims
        span = (window - 1) * dilation + 1
        spatial = self.extents(dims, work, sizes)
        pad = self.pick("same", "same", "valid")
        if pad == "valid" and spatial[0] < span:
            pad = "same"
        pads = [span // 2] * dims + [(span - 1) // 2] * dims if pad == "same" else [0] * 2 * dims
        name = "Conv%dd %s c%d m%d k%d s%d d%d %s %s" % (
            dims, kind, c, m, window, stride, dilation, "x".join(map(str, spatial)), pad)
        bias = {"b": self.floats(m)} if self.pick(True, True, False) else {}
        return Layer("Conv", {"x": self.floats(1, c, *spatial)},
                     {"w": self.floats(m, c // groups, *[window] * dims) / np.float32(window ** dims), **bias},
                     {"strides": [stride] * dims, "dilations": [dilation] * dims, "group": groups, "pads": pads}, name)

    def wide(self):
        dims = int(self.pick(1, 1, 2, 2, 2, 3))
        window = int(self.pick(*{1: (3, 5, 9, 15, 25, 41, 128), 2: (3, 3, 5, 7, 9, 11, 15), 3: (3, 3, 5)}[dims]))
        stride, dilation = int(self.pick(1, 1, 1, 2, 4)), int(self.pick(1, 1, 2, 4, 6, 8, 16, 18))
        if window > 11:
            dilation = 1
        groups = int(self.pick(1, 1, 1, 1, 2, 4, 8, 16, 32))
        per_group = int(self.pick(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 80) if groups == 1 else self.pick(4, 4, 6, 8, 8, 12, 16, 24))
        results = int(self.pick(8, 12, 16, 20, 32, 48, 64, 96, 128, 256) if groups == 1 else per_group * self.pick(1, 1, 1, 2))
        c, m = per_group * groups, results * groups
        spatial = [int(self.pick(*{1: (32, 100, 200, 500, 1000, 4000), 2: (5, 7, 14, 20, 28, 40, 64, 112), 3: (6, 10, 16)}[dims]))
                   for _ in range(dims)]
        span = (window - 1) * dilation + 1
        work = lambda: 2e-6 * np.prod([s / stride for s in spatial]) * m * per_group * window ** dims
        while work() > LARGEST_MFLOP / 2 and max(spatial) > 5:
            spatial = [max(5, s * 2 // 3) for s in spatial]
        if dims == 1 and self.pick(True, False):
            how, pads = "causal", [span - 1, 0]
        else:
            how, pads = "same", [span // 2] * dims + [(span - 1) // 2] * dims
        name = "Wide%dd g%d c%d m%d k%d s%d d%d %s %s" % (dims, groups, c, m, window, stride, dilation, "x".join(map(str, spatial)), how)
        return Layer("Conv", {"x": self.floats(1, c, *spatial)},
                     {"w": self.floats(m, per_group, *[window] * dims) / np.float32(window ** dims), "b": self.floats(m)},
                     {"strides": [stride] * dims, "dilations": [dilation] * dims, "group": groups, "pads": pads}, name)

    def conv_transpose(self):
        dims = int(self.pick(1, 2, 2, 2, 3))
        c, m = min(self.channels(), 512), min(self.channels(), 256)
        window, stride = self.pick((2, 2), (3, 2), (4, 2), (3, 1), (5, 3), (8, 4))
        sizes = {1: (16, 50, 200), 2: (4, 7, 14, 28), 3: (4, 8)}[dims]
        work = lambda s: 2e-6 * s ** dims * m * c * window ** dims
        spatial = self.extents(dims, work, sizes)
        if work(spatial[0]) > LARGEST_MFLOP:
            c, m = min(c, 64), min(m, 64)
        return Layer("ConvTranspose", {"x": self.floats(1, c, *spatial)},
                     {"w": self.floats(c, m, *[window] * dims) / 8}, {"strides": [stride] * dims},
                     "ConvTranspose%dd c%d m%d k%d s%d %s" % (dims, c, m, window, stride, "x".join(map(str, spatial))))

    def pool(self):
        op = self.pick("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
        dims = int(self.pick(1, 2, 2, 2, 3))
        c = min(self.channels(), 512)
        size = int(self.pick(*{1: (30, 200, 1000), 2: (7, 14, 28, 56, 112), 3: (6, 12, 20)}[dims]))
        x = {"x": self.floats(1, c, *[size] * dims)}
        if op.startswith("Global"):
            return Layer(op, x, name="%s%dd c%d %d" % (op, dims, c, size))
        window, stride = int(self.pick(2, 3, 3, 5)), int(self.pick(1, 2, 2, 3))
        pad = int(self.pick(0, window // 2))
        return Layer(op, x, {}, {"kernel_shape": [window] * dims, "strides": [stride] * dims, "pads": [pad] * 2 * dims},
                     "%s%dd c%d %d k%d s%d p%d" % (op, dims, c, size, window, stride, pad))

    # ---- products

    def matmul(self):
        sizes = (1, 2, 3, 7, 16, 31, 49, 64, 100, 128, 197, 256, 333, 512, 768, 1024)
        m, k, n = (int(self.pick(*sizes)) for _ in range(3))
        while 2e-6 * m * k * n > LARGEST_MFLOP / 4:
            m, k, n = max(1, m // 2), k, n
        form = self.pick("weights", "weights", "gemm", "gemm^T", "batched", "activations", "vector")
        if form == "weights":
            lead = self.pick((), (1,), (4,))
            return Layer("MatMul", {"a": self.floats(*lead, m, k)}, {"b": self.floats(k, n)}, {},
                         "MatMul weights %s%dx%dx%d" % ("%dx" % lead[0] if lead else "", m, k, n))
        if form.startswith("gemm"):
            turned = form == "gemm^T"
            w = self.floats(n, k) if turned else self.floats(k, n)
            return Layer("Gemm", {"a": self.floats(m, k)}, {"b": w, "c": self.floats(n)}, {"transB": int(turned)},
                         "Gemm %s%dx%dx%d" % ("turned " if turned else "", m, k, n))
        if form == "vector":
            return Layer("MatMul", {"a": self.floats(k)}, {"b": self.floats(k, n)}, {}, "MatMul vector %dx%d" % (k, n))
        batch = int(self.pick(2, 8, 12)) if form == "batched" else 1
        m, k, n = min(m, 256), min(k, 256), min(n, 256)
        return Layer("MatMul", {"a": self.floats(batch, m, k), "b": self.floats(batch, k, n)}, {}, {},
                     "MatMul %dx%dx%dx%d" % (batch, m, k, n))

    # ---- rows and channels

    def rows(self):
        return int(self.pick(1, 8, 50, 128, 197, 1000)), int(self.pick(3, 10, 64, 100, 197, 512, 768, 1000, 3072))

    def norm(self):
        op = self.pick("LayerNormalization", "BatchNormalization", "InstanceNormalization", "Softmax", "LogSoftmax",
                       "LpNormalization")
        if op in ("BatchNormalization", "InstanceNormalization"):
            c, size = min(self.channels(), 512), int(self.pick(4, 14, 28, 56))
            f = lambda: self.floats(c)
            more = {"m": f(), "v": np.abs(f())} if op.startswith("Batch") else {}
            return Layer(op, {"x": self.floats(1, c, size, size)}, {"s": f(), "b": f(), **more}, {},
                         "%s c%d %d" % (op, c, size))
        n, k = self.rows()
        axis = -1 if op == "LayerNormalization" else int(self.pick(-1, -1, 1))
        shape = (1, n, k)
        constants = {"s": self.floats(k), "b": self.floats(k)} if op == "LayerNormalization" else {}
        return Layer(op, {"x": self.floats(*shape)}, constants, {"axis": axis}, "%s %dx%d axis %d" % (op, n, k, axis))

    def reduce(self):
        op = self.pick("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ArgMax")
        shape = self.pick((1, 197, 768), (1, 64, 28, 28), (1, 512, 7, 7), (8, 1000), (1, 3, 224, 224), (2, 100, 33))
        axes = self.pick([-1], [1], [-2, -1])
        name = "%s %s axes %s" % (op, "x".join(map(str, shape)), axes)
        x = {"x": self.floats(*shape)}
        if op == "ArgMax":
            return Layer(op, x, {}, {"axis": axes[0]}, name)
        if op == "ReduceSum":
            return Layer(op, x, {"axes": np.array(axes, np.int64)}, {}, name)
        return Layer(op, x, {}, {"axes": axes}, name, opset=17)

    def resize(self):
        c, size = self.pick(3, 16, 64, 128), int(self.pick(7, 14, 28, 56))
        scale = self.pick(2.0, 2.0, 1.5 if size % 2 == 0 else 3.0, 0.5 if size % 2 == 0 else 2.0)  # to whole extents
        mode = self.pick(("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
                         ("cubic", "half_pixel"))
        attributes = {"mode": mode[0], "coordinate_transformation_mode": mode[1]}
        if mode[0] == "nearest":
            attributes["nearest_mode"] = "floor"
        layer = Layer("Resize", {"x": self.floats(1, c, size, size)},
                      {"": None, "s": np.array([1, 1, scale, scale], np.float32)}, attributes,
                      "Resize %s %s c%d %d x%g" % (*mode, c, size, scale))
        return layer

    # ---- element by element, and moves

    def elementwise(self):
        shape = self.pick((1, 64, 56, 56), (1, 197, 768), (1, 128, 14, 14), (12, 197, 197), (1, 16, 112, 112), (1000,))
        op = self.pick("Add", "Mul", "Sub", "Div", "Max", "Pow", "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "HardSwish",
                       "HardSigmoid", "LeakyRelu", "Elu", "Softplus", "Abs", "Neg", "Floor", "Where", "Clip")
        x = np.abs(self.floats(*shape)) if op in ("Sqrt", "Pow") else self.floats(*shape)
        sizes = "x".join(map(str, shape))
        if op == "Where":
            return Layer(op, {"c": self.r.random(shape) > 0.5, "x": x, "z": self.floats(*shape)}, {}, {}, "Where " + sizes)
        if op == "Clip":
            return Layer(op, {"x": x}, {"l": np.float32(0), "h": np.float32(6)}, {}, "Clip " + sizes)
        if op not in ("Add", "Mul", "Sub", "Div", "Max", "Pow"):
            return Layer(op, {"x": x}, {}, {}, "%s %s" % (op, sizes))
        how = self.pick("same", "scalar", "channel", "last", "middle")
        other = {"same": shape, "scalar": (), "last": shape[-1:],
                 "channel": (1, shape[1]) + (1,) * (len(shape) - 2) if len(shape) > 2 else shape,
                 "middle": shape[:-2] + (1,) + shape[-1:] if len(shape) > 2 else shape}[how]
        second = np.full(other, 2, np.float32) if op == "Pow" else self.floats(*other) + np.float32(3)
        inputs = {"x": x, "z": second} if how in ("same", "middle") else {"x": x}
        constants = {} if how in ("same", "middle") else {"z": second}
        return Layer(op, inputs, constants, {}, "%s %s %s" % (op, sizes, how))

    def move(self):
        op = self.pick("Transpose", "Transpose", "Gather", "Concat", "Slice", "Pad", "Expand", "Tile", "Split", "DepthToSpace")
        c, size = int(self.pick(4, 16, 64, 256)), int(self.pick(7, 14, 28, 56))
        x = self.floats(1, c, size, size)
        name = "%s c%d %d" % (op, c, size)
        ints = lambda *v: np.array(v, np.int64)
        if op == "Transpose":
            perm = [int(p) for p in self.r.permutation(4)]
            return Layer(op, {"x": x}, {}, {"perm": perm}, "%s %s" % (name, perm))
        if op == "Gather":
            rows, width = int(self.pick(100, 1000, 30522)), int(self.pick(16, 64, 768))
            return Layer(op, {"i": self.r.integers(0, rows, (1, 128))}, {"t": self.floats(rows, width)}, {},
                         "Gather %dx%d" % (rows, width), order=["t", "i"])
        if op == "Concat":
            axis = int(self.pick(1, 2, 3))
            return Layer(op, {"x": x, "z": self.floats(*x.shape)}, {}, {"axis": axis}, "%s axis %d" % (name, axis))
        if op == "Slice":
            axis, step = int(self.pick(1, 2, 3)), int(self.pick(1, 2))
            return Layer(op, {"x": x}, {"s": ints(1), "e": ints(10 ** 9), "a": ints(axis), "p": ints(step)}, {},
                         "%s axis %d step %d" % (name, axis, step))
        if op == "Pad":
            mode = self.pick("constant", "reflect", "edge")
            return Layer(op, {"x": x}, {"p": ints(0, 0, 1, 1, 0, 0, 2, 1)}, {"mode": mode}, "%s %s" % (name, mode))
        if op == "Expand":
            return Layer(op, {"x": self.floats(1, c, 1, size)}, {"s": ints(1, c, size, size)}, {}, name)
        if op == "Tile":
            return Layer(op, {"x": x}, {"r": ints(1, 1, 2, 2)}, {}, name)
        if op == "Split":
            return Layer("Slice", {"x": x}, {"s": ints(0), "e": ints(c // 2), "a": ints(1)}, {}, name)
        return Layer(op, {"x": x}, {}, {"blocksize": 2}, name)

    # ---- layers of layers

    def recurrent(self):
        op = self.pick("LSTM", "GRU", "RNN")
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        steps, width, hidden = int(self.pick(1, 20, 100)), int(self.pick(16, 40, 128)), int(self.pick(16, 64, 100, 256))
        both = bool(self.pick(False, False, True))
        d = 2 if both else 1
        more = {"linear_before_reset": int(self.pick(0, 1))} if op == "GRU" else {}
        return Layer(op, {"x": self.floats(steps, 1, width)},
                     {"w": self.floats(d, gates * hidden, width) / 16, "r": self.floats(d, gates * hidden, hidden) / 16,
                      "b": self.floats(d, 2 * gates * hidden)},
                     {"hidden_size": hidden, "direction": "bidirectional" if both else "forward", **more},
                     "%s %d steps %d to %d%s" % (op, steps, width, hidden, " both ways" * both))

    def attention(self):
        heads, size, length = int(self.pick(4, 12)), int(self.pick(32, 64)), int(self.pick(16, 64, 128, 197))
        x = {n: self.floats(1, heads, length, size) for n in "qkv"}
        return Layer("Attention", x, {}, {}, "Attention %d heads of %d, %d tokens" % (heads, size, length), opset=23)

    # ---- what networks have seldom

    def functions(self):
        op = self.pick("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")
        shape = self.pick((1, 64, 56, 56), (1, 197, 768), (1, 16, 112, 112), (1000,))
        x = self.floats(*shape)
        if op in ("Asin", "Acos", "Atanh"):
            x = np.clip(x / 3, -0.99, 0.99)
        if op == "Acosh":
            x = 1 + np.abs(x)
        return Layer(op, {"x": x}, {}, {}, "%s %s" % (op, "x".join(map(str, shape))))

    def sampling(self):
        return getattr(self, self.pick("deform", "col2im", "dft", "grid_sample"))()

    def deform(self):
        c, m, size = int(self.pick(3, 16, 64, 128)), int(self.pick(16, 64, 128)), int(self.pick(7, 14, 28, 56))
        k, offset_group, mask = int(self.pick(1, 3, 3)), int(self.pick(1, 1, 4 if c % 4 == 0 else 1)), bool(self.pick(True, False))
        pad = k // 2
        taps = offset_group * k * k
        x = {"x": self.floats(1, c, size, size), "o": self.floats(1, 2 * taps, size, size)}
        if mask:
            x["m"] = self.r.random((1, taps, size, size)).astype(np.float32)
        constants = {"w": self.floats(m, c, k, k) / (c * k * k) ** 0.5, "b": self.floats(m)}
        return Layer("DeformConv", x, constants, {"pads": [pad] * 4, "offset_group": offset_group, "kernel_shape": [k, k]},
                     "DeformConv c%d m%d %d k%d offsets %d%s" % (c, m, size, k, offset_group, " mask" * mask), opset=19,
                     order=["x", "w", "o", "b"] + ["m"] * mask)

    def col2im(self):
        c, size = int(self.pick(1, 3, 16, 64)), int(self.pick(14, 28, 56, 112))
        k, stride, pad = self.pick((2, 2, 0), (3, 1, 1), (3, 2, 1), (4, 4, 0), (5, 1, 2))
        blocks = (size + 2 * pad - k) // stride + 1
        ints = lambda *v: np.array(v, np.int64)
        return Layer("Col2Im", {"x": self.floats(1, int(c * k * k), int(blocks * blocks))},
                     {"i": ints(size, size), "b": ints(k, k)}, {"strides": [int(stride)] * 2, "pads": [int(pad)] * 4},
                     "Col2Im c%d %d k%d s%d" % (c, size, k, stride))

    def dft(self):
        n, lines, parts = int(self.pick(64, 100, 256, 400, 480, 512, 1000, 1009, 1024, 4096)), int(self.pick(1, 8, 100)), \
            int(self.pick(1, 2))
        inverse = parts == 2 and bool(self.pick(True, False))
        one_sided = parts == 1 and bool(self.pick(True, False))
        return Layer("DFT", {"x": self.floats(lines, n, parts)}, {},
                     {"axis": 1, "inverse": int(inverse), "onesided": int(one_sided)},
                     "DFT %d lines of %d x %d%s%s" % (lines, n, parts, " inverse" * inverse, " onesided" * one_sided), opset=17)

    def grid_sample(self):
        c, size, to = int(self.pick(1, 3, 16, 64, 128)), int(self.pick(14, 28, 56)), int(self.pick(14, 28, 56, 112))
        mode, padding = self.pick("bilinear", "bilinear", "bilinear", "nearest", "bicubic"), self.pick("zeros", "zeros", "border",
                                                                                           "reflection")
        align = int(self.pick(0, 1))
        grid = self.r.uniform(-1.1, 1.1, (1, to, to, 2)).astype(np.float32)
        return Layer("GridSample", {"x": self.floats(1, c, size, size), "g": grid}, {},
                     {"mode": str(mode), "padding_mode": str(padding), "align_corners": align},
                     "GridSample %s %s c%d %d to %d align %d" % (mode, padding, c, size, to, align), opset=16)

    def quantized(self):
        import code_layers  # which makes layers of this class
        return code_layers.quantized(self)

    def draw(self, only=None):
        if only:
            family = self.pick(*only)
            layer = getattr(self, family)()
            layer.family = str(family)
            return layer
        families = [("conv", 40), ("conv_transpose", 6), ("pool", 6), ("matmul", 12), ("norm", 8), ("reduce", 5),
                    ("resize", 4), ("elementwise", 9), ("move", 6), ("recurrent", 3), ("attention", 1)]
        share = np.array([w for _, w in families], float)
        family = families[self.r.choice(len(families), p=share / share.sum())][0]
        layer = getattr(self, family)()
        layer.family = family
        return layer
