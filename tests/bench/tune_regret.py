#!/usr/bin/python3
"""What infer-bench tune loses against measuring every setting of its grid at length.

Runs tune, then infer-bench load for each setting that the model takes, in an order drawn anew: closed loop, lanes in
flight. A setting meets the SLO when the upper limit (99 % confidence) of the percentile is within it; the best one has the
most samples per second of these. The regret is what the choice lacks of it, in these fresh measurements.

usage: tune_regret.py INFER_BENCH MODEL --slo p99=80ms [--budget 60] [--duration 5] [--prefix COMMAND] [tune's options]
--prefix stands before each measurement, as `taskset -c 0,1`. Exit 1: the choice misses the SLO, or the regret exceeds
--most (10) percent."""
import argparse
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_bench")
    parser.add_argument("model")
    parser.add_argument("--slo", required=True, help="one percentile, as p99=80ms")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--duration", type=float, default=5)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--most", type=float, default=10)
    args, rest = parser.parse_known_args()
    name, value, unit = re.fullmatch(r"(p[\d.]+)=([\d.]+)(us|ms|s)", args.slo).groups()
    limit = float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    prefix = shlex.split(args.prefix)

    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "report.json"

        def report(*words):
            file.unlink(missing_ok=True)
            done = subprocess.run([*prefix, args.infer_bench, *map(str, words), "-q", "--json", str(file)],
                                  capture_output=True, text=True)
            if not file.exists():
                sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
            return json.loads(file.read_text())

        tuned = report("tune", args.model, "--slo", args.slo, "--budget", args.budget, *rest)
        print(f"tune: {tuned['verdict']} {tuned['reason']} in {tuned['seconds']:.1f} s")
        # What is common to all settings: tune's own options but for those of the grid.
        shared = [w for w in rest if w.startswith("--set=") or w.startswith("--shape=") or w.startswith("--fill=")]
        measured = []
        settings = [c for c in tuned["candidates"] if c["fate"] not in ("unavailable", "inaccurate")]
        random.shuffle(settings)
        for c in settings:
            r = report("load", args.model, *shared, "--threads", c["threads"], "--batch", c["batch"], "--lanes", c["lanes"],
                       "--precision", c["precision"], "--concurrency", c["lanes"], "--duration", args.duration,
                       "--max-duration", 8 * args.duration, "--min-queries", 662)["result"]
            upper = r["latency_ms"]["upper_99"][name]
            measured.append({"name": c["name"], "fate": c["fate"], "p": r["latency_ms"][name], "upper": upper,
                             "samples_per_s": r["throughput_per_s"] * c["batch"],
                             "met": upper is not None and upper <= limit})
    for m in sorted(measured, key=lambda m: -m["samples_per_s"]):
        shown = ["-" if v is None else f"{v:.2f}" for v in (m["p"], m["upper"])]
        print(f"  {m['name']}: {m['samples_per_s']:.1f} samples/s, {name} {shown[0]} (at most {shown[1]}) ms, "
              f"{'meets' if m['met'] else 'not shown to meet'}; tune: {m['fate']}")
    best = max((m for m in measured if m["met"]), key=lambda m: m["samples_per_s"], default=None)
    if not best or not tuned["chosen"]:
        print("no setting meets it" if not best else f"tune chose none, {best['name']} meets it")
        return int(bool(best) != bool(tuned["chosen"]))
    choice = next(m for m in measured if m["name"] == tuned["chosen"]["name"])
    regret = 100 * (1 - choice["samples_per_s"] / best["samples_per_s"])
    print(f"best: {best['name']}; chosen: {choice['name']}, {'meets' if choice['met'] else 'MISSES'} {args.slo}; "
          f"regret {max(0, regret):.1f} %")
    return int(not choice["met"] or regret > args.most)


if __name__ == "__main__":
    sys.exit(main())
