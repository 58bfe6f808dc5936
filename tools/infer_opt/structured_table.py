#!/usr/bin/python3
"""Cost and saving of trained classifiers that lose channels, or whose products are split in two (docs/pruning.md).

    tools/infer_opt/structured_table.py build/release/bin/infer-opt DATA [--goals 70%,50%] [--models a,b] [--work FOLDER]
    tools/infer_opt/structured_table.py ... --low-rank [--goals 80%,60%]     (goals of --max-size)
    tools/infer_opt/structured_table.py ... --times

Data, split and preprocessing as prune_table.py (one fold). The first form prunes and prints accuracy, FLOPs and bytes;
what is measured stays in FOLDER. With --times the files of the first form are timed beside the dense models, in turns, on
one thread: in our runtime by `infer-opt compare --min-speedup`, in ONNX Runtime where this Python has onnxruntime and
numpy."""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import prune_table

PAIRS, LEAST_SECONDS = 31, 1.5


def paths(args, model, goal):
    stem = args.work / f"{model}.{'low_rank' if args.low_rank else 'structured'}.{goal.strip('%')}"
    return stem.with_suffix(stem.suffix + ".onnx"), stem.with_suffix(stem.suffix + ".json")


def roles(args, model):
    images, labels, preprocess, parts = prune_table.MODELS[model]
    fit, judge = prune_table.split(args.data, args.work, images, parts, 0)
    _, answers = prune_table.split(args.data, args.work, labels, parts, 0)
    return fit, judge, answers, ["--preprocess", preprocess] if preprocess else []


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")


def way(args):
    return ["--low-rank", "--max-size"] if args.low_rank else ["--structured", "--flops"]


def prune(args, model, goal):
    small, report = paths(args, model, goal)
    if not report.exists():
        fit, judge, answers, preprocess = roles(args, model)
        run([args.tool, "prune", args.data / f"models/{model}/model.onnx", "-o", small, *way(args), goal,
             "--calib", fit, "--eval", judge, "--eval-labels", answers, *preprocess, "--quiet", "--json", report])
    return json.loads(report.read_text())


def accuracy_row(args, model, goal):
    report = prune(args, model, goal)
    task, s = report["accuracy"]["task"], report["low_rank" if args.low_rank else "structured"]
    lost, gained, n = task["lost"], task["gained"], task["samples"]
    low, high = prune_table.tango(lost, gained, n)
    return [model, f"{100 * task['golden_top1']:.1f}",
            f"{100 * (lost - gained) / n:.1f} ({100 * low:.1f} to {100 * high:.1f})",
            f"{float(report['accuracy']['outputs'][0]['sqnr_db']):.1f}",
            f"{100 * s['flops_after'] / s['flops']:.1f} %",
            f"{100 * s['parameters_after'] / s['parameters']:.1f} %",
            f"{100 * report['size']['bytes'] / report['size']['bytes_before']:.1f} %"]


def times_ours(args, dense, small, judge, how):
    report = args.work / "times.json"
    run([args.tool, "compare", dense, small, "--data", judge, *(["--preprocess", how] if how else []), "--threads",
         1, "--min-speedup", "0.01x", "--quiet", "--json", report])
    s = json.loads(report.read_text())["latency"]["speedup"]
    low, high = s["median_ci95"]
    return f"{s['median']:.2f} ({low:.2f} to {high:.2f})"


def times_ort(dense, small):
    try:
        import numpy as np
        import onnxruntime as ort
    except ImportError:
        return "not measured"
    sessions = []
    for path in (dense, small):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        sessions.append(ort.InferenceSession(str(path), options, ["CPUExecutionProvider"]))
    feeds = {}
    for spec in sessions[0].get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in spec.shape]
        feeds[spec.name] = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    ratios, begin = [], time.monotonic()
    for pair in range(100000):
        if pair > PAIRS and time.monotonic() - begin > LEAST_SECONDS:
            break
        took = [0.0, 0.0]
        for which in (pair % 2, 1 - pair % 2):
            start = time.perf_counter()
            sessions[which].run(None, feeds)
            took[which] = time.perf_counter() - start
        if pair > 2:
            ratios.append(took[0] / took[1])
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(ratios):.2f} (quartiles {low:.2f}, {high:.2f})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("--goals", default="70%,50%")
    p.add_argument("--models", default=",".join(prune_table.MODELS))
    p.add_argument("--low-rank", action="store_true")
    p.add_argument("--times", action="store_true")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/structured_table"))
    args = p.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for goal in args.goals.split(","):
        if args.times:
            print(f"\n| {way(args)[1]} {goal} | times as fast, ours | times as fast, ONNX Runtime |\n|---|---|---|")
        else:
            print(f"\n| {way(args)[1]} {goal} | dense top-1 | drop | SQNR dB | FLOPs stay | parameters stay | file |\n"
                  "|---|---|---|---|---|---|---|")
        for model in args.models.split(","):
            if args.times:
                dense, (small, _) = args.data / f"models/{model}/model.onnx", paths(args, model, goal)
                _, judge, _, _ = roles(args, model)
                row = [model, times_ours(args, dense, small, judge, prune_table.MODELS[model][2]), times_ort(dense, small)]
            else:
                row = accuracy_row(args, model, goal)
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
