#!/usr/bin/env python3
"""Throughput and use of a Vulkan device by lanes (docs/vulkan.md, "Throughput"), for a GPU that is lent.

usage: gpu_lanes.py [--bin DIR] [--lanes 1,2,4] [--seconds S] [--limit S] [--keep DIR] [MODEL...]

MODEL: a model of `infer-bench zoo`, which is fused first, or a file (default: resnet50, bert-base). For each number
of lanes one `infer-bench load --utilization --trace`; then, with the most lanes, the same without the device's clock
(what the clock costs), with all copies on the queue of shaders, and with all on queues of their own, however small. What
would begin with less of --limit left than the model's last took is left out. --keep: where reports and traces of the
lanes go (MODEL.LANES.json, MODEL.LANES.trace.json)."""
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
    quiet = {"check": True, "capture_output": True}
    subprocess.run([str(bin_dir / "infer-bench"), "zoo", model, "-o", raw, "-q"], **quiet)
    subprocess.run([str(bin_dir / "infer-opt"), "fuse", raw, "-o", fused, "--no-verify", "-q"], **quiet)
    os.remove(raw)
    return fused


def load(bin_dir, model, lanes, seconds, files, timed, env, most_s):
    """One line of the table."""
    report, trace = files
    asked = ["--utilization", "--trace", str(trace)] if timed else []
    command = [str(bin_dir / "infer-bench"), "load", model, "--device", "vulkan", "--threads", "1", "--lanes", str(lanes),
               "--concurrency", str(2 * lanes), "--warmup", "0.5", "--duration", str(seconds), "--keep", "0", "--json", str(report), *asked]
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        return f"cut off after {most_s:.0f} s"
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
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    lanes = [int(n) for n in args.lanes.split(",")]
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    start, took = time.monotonic(), {}
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
            left = args.limit - (begin - start)
            if left < took.get(model, max(took.values(), default=args.seconds + 1)):
                print("left out for want of time:", pathlib.Path(model).stem, n, how)
                continue
            kept = args.keep / f"{pathlib.Path(model).stem}.{n}" if args.keep and timed and not how else folder / "load"
            written = [kept.with_name(kept.name + end) for end in (".json", ".trace.json")]
            line = load(args.bin, files[model], n, args.seconds, written, timed, env, left + 10)
            took[model] = time.monotonic() - begin
            print(f"{pathlib.Path(model).stem:16} {n:5}  {how:14} {line}", flush=True)
    print(f"{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
