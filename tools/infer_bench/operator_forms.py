"""Rows of operator_map.py: other types and forms of operators that networks have (reductions over outer, middle and
inner axes, broadcasting in the middle, windows of one and three dimensions, half precision, ONNX Runtime's own operators)."""

from layer_map import Layer, np

R = np.random.default_rng(2711)
MICROSOFT = "com.microsoft"


def f(*shape):
    return R.normal(size=shape).astype(np.float32)


def ints(high, *shape, low=0, kind=np.int64):
    return R.integers(low, high, shape).astype(kind)


def i64(*v):
    return np.array(v, np.int64)


def reductions():
    x = f(8, 64, 28, 28)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"):
        for axes in ((0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3), (1, 2, 3), (0, 2)):
            yield Layer(op, {"x": x}, {"a": i64(*axes)}, {}, "%s 8x64x28x28 axes %s" % (op, " ".join(map(str, axes))))
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in [((1, 21, 64, 64), 1), ((1, 16, 4, 8400), 1), ((1, 4, 16, 2100), 2), ((12, 64, 49, 49), 3), ((4420, 2), 1), ((8732, 21), 1),
                            ((1, 8, 1, 512), 3), ((64, 3, 3), 1), ((1, 1000), 1)]:
            yield Layer(op, {"x": f(*shape)}, {}, {"axis": axis}, "%s %s axis %d" % (op, "x".join(map(str, shape)), axis))
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1, 2):
            yield Layer(op, {"x": f(20, 64, 56)}, {}, {"axis": axis, "keepdims": 0}, "%s 20x64x56 axis %d" % (op, axis))


def norms():
    for groups, c, size in ((32, 320, 32), (8, 64, 28), (1, 128, 14)):
        yield Layer("GroupNormalization", {"x": f(1, c, size, size)}, {"s": f(c), "b": f(c)}, {"num_groups": groups},
                    "GroupNormalization %d of c%d %d" % (groups, c, size), opset=21)
    yield Layer("InstanceNormalization", {"x": f(1, 64, 400)}, {"s": f(64), "b": f(64)}, {}, "InstanceNormalization 1d")
    yield Layer("InstanceNormalization", {"x": f(1, 16, 12, 20, 20)}, {"s": f(16), "b": f(16)}, {}, "InstanceNormalization 3d")
    for c, size in ((96, 27), (64, 56), (5, 112)):
        yield Layer("LRN", {"x": f(1, c, size, size)}, {}, {"size": 5}, "LRN c%d %d" % (c, size))
    for axis in (1, 2):
        yield Layer("LpNormalization", {"x": f(1, 128, 196)}, {}, {"axis": axis, "p": 1}, "LpNormalization p 1 axis %d" % axis)
    yield Layer("LayerNormalization", {"x": f(1, 56, 56, 96)}, {"s": f(96), "b": f(96)}, {}, "LayerNormalization 56x56x96")
    yield Layer("LayerNormalization", {"x": f(1, 64, 28, 28)}, {"s": f(64, 28, 28)}, {"axis": 1}, "LayerNormalization axis 1")
    yield Layer("RMSNormalization", {"x": f(1, 128, 2048)}, {"s": f(2048)}, {}, "RMSNormalization", opset=23)
    yield Layer("BatchNormalization", {"x": f(8, 128)}, {n: np.abs(f(128)) for n in "sbmv"}, {}, "BatchNormalization 8x128")


