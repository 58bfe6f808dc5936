#!/usr/bin/python3
"""What infer-bench tune loses against measuring every setting of its grid.

For each model runs tune, then infer-bench load for each setting that the model takes, in an order drawn anew: closed loop,
lanes in flight. A setting meets the SLO when the upper limit (99 % confidence) of the percentile is within it, which asks for
64 queries for p90 and 662 for p99; the best one has the most samples per second of these. The regret is what the choice lacks
of it, in these fresh measurements.

usage: tune_regret.py INFER_BENCH MODEL... --slo p90=80ms [--seconds 170] [--models WORD,...] [--prefix COMMAND] [tune's options]

MODEL is a file, or a name of `infer-bench zoo`. --seconds are of one model: 30 % are tune's budget, the settings share the
rest. --prefix stands before each measurement, as `taskset -c 0,1`. Exit 1: a choice misses the SLO, or a regret exceeds --most
(10) percent."""
import argparse
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

TUNE_SHARE = 0.3
LEAST_S = 1  # of one setting


class Bench:
    def __init__(self, prefix, binary, folder):
        self.words, self.file = [*prefix, binary], folder / "report.json"

    def report(self, *words):
        self.file.unlink(missing_ok=True)
        done = subprocess.run([*self.words, *map(str, words), "-q", "--json", str(self.file)], capture_output=True, text=True)
        if not self.file.exists():
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
        return json.loads(self.file.read_text())


def measure_all(bench, path, shared, candidates, slo, seconds):
    """Every setting in turn, in `seconds` together: what a process needs beside the measurement is learnt on the way."""
    name, limit = slo
    end, beside, measured = time.monotonic() + seconds, 1.5, []
    random.shuffle(candidates)
    for k, c in enumerate(candidates):
        start = time.monotonic()
        duration = max(LEAST_S, (end - start) / (len(candidates) - k) - beside)
        r = bench.report("load", path, *shared, "--threads", c["threads"], "--batch", c["batch"], "--lanes", c["lanes"],
                         "--precision", c["precision"], "--concurrency", c["lanes"], "--duration", f"{duration:.2f}",
                         "--max-duration", f"{duration:.2f}", "--warmup", 0.2)["result"]
        beside = (beside * k + time.monotonic() - start - duration) / (k + 1)
        upper = r["latency_ms"]["upper_99"][name]
        measured.append({"name": c["name"], "fate": c["fate"], "p": r["latency_ms"][name], "upper": upper,
                         "samples_per_s": r["throughput_per_s"] * c["batch"], "met": upper is not None and upper <= limit})
    return measured


def judge(bench, path, args, rest, slo):
    """The regret in percent; None where the choice misses the SLO, or there is none though a setting meets it."""
    name, _ = slo
    start = time.monotonic()
    tuned = bench.report("tune", path, "--slo", args.slo, "--budget", TUNE_SHARE * args.seconds, *rest)
    print(f"tune: {tuned['verdict']} {tuned['reason']} in {tuned['seconds']:.1f} s")
    # What is common to all settings: tune's own options but for those of the grid.
    shared = [w for w in rest if w.startswith(("--set=", "--shape=", "--fill="))]
    candidates = [c for c in tuned["candidates"] if c["fate"] not in ("unavailable", "inaccurate")]
    measured = measure_all(bench, path, shared, candidates, slo, args.seconds - (time.monotonic() - start))
    for m in sorted(measured, key=lambda m: -m["samples_per_s"]):
        shown = ["-" if v is None else f"{v:.2f}" for v in (m["p"], m["upper"])]
        print(f"  {m['name']}: {m['samples_per_s']:.1f} samples/s, {name} {shown[0]} (at most {shown[1]}) ms, "
              f"{'meets' if m['met'] else 'not shown to meet'}; tune: {m['fate']}")
    best = max((m for m in measured if m["met"]), key=lambda m: m["samples_per_s"], default=None)
    if not best or not tuned["chosen"]:
        print("no setting meets it" if not best else f"tune chose none, {best['name']} meets it")
        return None if bool(best) != bool(tuned["chosen"]) else 0
    choice = next(m for m in measured if m["name"] == tuned["chosen"]["name"])
    regret = max(0, 100 * (1 - choice["samples_per_s"] / best["samples_per_s"]))
    print(f"best: {best['name']}; chosen: {choice['name']}, {'meets' if choice['met'] else 'MISSES'} {args.slo}; "
          f"regret {regret:.1f} %")
    return regret if choice["met"] else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_bench")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--slo", required=True, help="one percentile, as p90=80ms")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--models", default="", help="of the models given those with one of these words; default: all")
    parser.add_argument("--threads", help="numbers to try, as tune's")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--most", type=float, default=10)
    args, rest = parser.parse_known_args()
    name, value, unit = re.fullmatch(r"(p[\d.]+)=([\d.]+)(us|ms|s)", args.slo).groups()
    slo = name, float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    rest += ["--threads", args.threads] if args.threads else []
    models = [m for m in args.model if any(w in m for w in args.models.split(","))]
    if not models:
        sys.exit(f"--models {args.models}: there is no such model")
    print(f"{len(models)} models: about {len(models) * args.seconds / 60:.1f} minutes", flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(shlex.split(args.prefix), args.infer_bench, pathlib.Path(folder))
        for model in models:
            print(f"\n{model}:", flush=True)
            path = pathlib.Path(model)
            if not path.exists():
                path = pathlib.Path(folder) / f"{model}.onnx"
                bench.report("zoo", model, "-o", path)
            regret = judge(bench, path, args, rest, slo)
            failed |= regret is None or regret > args.most
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
