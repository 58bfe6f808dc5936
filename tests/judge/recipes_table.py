#!/usr/bin/env python3
"""What the recipes give on the classifiers of INFER_TEST_DATA: accuracy, size and measured time, in
our runtime and in ONNX Runtime, beside ONNX Runtime's and NNCF's quantizers.

usage: recipes_table.py INFER_OPT INFER_BENCH [--nncf PYTHON] [--calib N] [--budget SECONDS]
                        [--recipes NAME,...] [--more FOLDER] [MODEL...]

FOLDER, as train_classifiers.py writes it, has further models (*.onnx) and their rows.npy and labels.npy.
Half of the samples, at most N, calibrate (with their labels), the others judge. Prints a row per
model and file: top-1 in ONNX Runtime (lost/gained against FP32), bytes over those of the fused FP32 file,
and time over its time with a 95 % interval: ours by `infer-bench compare` for SECONDS, ONNX Runtime's in turns,
one thread. Exits 1 when the default's time, in either runtime, lies above that of the fused FP32 file with its
whole interval, by more than 2 %, and it was written all the same; or when it is slower here or larger than `fast`
where `fast` loses no more than half a point and no time in ONNX Runtime; 77 without data."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import judging
import quantizers_side_by_side as quantizers
from judging import np, ort

TOLD_APART, MAX_DROP = 0.02, 0.005


def run(*command, codes=(0,)):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode not in codes:
        sys.stderr.write(done.stderr[-1500:])
        raise RuntimeError(f"{command[1]}: exit {done.returncode}")
    return done.returncode


def ours_ratio(args, fused, path, row, folder):
    report, input_file = os.path.join(folder, "t.json"), os.path.join(folder, "row.npy")
    np.save(input_file, row[None])
    run(args.infer_bench, "compare", fused, path, "-i", input_file, "--threads", 1, "--budget", args.budget, "--json",
        report, "-q", codes=(0, 1, 6))
    with open(report) as f:
        effect = json.load(f)["effect"]
    if not all(isinstance(x, (int, float)) for x in (effect["value"], *effect["ci95"])):
        return None  # too few starts for an interval
    return 1 + effect["value"], 1 + effect["ci95"][0], 1 + effect["ci95"][1]


def ort_ratio(fused, path, row):
    sessions = []
    for p in (fused, path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        sessions.append(ort.InferenceSession(p, options, ["CPUExecutionProvider"]))
    feeds = {sessions[0].get_inputs()[0].name: row[None]}

    def block(session, runs):
        start = time.perf_counter()
        for _ in range(runs):
            session.run(None, feeds)
        return (time.perf_counter() - start) / runs

    once = [block(s, 3) for s in sessions]
    runs, ratios, until = max(1, int(0.01 / max(once))), [], time.perf_counter() + 4
    while len(ratios) < 61 and (len(ratios) < 11 or time.perf_counter() < until):
        order = (0, 1) if len(ratios) % 2 else (1, 0)
        took = {k: block(sessions[k], runs) for k in order}
        ratios.append(took[1] / took[0])
    ratios.sort()
    low = max(0, int(len(ratios) / 2 - 0.98 * len(ratios)**0.5))  # of the median, binomial
    return ratios[len(ratios) // 2], ratios[low], ratios[len(ratios) - 1 - low]


def files_of(args, model, data, folder):
    """By name: the file, None where it was not made or, of the default, not written."""
    made = {}
    for recipe in args.recipes.split(","):
        path = os.path.join(folder, recipe + ".onnx")
        code = run(args.infer_opt, "quantize", model, "-o", path, *data, "--recipe", recipe, "--threads", 1, "-q",
                   "--json", path + ".json", codes=(0, 1, 6))
        made[recipe] = path if code == 0 else None
    name = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0].name
    others = [("onnxruntime", sys.executable, quantizers.ORT_QUANTIZER)]
    if args.nncf:
        others.append(("nncf", args.nncf, quantizers.NNCF_QUANTIZER))
    for other, python, text in others:
        path = os.path.join(folder, other + ".onnx")
        made[other] = path if quantizers.script(python, text, model, data[1], name, path) else None
    return made


def interval(r):
    return f"{r[0]:.2f} [{r[1]:.2f}, {r[2]:.2f}]"


def shared(model):
    """Of a model of INFER_TEST_DATA: its file, rows and labels."""
    (images, label_file), prepare = quantizers.MODELS[model]
    base = judging.data_folder()
    rows = prepare(np.load(os.path.join(base, "labelled", images)))
    labels = np.load(os.path.join(base, "labelled", label_file)).reshape(-1)
    return os.path.join(base, "models", model, "model.onnx"), rows, labels


def further(folder):
    """By name: the same of each model of --more."""
    if not folder:
        return {}
    rows, labels = (np.load(os.path.join(folder, name + ".npy")) for name in ("rows", "labels"))
    return {f[:-len(".onnx")]: (os.path.join(folder, f), rows, labels)
            for f in sorted(os.listdir(folder)) if f.endswith(".onnx")}


def judge(args, model, source, rows, labels, folder):
    order = np.random.default_rng(0).permutation(len(rows))[:2000]
    half = len(order) // 2
    parts = {"calib": order[:min(half, args.calib)], "eval": order[half:]}
    data = []
    for part, which in parts.items():
        for kind, values in (("", np.ascontiguousarray(rows[which], np.float32)),
                             ("-labels", labels[which].astype(np.int64))):
            path = os.path.join(folder, part + kind + ".npy")
            np.save(path, values)
            data += [f"--{part}{kind}", path]
    held, right = np.ascontiguousarray(rows[parts["eval"]], np.float32), labels[parts["eval"]]
    fused = os.path.join(folder, "fused.onnx")
    run(args.infer_opt, "fuse", source, "-o", fused, "-q")
    golden = quantizers.classes(source, held)
    print(f"| {model} | fused FP32 | {100 * (golden == right).mean():.1f} | 1 | 1 | 1 |",
          flush=True)
    found = {}
    for name, path in files_of(args, source, data, folder).items():
        if path is None:
            print(f"| | {name} | not written: fused FP32 is recommended, or it failed | | | |",
                  flush=True)
            continue
        size = os.path.getsize(path) / os.path.getsize(fused)
        ours = theirs = top1 = None
        try:
            got = quantizers.classes(path, held)
            lost = int(((golden == right) & (got != right)).sum())
            gained = int(((golden != right) & (got == right)).sum())
            top1 = f"{100 * (got == right).mean():.1f} ({lost}/{gained})"
            theirs = ort_ratio(fused, path, held[0])
            ours = ours_ratio(args, fused, path, held[0], folder)
            if ours:
                found[name] = (size, ours, theirs, (lost - gained) / len(held))
        except Exception as e:  # a file that one of them does not run
            sys.stderr.write(f"{model} {name}: {e}\n"[:500])
        print(f"| | {name} | {top1 or 'does not run'} | {size:.3f} | "
              f"{interval(ours) if ours else '-'} | {interval(theirs) if theirs else '-'} |",
              flush=True)
    return fair(model, found, expected_loss(os.path.join(folder, "balanced.onnx.json")))


def expected_loss(report):
    """What `balanced` expected `fast` to lose where that was more than its target, as text; "" else."""
    if not os.path.exists(report):
        return ""
    with open(report) as f:
        candidates = json.load(f).get("recipe", {}).get("candidates", [])
    refused = [c for c in candidates if c["name"] == "fast" and not c["holds"]]
    return f"{100 * refused[0]['drop']:.2f} % of top-1" if refused else ""


def fair(model, found, expected):
    if "balanced" not in found:
        return True
    size, took, elsewhere, _ = found["balanced"]
    faults = []
    if took[1] > 1 + TOLD_APART or size > 1:
        faults.append("slower or larger than the fused FP32 file")
    if elsewhere[1] > 1 + TOLD_APART:
        faults.append("slower than the fused FP32 file in ONNX Runtime")
    if "fast" in found:
        fast_size, fast_took, fast_elsewhere, lost = found["fast"]
        if lost <= MAX_DROP and fast_took[2] < 1 and fast_elsewhere[1] <= 1 + TOLD_APART and \
                (took[1] > fast_took[2] * (1 + TOLD_APART) or size > 1.02 * fast_size):
            if expected:
                print(f"note {model}: balanced is slower or larger than fast, which was expected to lose {expected}",
                      flush=True)
            else:
                faults.append("slower or larger than fast, which loses no accuracy")
    for fault in faults:
        print(f"FAIL {model}: balanced is {fault}", flush=True)
    return not faults


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("infer_opt")
    parser.add_argument("infer_bench")
    parser.add_argument("--nncf")
    parser.add_argument("--recipes", default="fast,balanced,best")
    parser.add_argument("--calib", type=int, default=300)
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--more")
    parser.add_argument("models", nargs="*")
    args = parser.parse_intermixed_args()
    judging.data_folder()
    print("| model | file | top-1 % (lost/gained) | bytes | time, ours | time, ONNX Runtime |\n"
          "|---|---|---|---|---|---|")
    passed = True
    more = further(args.more)
    for model in args.models or [*quantizers.MODELS, *more]:
        with tempfile.TemporaryDirectory() as folder:
            passed = judge(args, model, *(more.get(model) or shared(model)), folder) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
