#!/usr/bin/python3
"""`quantize --sparsity` beside `prune` and then `quantize`, on trained classifiers (docs/pruning.md).

    tools/infer_opt/joint_table.py build/release/bin/infer-opt DATA [--folds 1] [--models a,b] [--forms int8,int4] [--work FOLDER]

Data, folds and intervals as prune_table.py; both ways get the same samples. "Apart" prunes with the defaults and quantizes the result with
the same options; both are judged against the dense FP32 model."""
import argparse
import json
import pathlib
import subprocess

from prune_table import MODELS, split, tango

PATTERNS = {"50 %": (["--sparsity", "50%"], ["--sparsity", "50%"]), "2:4": (["--sparsity", "2:4"], ["--nm", "2:4"]),
            "70 %": (["--sparsity", "70%"], ["--sparsity", "70%"])}
FORMS = {"int8": ["--recipe", "fast", "--opset", "13"], "int8-best": ["--recipe", "best", "--opset", "13"],
         "dynamic": ["--mode", "dynamic"], "int4": ["--mode", "weight-only", "--bits", "4", "--block", "32", "--opset", "max"]}


def run(*command):
    ran = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, command))}: {ran.stderr}")


def measure(args, model, pattern, form, together, fold):
    images, labels, preprocess, parts = MODELS[model]
    name = f"{model}.{pattern.replace(':', '-').replace(' ', '')}.{form}.{'together' if together else 'apart'}.{fold}"
    done = args.work / f"{name}.json"
    if done.exists():
        return json.loads(done.read_text())
    fit, judge = split(args.data, args.work, images, parts, fold)
    _, answers = split(args.data, args.work, labels, parts, fold)
    dense = args.data / f"models/{model}/model.onnx"
    data = ["--calib", fit, "--eval", judge, "--eval-labels", answers, "--quiet", *(["--preprocess", preprocess] if preprocess else [])]
    joint, first = PATTERNS[pattern]
    out = args.work / f"{name}.onnx"
    if together:
        run(args.tool, "quantize", dense, "-o", out, *data, *FORMS[form], *joint, "--keep-failed", "--json", done)
    else:
        pruned = args.work / f"{name}.pruned.onnx"
        run(args.tool, "prune", dense, "-o", pruned, *data, *first)
        run(args.tool, "quantize", pruned, "-o", out, *data, *FORMS[form], "--keep-failed")
        run(args.tool, "compare", dense, out, "--data", judge, "--labels", answers, "--quiet", "--json", done,
            *(["--preprocess", preprocess] if preprocess else []))
    return json.loads(done.read_text())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("--folds", type=int, default=1)
    p.add_argument("--models", default="mnist_cntk8,mnist_fc_256x4,cifar_resnet_2b,vit_ibp_cifar,resnet20_cifar")
    p.add_argument("--forms", default=",".join(FORMS))
    p.add_argument("--patterns", default=",".join(PATTERNS))
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/joint_table"))
    args = p.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print("| model | zeros | form | apart: drop | SQNR dB | together: drop | SQNR dB |\n|---|---|---|---|---|---|---|")
    for model in args.models.split(","):
        for pattern in args.patterns.split(","):
            for form in args.forms.split(","):
                row = [model, pattern, form]
                for together in (False, True):
                    lost = gained = n = 0
                    db = []
                    for fold in range(min(args.folds, MODELS[model][3])):
                        report = measure(args, model, pattern, form, together, fold)
                        task = report["accuracy"]["task"]
                        lost, gained, n = lost + task["lost"], gained + task["gained"], n + task["samples"]
                        db.append(float(report["accuracy"]["outputs"][0]["sqnr_db"]))
                    low, high = tango(lost, gained, n)
                    row += [f"{100 * (lost - gained) / n:.1f} ({100 * low:.1f} to {100 * high:.1f})", f"{sum(db) / len(db):.1f}"]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
