#!/usr/bin/python3
"""How far `infer-bench predict` is off: the zoo and, where INFER_TEST_DATA says, its models.

usage: predict_accuracy.py BIN [--machine FILE] [--threads N] [--max-error 0.1] [--budget S] [--work DIR] [--only WORD]

Measures a profile of this machine (unless one is given), predicts every model from it and measures the model; the profile is
fitted from generated programs alone, so no model was used to fit. Models of INFER_TEST_DATA/models get their test inputs. Prints
a table in Markdown and exits with 1 where the median of |predicted / measured - 1| is above --max-error. For an idle machine."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SIZES = [("below 0.1 ms", 0.1), ("0.1 to 1 ms", 1), ("1 ms and more", float("inf"))]


def call(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
    return done.stdout


def zoo(bench, work, only):
    """Name and file, one at a time: a model is gone when the next is asked for."""
    for model in json.loads(call(bench, "zoo", "--json", "-"))["models"]:
        if only not in model["name"]:
            continue
        path = work / f"{model['name']}.onnx"
        call(bench, "zoo", model["name"], "-o", path, "-q")
        yield model["name"], path, []
        path.unlink()
        for data in work.glob(f"{model['name']}*.data"):
            data.unlink()


def shared(opt, folder):
    for path in sorted(folder.glob("*/model.onnx")):
        names = [i["name"] for i in json.loads(call(opt, "inspect", path, "--json", "-"))["model"]["inputs"]]
        files = [path.parent / "test_data_set_0" / f"input_{k}.pb" for k in range(len(names))]
        yield path.parent.name, path, [f"--input={n}={f}" for n, f in zip(names, files) if f.exists()]


def summary(rows, what):
    errors = sorted(abs(p / m - 1) for _, p, m in rows)
    if not errors:
        return None
    median, worst = statistics.median(errors), errors[int(0.9 * (len(errors) - 1))]
    print(f"\n{what}: median |error| {100 * median:.1f} %, p90 {100 * worst:.1f} % ({len(errors)} models)")
    return median


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-error", type=float, default=0.10)
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--reports", type=pathlib.Path, help="keep the report of each model in this folder")
    a = parser.parse_args()
    bench, opt = a.bin / "infer-bench", a.bin / "infer-opt"
    with tempfile.TemporaryDirectory(dir=a.work) as folder:
        work = pathlib.Path(folder)
        machine = a.machine or work / "machine.json"
        if not a.machine:
            call(bench, "machine", "-o", machine, "--threads", a.threads, "--budget", a.budget, "-q")
        data = os.environ.get("INFER_TEST_DATA")
        sources = [zoo(bench, work, a.only)] + ([shared(opt, pathlib.Path(data) / "models")] if data else [])
        print("| model | predicted ms | measured ms | error % |\n|---|---|---|---|")
        rows = []
        for source in sources:
            for name, path, inputs in source:
                if a.only not in name:
                    continue
                report = json.loads(call(bench, "predict", path, *inputs, "--machine", machine, "--threads", a.threads,
                                         "--measure", "--layers", "-q", "--json", "-"))
                if a.reports:
                    (a.reports / f"{name}.json").write_text(json.dumps(report))
                r, = report["results"]
                rows.append((name, r["predicted_ms"], r["measured_ms"]))
                print(f"| {name} | {r['predicted_ms']:.3g} | {r['measured_ms']:.3g} | {100 * r['error']:+.1f} |", flush=True)
    median = summary(rows, "all")
    low = 0
    for size, high in SIZES:
        summary([r for r in rows if low <= r[2] < high], size)
        low = high
    sys.exit(not rows or median > a.max_error)


if __name__ == "__main__":
    main()
