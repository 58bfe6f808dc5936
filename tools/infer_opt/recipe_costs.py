#!/usr/bin/env python3
"""Fits the prices of the cost table by which `infer-opt quantize` weighs layers in FP32 against
INT8 (quant/recipe/cost_table.h).

usage: recipe_costs.py REPORT.json... > costs.json

Each REPORT is of `infer-bench run MODEL --threads 1 --layers --json REPORT`: of models as `fuse`
writes them and of the same in INT8 (`quantize --recipe none`). A step's time is explained by a launch, its operations
and the bytes that it moves; what the processor spent on a run (samples_cpu_ms) is shared out among the steps as the
clock saw them, so that what other processes took is left out. The same families as FamilyOf in quant/recipe/cost_table.cc. Tells on
stderr how far the prices are off, and the ratio of INT8 to FP32 by model; prints a table for
`quantize --cost-table`."""
import collections
import json
import os
import sys

import numpy as np

QDQ = ("QuantizeLinear", "DequantizeLinear")
COLUMNS = ("launch_us", "mflop_us", "kb_us")


def conv_family(kernel, kind):
    if "winograd" in kernel:
        return "winograd"
    if "dw" in kernel or "depthwise" in kernel or "jit_int8" in kernel:
        return f"depthwise {kind}"
    if "amx" in kernel:
        return "conv amx"
    if "conv_1x1" in kernel or "gemm" in kernel or "bytes" in kernel:
        return f"conv1x1 {kind}"
    if kernel.startswith("own:"):
        return f"small conv {kind}"
    return f"conv {kind}"


def family_of(op, kernel, precision):
    parts = op.split("+")
    computing = [o for o in parts if o not in QDQ]
    main = computing[0] if computing else parts[0]
    kind = "int8" if precision.endswith("s32") or parts[0] == "DequantizeLinear" and computing else "f32"
    if kernel == "view":
        return None
    if kernel == "reference":
        return "reference"
    if ":ref:" in kernel:
        return "slow move"
    if "attention" in kernel:
        return "attention int8" if "DequantizeLinear" in parts else "attention f32"
    if "Conv" in parts or "ConvTranspose" in parts:
        return conv_family(kernel, kind)
    if "MatMul" in parts or "Gemm" in parts:
        return f"product {kind}"
    if not computing:
        return "quantize"
    if kernel.startswith("own:runs"):
        return "move"
    if kernel.startswith(("own:strided", "own:rows", "own:gather", "own:index", "own:pixels")):
        return "strided move"
    if main.endswith("Pool"):
        return f"pool {kind}"
    if kernel.startswith("own:table"):
        return "table"
    if kernel.startswith("own:chain"):
        return "chain"
    return f"elements {kind}"


def steps_of(path):
    with open(path) as f:
        for result in json.load(f)["results"]:
            layers, cpu = result["layers"], sorted(result.get("samples_cpu_ms", []))
            clock = sum(s["ms"] for s in layers)
            share = min(1, cpu[len(cpu) // 10] / clock) if cpu and clock > 0 else 1
            for s in layers:
                cost = s["cost"]
                yield (family_of(s["op"], s["kernel"], s["precision"]), s["ms"] * share * 1e3,
                       (1, cost.get("flops", 0) / 1e6,
                        (cost.get("bytes_read", 0) + cost.get("bytes_written", 0)) / 1e3))


def fitted(amounts, us, totals):
    """Prices of 0 or more with the least sum of absolute errors, each as a share of its network's time: what
    counts is the sum of a network, and steps that others disturbed are far out."""
    best, found = None, None
    share = 1 / totals
    for columns in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [1], [2]):
        weight = share.copy()
        for _ in range(40):
            x, *_ = np.linalg.lstsq(amounts[:, columns] * weight[:, None], us * weight, rcond=None)
            error = np.abs(amounts[:, columns] @ x - us) * share
            weight = share / np.sqrt(np.maximum(error, 0.02 * np.median(us * share) + 1e-12))
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
        total = sum(us for _, us, _ in steps)
        for family, us, amounts in steps:
            if family and us > 0.05:
                families[family].append((us, amounts, total))
    # Steps on reference kernels of these models are values of shapes, which a plan knows: free.
    prices = {"reference": np.array([0, 50, 0.5])}
    families.pop("reference", None)
    for family, cases in sorted(families.items()):
        us, amounts = np.array([c[0] for c in cases]), np.array([c[1] for c in cases])
        prices[family] = fitted(amounts, us, np.array([c[2] for c in cases]))
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
