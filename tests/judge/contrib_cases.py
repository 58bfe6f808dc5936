"""Small models of ONNX Runtime's quantized operators, with fixed seeds; see contrib_operators.py.

`one_quantum` marks those whose kernels in ONNX Runtime round otherwise from processor to processor:
QLinearAdd (f32 here, fixed point on ARM), means (f32 sums in any order), and Sigmoid and Softmax
(approximations and tables of exponentials).
"""

import judging
from judging import np, onnx

from onnx import TensorProto, helper, numpy_helper

DOMAIN = "com.microsoft"
U8, I8, U16, I16, I32 = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16,
                         TensorProto.INT16, TensorProto.INT32)
U32 = TensorProto.UINT32
F32, F16, F64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE


def element_type(value):
    if isinstance(value, TensorProto):
        return value.data_type
    return helper.np_dtype_to_tensor_dtype(value.dtype)


class Case:
    """One node. `operands` are in order: None (absent), an array (an initializer), a TensorProto (an
    initializer), or ("x", array), a graph input. Absent ones at the end stand as empty names, because
    ONNX Runtime aborts on a QLinearSigmoid that is shorter. `outputs` are element types; None: not wanted."""

    def __init__(self, op, label, operands, outputs, attrs=None, one_quantum=False, domain=DOMAIN,
                 mask=None, opset=21):
        self.op, self.label, self.one_quantum, self.mask = op, label, one_quantum, mask
        self.inputs, initializers, names = {}, [], []
        for i, operand in enumerate(operands):
            name = "c%d" % i
            if operand is None:
                name = ""
            elif isinstance(operand, tuple):
                name, value = operand
                self.inputs[name] = value
            elif isinstance(operand, TensorProto):
                operand.name = name
                initializers.append(operand)
            else:
                initializers.append(numpy_helper.from_array(np.asarray(operand), name))
            names.append(name)
        wanted = ["y%d" % i if t is not None else "" for i, t in enumerate(outputs)]
        self.outputs = [n for n in wanted if n]
        node = helper.make_node(op, names, wanted, name="node", domain=domain, **(attrs or {}))
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, element_type(v), v.shape)
             for n, v in self.inputs.items()],
            [helper.make_tensor_value_info(n, t, None) for n, t in zip(wanted, outputs) if n],
            initializers)
        self._model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)])

    def model(self):
        return self._model


def bytes_of(r, dtype, shape):
    info = np.iinfo(dtype)
    return r.integers(info.min, info.max + 1, shape).astype(dtype)


def unsaturated(weights):
    """Weights beside uint8; int8 ones of 7 bits where ONNX Runtime's sums of more would saturate."""
    return weights // 2 if weights.dtype == np.int8 and judging.ort_saturates() else weights


def weights_of(r, dtype, shape):
    return unsaturated(bytes_of(r, dtype, shape))


def scale(r, shape=(), low=0.01, high=0.05):
    return r.uniform(low, high, shape).astype(np.float32)


def tensor_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def low_bits(r, elem_type, shape):
    """A TensorProto of 4-bit codes."""
    low = -8 if elem_type == TensorProto.INT4 else 0
    codes = r.integers(low, low + 16, shape)
    return helper.make_tensor("", elem_type, shape, codes.flatten().tolist())


def binary_cases(op):
    out = []
    for seed in range(12):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        a_shape, b_shape = (((3, 4, 37),) * 2, ((2, 5, 33), (33,)), ((4, 1, 9), (3, 1)),
                            ((64,), (1,)), ((), (2, 3)))[seed % 5]
        zero = (lambda: None) if seed % 4 == 3 else (lambda: bytes_of(r, t, ()))
        # Products are quantized with a scale of their own order.
        y = scale(r, (), *((0.02, 0.08) if op == "QLinearAdd" else (0.05, 0.2)))
        out.append(Case(op, "%s %s %s%s" % (np.dtype(t), a_shape, b_shape,
                                            " no zero points" if zero() is None else ""),
                        [("a", bytes_of(r, t, a_shape)), scale(r), zero(),
                         ("b", bytes_of(r, t, b_shape)), scale(r), zero(), y, zero()],
                        [tensor_type(t)], one_quantum=op == "QLinearAdd"))
    # Ties: scales whose ratios are powers of two, odd zero points.
    for seed, t in enumerate((np.uint8, np.int8)):
        r = np.random.default_rng(100 + seed)
        z = np.array(7, t)
        out.append(Case(op, "%s ties" % np.dtype(t),
                        [("a", bytes_of(r, t, (256,))), np.float32(0.25), z,
                         ("b", bytes_of(r, t, (256,))), np.float32(0.25), z, np.float32(0.5), z],
                        [tensor_type(t)]))
    return out


