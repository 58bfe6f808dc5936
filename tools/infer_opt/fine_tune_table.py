#!/usr/bin/python3
"""The accuracy that removing channels or splitting products costs, and that fine-tuning wins back (docs/pruning.md).

    tools/infer_opt/fine_tune_table.py build/release/bin/infer-opt DATA [--goals 70%,50%] [--models a,b] [--folds 5]
                                       [--steps 1000] [--flags "..."] [--work FOLDER]
    tools/infer_opt/fine_tune_table.py ... --low-rank [--goals 80%,60%]     (goals of --max-size)

Data, folds and preprocessing as prune_table.py: the samples that do not judge fit and train, without their labels, and the
answers of the folds are pooled. Each model is pruned with and without --fine-tune-steps; what a fold has measured stays in
FOLDER and is not measured again. --flags are added to the runs that train."""
import argparse
import json
import pathlib
import shlex
import subprocess

import prune_table


def way(args):
    return ["--low-rank", "--max-size"] if args.low_rank else ["--structured", "--flops"]


def measure(args, model, goal, steps, fold):
    images, labels, preprocess, parts = prune_table.MODELS[model]
    done = args.work / f"{model}.{'low_rank.' if args.low_rank else ''}{goal.strip('%')}.{steps}.{fold}.json"
    if not done.exists():
        fit, judge = prune_table.split(args.data, args.work, images, parts, fold)
        _, answers = prune_table.split(args.data, args.work, labels, parts, fold)
        command = [args.tool, "prune", args.data / f"models/{model}/model.onnx", "-o", done.with_suffix(".onnx"),
                   *way(args), goal, "--calib", fit, "--eval", judge, "--eval-labels", answers,
                   *(["--preprocess", preprocess] if preprocess else []), "--quiet", "--json", done]
        if steps:
            command += ["--fine-tune-steps", steps, *shlex.split(args.flags)]
        ran = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{model}: {ran.stderr}")
    return json.loads(done.read_text())


def pooled(args, model, goal, steps):
    """Dense top-1, the drop with its interval, SQNR, shares of the FLOPs and parameters, seconds of the training."""
    lost = gained = golden = n = 0
    decibels, flops, parameters, seconds = [], [], [], []
    for fold in range(min(args.folds, prune_table.MODELS[model][3])):
        report = measure(args, model, goal, steps, fold)
        task, s = report["accuracy"]["task"], report["low_rank" if args.low_rank else "structured"]
        lost, gained, n = lost + task["lost"], gained + task["gained"], n + task["samples"]
        golden += task["golden_top1"] * task["samples"]
        decibels.append(float(report["accuracy"]["outputs"][0]["sqnr_db"]))
        flops.append(s["flops_after"] / s["flops"])
        parameters.append(s["parameters_after"] / s["parameters"])
        seconds.append(report.get("fine_tuning", {}).get("seconds", 0))
    low, high = prune_table.tango(lost, gained, n)
    mean = [sum(v) / len(v) for v in (decibels, flops, parameters, seconds)]
    return golden / n, f"{100 * (lost - gained) / n:.1f} ({100 * low:.1f} to {100 * high:.1f})", *mean


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("--goals", default="70%,50%")
    p.add_argument("--models", default=",".join(prune_table.MODELS))
    p.add_argument("--folds", type=int, default=1)
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--low-rank", action="store_true")
    p.add_argument("--flags", default="")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/fine_tune_table"))
    args = p.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for goal in args.goals.split(","):
        print(f"\n| {way(args)[1]} {goal} | dense top-1 | drop without | SQNR dB | drop with | SQNR dB | FLOPs stay | parameters stay "
              "| training s |\n|---|---|---|---|---|---|---|---|---|")
        for model in args.models.split(","):
            golden, bare, bare_db, flops, parameters, _ = pooled(args, model, goal, 0)
            _, tuned, tuned_db, _, _, seconds = pooled(args, model, goal, args.steps)
            print(f"| {model} | {100 * golden:.1f} | {bare} | {bare_db:.1f} | {tuned} | {tuned_db:.1f} | "
                  f"{100 * flops:.1f} % | {100 * parameters:.1f} % | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
