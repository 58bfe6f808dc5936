#!/usr/bin/python3
"""How far `infer-bench predict` is off: the zoo and, where INFER_TEST_DATA says, its models.

usage: predict_accuracy.py BIN [--threads 1,2] [--models WORD,...] [--machine FILE] [--max-error 0.1] [--budget S]

Measures a profile of this machine (unless one is given), predicts every model from it and measures the model, for each number
of threads; the profile is fitted from generated programs alone, so no model was used to fit. --models takes those whose name
holds one of the words. Models of INFER_TEST_DATA/models get their test inputs. Prints a table in Markdown for each number of
threads and exits with 1 where a median of |predicted / measured - 1| is above --max-error. For an idle machine."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [("below 0.1 ms", 0.1), ("0.1 to 1 ms", 1), ("1 ms and more", float("inf"))]
# For the estimate: seconds to write a model of the zoo, and to predict and measure one.
WRITE_ZOO_S, ZOO_S, SHARED_S = 8, 7, 2


def call(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
    return done.stdout


def zoo(bench, work, names):
    """Name, file and inputs, one at a time: a model is gone when the next is asked for."""
    for name in names:
        path = work / f"{name}.onnx"
        call(bench, "zoo", name, "-o", path, "-q")
        yield name, path, []
        path.unlink()
        for data in work.glob(f"{name}*.data"):
            data.unlink()


def shared(opt, paths):
    for path in paths:
        names = [i["name"] for i in json.loads(call(opt, "inspect", path, "--json", "-"))["model"]["inputs"]]
        files = [path.parent / "test_data_set_0" / f"input_{k}.pb" for k in range(len(names))]
        yield path.parent.name, path, [f"--input={n}={f}" for n, f in zip(names, files) if f.exists()]


def summary(rows, what):
    errors = sorted(abs(p / m - 1) for _, p, m in rows)
    if not errors:
        return None
    median, worst = statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1]
    print(f"\n{what}: median |error| {100 * median:.1f} %, p90 {100 * worst:.1f} % ({len(errors)} models)")
    return median


def table(threads, rows):
    """Prints it with its summaries; the median."""
    print(f"\n{threads} thread{'s' if threads > 1 else ''}\n\n| model | predicted ms | measured ms | error % |\n|---|---|---|---|")
    for name, predicted, measured in rows:
        print(f"| {name} | {predicted:.3g} | {measured:.3g} | {100 * (predicted / measured - 1):+.1f} |")
    low = 0
    for size, high in SIZES:
        summary([r for r in rows if low <= r[2] < high], size)
        low = high
    return summary(rows, "all")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--machine", type=pathlib.Path, help="a profile that has all of --threads")
    parser.add_argument("--threads", default="1", help="numbers, each judged by itself")
    parser.add_argument("--models", default="", help="parts of names; default: all")
    parser.add_argument("--max-error", type=float, default=0.10)
    parser.add_argument("--budget", type=float, default=60, help="seconds of generated programs for each number of threads")
    parser.add_argument("--min-time", type=float, default=0.1, help="seconds that each model is measured")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--reports", type=pathlib.Path, help="keep the report of each model, with its layers, in this folder")
    a = parser.parse_args()
    bench, opt = a.bin / "infer-bench", a.bin / "infer-opt"
    threads, words = [int(t) for t in a.threads.split(",")], a.models.split(",")
    wanted = lambda name: any(w in name for w in words)
    data = os.environ.get("INFER_TEST_DATA")
    zoo_names = [m["name"] for m in json.loads(call(bench, "zoo", "--json", "-"))["models"] if wanted(m["name"])]
    paths = [p for p in sorted(pathlib.Path(data).glob("models/*/model.onnx")) if wanted(p.parent.name)] if data else []
    if not zoo_names + paths:
        sys.exit(f"--models {a.models}: there is no such model")
    seconds = (0 if a.machine else (a.budget + 10) * len(threads)) + WRITE_ZOO_S * len(zoo_names) + len(threads) * (
        ZOO_S * len(zoo_names) + SHARED_S * len(paths))
    print(f"{len(zoo_names) + len(paths)} models, {len(threads)} numbers of threads: about {seconds / 60:.1f} minutes",
          file=sys.stderr, flush=True)
    start = time.monotonic()
    rows = {t: [] for t in threads}
    with tempfile.TemporaryDirectory(dir=a.work) as folder:
        work = pathlib.Path(folder)
        machine = a.machine or work / "machine.json"
        if not a.machine:
            call(bench, "machine", "-o", machine, "--threads", a.threads, "--budget", a.budget, "-q")
        for source in [shared(opt, paths), zoo(bench, work, zoo_names)]:
            for name, path, inputs in source:
                for t in threads:
                    report = json.loads(call(bench, "predict", path, *inputs, "--machine", machine, "--threads", t, "--measure",
                                             "--min-time", a.min_time, *(["--layers"] if a.reports else []), "-q", "--json", "-"))
                    if a.reports:
                        (a.reports / f"{name}.{t}.json").write_text(json.dumps(report))
                    r, = report["results"]
                    rows[t].append((name, r["predicted_ms"], r["measured_ms"]))
                    print(f"{name}, {t} threads: {100 * r['error']:+.1f} %", file=sys.stderr, flush=True)
    medians = [table(t, rows[t]) for t in threads]
    print(f"took {(time.monotonic() - start) / 60:.1f} minutes", file=sys.stderr)
    sys.exit(max(medians) > a.max_error)


if __name__ == "__main__":
    main()
