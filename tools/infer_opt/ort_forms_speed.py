#!/usr/bin/env python3
"""How long ONNX Runtime takes for forms of the same operation: what decides lib/onnx/ort_names.cc and passes/ort.

usage: ort_forms_speed.py [NAME]

One thread, forms in turns; prints of each the median time and the median of its ratios to the first form.
A Python with numpy, onnx and onnxruntime. The table of docs/fusion.md is its output.
"""

import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = {"domain": "com.microsoft"}
SECONDS, MIN_RUNS, MAX_RUNS = 2.0, 15, 400
r = np.random.default_rng(0)


def floats(*shape):
    return r.normal(size=shape).astype(np.float32)


def session(nodes, inputs, constants, opset, outputs=("y",)):
    """`nodes`: (op, inputs, outputs, attributes)"""
    graph = helper.make_graph(
        [helper.make_node(op, i, o, **a) for op, i, o, a in nodes], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in inputs.items()],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(v, n) for n, v in constants.items()])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return ort.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])


def compare(name, inputs, constants, forms):
    """`forms`: name -> (nodes, opset[, outputs])"""
    if len(sys.argv) > 1 and sys.argv[1] not in name:
        return
    sessions = {form: session(f[0], inputs, constants, *f[1:]) for form, f in forms.items()}
    results = [s.run(None, inputs)[0] for s in sessions.values()]
    for got in results[1:]:
        assert np.abs(got - results[0]).max() <= 1e-5 * np.abs(results[0]).max(), name
    times = {form: [] for form in forms}
    start, runs = time.time(), 0
    while runs < MIN_RUNS or (time.time() - start < SECONDS and runs < MAX_RUNS):
        runs += 1
        for form, s in sessions.items():
            begin = time.perf_counter()
            s.run(None, inputs)
            times[form].append(1e3 * (time.perf_counter() - begin))
    first = np.array(times[next(iter(forms))])
    for form, ms in times.items():
        print("| %s | %s | %.3f | %.2f |" % (name, form, np.median(ms), np.median(ms / first)),
              flush=True)


