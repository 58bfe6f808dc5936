#!/usr/bin/python3
"""The accuracy that INT8 costs, and that fine-tuning of the codes wins back (docs/quantization.md).

    tools/infer_opt/tuned_codes_table.py build/release/bin/infer-opt DATA [--models a,b] [--folds 5] [--steps 500]
                                         [--flags "--recipe none"] [--train "..."] [--work FOLDER]

Data, folds and preprocessing as prune_table.py: the samples that do not judge calibrate and train, without their labels, and
the answers of the folds are pooled. --flags are of both runs, --train of the one that trains. What a fold has measured stays
in FOLDER and is not measured again."""
import argparse
import hashlib
import json
import pathlib
import shlex
import subprocess

import prune_table


def measure(args, model, steps, fold):
    images, labels, preprocess, parts = prune_table.MODELS[model]
    flags = shlex.split(args.flags) + (["--fine-tune-steps", str(steps), *shlex.split(args.train)] if steps else [])
    key = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12]
    done = args.work / f"{model}.{key}.{fold}.json"
    if not done.exists():
        fit, judge = prune_table.split(args.data, args.work, images, parts, fold)
        _, answers = prune_table.split(args.data, args.work, labels, parts, fold)
        source = args.models_from / f"{model}.onnx" if args.models_from else args.data / f"models/{model}/model.onnx"
        command = [args.tool, "quantize", source, "-o", done.with_suffix(".onnx"), "--calib", fit, "--eval", judge,
                   "--eval-labels", answers, *(["--preprocess", preprocess] if preprocess else []), *flags, "--quiet",
                   "--keep-failed", "--json", done]
        ran = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if ran.returncode not in (0, 1) or not done.exists():
            raise SystemExit(f"{model}: {ran.stderr}")
    return json.loads(done.read_text())


def pooled(args, model, steps):
    """Top-1 of FP32, the drop with its interval, SQNR, the reports of the training."""
    lost = gained = golden = n = 0
    decibels, tuned = [], []
    for fold in range(min(args.folds, prune_table.MODELS[model][3])):
        report = measure(args, model, steps, fold)
        task = report["accuracy"]["task"]
        lost, gained, n = lost + task["lost"], gained + task["gained"], n + task["samples"]
        golden += task["golden_top1"] * task["samples"]
        decibels.append(float(report["accuracy"]["outputs"][0]["sqnr_db"]))
        tuned.append(report.get("fine_tuning"))
    low, high = prune_table.tango(lost, gained, n)
    drop = f"{100 * (lost - gained) / n:.1f} ({100 * low:.1f} to {100 * high:.1f})"
    return golden / n, drop, sum(decibels) / len(decibels), tuned


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("--models", default="resnet20_cifar,cifar_resnet_2b,vit_ibp_cifar")
    p.add_argument("--models-from", type=pathlib.Path, help="a folder of NAME.onnx instead of those of DATA: pruned ones")
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--flags", default="--recipe none")
    p.add_argument("--train", default="")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/tuned_codes_table"))
    args = p.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"| {args.flags} | FP32 top-1 | drop without | SQNR dB | drop with | SQNR dB | held-out loss | codes that moved | training s |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for model in args.models.split(","):
        golden, bare, bare_db, _ = pooled(args, model, 0)
        _, trained, trained_db, reports = pooled(args, model, args.steps)
        mean = {k: sum(float(r[k]) for r in reports) / len(reports)
                for k in ("loss_before", "loss_after", "changed_codes", "codes", "seconds")}
        print(f"| {model} | {100 * golden:.1f} | {bare} | {bare_db:.1f} | {trained} | {trained_db:.1f} | "
              f"{mean['loss_before']:.3g} -> {mean['loss_after']:.3g} | {100 * mean['changed_codes'] / mean['codes']:.0f} % | "
              f"{mean['seconds']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