def microsoft():
    def own(op, inputs, constants, attributes, name, **kw):
        return Layer(op, inputs, constants, {"domain": MICROSOFT, **attributes}, name, **kw)
    x = {"x": f(1, 128, 768)}
    row = {"s": f(768), "b": f(768)}
    yield own("SkipLayerNormalization", {**x, "k": f(1, 128, 768)}, row, {}, "SkipLayerNormalization 128x768")
    yield own("SkipSimplifiedLayerNormalization", {**x, "k": f(1, 128, 768)}, {"s": row["s"]}, {}, "SkipSimplifiedLayerNormalization 128x768")
    yield own("BiasGelu", {"x": f(1, 128, 3072)}, {"b": f(3072)}, {}, "BiasGelu 128x3072")
    yield own("FastGelu", {"x": f(1, 128, 3072)}, {"b": f(3072)}, {}, "FastGelu 128x3072")
    yield own("QuickGelu", {"x": f(1, 128, 3072)}, {}, {}, "QuickGelu 128x3072")
    yield own("EmbedLayerNormalization", {"i": ints(30522, 1, 128, kind=np.int32), "t": np.zeros((1, 128), np.int32)},
              {"w": f(30522, 768), "p": f(512, 768), "g": f(2, 768), **row}, {}, "EmbedLayerNormalization 128x768", outputs=("y", "m"))
    yield own("Attention", x, {"w": f(768, 2304) / 28, "b": f(2304)}, {"num_heads": 12}, "Attention (Microsoft) 128x768")
    yield own("MultiHeadAttention", {n: f(1, 128, 768) for n in "qkv"}, {}, {"num_heads": 12}, "MultiHeadAttention 128x768")
    yield own("FusedMatMul", {"a": f(12, 128, 64), "b": f(12, 128, 64)}, {}, {"transB": 1, "alpha": 0.125}, "FusedMatMul 12x128x64x128")
    yield own("FusedConv", {"x": f(1, 64, 28, 28)}, {"w": f(64, 64, 3, 3) / 9, "b": f(64)}, {"activation": "Relu", "pads": [1] * 4}, "FusedConv")
    s = np.float32(0.02)
    z = np.uint8(128)
    for op in ("QLinearAdd", "QLinearMul"):
        yield own(op, {"a": ints(255, 1, 64, 56, 56, kind=np.uint8), "b": ints(255, 1, 64, 56, 56, kind=np.uint8)},
                  {"as": s, "az": z, "bs": s, "bz": z, "ys": s, "yz": z}, {}, op, order=["a", "as", "az", "b", "bs", "bz", "ys", "yz"])
    yield own("QLinearSigmoid", {"x": ints(255, 1, 64, 56, 56, kind=np.uint8)}, {"s": s, "z": z, "t": np.float32(1 / 256), "v": np.uint8(0)}, {},
              "QLinearSigmoid")
    yield own("QLinearGlobalAveragePool", {"x": ints(255, 1, 512, 7, 7, kind=np.uint8)}, {"s": s, "z": z, "t": s, "v": z}, {},
              "QLinearGlobalAveragePool")
    yield own("QLinearAveragePool", {"x": ints(255, 1, 64, 28, 28, kind=np.uint8)}, {"s": s, "z": z, "t": s, "v": z},
              {"kernel_shape": [2, 2], "strides": [2, 2]}, "QLinearAveragePool")
    yield own("QLinearConcat", {"a": ints(255, 1, 64, 28, 28, kind=np.uint8), "b": ints(255, 1, 64, 28, 28, kind=np.uint8)},
              {"ys": s, "yz": z, "as": s, "az": z, "bs": np.float32(0.03), "bz": z}, {"axis": 1}, "QLinearConcat",
              order=["ys", "yz", "a", "as", "az", "b", "bs", "bz"])
    yield own("QLinearSoftmax", {"x": ints(255, 12, 128, 128, kind=np.uint8)}, {"s": s, "z": z, "t": np.float32(1 / 256), "v": np.uint8(0)},
              {"opset": 13, "axis": -1}, "QLinearSoftmax")


