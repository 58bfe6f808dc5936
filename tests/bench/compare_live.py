#!/usr/bin/python3
"""Error rates of `infer-bench compare`, live on this machine as it is.

  compare_live.py INFER_BENCH MODEL... [--equal 60] [--three 20] [--ten 20] [--lock FILE] [--json FILE]

Equal sides at the default budget, then a side B that spins for 3 % (budget 60 s) and for 10 % (10 s)
of each run ($INFER_BENCH_SPIN). The kinds take turns, models in turn. Prints a line per comparison
and a summary; exit 1: more alarms or misses than are allowed (2 of 60; 5 %). Takes up to 30 min."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KINDS = {"equal": (0.0, 10), "three": (0.03, 60), "ten": (0.10, 10)}  # spin, budget in seconds


def compare(binary, model, kind, seed, lock):
    spin, budget = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [binary, "compare", model, "--budget", str(budget), "--seed", str(seed), "--json", report]
        if spin:
            command += ["--b", f"env:INFER_BENCH_SPIN={spin}"]
        if lock:
            command += ["--lock", lock]
        done = subprocess.run(command, capture_output=True, text=True)
        if not report.exists():
            sys.exit(f"{model}: exit code {done.returncode}: {done.stderr}")
        return json.loads(report.read_text())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("models", nargs="+")
    p.add_argument("--equal", type=int, default=60)
    p.add_argument("--three", type=int, default=20)
    p.add_argument("--ten", type=int, default=20)
    p.add_argument("--lock")
    p.add_argument("--json")
    args = p.parse_args()
    counts = {kind: getattr(args, kind) for kind in KINDS}
    order = sorted((i / n, kind, i) for kind, n in counts.items() for i in range(n))
    results = []
    for seed, (_, kind, i) in enumerate(order):
        model = args.models[i % len(args.models)]
        r = compare(args.binary, model, kind, seed, args.lock)
        results.append({"kind": kind, "model": model, "verdict": r["verdict"], "effect": r["effect"],
                        "seconds": r["seconds"], "starts": len(r["sides"][0]["starts"]),
                        "load": os.getloadavg()[0], "attempts": r["attempts"]})
        # Infinities of a single start are strings in JSON.
        value, low, high = (100 * float(v) for v in (r["effect"]["value"], *r["effect"]["ci95"]))
        print(f"{kind:6} {pathlib.Path(model).name:28} {r['verdict']:13} {value:+7.2f} %  "
              f"({low:+.2f} to {high:+.2f} %)  {results[-1]['starts']:3} starts "
              f"{r['seconds']:6.1f} s  load {results[-1]['load']:.1f}", flush=True)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(results, indent=1))
    failed = False
    for kind in KINDS:
        these = [r for r in results if r["kind"] == kind]
        if not these:
            continue
        n = len(these)
        found = {v: sum(r["verdict"] == v for r in these) for v in ("same", "faster", "slower", "inconclusive")}
        seconds = sorted(r["seconds"] for r in these)
        print(f"{kind}: {n} comparisons, {found}, seconds: median {seconds[n // 2]:.1f}, most {seconds[-1]:.1f}")
        if kind == "equal":
            failed |= found["slower"] + found["faster"] > n / 30
        else:
            failed |= found["slower"] < 0.95 * n
    return failed


if __name__ == "__main__":
    sys.exit(main())
