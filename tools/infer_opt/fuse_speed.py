#!/usr/bin/env python3
"""What `infer-opt fuse` is worth: latency before and after, in ONNX Runtime and on our cpu backend.

usage: fuse_speed.py [--seconds S] [--no-ours] INFER_OPT MODEL...

Every model is fused for both targets. ONNX Runtime, with its own rewrites, runs the three files in turns on
one thread; of each target the table has the median of the ratios to the model as it came, with its 95 %
interval, and the largest error. Our cpu backend runs the file as it came and the one for --target onnx in turns of a
process each; of those the table has the median of the ratios of the least latencies, and their range. A Python with numpy, onnx and onnxruntime; nothing else should run. The table of
docs/fusion.md is its output.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

MIN_RUNS = 11
TURNS = 5
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def inputs_of(session):
    r = np.random.default_rng(0)
    feeds = {}
    for spec in session.get_inputs():
        dims = [d if isinstance(d, int) and d > 0 else 1 for d in spec.shape]
        dtype = INTEGERS.get(spec.type)
        feeds[spec.name] = (r.integers(0, 2, dims).astype(dtype) if dtype
                            else r.normal(size=dims).astype(np.float32))
    return feeds


def interval(samples):
    r = np.random.default_rng(0)
    medians = np.median(r.choice(samples, (1000, len(samples))), axis=1)
    return np.quantile(medians, [0.025, 0.975])


def in_onnxruntime(files, seconds):
    """[(median ms, ratios to the first file, error)]"""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    sessions = [ort.InferenceSession(f, options, ["CPUExecutionProvider"]) for f in files]
    feeds = inputs_of(sessions[0])
    results = [s.run(None, feeds) for s in sessions]
    errors = [max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(results[0], r))
              for r in results]
    times = [[] for _ in sessions]
    start, runs = time.time(), 0
    while runs < MIN_RUNS or time.time() - start < seconds:
        runs += 1
        order = range(len(sessions)) if runs % 2 else reversed(range(len(sessions)))
        for i in order:
            begin = time.perf_counter()
            sessions[i].run(None, feeds)
            times[i].append(1e3 * (time.perf_counter() - begin))
    times = np.array(times)
    return [(np.median(t), t / times[0], e) for t, e in zip(times, errors)]


def ratio_text(ratios):
    low, high = interval(ratios)
    return "%.3f [%.3f, %.3f]" % (np.median(ratios), low, high)


def fused(infer_opt, model, arguments, work):
    report = os.path.join(work, "report.json")
    command = [infer_opt, "fuse", model, "-q", "--opset", "max", "--threads", "1", "--json", report, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: exit %d: %s" % (" ".join(command), done.returncode, done.stderr.strip()))
    with open(report) as f:
        return json.load(f)


def in_ours(infer_bench, files):
    """(median ms of the first file, ratios of the others to it by turn)"""
    least = []
    for _ in range(TURNS):
        turn = []
        for path in files:
            done = subprocess.run([infer_bench, "run", path, "--threads", "1", "--min-time", "0.5", "--max-time", "2",
                                   "-q", "--json", "-"], capture_output=True, text=True)
            if done.returncode:
                sys.exit("%s: exit %d: %s" % (path, done.returncode, done.stderr.strip()))
            turn.append(json.loads(done.stdout)["results"][0]["latency_ms"]["min"])
        least.append(turn)
    least = np.array(least)
    return np.median(least[:, 0]), least[:, 1] / least[:, 0]


def megabytes(statistics):
    cost = statistics["cost"]
    return (cost["bytes_read"] + cost["bytes_written"]) / 1e6


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("infer_opt")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--no-ours", action="store_true")
    args = parser.parse_args()
    print("| model | nodes | MB moved | ONNX Runtime, ms | onnx / before | ort / before | error | ours, ms | "
          "after / before |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for model in args.models:
        with tempfile.TemporaryDirectory() as work:
            files = [model]
            for target in ("onnx", "ort"):
                files.append(os.path.join(work, target + ".onnx"))
                report = fused(args.infer_opt, model, ["-o", files[-1], "--target", target, "--no-verify"], work)
            before, after = report["optimize"]["before"], report["optimize"]["after"]
            (ms, _, _), onnx, named = in_onnxruntime(files, args.seconds)
            ours = ("", "")
            if not args.no_ours:
                bench = os.path.join(os.path.dirname(args.infer_opt), "infer-bench")
                least, ratios = in_ours(bench, files[:2])
                ours = ("%.2f" % least, "%.3f [%.3f, %.3f]" % (np.median(ratios), min(ratios), max(ratios)))
            print("| %s | %d → %d | %.1f → %.1f | %.2f | %s | %s | %.0e | %s | %s |" % (
                os.path.splitext(os.path.basename(model))[0], before["nodes"], after["nodes"],
                megabytes(before), megabytes(after), ms, ratio_text(onnx[1]), ratio_text(named[1]),
                max(onnx[2], named[2]), *ours), flush=True)


if __name__ == "__main__":
    main()