def moves():
    for kind, name in ((np.float16, "f16"), (np.uint8, "u8"), (np.int64, "i64")):
        x = ints(100, 1, 64, 56, 56, kind=kind)
        yield Layer("Transpose", {"x": x}, {}, {"perm": [0, 2, 3, 1]}, "Transpose to last " + name)
        yield Layer("Transpose", {"x": ints(100, 1, 128, 12, 64, kind=kind)}, {}, {"perm": [0, 2, 1, 3]}, "Transpose heads " + name)
        yield Layer("Concat", {"x": x, "z": x}, {}, {"axis": 1}, "Concat axis 1 " + name)
        yield Layer("Concat", {"x": x, "z": x}, {}, {"axis": 3}, "Concat axis 3 " + name)
        yield Layer("Slice", {"x": x}, {"s": i64(0), "e": i64(10 ** 9), "a": i64(3), "p": i64(2)}, {}, "Slice step 2 " + name)
        yield Layer("Gather", {"x": ints(100, 1000, 768, kind=kind), "i": ints(1000, 128)}, {}, {}, "Gather rows " + name)
        yield Layer("Pad", {"x": x}, {"p": i64(0, 0, 1, 1, 0, 0, 1, 1)}, {}, "Pad constant " + name)
        yield Layer("Expand", {"x": ints(100, 1, 64, 1, 56, kind=kind)}, {"s": i64(1, 64, 56, 56)}, {}, "Expand middle " + name)
        yield Layer("Tile", {"x": ints(100, 1, 64, 28, 28, kind=kind)}, {"r": i64(1, 1, 2, 2)}, {}, "Tile 2x2 " + name)
        if kind != np.int64:  # ONNX Runtime has none
            yield Layer("DepthToSpace", {"x": x}, {}, {"blocksize": 2}, "DepthToSpace " + name)
        yield Layer("GatherElements", {"x": ints(100, 1, 300, 80, kind=kind), "i": ints(300, 1, 100, 80)}, {}, {"axis": 1}, "GatherElements " + name)
        yield Layer("ScatterND", {"x": ints(100, 197, 768, kind=kind), "i": R.permutation(197)[:50, None], "u": ints(100, 50, 768, kind=kind)}, {}, {},
                    "ScatterND rows " + name)
        yield Layer("Where", {"c": R.random((1, 64, 1, 56)) < 0.5, "x": x, "z": ints(100, 1, 1, 56, 1, kind=kind)}, {}, {}, "Where broadcast " + name)
    for perm in ([0, 3, 1, 2], [0, 1, 3, 2], [0, 2, 1, 3], [3, 2, 1, 0], [1, 0, 2, 3]):
        yield Layer("Transpose", {"x": f(2, 56, 56, 64)}, {}, {"perm": perm}, "Transpose f32 %s" % perm)
    yield Layer("Transpose", {"x": f(1, 8, 7, 8, 7, 96)}, {}, {"perm": [0, 1, 3, 2, 4, 5]}, "Transpose windows 6d")
    yield Layer("Transpose", {"x": f(1, 3, 12, 16, 12, 16)}, {}, {"perm": [0, 2, 4, 3, 5, 1]}, "Transpose patches 6d")
    yield Layer("Transpose", {"x": f(1, 3, 64, 80, 80)}, {}, {"perm": [0, 1, 3, 4, 2]}, "Transpose yolo 5d")
    yield Layer("SpaceToDepth", {"x": f(1, 3, 224, 224)}, {}, {"blocksize": 2}, "SpaceToDepth c3 224")
    yield Layer("SpaceToDepth", {"x": f(1, 3, 224, 224)}, {}, {"blocksize": 4}, "SpaceToDepth by 4")
    yield Layer("Split", {"x": f(1, 128, 2304)}, {"s": i64(768, 768, 768)}, {"axis": 2}, "Split last in 3", outputs=("y", "a", "b"))
    yield Layer("Split", {"x": f(1, 84, 8400)}, {"s": i64(4, 80)}, {"axis": 1}, "Split 4 and 80", outputs=("y", "a"))
    yield Layer("Gather", {"x": f(12, 128, 128)}, {"i": ints(128, 49)}, {"axis": 2}, "Gather last by constants")
    yield Layer("Gather", {"x": f(1, 84, 8400)}, {"i": np.int64(4)}, {"axis": 1}, "Gather one row")
    yield Layer("ScatterElements", {"x": f(1, 80, 100), "i": ints(80, 1, 20, 100), "u": f(1, 20, 100)}, {}, {"axis": 1}, "ScatterElements axis 1")
    yield Layer("TopK", {"x": f(1, 80, 8400)}, {"k": i64(1)}, {"axis": 1}, "TopK 1 along axis 1", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(300, 80)}, {"k": i64(5)}, {}, "TopK 5 of 300x80", outputs=("y", "i"))
    yield Layer("TopK", {"x": f(1, 8400)}, {"k": i64(1000)}, {"largest": 0}, "TopK least 1000 of 8400", outputs=("y", "i"))
    yield Layer("CumSum", {"x": ints(2, 1, 128, 128)}, {"a": np.array(1, np.int64)}, {}, "CumSum i64 outer")
    yield Layer("OneHot", {"i": ints(80, 8400), "v": f(2)}, {"d": np.array(80, np.int64)}, {}, "OneHot 8400 of 80", order=["i", "d", "v"])


def broadcasts():
    shapes = [((1, 12, 128, 128), (1, 1, 1, 128), "row"), ((1, 12, 128, 128), (1, 1, 128, 1), "column"), ((1, 64, 56, 56), (1, 64, 1, 1), "channel"),
              ((8, 64, 28, 28), (8, 1, 28, 28), "middle"), ((64, 1, 49), (1, 64, 49), "both"), ((300, 1, 4), (1, 300, 4), "boxes"),
              ((2, 3, 64, 64), (1, 3, 1, 64), "two")]
    for op in ("Add", "Mul", "Div", "Max", "Pow", "Less"):
        for a, b, name in shapes:
            yield Layer(op, {"x": np.abs(f(*a)) if op == "Pow" else f(*a), "z": f(*b)}, {}, {}, "%s broadcast %s" % (op, name))
    for op in ("Add", "Mul"):
        for a, b, name in shapes:
            yield Layer(op, {"x": ints(9, *a), "z": ints(9, *b)}, {}, {}, "%s i64 broadcast %s" % (op, name))
        yield Layer(op, {"x": f(1, 64, 56, 56).astype(np.float16), "z": f(1, 64, 56, 56).astype(np.float16)}, {}, {}, op + " f16")
    for op in ("Sigmoid", "Relu", "Softmax", "Sqrt"):
        yield Layer(op, {"x": np.abs(f(1, 64, 28, 28)).astype(np.float16)}, {}, {}, op + " f16")
    yield Layer("Clip", {"x": f(1, 64, 56, 56)}, {"l": np.float32(0), "h": np.float32(6)}, {}, "Clip f32")


