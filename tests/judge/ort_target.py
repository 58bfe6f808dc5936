#!/usr/bin/env python3
"""What `infer-opt quantize --target ort` writes by default, beside the fused FP32 file in ONNX Runtime.

usage: ort_target.py INFER_OPT [--calib N] [--more FOLDER] [--before INFER_OPT] [MODEL...]

The classifiers of INFER_TEST_DATA, and those of FOLDER as train_classifiers.py writes it. Half of the samples, at
most N, calibrate (with their labels), the others judge. Prints a row per model: what the recipe chose, the share of
FP32's time that its cost table told, and the time that ONNX Runtime takes over that of the file of `fuse --target
ort`, in turns, one thread, with a 95 % interval of the median; top-1 lost and gained. With --before the same file
of another build. Exits 1 where an interval lies above 1 by more than 2 %, or no cost table of ONNX Runtime decided;
77 without data."""
import argparse
import json
import os
import sys
import tempfile

import judging
import quantizers_side_by_side as quantizers
import recipes_table
from judging import np

TOLD_APART = 0.02


def data_files(args, rows, labels, folder):
    order = np.random.default_rng(0).permutation(len(rows))[:2000]
    half = len(order) // 2
    parts, options = {"calib": order[:min(half, args.calib)], "eval": order[half:]}, []
    for part, which in parts.items():
        for kind, values in (("", np.ascontiguousarray(rows[which], np.float32)), ("-labels", labels[which].astype(np.int64))):
            path = os.path.join(folder, part + kind + ".npy")
            np.save(path, values)
            options += [f"--{part}{kind}", path]
    return options, np.ascontiguousarray(rows[parts["eval"]], np.float32), labels[parts["eval"]]


def quantize(tool, source, path, data):
    """(written, report)"""
    code = recipes_table.run(tool, "quantize", source, "-o", path, "--target", "ort", "--opset", "max", *data, "--threads", 1, "-q", "--json",
                             path + ".json", codes=(0, 1))
    with open(path + ".json") as f:
        return code == 0, json.load(f)


def row(name, tool, source, fused, data, held, right, folder):
    """Whether it is no slower; prints."""
    path = os.path.join(folder, "int8.onnx")
    written, report = quantize(tool, source, path, data)
    recipe = report["recipe"]
    chosen = next((c["name"] for c in recipe["candidates"] if c["chosen"]), "fast")
    told = recipe["cost"]["us"] / recipe["fused_fp32"]["us"]
    if not written:
        print(f"| {name} | {chosen}, not written: fused FP32 is recommended | {told:.2f} | 1 | |", flush=True)
        return True, recipe
    ratio = recipes_table.ort_ratio(fused, path, held[0])
    if ratio[1] > 1 + TOLD_APART:  # a suspicion is measured again
        ratio = recipes_table.ort_ratio(fused, path, held[0])
    golden, got = quantizers.classes(source, held), quantizers.classes(path, held)
    lost, gained = int(((golden == right) & (got != right)).sum()), int(((golden != right) & (got == right)).sum())
    print(f"| {name} | {chosen} | {told:.2f} | {recipes_table.interval(ratio)} | {lost}/{gained} |", flush=True)
    return ratio[1] <= 1 + TOLD_APART, recipe


def judge(args, model, source, rows, labels, folder):
    data, held, right = data_files(args, rows, labels, folder)
    fused = os.path.join(folder, "fused.onnx")
    recipes_table.run(args.infer_opt, "fuse", source, "-o", fused, "--target", "ort", "-q")
    if args.before:
        row(model + ", before", args.before, source, fused, data, held, right, folder)
    good, recipe = row(model, args.infer_opt, source, fused, data, held, right, folder)
    if recipe["cost_table"].get("runtime") != "onnxruntime":
        print(f"FAIL {model}: decided by {recipe['cost_table']['name']}")
        return False
    if not good:
        print(f"FAIL {model}: slower than the fused FP32 file", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("infer_opt")
    parser.add_argument("--calib", type=int, default=300)
    parser.add_argument("--more")
    parser.add_argument("--before")
    parser.add_argument("models", nargs="*")
    args = parser.parse_intermixed_args()
    judging.data_folder()
    print("| model | chosen | told | time, ONNX Runtime | lost/gained |\n|---|---|---|---|---|")
    more, passed = recipes_table.further(args.more), True
    for model in args.models or [*quantizers.MODELS, *more]:
        with tempfile.TemporaryDirectory() as folder:
            passed = judge(args, model, *(more.get(model) or recipes_table.shared(model)), folder) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
