#!/usr/bin/python3
"""hyperfine's times of whole processes beside those that infer-bench tells.

(time of 2N runs - time of N runs) / N is the time of a run as somebody sees who knows nothing of our clocks: start, load
and compilation cancel out. hyperfine times both in turns (twice each, the faster counts), and the median over turns is
held against our median. The same is done with processor time, hyperfine's user + system against the sum of what we
report of each run: other load adds to the one but not to the other.

usage: hyperfine_agreement.py INFER_BENCH MODEL [--runs N] [--turns K] [--tolerance 2] [--threads T] [--set batch=1]
Exit 1: they differ by more than --tolerance percent; where other processes took more than 0.2 processors meanwhile, wall
times are told but only processor time is judged. 77: hyperfine (Debian's package of the name) is not installed."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_bench")
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=0, help="N; 0: so many that they take 1 s")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--tolerance", type=float, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", default="batch=1")
    parser.add_argument("--hyperfine", default=os.environ.get("INFER_HYPERFINE", "hyperfine"))
    args = parser.parse_args()
    if not shutil.which(args.hyperfine):
        print("skipped: hyperfine is not installed")
        return 77
    common = [args.infer_bench, "run", args.model, "--threads", str(args.threads), "--cold", "0", "-q"]
    if args.set:
        common += ["--set", args.set]
    with tempfile.TemporaryDirectory() as scratch:
        def command(runs, name):
            return common + ["--warmup", "5", "--runs", str(runs), "--format", "jsonl"], pathlib.Path(scratch) / name

        def quoted(words):
            return " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)

        def result_of(file):
            return next(r for r in map(json.loads, file.read_text().splitlines()) if r["type"] == "result")

        first = subprocess.run(common + ["--format", "json"], check=True, text=True, capture_output=True).stdout
        n = args.runs or max(5, round(1000 / json.loads(first)["results"][0]["latency_ms"]["median"]))
        turns = []
        for turn in range(args.turns):
            # In both orders: a machine that becomes slower must not count for one of them.
            sides = [command(n, "n.jsonl"), command(2 * n, "2n.jsonl")]
            out = pathlib.Path(scratch) / "hyperfine.json"
            order = sides if turn % 2 == 0 else sides[::-1]
            subprocess.run([args.hyperfine, "--shell", "sh", "--warmup", "0", "--runs", "2", "--export-json", str(out),
                            "--style", "none"] + [f"{quoted(words)} > {file} 2>/dev/null" for words, file in order],
                           check=True, capture_output=True)
            timed = json.loads(out.read_text())["results"]
            once, twice = timed if turn % 2 == 0 else timed[::-1]
            ours = result_of(sides[1][1])
            turns.append({
                "wall": 1000 * (min(twice["times"]) - min(once["times"])) / n,
                "cpu": 1000 * (twice["user"] + twice["system"] - once["user"] - once["system"]) / n,
                "median": ours["latency_ms"]["median"], "mean": ours["latency_ms"]["mean"],
                "our cpu": statistics.mean(ours["samples_cpu_ms"]), "other": ours["watch"]["other_cores"] or 0})
    m = {key: statistics.median(t[key] for t in turns) for key in turns[0]}
    of_median, of_mean, of_cpu = (100 * (m[a] / m[b] - 1)
                                  for a, b in (("wall", "median"), ("wall", "mean"), ("cpu", "our cpu")))
    busy = m["other"] > 0.2
    print(f"{pathlib.Path(args.model).name}: N = {n}, {args.turns} turns, {m['other']:.1f} processors of other load")
    print(f"  a run by hyperfine {m['wall']:.4f} ms; ours: median {m['median']:.4f} ({of_median:+.2f} %), "
          f"mean {m['mean']:.4f} ({of_mean:+.2f} %)")
    print(f"  processor time by hyperfine {m['cpu']:.4f} ms, ours {m['our cpu']:.4f} ({of_cpu:+.2f} %)")
    if busy:
        print("  the machine is busy: wall times are not judged")
    return int(abs(of_cpu) > args.tolerance or (not busy and abs(of_median) > args.tolerance))


if __name__ == "__main__":
    sys.exit(main())