def windows():
    def pool(op, shape, name, **attributes):
        return Layer(op, {"x": f(*shape)}, {}, attributes, "%s %s" % (op, name))
    for op in ("MaxPool", "AveragePool"):
        yield pool(op, (1, 64, 112, 112), "stem", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        yield pool(op, (1, 64, 55, 55), "ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        yield pool(op, (1, 256, 20, 20), "5x5", kernel_shape=[5, 5], pads=[2] * 4)
        yield pool(op, (1, 512, 13, 13), "13x13 window", kernel_shape=[13, 13], pads=[6] * 4)
        yield pool(op, (1, 128, 400), "1d", kernel_shape=[2], strides=[2])
        yield pool(op, (1, 32, 16, 28, 28), "3d", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
        yield pool(op, (1, 64, 28, 28), "2x2", kernel_shape=[2, 2], strides=[2, 2])
    yield pool("MaxPool", (1, 64, 28, 28), "dilated", kernel_shape=[3, 3], dilations=[2, 2], pads=[2] * 4)
    yield pool("AveragePool", (1, 128, 28, 28), "counted", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    yield Layer("MaxPool", {"x": ints(255, 1, 64, 56, 56, kind=np.uint8)}, {}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}, "MaxPool u8")

    def up(c, m, groups, spatial, k, s, name):
        dims = len(spatial)
        return Layer("ConvTranspose", {"x": f(1, c, *spatial)}, {"w": f(c, m // groups, *[k] * dims) / (k * c) ** 0.5, "b": f(m)},
                     {"group": groups, "strides": [s] * dims, "pads": [(k - s) // 2] * 2 * dims}, "ConvTranspose " + name)
    yield up(256, 128, 1, (400,), 16, 8, "1d k16 s8")
    yield up(64, 64, 64, (200,), 4, 2, "1d depthwise")
    yield up(64, 64, 64, (28, 28), 4, 2, "2d depthwise")
    yield up(64, 64, 4, (28, 28), 4, 2, "2d in 4 groups")
    yield up(32, 16, 1, (8, 14, 14), 2, 2, "3d")
    yield Layer("Conv", {"x": f(1, 80, 3000)}, {"w": f(384, 80, 3) / 15, "b": f(384)}, {"pads": [1, 1]}, "Conv 1d whisper")
    yield Layer("Conv", {"x": f(1, 1, 16000)}, {"w": f(512, 1, 10) / 3}, {"strides": [5]}, "Conv 1d wav2vec")
    yield Layer("Conv", {"x": f(1, 256, 200)}, {"w": f(256, 1, 31) / 5}, {"group": 256, "pads": [15, 15]}, "Conv 1d depthwise k31")
    yield Layer("Conv", {"x": f(1, 3, 8, 56, 56)}, {"w": f(16, 3, 3, 3, 3) / 9}, {"pads": [1] * 6}, "Conv 3d stem")
    yield Layer("Conv", {"x": f(1, 32, 8, 28, 28)}, {"w": f(32, 1, 3, 3, 3) / 5}, {"group": 32, "pads": [1] * 6}, "Conv 3d depthwise")

    def resize(shape, to, name, **attributes):
        return Layer("Resize", {"x": f(*shape)}, {"": None, "z": i64(*to)}, attributes, "Resize " + name, order=["x", "", "", "z"])
    for mode in ("nearest", "linear", "cubic"):
        for transform in ("half_pixel", "align_corners", "asymmetric"):
            yield resize((1, 32, 30, 30), (1, 32, 47, 47), "%s %s 30 to 47" % (mode, transform), mode=mode, coordinate_transformation_mode=transform)
        yield resize((1, 64, 40, 40), (1, 64, 80, 80), "%s 40 to 80" % mode, mode=mode)
        yield resize((1, 3, 480, 640), (1, 3, 224, 224), "%s 480x640 to 224" % mode, mode=mode)
    yield resize((1, 21, 33, 33), (1, 21, 257, 257), "linear 33 to 257", mode="linear", coordinate_transformation_mode="align_corners")


FAMILIES = [reductions, norms, microsoft, moves, broadcasts, windows]
