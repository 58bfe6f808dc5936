#!/usr/bin/env python3
"""Prices of attention for the cost table of `infer-opt quantize` (quant/recipe/cost_table.h), from layers of many shapes.

usage: attention_costs.py --bin DIR [--isa NAME]

Networks have attention in one or two shapes each, from which three prices do not follow: recipe_costs.py fitted 46 networks, and
its prices of attention were off by a factor 10 on others. Here it is a layer by itself: projections of x [batch, tokens, heads * size],
scores, Softmax, values, in FP32 as `fuse` writes it and in INT8 (`quantize --recipe none`), each run by `infer-bench run --layers` on
one thread. Prints, by shape, microseconds of the attention step, those told by the prices found, and the prices.
--isa avx2 holds the kernels to those of a processor without VNNI."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print("%s: start it with a Python that has numpy and onnx (tools/setup.sh --judges)" % e)
    sys.exit(77)

import recipe_costs

# batch (windows), heads, tokens, size of a head: of text, images, windows of images and clips, speech, and small ones.
SHAPES = [(1, 12, 197, 64), (1, 12, 128, 64), (1, 12, 50, 64), (1, 3, 197, 64), (64, 3, 49, 32), (16, 6, 49, 32), (4, 12, 49, 32),
          (16, 4, 98, 16), (8, 4, 98, 16), (1, 8, 512, 64), (1, 2, 1024, 64), (1, 16, 257, 80), (1, 4, 64, 16), (2, 8, 16, 32),
          (1, 4, 784, 32), (1, 8, 300, 32)]


def layer(batch, heads, tokens, size):
    width, random = heads * size, np.random.default_rng(0)
    constants = {"by_heads": np.array([0, 0, heads, size]), "together": np.array([0, 0, width]),
                 "scale": np.array(size ** -0.5, "f4")}
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        constants["w" + name] = (random.standard_normal((width, width)) / width ** 0.5).astype("f4")
        nodes += [helper.make_node("MatMul", ["x", "w" + name], [name + "_rows"]),
                  helper.make_node("Reshape", [name + "_rows", "by_heads"], [name + "_heads"]),
                  helper.make_node("Transpose", [name + "_heads"], [name], perm=perm)]
    nodes += [helper.make_node("Mul", ["q", "scale"], ["scaled"]), helper.make_node("MatMul", ["scaled", "k"], ["scores"]),
              helper.make_node("Softmax", ["scores"], ["shares"], axis=-1), helper.make_node("MatMul", ["shares", "v"], ["seen"]),
              helper.make_node("Transpose", ["seen"], ["rows"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["rows", "together"], ["y"])]
    of = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, tokens, width])
    graph = helper.make_graph(nodes, "attention", [of("x")], [of("y")],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(bin_dir, model, folder, environment):
    """Microseconds and amounts of the attention step, in FP32 and in INT8."""
    def run(*command):
        subprocess.run([str(c) for c in command], check=True, capture_output=True, env=environment)
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    onnx.save(model, folder / "m.onnx")
    samples = 4 if dims[0] == 1 else 2 * dims[0]
    np.savez(folder / "x.npz", x=np.random.default_rng(1).standard_normal([samples, *dims[1:]]).astype("f4"))
    as_target = ["--target", "infer", "--no-verify"]
    run(bin_dir / "infer-opt", "fuse", folder / "m.onnx", "-o", folder / "f32.onnx", "--opset", "max", *as_target)
    run(bin_dir / "infer-opt", "quantize", folder / "m.onnx", "-o", folder / "int8.onnx", "--recipe", "none", "--calib",
        folder / "x.npz", *as_target)
    for kind in ("f32", "int8"):
        report = folder / f"{kind}.json"
        run(bin_dir / "infer-bench", "run", folder / f"{kind}.onnx", "--threads", 1, "--cold", 0, "--runs", 20, "--layers", "--json",
            report)
        steps = [s for s in recipe_costs.steps_of(report) if s[0] == f"attention {kind}"]
        if len(steps) != 1:
            sys.exit(f"{dims} in {kind}: {len(steps)} attention steps")
        yield kind, steps[0][1], steps[0][2]


def fitted(amounts, us):
    """Prices of 0 or more with the least squares of log(told / took): a factor too much weighs as one too little."""
    best, found = None, None
    for columns in ([0, 1, 2], [1, 2], [0, 1], [1]):
        part = amounts[:, columns]
        x = np.abs(np.linalg.lstsq(part / us[:, None], np.ones(len(us)), rcond=None)[0]) + 1e-9
        for _ in range(200):
            told = part @ x
            x = np.maximum(x + 0.5 * np.linalg.lstsq(part / told[:, None], np.log(us / told), rcond=None)[0], 0)
        error = (np.log(part @ x / us) ** 2).sum()
        if best is None or error < 0.98 * best:
            best, found = error, np.zeros(3)
            found[columns] = x
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of infer-opt and infer-bench")
    parser.add_argument("--isa", help="INFER_MAX_ISA of the runs")
    args = parser.parse_args()
    environment = {**os.environ, **({"INFER_MAX_ISA": args.isa} if args.isa else {})}
    found = {"f32": [], "int8": []}
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            for kind, us, amounts in measured(args.bin, layer(*shape), pathlib.Path(folder), environment):
                found[kind].append((shape, us, amounts))
    for kind, cases in found.items():
        us, amounts = np.array([c[1] for c in cases]), np.array([c[2] for c in cases])
        prices = fitted(amounts, us)
        for (shape, took, _), told in zip(cases, amounts @ prices):
            print(f"attention {kind:5} {'x'.join(map(str, shape)):14} {took:8.0f} us, told {told:8.0f} ({told / took:.2f})")
        print(f"attention {kind}", dict(zip(recipe_costs.COLUMNS, (float(f"{p:.4g}") for p in prices))))


if __name__ == "__main__":
    main()
