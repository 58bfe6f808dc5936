#!/usr/bin/env python3
"""`infer-opt prune` with goals and no other option on the shared models, as somebody does who tries it.

usage: prune_survey.py INFER_OPT [--samples N] [--limit SECONDS] [--table FILE] [--ways WAY,...] [MODEL...]

Ways: low-rank (`--low-rank --max-size 80%`) and structured (`--structured --speedup 1.3`). Calibrated on N inputs of the kind that
each model is for (model_data.py); classifiers of stored images on those. A command must write a file that keeps its goal, that ONNX
Runtime runs and for which both runtimes give the same outputs as nearly as for the dense model; or end with exit code 1, 2 or 4 and
one line. The column SQNR is ONNX Runtime's, of the worst output of the new file beside the dense model's, on inputs that nothing
was fitted to. Exits 1 where a command does neither or takes longer than the limit, 77 without data."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import judging
import model_data
import structured_files
from judging import np

WAYS = {"low-rank": ["--low-rank", "--max-size", "80%"], "structured": ["--structured", "--speedup", "1.3"]}
STORED = {  # file, from stored rows to inputs
    "mnist_cntk8": ("mnist_dev_images_u8.npy", lambda x: x.reshape(-1, 1, 28, 28).astype(np.float32)),
    "mnist_fc_256x4": ("mnist_dev_images_u8.npy", lambda x: x.reshape(-1, 784, 1).astype(np.float32) / 255),
    "matchboxnet_kws": ("fsdd_dev_mfcc_f32.npy", lambda x: x),
    "squeezenet11_fp32": ("imagenet_dev_256x256_u8_nhwc.npy",
                          lambda x: ((x[:, 16:240, 16:240] / 255 - [.485, .456, .406]) / [.229, .224, .225])
                          .transpose(0, 3, 1, 2).astype(np.float32)),
}
JUDGED = 4
TOLERANCE = 1e-3  # of an output's largest number: sums in another order


def random_rows(path, count, seed):
    """Of models that no generator knows: numbers of the declared types and extents."""
    random, made = np.random.default_rng(seed), {}
    for spec in judging.session_of(path, False).get_inputs():
        shape = [d if isinstance(d, int) else 8 for d in spec.shape]
        if not isinstance(spec.shape[0], int):
            shape[0] = 1
        shape = [count, *(shape[1:] if shape[0] == 1 else shape)]
        made[spec.name] = (random.standard_normal(shape).astype(np.float32) if spec.type == "tensor(float)"
                           else random.integers(0, 2, shape).astype({"tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
                                                                     "tensor(bool)": bool}.get(spec.type, np.int64)))
    return made


def rows(model, path, count, seed):
    name = judging.session_of(path, False).get_inputs()[0].name
    if model in STORED:
        file, change = STORED[model]
        return {name: np.ascontiguousarray(change(model_data.chosen(model_data.stored(file), count, seed)))}
    made = model_data.samples(model, path, count, seed)
    return made if made is not None else random_rows(path, count, seed)


def feeds_of(path, made, i):
    feeds = {}
    for spec in judging.session_of(path, False).get_inputs():
        if spec.name not in made:
            continue
        x = made[spec.name][i]
        feeds[spec.name] = x[None] if len(spec.shape) == x.ndim + 1 else x
    return feeds


def sqnr(golden, got):
    worst = np.inf
    for g, c in zip(golden, got):
        if not np.issubdtype(g.dtype, np.floating) or g.shape != c.shape:
            continue
        g, d = g.astype(np.float64), c.astype(np.float64) - g
        if np.square(g).sum() > 0:
            worst = min(worst, 10 * np.log10(np.square(g).sum() / max(np.square(d).sum(), 1e-300)))
    return worst


def ours(tool, path, feeds, folder):
    """Our outputs, in ONNX Runtime's order."""
    out = structured_files.ours(tool, path, feeds, folder)
    files = sorted(f for f in os.listdir(out) if f.endswith(".npy"))
    names = [o.name.translate(str.maketrans("/:", "__")) for o in judging.session_of(path, False).get_outputs()]
    if set(names) <= {f[:-4] for f in files}:
        return [np.load(os.path.join(out, n + ".npy")) for n in names]
    if len(names) != 1 or len(files) != 1:
        raise RuntimeError(f"files of outputs are {files}, outputs {names}")
    return [np.load(os.path.join(out, files[0]))]


