#!/usr/bin/python3
"""Is a model slower fused than as it came? Neither may be rewritten while it is loaded.

    tests/bench/fused_speed.py BIN [MODEL.onnx or a name of `infer-bench zoo`]... [--budget 4] [--limit 0.03]

Without models: those of INFER_TEST_DATA (77, a skip of ctest, where it is not set). `infer-bench compare` measures both in turns and tells the
ratio with its 95 % interval; the end is 1 where the whole interval lies above the limit. A kernel that computes what fuse appends by plain loops
passes every check of numbers."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def fused_ratio(tools, model, budget, folder):
    """(ratio, low, high) of the fused model's time less 1, or a reason why there is none."""
    fused, report = folder / "fused.onnx", folder / "compare.json"
    done = subprocess.run([tools / "infer-opt", "fuse", model, "-o", fused, "--target", "infer", "--no-verify", "-q"], capture_output=True, text=True)
    if done.returncode:
        return f"fuse ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    done = subprocess.run([tools / "infer-bench", "compare", model, fused, "--rewrites", "none", "--threads", "1", "--budget", str(budget),
                           "--json", report, "-q"], capture_output=True, text=True)
    if not report.exists():
        return f"compare ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    effect = json.loads(report.read_text())["effect"]
    report.unlink()
    if not effect or effect["value"] is None:
        return "compare gave no ratio"
    if not all(isinstance(bound, (int, float)) for bound in effect["ci95"]):
        return "compare gave an interval without an end"
    return effect["value"], *effect["ci95"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--budget", type=float, default=4, help="seconds of a model")
    parser.add_argument("--limit", type=float, default=0.03)
    args = parser.parse_args()
    models = args.models
    if not models:
        if "INFER_TEST_DATA" not in os.environ:
            print("INFER_TEST_DATA is not set: no model was measured")
            sys.exit(77)
        models = sorted(map(str, pathlib.Path(os.environ["INFER_TEST_DATA"]).glob("models/*/model.onnx")))
    slower, untold = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in models:
            path = pathlib.Path(model)
            if not path.exists():
                path = folder / f"{model}.onnx"
                subprocess.run([args.tools / "infer-bench", "zoo", model, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            told = fused_ratio(args.tools, path, args.budget, folder)
            if isinstance(told, str):
                print(f"{model}: {told}", flush=True)
                untold += 1
                continue
            ratio, low, high = told
            print(f"{model}: {ratio:+.1%} ({low:+.1%} to {high:+.1%})", flush=True)
            if low > args.limit:
                slower.append(model)
    print(f"{len(models)} models, {untold} not measured, slower fused: {slower or 'none'}")
    sys.exit(1 if slower else 0)


main()
