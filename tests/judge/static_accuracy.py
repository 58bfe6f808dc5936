#!/usr/bin/env python3
"""Static INT8 of every shared model with float layers that is no labelled classifier: how far its
outputs lie from FP32's, in our runtime and in ONNX Runtime.

usage: static_accuracy.py INFER_OPT [--recipe NAME]... [--calib N] [--eval N] [--keep DIR]
                          [--more OPTIONS] [MODEL...]

Calibrates on N samples, judges on others (model_data.py makes both). Prints a row per model and
recipe: SQNR of the worst output in both runtimes, the metric of the task where there is one (ONNX
Runtime's outputs), layers by precision, the file's bytes beside those of FP32, and what is allowed:
0.27 of the weights that were quantized, the rest as it was, 300 bytes for each Q/DQ pair. Exits 1
when SQNR is below 25 dB and the metric loses more than 0.5 points (or there is none), when the
runtimes differ by more than 1 dB below 40, or when the file is larger than that; 77 without data. A file that is not
written since the command measures that the fused FP32 one is no worse is told and is no fault."""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

import judging
import model_data
from judging import np, onnx

LEAST_DB, MOST_LOST, PAIR_BYTES, WEIGHT_SHARE = 25, 0.5, 300, 0.27


def outputs(path, data):
    """By sample: the outputs. Arrays of the input's rank are rows of a batch, else whole inputs."""
    session = judging.session_of(path, True)
    rank = {i.name: len(i.shape) for i in session.get_inputs()}
    count = len(next(iter(data.values())))
    return [session.run(None, {k: v[i:i + 1] if v.ndim == rank[k] else v[i]
                               for k, v in data.items()}) for i in range(count)]


def worst_db(golden, got):
    worst = float("inf")
    for k in range(len(golden[0])):
        if not np.issubdtype(golden[0][k].dtype, np.floating):
            continue
        signal = sum(float((g[k].astype(np.float64)**2).sum()) for g in golden)
        noise = sum(float(((g[k].astype(np.float64) - c[k])**2).sum())
                    for g, c in zip(golden, got))
        if noise > 0:
            worst = min(worst, 10 * np.log10(signal / noise) if signal > 0 else -np.inf)
    return worst


def allowed_bytes(source, target):
    """Of the file: the weights that are quantized by their share, everything else as it was."""
    graph = onnx.load(target).graph
    pairs = [n for n in graph.node if n.op_type == "DequantizeLinear"]
    codes = {n.input[0] for n in pairs}
    count = sum(int(np.prod(t.dims)) for t in graph.initializer
                if t.name in codes and t.data_type in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8))
    return os.path.getsize(source) - 4 * count * (1 - WEIGHT_SHARE) + PAIR_BYTES * len(pairs)


def recommends_fp32(report):
    """Whether the command measured that its file gains nothing, and says so."""
    with open(report) as f:
        return json.load(f).get("worth", {}).get("recommended") == "fused-fp32"


def others(data, calib):
    """The samples of `data` that are not in `calib`: where inputs are few small integers, some are."""
    def keys(of):
        count = len(next(iter(of.values())))
        return [tuple(of[name][i].tobytes() for name in sorted(of)) for i in range(count)]

    seen = set(keys(calib))
    kept = [i for i, key in enumerate(keys(data)) if key not in seen]
    return {name: values[kept] for name, values in data.items()}


def judge(args, model, recipe, folder):
    source = os.path.join(judging.data_folder(), "models", model, "model.onnx")
    calib = model_data.samples(model, source, args.calib, 1)
    if calib is None:
        return None
    held = others(model_data.samples(model, source, args.eval, 2), calib)
    files = {name: os.path.join(folder, name) for name in ("calib.npz", "eval.npz", "r.json")}
    np.savez(files["calib.npz"], **calib)
    np.savez(files["eval.npz"], **held)
    target = os.path.join(args.keep or folder, f"{model}.{recipe}.onnx")
    made = subprocess.run([args.infer_opt, "quantize", source, "-o", target, "--opset", "max", "--calib",
                           files["calib.npz"], "--eval", files["eval.npz"], "--recipe", recipe,
                           "--json", files["r.json"], "--threads", str(args.threads), "-q",
                           *shlex.split(args.more)],
                          capture_output=True, text=True)
    if made.returncode == 4:  # nothing to quantize
        return None
    if made.returncode == 1 and recommends_fp32(files["r.json"]):
        print(f"| {model} | {recipe} | not written: the fused FP32 file is recommended |", flush=True)
        return True
    if made.returncode != 0:
        print(f"| {model} | {recipe} | failed: {made.stderr.strip()[-200:]} |")
        return False
    with open(files["r.json"]) as f:
        whole = json.load(f)
    report = whole["quantization"]
    ours = min((float(o["sqnr_db"]) for o in whole["accuracy"]["outputs"]
                if o.get("sqnr_db") is not None), default=float("inf"))
    golden, got = outputs(source, held), outputs(target, held)
    theirs = worst_db(golden, got)
    metric, lost = "", float("inf")
    if model in model_data.METRICS:
        metric, lost = model_data.METRICS[model](golden, got)
    kinds = [l["precision"] for l in report["layers"] if l["quantizable"]]
    stored = sum(l["precision"] == "int8-weights" for l in report["layers"])
    size, most = os.path.getsize(target), allowed_bytes(source, target)
    faults = []
    if theirs < LEAST_DB and lost > MOST_LOST:
        faults.append("accuracy")
    if min(ours, theirs) < 40 and abs(ours - theirs) > 1:
        faults.append("runtimes differ")
    if size > most:
        faults.append("size")
    print(f"| {model} | {recipe} | {ours:.1f} | {theirs:.1f} | {metric} | {kinds.count('int8')} of "
          f"{len(kinds)} | {stored} | {size / os.path.getsize(source):.3f} | "
          f"{size / most:.3f} | {whole['recipe']['seconds']:.0f} | {', '.join(faults)} |",
          flush=True)
    return not faults


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("infer_opt")
    parser.add_argument("--recipe", action="append")
    parser.add_argument("--calib", type=int, default=32)
    parser.add_argument("--eval", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--more", default="", help="options for infer-opt quantize")
    parser.add_argument("models", nargs="*")
    args = parser.parse_intermixed_args()
    folder = os.path.join(judging.data_folder(), "models")
    print("| model | recipe | dB | dB, ONNX Runtime | task | INT8 layers | int8-weights | of FP32's "
          "bytes | of the allowed | s | faults |\n|---|---|---|---|---|---|---|---|---|---|---|")
    passed = True
    for model in args.models or sorted(os.listdir(folder)):
        for recipe in args.recipe or ["balanced", "best"]:
            with tempfile.TemporaryDirectory() as work:
                passed = judge(args, model, recipe, work) is not False and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
