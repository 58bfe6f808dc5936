#!/usr/bin/python3
"""hyperfine's time of whole processes beside the median that infer-bench tells.

(time of 2N runs - time of N runs) / N is the time of a run as somebody sees who knows nothing of our clocks: start, load
and compilation cancel out. Both processes are timed by hyperfine in turns (the faster of two each), and the median over turns is compared with
the mean of the runs that the processes themselves report (the difference is a mean, too) and with their median.

usage: hyperfine_agreement.py INFER_BENCH MODEL [--runs N] [--turns K] [--tolerance 2] [--threads T] [--set batch=1]
Exit 1: they differ by more than --tolerance percent. 77: hyperfine (Debian's package of the name) is not installed."""
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
            return common + ["--warmup", "5", "--runs", str(runs), "--format", "csv"], pathlib.Path(scratch) / name

        def quoted(words):
            return " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)

        first = subprocess.run(common + ["--format", "json"], check=True, text=True, capture_output=True).stdout
        n = args.runs or max(5, round(1000 / json.loads(first)["results"][0]["latency_ms"]["median"]))
        seen, medians, means = [], [], []
        for turn in range(args.turns):
            # In turns, and in both orders: a machine that becomes slower must not count for one of them.
            sides = [command(n, "n.csv"), command(2 * n, "2n.csv")]
            order = sides if turn % 2 == 0 else sides[::-1]
            out = pathlib.Path(scratch) / "hyperfine.json"
            subprocess.run([args.hyperfine, "--shell", "sh", "--warmup", "0", "--runs", "2", "--export-json", str(out),
                            "--style", "none"] + [f"{quoted(words)} > {file} 2>/dev/null" for words, file in order],
                           check=True, capture_output=True)
            took = [min(r["times"]) for r in json.loads(out.read_text())["results"]]
            once, twice = took if turn % 2 == 0 else took[::-1]
            seen.append(1000 * (twice - once) / n)
            header, row = sides[1][1].read_text().strip().splitlines()
            fields = dict(zip(header.split(","), row.split(",")))
            medians.append(float(fields["median_ms"]))
            means.append(float(fields["mean_ms"]))
    theirs, median, mean = map(statistics.median, (seen, medians, means))
    of_median, of_mean = 100 * (theirs / median - 1), 100 * (theirs / mean - 1)
    print(f"{pathlib.Path(args.model).name}: N = {n}, {args.turns} turns: hyperfine {theirs:.4f} ms a run, "
          f"ours: median {median:.4f} ({of_median:+.2f} %), mean {mean:.4f} ({of_mean:+.2f} %)")
    if abs(of_median) > args.tolerance:
        print(f"more than {args.tolerance} % from the median"
              + ("" if abs(of_mean) > args.tolerance else ", not from the mean: runs are skewed, the machine is busy"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
