#!/usr/bin/env python3
"""Fits the prices of the cost table by which `infer-opt quantize` weighs layers in FP32 against
INT8 (quant/recipe/cost_table.h).

usage: recipe_costs.py REPORT.json... > costs.json

Each REPORT is of `infer-bench run MODEL --threads 1 --layers --json REPORT`: of models as `fuse`
writes them and of the same in INT8 (`quantize --recipe none`). A step's time is explained by a launch, its operations
and the bytes that it moves; the relative error is made small, reweighted until far steps count as in
a sum of absolute errors. The same families as FamilyOf in quant/recipe/cost_table.cc. Tells on
stderr how far the prices are off, and the ratio of INT8 to FP32 by model; prints a table for
`quantize --cost-table`."""
import collections
import json
import os
import sys

import numpy as np

QDQ = ("QuantizeLinear", "DequantizeLinear")
MOVES = ("own:runs", "own:strided", "own:rows", "own:gather", "own:index", "own:pixels")
COLUMNS = ("launch_us", "mflop_us", "kb_us")


def family_of(op, kernel, precision):
    parts = op.split("+")
    main = next((o for o in parts if o not in QDQ), parts[0])
    kind = "int8" if precision.endswith("s32") or parts[0] == "DequantizeLinear" and \
        main not in QDQ else "f32"
    if kernel == "view":
        return None
    if kernel == "reference":
        return "reference"
    if ":ref:" in kernel:
        return "slow move"
    if "attention" in kernel:
        return "attention int8" if "vnni" in kernel else "attention f32"
    if main in ("Conv", "ConvTranspose"):
        if "winograd" in kernel:
            return "winograd"
        if "dw" in kernel or "depthwise" in kernel or "jit_int8" in kernel:
            return f"depthwise {kind}"
        if "conv_1x1" in kernel or "gemm" in kernel or "bytes" in kernel:
            return f"conv1x1 {kind}"
        return f"conv {kind}"
    if main in ("MatMul", "Gemm"):
        return f"product {kind}"
    if main in QDQ:
        return "quantize"
    if kernel.startswith(MOVES):
        return "move"
    return f"elements {kind}"


def steps_of(path):
    with open(path) as f:
        for result in json.load(f)["results"]:
            for s in result["layers"]:
                cost = s["cost"]
                yield (family_of(s["op"], s["kernel"], s["precision"]), s["ms"] * 1e3,
                       (1, cost.get("flops", 0) / 1e6,
                        (cost.get("bytes_read", 0) + cost.get("bytes_written", 0)) / 1e3))


def fitted(amounts, us):
    best, found = None, None
    for columns in ([0, 1, 2], [0, 1], [0, 2], [0]):
        weight = 1 / us
        for _ in range(80):
            x, *_ = np.linalg.lstsq(amounts[:, columns] * weight[:, None], us * weight, rcond=None)
            predicted = np.maximum(amounts[:, columns] @ x, 1e-3)
            error = np.abs(predicted - us) / np.sqrt(predicted * us)
            weight = 1 / np.sqrt(predicted * us) / np.sqrt(np.maximum(error, 0.05))
        if (x < 0).any():
            continue
        if best is None or error.sum() < 0.98 * best:
            best, found = error.sum(), np.zeros(3)
            found[columns] = x
    return found


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    reports = {path: list(steps_of(path)) for path in sys.argv[1:]}
    families = collections.defaultdict(list)
    for steps in reports.values():
        for family, us, amounts in steps:
            if family and us > 0.05:
                families[family].append((us, amounts))
    # Steps on reference kernels of these models are values of shapes, which a plan knows: free.
    prices = {"reference": np.array([0, 50, 0.5])}
    families.pop("reference", None)
    for family, cases in sorted(families.items()):
        us, amounts = np.array([c[0] for c in cases]), np.array([c[1] for c in cases])
        prices[family] = fitted(amounts, us)
        error = np.abs(amounts @ prices[family] / us - 1)
        print(f"{family:16} {len(cases):5} steps, median |error| {np.median(error):.2f}",
              file=sys.stderr)
    for path, steps in reports.items():
        took = sum(s[1] for s in steps)
        told = sum(float(np.dot(prices[f], a)) for f, _, a in steps if f in prices)
        print(f"{os.path.basename(path):40} {took:10.1f} us, told {told:10.1f}", file=sys.stderr)
    json.dump({"schema": "infer-opt/cost-table@1",
               "prices": {f: {c: float(f"{v:.4g}") for c, v in zip(COLUMNS, p)}
                          for f, p in prices.items()}}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