def differ(tool, path, feeds, folder):
    theirs = judging.session_of(path, False).run(None, feeds)
    return max(structured_files.distance(a, b) for a, b in zip(theirs, ours(tool, path, feeds, folder)))


def judge_file(tool, source, small, held_out, folder, report):
    """(problem, text)."""
    count = len(next(iter(held_out.values())))
    was, now = judging.session_of(source, False), judging.session_of(small, False)
    golden, got = [], []
    for i in range(count):
        feeds = feeds_of(source, held_out, i)
        golden.append(was.run(None, feeds))
        got.append(now.run(None, feeds))
    join = lambda all_of: [np.concatenate([np.asarray(o[k], np.float64).ravel() for o in all_of])
                           for k in range(len(all_of[0])) if np.issubdtype(all_of[0][k].dtype, np.floating)]
    worst = sqnr(join(golden), join(got))
    problem, feeds = "", feeds_of(source, held_out, 0)
    ends, dense = differ(tool, small, feeds, folder), differ(tool, source, feeds, folder)
    if ends > max(TOLERANCE, 10 * dense):
        problem = f"runtimes differ by {ends:.2g} (dense {dense:.2g})"
    size = os.path.getsize(small) / os.path.getsize(source)
    if "low_rank" in report and size > 0.8:
        problem = problem or f"{100 * size:.1f} % of the file"
    if not np.isfinite(worst):
        problem = problem or "outputs are not finite"
    part = report.get("low_rank") or report["structured"]
    stay = f"{100 * part['flops_after'] / part['flops']:.0f}" if part.get("flops", 0) > 0 else "-"
    speed = report.get("latency", {}).get("speedup", {})
    times = f"{speed['median']:.2f}" if "median" in speed else "-"
    return problem, [f"{100 * size:.0f}", stay, times, f"{worst:.1f}"]


def survey(args, model, way, folder):
    """(problem, row)."""
    source = os.path.join(judging.data_folder(), "models", model, "model.onnx")
    made = rows(model, source, args.samples + JUDGED, 1)
    held_out = {k: v[args.samples:] for k, v in made.items()}
    calib, judge, small, out = (os.path.join(folder, n) for n in ("calib.npz", "eval.npz", "small.onnx", "report.json"))
    np.savez(calib, **{k: v[:args.samples] for k, v in made.items()})
    np.savez(judge, **held_out)
    begin = time.monotonic()
    try:
        done = subprocess.run([args.tool, "prune", source, "-o", small, *WAYS[way], "--calib", calib, "--eval", judge, "--threads", "1",
                               "--keep-failed", "--quiet", "--json", out], capture_output=True, text=True, timeout=args.limit)
    except subprocess.TimeoutExpired:
        return f"longer than {args.limit} s", [f"{args.limit}", "-", "-", "-", "-", "cut off"]
    took = f"{time.monotonic() - begin:.0f}"
    lines = [line for line in done.stderr.splitlines() if "warning" not in line and "note" not in line]
    if not os.path.exists(small):
        problem = "" if done.returncode in (1, 2, 4) and len(lines) == 1 else f"exit {done.returncode}, {len(lines)} lines"
        return problem, [took, "-", "-", "-", "-", " ".join(lines).split(" prune: ")[-1]]
    with open(out) as f:
        report = json.load(f)
    problem, told = judge_file(args.tool, source, small, held_out, folder, report)
    warned = [line.split("warning: ")[-1] for line in done.stderr.splitlines() if "warning" in line]
    return problem, [took, *told, f"exit {done.returncode}" if done.returncode else "; ".join(warned)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--table")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    failed, table = 0, ["| model | way | s | file % | FLOPs % | times as fast | SQNR dB | said |", "|---|---|---|---|---|---|---|---|"]
    root = os.path.join(judging.data_folder(), "models")
    for model in args.models or sorted(os.listdir(root)):
        for way in args.ways.split(","):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    problem, row = survey(args, model, way, folder)
                except Exception as e:
                    problem, row = f"{type(e).__name__}: {e}", ["-"] * 6
            failed += bool(problem)
            table.append(f"| {model} | {way} | " + " | ".join(row) + " |")
            print(table[-1] + (f"  PROBLEM: {problem}" if problem else ""), flush=True)
    if args.table:
        with open(args.table, "w") as f:
            f.write("\n".join(table) + "\n")
    print(f"{failed} of {len(table) - 2} commands end otherwise")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
