#!/usr/bin/env python3
"""Whether `fuse --target ort` writes nodes that ONNX Runtime runs, with the same results.

usage: ort_names.py INFER_OPT

Small models of the operators in lib/onnx/ort_names.cc and passes/ort, at opsets where they have another form there and
where they have not. What was written must hold the expected operators, and give what the original gives:
in ONNX Runtime where that runs the original, and in our reference.
"""

import os
import subprocess
import sys
import tempfile

from judging import difference, np, onnx, session_of
from same_as_onnxruntime import run_ours

from onnx import TensorProto, helper, numpy_helper

TOLERANCE = 1e-5
# Behind an operator that makes NaN of a query without keys, where the standard makes 0.
ZERO_WITHOUT_KEYS = {"ReduceMax", "IsInf", "Squeeze", "Where"}
r = np.random.default_rng(1)


def floats(*shape):
    return r.normal(size=shape).astype(np.float32)


def model(nodes, inputs, constants=(), opset=23):
    """`nodes`: (op, inputs, outputs, attributes); the last output is y."""
    made = [helper.make_node(op, i, o, name="n%d" % k, **a) for k, (op, i, o, a) in enumerate(nodes)]
    types = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
    graph = helper.make_graph(
        made, "g", [helper.make_tensor_value_info(n, types[str(v.dtype)], v.shape)
                    for n, v in inputs.items()],
        [helper.make_tensor_value_info("y", types[str(next(iter(inputs.values())).dtype)], None)],
        [numpy_helper.from_array(v, n) for n, v in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def cases():
    """(name, model, inputs, flags, operators expected in the file)"""
    x = {"x": floats(2, 5, 12)}
    root2, one, half = (np.float32(v) for v in (2 ** 0.5, 1, 0.5))
    gelu = [("Div", ["x", "r"], ["d"], {}), ("Erf", ["d"], ["e"], {}), ("Add", ["e", "o"], ["a"], {}),
            ("Mul", ["x", "a"], ["m"], {}), ("Mul", ["m", "h"], ["y"], {})]
    constants = {"r": root2, "o": one, "h": half}
    yield "gelu, opset 13", model(gelu, x, constants, 13), x, [], {"com.microsoft::Gelu"}
    yield "gelu, opset 20", model(gelu, x, constants, 20), x, [], {"Gelu"}
    tanh = [("Gelu", ["x"], ["y"], {"approximate": "tanh"})]
    yield "tanh gelu", model(tanh, x), x, ["--opset", "17"], {"com.microsoft::FastGelu"}
    silu = [("Sigmoid", ["x"], ["s"], {}), ("Mul", ["x", "s"], ["y"], {})]
    yield "silu", model(silu, x, opset=17), x, [], {"com.microsoft::QuickGelu"}
    swish = [("Mul", ["x", "f"], ["m"], {}), ("Sigmoid", ["m"], ["s"], {}), ("Mul", ["x", "s"], ["y"], {})]
    for factor in 1.702, -1.0:
        yield "swish, factor %g" % factor, model(swish, x, {"f": np.float32(factor)}, 17), x, [], {
            "com.microsoft::QuickGelu"}
    yield "swish, opset 24", model([("Swish", ["x"], ["y"], {"alpha": 1.5})], x, opset=24), x, [], {
        "com.microsoft::QuickGelu"}
    # Our own operator, of a type for which ONNX Runtime has no other: its nodes, no function.
    double = {"x": x["x"].astype(np.float64)}
    yield "silu, double", model(silu, double, opset=17), double, [], {"Sigmoid", "Mul"}
    norm = {"s": floats(12), "b": floats(12)}
    for opset, shown in ((13, "LayerNormalization"), (17, "LayerNormalization")):
        nodes = [("LayerNormalization", ["x", "s", "b"], ["y"], {"epsilon": 1e-3})]
        yield "layer norm, opset %d" % opset, model(nodes, x, norm), x, ["--opset", str(opset)], {shown}
    rms = [("RMSNormalization", ["x", "s"], ["y"], {"epsilon": 1e-3})]
    yield "rms norm, opset 17", model(rms, x, norm), x, ["--opset", "17"], {
        "SimplifiedLayerNormalization"}
    yield "rms norm, opset 23", model(rms, x, norm), x, [], {"RMSNormalization"}
    image = {"x": floats(2, 6, 5, 7)}
    group = [("GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 3, "epsilon": 1e-3})]
    yield "group norm", model(group, image, {"s": floats(6), "b": floats(6)}, 21), image, [], {
        "Shape", "Reshape", "InstanceNormalization", "Mul", "Add"}
    positions = {"x": floats(2, 4, 16), "p": r.integers(0, 9, (2, 4))}
    cache = {"c": floats(9, 4), "s": floats(9, 4)}
    for flag in (0, 1):
        rotary = [("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], {"num_heads": 2, "interleaved": flag})]
        yield "rotary, interleaved %d" % flag, model(rotary, positions, cache), positions, [
            "--opset", "17"], {"com.microsoft::RotaryEmbedding"}
    part = [("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], {"num_heads": 1, "rotary_embedding_dim": 8})]
    yield "rotary, a part of the head", model(part, positions, cache), positions, ["--opset", "17"], {
        "com.microsoft::RotaryEmbedding"}
    qkv = {"q": floats(2, 5, 12), "k": floats(2, 7, 12), "v": floats(2, 7, 12)}
    masks = {"none": None, "rows": floats(2, 1, 5, 7), "one row": floats(2, 1, 1, 7),
             "two axes": floats(5, 7)}
    heads = {"q_num_heads": 3, "kv_num_heads": 3}
    mha = "com.microsoft::MultiHeadAttention"
    for name, mask in masks.items():
        feeds = qkv if mask is None else {**qkv, "m": mask}
        node = [("Attention", list(feeds), ["y"], {**heads, "scale": 0.3})]
        shown = {"Attention"} if name != "one row" else {"Expand", "Attention"}
        # What is fed may hold the lowest number.
        yield "attention, mask: " + name, model(node, feeds), feeds, [], shown | ({"Mul"} if mask is not None else set())
        shown = {"Attention"} if name != "one row" else {"Shape", "Concat", "Expand", "Attention"}
        yield "attention, target onnx, mask: " + name, model(node, feeds), feeds, [
            "--target", "onnx"], shown
        # A mask that does not fit the other operator leaves the nodes that define attention.
        # Of a query without keys it makes NaN, the standard 0.
        shown = {"none": {mha}, "rows": {mha} | ZERO_WITHOUT_KEYS}.get(name)
        yield "attention, opset 17, mask: " + name, model(node, feeds), feeds, ["--opset", "17"], shown
    # A padding mask that hides all keys of a sample by the lowest number: the mean of the values, as unfused.
    padded = {"q": floats(2, 2, 5, 4), "k": floats(2, 2, 7, 4), "v": floats(2, 2, 7, 4), "keep": np.ones((2, 1, 1, 7), np.float32)}
    padded["keep"][0] = 0
    padded["keep"][1, ..., :3] = 0
    spelled = [("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "t"], ["s"], {}), ("Sub", ["one", "keep"], ["h"], {}),
               ("Mul", ["h", "low"], ["m"], {}), ("Add", ["s", "m"], ["a"], {}), ("Softmax", ["a"], ["p"], {}),
               ("MatMul", ["p", "v"], ["y"], {})]
    lowest = {"one": one, "low": np.finfo(np.float32).min}
    yield "attention, a sample of padding", model(spelled, padded, lowest), padded, [], {
        "Sub", "Mul", "Expand", "Attention"}
    yield from without_keys()
    heads_apart = {"q": floats(2, 3, 5, 4), "k": floats(2, 3, 7, 4), "v": floats(2, 3, 7, 4), "m": floats(2, 1, 5, 7)}
    products_of = [("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "t"], ["s"], {}), ("Mul", ["s", "c"], ["r"], {})]
    for masked in (False, True):
        nodes = products_of + ([("Add", ["r", "m"], ["a"], {})] if masked else []) + [
            ("Softmax", ["a" if masked else "r"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {})]
        feeds = {n: x for n, x in heads_apart.items() if masked or n != "m"}
        yield "attention, an axis of heads, opset 17" + ", masked" * masked, model(nodes, feeds, {"c": np.float32(0.3)}, 17), feeds, ["--opset", "17"], {
            "com.microsoft::FusedMatMul", "Softmax", "MatMul", *(["Add"] if masked else [])}
    four = {"q": floats(2, 3, 5, 4), **{n: floats(2, 3, 7, 4) for n in ("k", "v", "pk", "pv")}, "m": floats(2, 1, 5, 14)}
    nodes = [("Concat", ["pk", "k"], ["nk"], {"axis": 2}), ("Concat", ["pv", "v"], ["nv"], {"axis": 2}),
             ("Attention", ["q", "nk", "nv", "m"], ["a"], {}), ("ReduceMean", ["nk"], ["r"], {}), ("Add", ["a", "r"], ["y"], {})]
    yield "attention, a cache of which the keys are read on", model(nodes, four), four, [], {
        "Mul", "Attention", "ReduceMean", "Add"}
    causal = {"q": floats(2, 5, 12), "k": floats(2, 5, 12), "v": floats(2, 5, 12)}
    node = [("Attention", list(causal), ["y"], {**heads, "is_causal": 1})]
    yield "attention, causal", model(node, causal), causal, ["--opset", "17"], {mha}
    node = [("Attention", list(qkv), ["y"], {**heads, "is_causal": 1})]
    yield "attention, causal, more keys", model(node, qkv), qkv, ["--opset", "17"], None
    grouped = {"q": floats(2, 5, 12), "k": floats(2, 7, 4), "v": floats(2, 7, 4)}
    node = [("Attention", list(grouped), ["y"], {"q_num_heads": 3, "kv_num_heads": 1})]
    yield "attention, grouped", model(node, grouped), grouped, ["--opset", "17"], None
    yield from products()
    yield from layers()


def without_keys():
    """Masks of -inf that hide all keys of a sample, whose probabilities are NaN and then cleared, or not."""
    feeds = {"x": floats(2, 5, 8), "keep": np.ones((2, 1, 5, 5), np.float32)}
    feeds["keep"][1, ..., :3] = 0
    rest = {"keep": feeds["keep"].copy()}
    rest["keep"][0] = 0
    constants = {"w": floats(8, 24), "z": np.array([8, 8, 8]), "zero": np.float32(0), "inf": np.float32(-np.inf),
                 "h": np.array([0, 0, 2, 4]), "flat": np.array([0, 0, 8]), "c": np.float32(0.5)}
    split = [("MatMul", ["x", "w"], ["p"], {}), ("Split", ["p", "z"], ["q1", "k1", "v1"], {"axis": 2})]
    apart = [("x", "x", "x"), ("q1", "k1", "v1")]
    for names, front, fused in ((apart[1], split, "com.microsoft::Attention"), (apart[0], [], "com.microsoft::MultiHeadAttention")):
        nodes = list(front)
        for name, of in zip("qkv", names):
            nodes += [("Reshape", [of, "h"], [name + "4"], {}),
                      ("Transpose", [name + "4"], [name], {"perm": [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]})]
        nodes += [("Cast", ["keep"], ["is_kept"], {"to": TensorProto.BOOL}), ("Where", ["is_kept", "zero", "inf"], ["m"], {}),
                  ("MatMul", ["q", "k"], ["s"], {}), ("Mul", ["s", "c"], ["t"], {}), ("Add", ["t", "m"], ["a"], {}),
                  ("Softmax", ["a"], ["probability"], {"axis": -1})]
        back = [("Transpose", ["o"], ["o4"], {"perm": [0, 2, 1, 3]}), ("Reshape", ["o4", "flat"], ["y"], {})]
        clear = [("IsNaN", ["probability"], ["n"], {}), ("Where", ["n", "zero", "probability"], ["r"], {}), ("MatMul", ["r", "v"], ["o"], {})]
        flags = ["--opset", "17"]
        yield "without keys, cleared: " + fused, model(nodes + clear + back, {**feeds, **rest}, constants, 17), {
            **feeds, **rest}, flags, {"Cast", fused} | ZERO_WITHOUT_KEYS
        free = [("MatMul", ["probability", "v"], ["o"], {})]
        yield "with keys, not cleared: " + fused, model(nodes + free + back, feeds, constants, 17), feeds, flags, {
            "Cast", "Where", fused}


def products():
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    feeds, fused = {"a": a, "b": b}, {"com.microsoft::FusedMatMul"}
    scale = {"c": np.float32(0.3)}
    yield "scaled product", model([("MatMul", ["a", "b"], ["p"], {}), ("Div", ["p", "c"], ["y"], {})],
                                  feeds, scale, 17), feeds, [], fused
    for perm, stored in (([0, 1, 3, 2], (2, 3, 5, 4)), ([1, 2, 0, 3], (4, 2, 3, 5)), ([1, 2, 3, 0], (5, 2, 3, 4))):
        turned = {"a": floats(*stored), "b": b}
        nodes = [("Transpose", ["a"], ["t"], {"perm": perm}), ("Mul", ["t", "c"], ["s"], {}),
                 ("MatMul", ["s", "b"], ["p"], {}), ("Transpose", ["p"], ["y"], {"perm": [0, 1, 3, 2]})]
        yield "product, transposed by %s" % perm, model(nodes, turned, scale, 17), turned, [], None
        yield "product of a transposition by %s" % perm, model(
            [nodes[0], ("MatMul", ["t", "b"], ["y"], {})], turned, {}, 17), turned, [], fused


def layers():
    image, w = {"x": floats(2, 3, 6, 5)}, {"w": floats(4, 3, 3, 3), "b": floats(4), "l": np.float32(-1), "h": np.float32(2)}
    for op, more, attrs in (("Relu", [], {}), ("Clip", ["l", "h"], {}), ("LeakyRelu", [], {"alpha": 0.3}),
                            ("HardSigmoid", [], {"alpha": 0.3, "beta": 0.4}), ("Sigmoid", [], {}), ("Tanh", [], {})):
        nodes = [("Conv", ["x", "w", "b"], ["c"], {"pads": [1, 0, 1, 0]}), (op, ["c"] + more, ["y"], attrs)]
        yield "convolution, " + op, model(nodes, image, w, 17), image, [], {"com.microsoft::FusedConv"}
    rows, w = {"x": floats(3, 5)}, {"w": floats(5, 4), "b": floats(4)}
    for op, attrs in (("Relu", {}), ("LeakyRelu", {"alpha": 0.3}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
                      ("Elu", {"alpha": 0.5}), ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {})):
        nodes = [("Gemm", ["x", "w", "b"], ["c"], {}), (op, ["c"], ["y"], attrs)]
        yield "Gemm, " + op, model(nodes, rows, w, 17), rows, [], {"com.microsoft::FusedGemm"}
    x, w = {"x": floats(2, 5, 12)}, {"a": floats(12), "s": floats(12), "b": floats(12)}
    for form, name in (("none", "BiasGelu"), ("tanh", "FastGelu")):
        nodes = [("Add", ["x", "a"], ["t"], {}), ("Gelu", ["t"], ["y"], {"approximate": form})]
        yield "bias, Gelu, " + form, model(nodes, x, w, 20), x, [], {"com.microsoft::" + name}
    two = {**x, "r": floats(2, 5, 12)}
    tail = [("Add", ["p", "r"], ["t"], {}), ("LayerNormalization", ["t", "s", "b"], ["y"], {"epsilon": 1e-3})]
    before = ["--target", "ort-1.24"]  # whose SkipLayerNormalization is as fast as sum and norm
    biased = model([("Add", ["x", "a"], ["p"], {}), *tail], two, w, 17)
    yield "bias, sum, norm", biased, two, [], {"Add", "Sum", "LayerNormalization"}
    yield "bias, sum, norm, 1.24", biased, two, before, {"com.microsoft::SkipLayerNormalization"}
    for opset in (9, 17):
        shifted = model([("Add", ["x", "r"], ["t"], {}), tail[1]], two, w, 17)
        yield "sum, norm at %d" % opset, shifted, two, ["--opset", str(opset)], {"Sum", "LayerNormalization"}
    yield "sum, norm, 1.24", shifted, two, before, {"com.microsoft::SkipLayerNormalization"}
    w = {"w": floats(12, 36), "b": floats(36), "parts": np.array([12, 12, 12])}
    for mask in ({}, {"m": floats(2, 1, 5, 5)}, {"m": floats(1, 1, 1, 5)}):
        for bias in (True, False):
            nodes = [("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}),
                     ("Split", ["s" if bias else "p", "parts"], ["q", "k", "v"], {"axis": 2}),
                     ("Attention", ["q", "k", "v", *mask], ["y"], {"q_num_heads": 3, "kv_num_heads": 3, "scale": 0.3})]
            feeds = {**x, **mask}
            one_row = mask and mask["m"].shape[2] == 1
            yield "projection, attention, %d masks, bias %d" % (len(mask), bias), model(
                nodes if bias else nodes[:1] + nodes[2:], feeds, w), feeds, [], {
                    "com.microsoft::Attention"} | ({"Expand"} if one_row else set()) | (ZERO_WITHOUT_KEYS if mask else set())


def operators(path):
    return {n.domain + "::" + n.op_type if n.domain else n.op_type
            for n in onnx.load(path).graph.node}


def check(infer_opt, case, work):
    name, original, feeds, flags, expected = case
    path, out = os.path.join(work, "in.onnx"), os.path.join(work, "out.onnx")
    onnx.save(original, path)
    done = subprocess.run([infer_opt, "fuse", path, "-o", out, "-q", *([] if "--opset" in flags else ["--opset", "max"]),
                           *(flags if "--target" in flags else ["--target", "ort", *flags])],
                          capture_output=True, text=True)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stderr.strip())
    found = operators(out)
    if expected and found != expected:
        return "holds %s, not %s" % (sorted(found), sorted(expected))
    wants = {"our reference": run_ours(infer_opt, path, "reference", feeds, work)["y"]}
    try:
        wants["ONNX Runtime"] = session_of(path, optimize=False).run(None, feeds)[0]
    except Exception as e:  # such as a mask that its Attention does not broadcast
        print("  ONNX Runtime refuses the original: " + str(e).splitlines()[0][-100:])
    for optimize in (False, True):
        if optimize and name == "silu, double":
            continue  # its own rewrite to QuickGelu, for which it has no kernel, breaks any such model
        got = session_of(out, optimize).run(None, feeds)[0]
        for who, want in wants.items():
            if (d := difference(want, got)) > TOLERANCE:
                return "differs by %.1e from %s" % (d, who)
    again = run_ours(infer_opt, out, "cpu", feeds, work)["y"]
    if (d := difference(wants["our reference"], again)) > TOLERANCE:
        return "differs by %.1e when we read it" % d
    return ""


def main():
    bad = 0
    for case in cases():
        with tempfile.TemporaryDirectory() as work:
            try:
                why = check(sys.argv[1], case, work)
            except Exception as e:
                why = str(e)
        print("%-5s %s%s" % ("bad" if why else "ok", case[0], ": " + why if why else ""), flush=True)
        bad += bool(why)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
