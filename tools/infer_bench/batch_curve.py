#!/usr/bin/env python3
"""Throughput of networks from batch 1 to 32: does it fall anywhere when the batch doubles?

batch_curve.py [--bin DIR] [--threads N] [--rounds N] [--least SHARE] [NAME | FILE.onnx ...]

NAME is of `infer-bench zoo`; a file needs an open dimension "batch". The default: mobilenetv2, resnet18,
squeezenet1.1, rewritten by `infer-opt fuse`. The batches are measured in turns; of each the shortest run counts,
for other processes only lengthen runs. On a busy machine none is left alone that takes longer than a slice of the
scheduler: then the curve says nothing. The last line of each table says where throughput at 2n is less than
SHARE (0.95) of that at n; then the exit code is 1.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

BATCHES = [1, 2, 4, 8, 16, 32]
NETWORKS = ["mobilenetv2", "resnet18", "squeezenet1.1"]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
    return done.stdout


def fused(bin_dir, name, scratch):
    if name.endswith(".onnx"):
        return name
    raw, path = scratch / f"{name}.raw.onnx", scratch / f"{name}.onnx"
    run(bin_dir / "infer-bench", "zoo", name, "-o", raw, "--batch", 0)
    run(bin_dir / "infer-opt", "fuse", raw, "-o", path, "--no-verify", "--quiet")
    return path


def shortest_ms(bin_dir, path, batch, threads):
    report = json.loads(run(bin_dir / "infer-bench", "run", path, "--set", f"batch={batch}", "--threads", threads,
                            "--min-runs", 5, "--min-time", 0.5, "--max-time", 5, "--json", "-", "--quiet"))
    return min(report["results"][0]["samples_ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            path = fused(args.bin, name, pathlib.Path(folder))
            best = dict.fromkeys(BATCHES, float("inf"))
            for _ in range(args.rounds):
                for batch in BATCHES:
                    best[batch] = min(best[batch], shortest_ms(args.bin, path, batch, args.threads))
            rate = {b: 1e3 * b / best[b] for b in BATCHES}
            print(f"{name}, {args.threads} threads\n{'batch':>5} {'ms':>9} {'samples/s':>10} {'/ half':>7}")
            falls = []
            for b in BATCHES:
                share = rate[b] / rate[b // 2] if b > 1 else None
                print(f"{b:5} {best[b]:9.3f} {rate[b]:10.1f} {f'{share:7.3f}' if share else '':>7}")
                if share and share < args.least:
                    falls.append(f"{b // 2} to {b}")
            print(f"falls from {', '.join(falls)}\n" if falls else "no fall\n", flush=True)
            failed = failed or bool(falls)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