def attention(length, mask, causal):
    heads, size = 12, 64
    width = heads * size
    x = {n: floats(1, length, width) for n in "qkv"}
    c = {"split": np.array([0, 0, heads, size]), "join": np.array([0, 0, width]),
         "scale": np.float32(size ** -0.5)}
    parts = []
    for n, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        parts += [("Reshape", [n, "split"], [n + "r"], {}), ("Transpose", [n + "r"], [n + "t"], {"perm": perm})]
    parts += [("MatMul", ["qt", "kt"], ["s"], {}), ("Mul", ["s", "scale"], ["t"], {})]
    last = "t"
    if mask:
        x["m"] = floats(1, 1, length, length)
        parts.append(("Add", ["t", "m"], ["u"], {}))
        last = "u"
    parts += [("Softmax", [last], ["p"], {"axis": -1}), ("MatMul", ["p", "vt"], ["o"], {}),
              ("Transpose", ["o"], ["w"], {"perm": [0, 2, 1, 3]}), ("Reshape", ["w", "join"], ["y"], {})]
    operands = list(x)
    ours = ("Attention", operands, ["y"], {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": causal})
    theirs = ("MultiHeadAttention", operands[:3] + (["", "", "m"] if mask else []), ["y"],
              {**MS, "num_heads": heads, "unidirectional": causal})
    forms = {"Attention (23)": ([ours], 23), "MultiHeadAttention": ([theirs], 17)}
    if not causal:
        forms["nodes"] = (parts, 17)
    compare("attention, 12 heads of 64, %d tokens%s%s" % (length, ", mask" * mask, ", causal" * causal),
            x, c, forms)


def layers_with_what_follows():
    """Forms of passes/ort: ONNX Runtime makes the second of each pair itself, but of the sums."""
    image, w = {"x": floats(1, 64, 56, 56)}, {"w": floats(64, 64, 3, 3) / 24, "b": floats(64)}
    sides = {"pads": [1, 1, 1, 1]}
    relu = {**MS, **sides, "activation": "Relu"}
    compare("convolution, Relu", image, w, {
        "nodes": ([("Conv", ["x", "w", "b"], ["c"], sides), ("Relu", ["c"], ["y"], {})], 17),
        "FusedConv": ([("FusedConv", ["x", "w", "b"], ["y"], relu)], 17)})
    compare("convolution, Add, Relu", {**image, "z": floats(1, 64, 56, 56)}, w, {
        "nodes": ([("Conv", ["x", "w", "b"], ["c"], sides), ("Add", ["c", "z"], ["s"], {}),
                   ("Relu", ["s"], ["y"], {})], 17),
        "FusedConv": ([("FusedConv", ["x", "w", "b", "z"], ["y"], relu)], 17)})
    x, w = {"x": floats(64, 512)}, {"w": floats(512, 512) / 23, "b": floats(512)}
    compare("Gemm, Relu", x, w, {
        "nodes": ([("Gemm", ["x", "w", "b"], ["c"], {}), ("Relu", ["c"], ["y"], {})], 17),
        "FusedGemm": ([("FusedGemm", ["x", "w", "b"], ["y"], {**MS, "activation": "Relu"})], 17)})
    x, b = {"x": floats(1, 128, 768)}, {"b": floats(768)}
    compare("bias, Gelu", x, b, {
        "nodes": ([("Add", ["x", "b"], ["s"], {}), ("Gelu", ["s"], ["y"], MS)], 17),
        "BiasGelu": ([("BiasGelu", ["x", "b"], ["y"], MS)], 17)})
    two, norm = {**x, "r": floats(1, 128, 768)}, {"a": floats(768), "s": floats(768), "b": floats(768)}
    compare("bias, Add, layer norm", two, norm, {
        "nodes": ([("Add", ["x", "a"], ["p"], {}), ("Add", ["p", "r"], ["t"], {}),
                   ("LayerNormalization", ["t", "s", "b"], ["y"], {})], 17),
        "SkipLayerNormalization": ([("SkipLayerNormalization", ["x", "r", "s", "b", "a"], ["y"],
                                     {**MS, "epsilon": 1e-5})], 17),
        "Sum, which it does not fuse": ([("Add", ["x", "a"], ["p"], {}), ("Sum", ["p", "r"], ["t"], {}),
                                         ("LayerNormalization", ["t", "s", "b"], ["y"], {})], 17)})
    w = {"w": floats(768, 2304) / 28, "b": floats(2304), "parts": np.array([768, 768, 768])}
    for mask in ({}, {"m": floats(1, 1, 128, 128)}):
        compare("projection, attention, 128 tokens" + ", mask" * len(mask), {**x, **mask}, w, {
            "nodes": ([("MatMul", ["x", "w"], ["p"], {}), ("Add", ["p", "b"], ["s"], {}),
                       ("Split", ["s", "parts"], ["q", "k", "v"], {"axis": 2}),
                       ("Attention", ["q", "k", "v", *mask], ["y"], {"q_num_heads": 12, "kv_num_heads": 12})], 23),
            "com.microsoft Attention": ([("Attention", ["x", "w", "b"] + ["", ""] * len(mask) + [*mask], ["y"],
                                          {**MS, "num_heads": 12})], 17)})
    image = {"x": floats(1, 48, 44, 44)}
    c = {"groups": np.array([24, 2, 1936]), "apart": np.array([2, -1, 24, 44, 44]), "0": np.int64(0),
         "1": np.int64(1), "at": np.array([0]), "of": np.array([1]), "end": np.array([48]), "step": np.array([2])}
    compare("channel shuffle", image, c, {
        "nodes": ([("Reshape", ["x", "groups"], ["g"], {}), ("Transpose", ["g"], ["t"], {"perm": [1, 0, 2]}),
                   ("Reshape", ["t", "apart"], ["a"], {}), ("Gather", ["a", "0"], ["y"], {}),
                   ("Gather", ["a", "1"], ["z"], {})], 17, ("y", "z")),
        "Slices": ([("Slice", ["x", "at", "end", "of", "step"], ["y"], {}),
                    ("Slice", ["x", "of", "end", "of", "step"], ["z"], {})], 17, ("y", "z"))})


def main():
    print("| operation | form | ms | ratio |\n|---|---|---:|---:|")
    for length in (1, 128, 197, 512):
        for mask, causal in ((0, 0), (1, 0), (0, 1)):
            attention(length, mask, causal)
    layers_with_what_follows()
    x = {"x": floats(1, 128, 768)}
    two = {"x": x["x"], "r": floats(1, 128, 768)}
    norm = {"s": floats(768), "b": floats(768)}
    one = lambda op, opset, inputs=("x",), **a: ([(op, list(inputs), ["y"], a)], opset)
    compare("Gelu", x, {}, {"Gelu (20)": one("Gelu", 20), "Gelu": one("Gelu", 17, **MS)})
    compare("tanh Gelu", x, {}, {"Gelu (20)": one("Gelu", 20, approximate="tanh"),
                                 "FastGelu": one("FastGelu", 17, **MS)})
    compare("SiLU", x, {}, {
        "nodes": ([("Sigmoid", ["x"], ["g"], {}), ("Mul", ["x", "g"], ["y"], {})], 17),
        "QuickGelu": one("QuickGelu", 17, alpha=1.0, **MS)})
    compare("RMS norm", x, norm, {"RMSNormalization (23)": one("RMSNormalization", 23, "xs"),
                                  "Simplified": one("SimplifiedLayerNormalization", 17, "xs", stash_type=1)})
    plain = [("Add", ["x", "r"], ["t"], {}), ("LayerNormalization", ["t", "s", "b"], ["y"], {})]
    skip = [("SkipLayerNormalization", ["x", "r", "s", "b"], ["y", "", "", "t"], {**MS, "epsilon": 1e-5})]
    compare("Add, layer norm, both results", two, norm,
            {"nodes": (plain, 17, ("y", "t")), "SkipLayerNormalization": (skip, 17, ("y", "t"))})
    plain = [("Add", ["x", "r"], ["t"], {}), ("RMSNormalization", ["t", "s"], ["y"], {})]
    skip = [("SkipSimplifiedLayerNormalization", ["x", "r", "s"], ["y", "", "", "t"], {**MS, "epsilon": 1e-5})]
    compare("Add, RMS norm, both results", two, norm,
            {"nodes": (plain, 23, ("y", "t")),
             "SkipSimplified": (skip, 17, ("y", "t"))})
    heads = {"a": floats(1, 12, 128, 64), "b": floats(1, 12, 128, 64)}
    compare("scaled product", heads, {"c": np.float32(0.125)}, {
        "nodes": ([("Transpose", ["b"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["a", "t"], ["m"], {}),
                   ("Mul", ["m", "c"], ["y"], {})], 17),
        "FusedMatMul": one("FusedMatMul", 17, "ab", transB=1, alpha=0.125, **MS)})
    image = {"x": floats(1, 64, 56, 56)}
    c = {"s": floats(64), "b": floats(64), "one": np.ones(8, np.float32), "zero": np.zeros(8, np.float32),
         "groups": np.array([0, 8, -1]), "column": np.array([-1, 1, 1])}
    compare("group norm", image, c, {
        "GroupNormalization (21)": one("GroupNormalization", 21, "xsb", num_groups=8),
        "InstanceNormalization": (
            [("Shape", ["x"], ["n"], {}), ("Reshape", ["x", "groups"], ["g"], {}),
             ("InstanceNormalization", ["g", "one", "zero"], ["i"], {}),
             ("Reshape", ["i", "n"], ["k"], {}), ("Reshape", ["s", "column"], ["sc"], {}),
             ("Mul", ["k", "sc"], ["m"], {}), ("Reshape", ["b", "column"], ["bc"], {}),
             ("Add", ["m", "bc"], ["y"], {})], 17)})


if __name__ == "__main__":
    main()