def unary_cases(op):
    out = []
    for seed in range(6):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        zero = (lambda: None) if seed == 4 else (lambda: bytes_of(r, t, ()))
        y = np.float32(1 / 256) if op == "QLinearSigmoid" and seed % 3 == 0 else scale(r)
        attrs = {"alpha": 0.1 * seed} if op == "QLinearLeakyRelu" and seed else {}
        x = np.arange(256).astype(np.uint8).view(t).reshape(16, 16)  # all there are
        out.append(Case(op, "%s%s" % (np.dtype(t), " no zero points" if seed == 4 else ""),
                        [("x", x), scale(r), zero(), y, zero()], [tensor_type(t)], attrs,
                        one_quantum=op == "QLinearSigmoid"))
    return out


def softmax_cases():
    out = []
    for seed in range(10):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        attrs = ({"opset": 13}, {"opset": 13, "axis": 1}, {"opset": 11, "axis": 1},
                 {"opset": 11, "axis": -1}, {"opset": 13, "axis": 0})[seed // 2]
        x = bytes_of(r, t, (3, 4, 20))
        out.append(Case("QLinearSoftmax", "%s %s" % (np.dtype(t), attrs),
                        [("x", x), scale(r, (), 0.005, 0.03), bytes_of(r, t, ()),
                         np.float32(1 / 256), np.array(np.iinfo(t).min, t)],
                        [tensor_type(t)], attrs, one_quantum=True))
    return out


def pool_cases():
    out = []
    forms = [
        ((2, 3, 11), {"kernel_shape": [3]}),
        ((2, 3, 11, 9), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ((1, 5, 8, 9), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2]}),
        ((1, 7, 8, 3), {"kernel_shape": [3, 2], "strides": [2, 1], "channels_last": 1}),
        ((2, 9, 4), {"kernel_shape": [4], "channels_last": 1}),
    ]
    for seed, (shape, attrs) in enumerate(forms * 2):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed // len(forms)]
        zero = (lambda: None) if seed == 3 else (lambda: bytes_of(r, t, ()))
        out.append(Case("QLinearAveragePool", "%s %s %s" % (np.dtype(t), shape, attrs),
                        [("x", bytes_of(r, t, shape)), scale(r), zero(), scale(r), zero()],
                        [tensor_type(t)], attrs, one_quantum=True))
    for seed in range(10):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        shape = ((2, 5, 7, 7), (1, 16, 4, 4), (3, 8, 6), (1, 9, 8, 33), (2, 3, 4, 5, 2))[seed // 2]
        for last in (0, 1):
            same = np.float32(0.03) if seed % 4 == 1 else None  # equal scales give ties
            out.append(Case("QLinearGlobalAveragePool",
                            "%s %s channels_last=%d" % (np.dtype(t), shape, last),
                            [("x", bytes_of(r, t, shape)),
                             scale(r) if same is None else same, bytes_of(r, t, ()),
                             scale(r, (), 0.002, 0.01) if same is None else same,
                             bytes_of(r, t, ())],
                            [tensor_type(t)], {"channels_last": last}, one_quantum=True))
    return out


def concat_cases():
    out = []
    for seed in range(6):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        axis = (1, -1, 0)[seed % 3]
        y_scale, y_zero = scale(r), bytes_of(r, t, ())
        operands = [y_scale, y_zero]
        for k in range(1 + seed % 4):
            shape = [3, 4, 5]
            shape[axis] = 1 + k
            same = k == 1
            operands += [("x%d" % k, bytes_of(r, t, shape)), y_scale if same else scale(r),
                         y_zero if same else bytes_of(r, t, ())]
        out.append(Case("QLinearConcat", "%s axis=%d of %d" % (np.dtype(t), axis, 1 + seed % 4),
                        operands, [tensor_type(t)], {"axis": axis}))
    return out


def where_cases():
    out = []
    for seed in range(6):
        r = np.random.default_rng(seed)
        t = (np.uint8, np.int8)[seed % 2]
        c, a, b = (((4, 5),) * 3, ((5,), (4, 5), ()), ((2, 1, 3), (4, 1), (1, 1, 3)))[seed // 2]
        out.append(Case("QLinearWhere", "%s %s %s %s" % (np.dtype(t), c, a, b),
                        [("c", r.integers(0, 2, c).astype(bool)), ("a", bytes_of(r, t, a)), scale(r),
                         bytes_of(r, t, ()), ("b", bytes_of(r, t, b)), scale(r), bytes_of(r, t, ()),
                         scale(r), bytes_of(r, t, ())], [tensor_type(t)]))
    return out


def gemm_cases():
    out = []
    for seed in range(16):
        r = np.random.default_rng(seed)
        ta = (np.uint8, np.int8)[seed % 2]
        tb = np.int8 if seed % 2 or seed % 4 == 0 else np.uint8
        m, k, n = 3 + seed, 5 + 3 * seed, 2 + 2 * seed
        trans_a, trans_b = seed // 2 % 2, seed // 4 % 2
        per_column = seed % 3 == 0
        p = (n,) if per_column else ()
        c = (None, (n,), (1, n), (m, 1), (m, n), ())[seed % 6]
        bias = None if c is None else r.integers(-2000, 2000, c).astype(np.int32)
        b_range = bytes_of(r, tb, p) // 8  # small zero points
        to_float = seed % 5 == 4
        y = [None, None] if to_float else [scale(r, (), 0.2, 0.5), bytes_of(r, ta, ())]
        out.append(Case("QGemm", "%s %s transA=%d transB=%d C %s%s%s" % (
            np.dtype(ta), np.dtype(tb), trans_a, trans_b, c, " per column" if per_column else "",
            " f32" if to_float else ""),
            [("a", bytes_of(r, ta, (k, m) if trans_a else (m, k))), scale(r), bytes_of(r, ta, ()),
             weights_of(r, tb, (n, k) if trans_b else (k, n)), scale(r, p), b_range, bias] + y,
            [F32 if to_float else tensor_type(ta)],
            {"transA": trans_a, "transB": trans_b, "alpha": 1.0 if seed % 2 else 0.5}))
    return out


def integer_matmul_cases():
    out = []
    for seed in range(12):
        r = np.random.default_rng(seed)
        ta = (np.uint8, np.int8)[seed % 3 == 2]
        tb = np.int8 if ta == np.int8 or seed % 2 else np.uint8
        m, k, n = 2 + seed, 7 + 5 * seed, 3 + seed
        per_column = seed % 4 == 1
        p = (n,) if per_column else ()
        a_shape = (2, m, k) if seed % 3 == 1 else (m, k)
        bias = r.normal(size=n).astype(np.float32) if seed % 2 else None
        with_zero = seed % 5 != 4
        label = "%s %s%s%s%s" % (np.dtype(ta), np.dtype(tb), " per column" if per_column else "",
                                 "" if bias is None else " bias", "" if with_zero else " no zeros")
        b = weights_of(r, tb, (k, n))
        b_scale, b_zero = scale(r, p), bytes_of(r, tb, p) // 4 if with_zero else None
        out.append(Case("MatMulIntegerToFloat", label,
                        [("a", bytes_of(r, ta, a_shape)), b, scale(r), b_scale,
                         bytes_of(r, ta, ()) if with_zero else None, b_zero, bias], [F32]))
        x = r.normal(size=a_shape).astype(np.float32)
        out.append(Case("DynamicQuantizeMatMul", label, [("a", x), b, b_scale, b_zero, bias], [F32]))
    return out


def quantize_cases():
    out = []
    types = (np.uint8, np.int8, np.uint16, np.int16)
    for seed in range(12):
        r = np.random.default_rng(seed)
        t = types[seed % 4]
        real = np.float32
        per_axis, axis = seed // 4 == 1, (1, 0)[seed % 2]
        p = (((3, 5)[axis]),) if per_axis else ()
        small = 1e-4 if np.dtype(t).itemsize == 2 else 0.02
        s = (r.uniform(1, 3, p) * small).astype(real)
        z = None if seed == 8 else bytes_of(r, t, p)
        attrs = {"axis": axis} if per_axis and axis != 1 else {}
        x = (r.normal(size=(3, 5, 7)) * (1 if seed % 3 else 4)).astype(real)
        label = "%s%s%s" % (np.dtype(t), " per axis %d" % axis if per_axis else "",
                            " no zero point" if z is None else "")
        # In opset 17 the standard operator has no 16-bit types, but this one does.
        opset = 17 if seed % 2 else 21
        out.append(Case("QuantizeLinear", label, [("x", x), s, z],
                        [tensor_type(t) if z is not None else U8], attrs, opset=opset))
        out.append(Case("DequantizeLinear", label, [("x", bytes_of(r, t, (3, 5, 7))), s, z], [F32],
                        attrs, opset=opset))
    r = np.random.default_rng(50)
    out.append(Case("DequantizeLinear", "int32", [("x", bytes_of(r, np.int32, (3, 5))), scale(r)],
                    [F32]))
    for t in (TensorProto.UINT4, TensorProto.INT4):
        name = TensorProto.DataType.Name(t).lower()
        # Codes of 4 bits stay inside: NumPy has no such type to hand over.
        out.append(Case("DequantizeLinear", name, [low_bits(r, t, (3, 5)), scale(r),
                                                   low_bits(r, t, ())], [F32]))
        out.append(Case("DequantizeLinear", name + " per axis",
                        [low_bits(r, t, (3, 5)), scale(r, (3,)), low_bits(r, t, (3,))], [F32],
                        {"axis": 0}))
        out.append(RoundTrip(r, t, name))
    return out


class RoundTrip(Case):
    """QuantizeLinear to 4 bits and back, so that inputs and outputs are floats."""

    def __init__(self, r, elem_type, name):
        x = r.normal(size=(5, 9)).astype(np.float32)
        s, z = scale(r, (), 0.1, 0.3), low_bits(r, elem_type, ())
        super().__init__("QuantizeLinear", name + " and back", [("x", x), s, z], [F32])
        node = self._model.graph.node[0]
        node.output[0] = "codes"
        self._model.graph.node.append(helper.make_node(
            "DequantizeLinear", ["codes", node.input[1], node.input[2]], ["y0"], domain=DOMAIN))


def gather_cases():
    out = []
    for seed in range(16):
        r = np.random.default_rng(seed)
        index_type = (np.int64, np.int32)[seed % 2]
        indices = r.integers(-6, 6, ((4,), (2, 3), ())[seed % 3]).astype(index_type)
        block = (16, 32)[seed // 2 % 2]
        real = np.float16 if seed % 4 == 3 else np.float32
        with_zero = seed % 3 != 0
        kind = seed // 4
        if kind < 3:  # bytes
            bits = (2, 4, 8)[kind]
            n, per_byte = 96 if seed % 2 else 64, 8 // bits
            blocks = (n + block - 1) // block
            data = bytes_of(r, np.uint8, (6, n // per_byte))
            zero = bytes_of(r, np.uint8, (6, -(-blocks // per_byte))) if with_zero else None
            shape, attrs, label = (6, blocks), {"bits": bits}, "u8, %d bits" % bits
        else:
            t = (TensorProto.UINT4, TensorProto.INT4)[seed % 2]
            axis = seed // 2 % 2
            dims = (6, 40, 3) if axis else (6, 7, 33)
            q = 1 if axis else 2
            shape = list(dims)
            shape[q] = -(-dims[q] // block)
            data = low_bits(r, t, dims)
            zero = low_bits(r, t, shape) if with_zero else None
            attrs, label = {"quantize_axis": q}, TensorProto.DataType.Name(t).lower()
        s = r.uniform(0.01, 0.1, shape).astype(real)
        out.append(Case("GatherBlockQuantized", "%s, block %d, %s%s" % (
            label, block, np.dtype(real), "" if with_zero else ", no zero points"),
            [data, ("i", indices), s, zero], [tensor_type(real)],
            dict(attrs, block_size=block, gather_axis=0)))
    r = np.random.default_rng(90)
    out.append(Case("GatherBlockQuantized", "gather_axis 1, quantize_axis 0",
                    [low_bits(r, TensorProto.INT4, (40, 6)), ("i", np.array([[5, 0]], np.int64)),
                     scale(r, (3, 6))], [F32],
                    {"block_size": 16, "gather_axis": 1, "quantize_axis": 0}))
    return out


def lstm_cases():
    out = []
    for seed in range(8):
        r = np.random.default_rng(seed)
        t = (np.int8, np.uint8)[seed % 2]
        direction = ("forward", "reverse", "bidirectional")[seed % 3]
        d = 2 if direction == "bidirectional" else 1
        steps, batch, size, hidden = 5, 1 + seed % 3, 7, 6
        per_row = seed >= 4
        middle = 0 if t == np.int8 else 128
        weights = [unsaturated(np.clip(np.round(r.normal(size=shape) * 40) + middle, np.iinfo(t).min,
                                       np.iinfo(t).max).astype(t))
                   for shape in ((d, size, 4 * hidden), (d, hidden, 4 * hidden))]
        shape = (d, 4 * hidden) if per_row else (d,)
        params = [p for _ in range(2)
                  for p in (scale(r, shape, 0.005, 0.02), np.full(shape, middle, t))]
        state = r.normal(size=(2, d, batch, hidden)).astype(np.float32) * 0.5
        given = seed % 2 == 0
        out.append(Case(
            "DynamicQuantizeLSTM", "%s, %s, %s, batch %d%s" % (
                direction, np.dtype(t), "per row" if per_row else "per tensor", batch,
                ", states and peepholes" if given else ""),
            [("x", r.normal(size=(steps, batch, size)).astype(np.float32)), *weights,
             r.normal(size=(d, 8 * hidden)).astype(np.float32) * 0.1, None,
             state[0] if given else None, state[1] if given else None,
             r.normal(size=(d, 3 * hidden)).astype(np.float32) * 0.1 if given else None, *params],
            [F32, F32, F32], {"direction": direction, "hidden_size": hidden}))
    return out


def cases():
    return (quantize_cases() + binary_cases("QLinearAdd") + binary_cases("QLinearMul") +
            concat_cases() + unary_cases("QLinearSigmoid") + unary_cases("QLinearLeakyRelu") +
            pool_cases() + softmax_cases() + where_cases() + gemm_cases() +
            integer_matmul_cases() + gather_cases() + lstm_cases())
