"""Layers between codes for layer_generator.py: an operator behind DequantizeLinear, before QuantizeLinear."""
import numpy as np
import onnx
from layer_generator import Layer
from onnx import helper, numpy_helper

X_SCALE = np.float32(0.02)
WEIGHT_LIMIT = 63  # u8 by i8 in pairs stays within 16 bits, where ONNX Runtime on processors without VNNI adds so


WITH_WEIGHTS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}  # the axis of results, of Gemm without transB


class CodeLayer(Layer):
    """A float layer of one operator, spelled with codes: inputs and result of `kind`, weights i8, a bias i32."""

    of_codes = True

    def __init__(self, layer, kind, per_channel, relu):
        super().__init__(layer.op, {}, layer.constants, layer.attributes, opset=layer.opset, order=layer.operands())
        self.kind, self.relu = np.dtype(kind), relu
        self.zero = self.kind.type(128 if kind == "uint8" else 0)
        self.per_channel = per_channel and "weights" in self.parts()
        r = np.random.default_rng(len(layer.name))
        low = 0 if kind == "uint8" else -128
        for name, value in layer.inputs.items():
            if value.dtype != np.float32:
                self.inputs[name] = value
                continue
            codes = np.clip(np.rint(r.normal(float(self.zero), 32, value.shape)), low, low + 255)
            self.inputs[name] = codes.astype(self.kind)
        self.name = "%s %s%s%s" % (kind, layer.name, " per channel" * self.per_channel, " relu" * relu)

    def parts(self):
        """Names of constants that get codes, by their role; others stay as they are."""
        names = list(self.constants) if self.op in WITH_WEIGHTS else []
        return {"weights": names[0], **({"bias": names[1]} if len(names) > 1 else {})} if names else {}

    def weights_axis(self):
        return 0 if self.attributes.get("transB") else WITH_WEIGHTS[self.op]

    def model(self):
        nodes, constants = [], {"xs": X_SCALE, "zero": self.zero}
        real = {n: n for n in self.operands()}
        if not self.parts():
            constants.update({n: v for n, v in self.constants.items() if n})
        for name in (n for n, v in self.inputs.items() if v.dtype == self.kind):
            nodes.append(helper.make_node("DequantizeLinear", [name, "xs", "zero"], [name + "_real"]))
            real[name] = name + "_real"
        spread = 32 * float(X_SCALE)
        if parts := self.parts():
            w = self.constants[parts["weights"]]
            axis = self.weights_axis()
            others = tuple(a for a in range(w.ndim) if a != axis)
            most = np.abs(w).max(others, keepdims=True) if self.per_channel else np.abs(w).max()
            scale = np.maximum(most, 1e-6).astype(np.float32) / np.float32(WEIGHT_LIMIT)
            constants.update(w=np.rint(w / scale).astype(np.int8), ws=scale.reshape(-1) if self.per_channel else np.float32(scale))
            where = {"axis": axis} if self.per_channel else {}
            nodes.append(helper.make_node("DequantizeLinear", ["w", "ws"], ["w_real"], **where))
            real[parts["weights"]] = "w_real"
            spread *= float(np.sqrt(w.size / w.shape[axis]) * w.std())
            if "bias" in parts:
                of_sums = (constants["ws"] * X_SCALE).astype(np.float32)
                bias = np.rint(self.constants[parts["bias"]] * spread / np.maximum(of_sums, 1e-9)).astype(np.int32)
                constants.update(b=bias, bs=of_sums)
                nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["b_real"], **({"axis": 0} if self.per_channel else {})))
                real[parts["bias"]] = "b_real"
        result = "result"
        nodes.append(helper.make_node(self.op, [real[n] for n in self.operands()], [result], **self.attributes))
        if self.relu:
            nodes.append(helper.make_node("Relu", [result], ["positive"]))
            result = "positive"
        constants["ys"] = np.float32(max(spread, 1e-6) * 3 / 127)
        nodes.append(helper.make_node("QuantizeLinear", [result, "ys", "zero"], self.outputs))
        graph = helper.make_graph(
            nodes, "layer",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in self.inputs.items()],
            [helper.make_empty_tensor_value_info(self.outputs[0])],
            [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made)


def is_of_floats(layer):
    """Something to give codes to, and no operand of another type that ONNX Runtime's rules for codes do not know."""
    return any(v.dtype == np.float32 for v in layer.inputs.values()) and layer.op not in ("Where", "Clip", "Gather")


def quantized(generator):
    """A layer of codes, its extents drawn as those of the float families."""
    g = generator
    kind, per_channel, relu = str(g.pick("uint8", "uint8", "int8")), bool(g.pick(True, False)), bool(g.pick(True, False, False))
    family = str(g.pick("conv", "conv", "conv", "matmul", "matmul", "pool", "elementwise", "move", "resize", "conv_transpose", "sum",
                        "gate", "softmax"))
    if family == "sum":
        shape = g.pick((1, 64, 56, 56), (1, 197, 768), (1, 128, 14, 14), (1, 16, 112, 112))
        layer = Layer("Add", {"x": g.floats(*shape), "z": g.floats(*shape)}, name="Add " + "x".join(map(str, shape)))
    elif family == "gate":
        c, size = int(g.pick(16, 72, 120, 240, 480, 960)), int(g.pick(7, 14, 28, 56))
        layer = Layer("Mul", {"x": g.floats(1, c, size, size), "z": g.floats(1, c, 1, 1)}, name="Mul gate c%d %d" % (c, size))
    elif family == "softmax":
        n, k = g.rows()
        layer = Layer("Softmax", {"x": g.floats(1, n, k)}, {}, {"axis": -1}, "Softmax %dx%d" % (n, k))
    else:
        layer = getattr(g, family)()
        while not is_of_floats(layer):
            layer = getattr(g, family)()
    # Behind what only moves elements nothing follows.
    return CodeLayer(layer, kind, per_channel, relu and family in ("conv", "matmul", "sum"))
