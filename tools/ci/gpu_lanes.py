#!/usr/bin/env python3
"""Throughput and use of a Vulkan device by lanes (docs/vulkan.md, "Throughput"), for a GPU that is lent.

usage: gpu_lanes.py [--bin DIR] [--lanes 1,2,4] [--seconds S] [--limit S] [MODEL...]

MODEL: a model of `infer-bench zoo`, which is fused first, or a file (default: resnet50, bert-base). For each number
of lanes one `infer-bench load --utilization --trace`; then, with the most lanes, the same without the device's clock
(what the clock costs), with all copies on the queue of shaders, and with all on queues of their own, however small. What
would begin with less of --limit left than the longest took is left out."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time


def union(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def overlapped(trace):
    """(ms of transfers, of them beside shaders), of the text of a trace."""
    spans = {True: [], False: []}
    for event in json.loads(trace)["traceEvents"]:
        if event["ph"] == "X":
            spans[event["cat"] == "compute"].append((event["ts"], event["ts"] + event["dur"]))
    transfers, shaders = union(spans[False]), union(spans[True])
    both, k = 0, 0
    for begin, end in transfers:
        while k < len(shaders) and shaders[k][1] <= begin:
            k += 1
        for other_begin, other_end in shaders[k:]:
            if other_begin >= end:
                break
            both += min(end, other_end) - max(begin, other_begin)
    return sum(e - b for b, e in transfers) / 1e3, both / 1e3


def model_file(bin_dir, model, folder):
    if model.endswith(".onnx"):
        return model
    raw, fused = str(folder / "raw.onnx"), str(folder / f"{model}.onnx")
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([str(bin_dir / "infer-bench"), "zoo", model, "-o", raw, "-q"], **quiet)
    subprocess.run([str(bin_dir / "infer-opt"), "fuse", raw, "-o", fused, "--no-verify", "-q"], **quiet)
    os.remove(raw)
    return fused


def load(bin_dir, model, lanes, seconds, folder, timed, env):
    """One line of the table."""
    report, trace = folder / "load.json", folder / "trace.json"
    asked = ["--utilization", "--trace", str(trace)] if timed else []
    done = subprocess.run([str(bin_dir / "infer-bench"), "load", model, "--device", "vulkan", "--threads", "1", "--lanes", str(lanes),
                           "--concurrency", str(2 * lanes), "--warmup", "0.5", "--duration", str(seconds), "--keep", "0",
                           "--json", str(report), *asked], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr.strip()}"
    result = json.loads(report.read_text())
    line = f"{result['result']['throughput_per_s']:9.1f}"
    use = result["device"]
    if not use:
        return line
    line += f"  {100 * use['utilization']:5.1f} %"
    busy = {q["queue"]: q["utilization"] for q in use["queues"]}
    for queue in ("compute", "upload", "download"):
        line += f"  {100 * busy[queue]:7.1f} %" if queue in busy else "          -"
    transfers, both = overlapped(trace.read_text())
    return line + (f"  {100 * both / transfers:8.1f} %" if transfers > 0 else "          -")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50", "bert-base"])
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--lanes", default="1,2,4")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--limit", type=float, default=60)
    args = parser.parse_args()
    lanes = [int(n) for n in args.lanes.split(",")]
    start, longest = time.monotonic(), 0
    others = {"one queue": {"INFER_VULKAN_TRANSFER_QUEUES": "0"}, "small copies": {"INFER_VULKAN_TRANSFER_BYTES": "1"}}
    print(f"{'model':16} {'lanes':>5}  {'':14} {'queries/s':>9}  {'busy':>7}  {'compute':>9}  {'upload':>9}  {'download':>9}  beside shaders",
          flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = {m: model_file(args.bin, m, folder) for m in args.models}
        runs = [(m, n, "", True, os.environ) for m in args.models for n in lanes]
        runs += [(m, lanes[-1], "without clock", False, os.environ) for m in args.models]
        runs += [(m, lanes[-1], how, True, {**os.environ, **env}) for how, env in others.items() for m in args.models]
        for model, n, how, timed, env in runs:
            begin = time.monotonic()
            if begin - start + longest > args.limit:
                print("left out for want of time:", pathlib.Path(model).stem, n, how)
                continue
            line = load(args.bin, files[model], n, args.seconds, folder, timed, env)
            longest = max(longest, time.monotonic() - begin)
            print(f"{pathlib.Path(model).stem:16} {n:5}  {how:14} {line}", flush=True)
    print(f"{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
