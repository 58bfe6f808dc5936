#!/usr/bin/env python3
"""Measures what ONNX Runtime's kernels take on this machine, one thread, and fits the prices by which
`infer-opt quantize --target ort` weighs layers in FP32 against INT8 (quant/recipe/cost_table.h).

usage: ort_costs.py ORT_STEPS [--draws N] [--measured FILE] [--check FOLDER] > costs.json

ORT_STEPS is the judges' program that foretells ONNX Runtime's steps (tests/judge/ort_steps.cc). Generated chains of layers (ort_layers.py) are timed with two lengths in turns: the difference is what the layers
take, without the call, and is explained by launches, operations and bytes of the steps' families. So is the whole
time of mixed networks, in which no kernel finds its own code and weights in the caches. All prices are fitted
together, with the least sum of relative errors; every third mixed network and the chains of blocks are left out,
and tell how far the ratio of INT8 to FP32 is off: 39 of 40 that are told at most `sure` are faster. FILE keeps what
was measured, or gives it. With --check, pairs NAME.fp32.onnx and NAME.int8.onnx of FOLDER are timed and told as
well. Prints a table for `--cost-table`, errors on stderr."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import judging
import ort_layers
from judging import np, ort

COLUMNS = ("launch_us", "mflop_us", "kb_us")
SHORT, LONG = 1, 9
BLOCK_S, ROUNDS = 0.002, 21
FASTER = 0.97  # of those that are told to be surely faster
WHOLE = ("mixture", "nothing")  # timed as a whole: also what a call takes
WHOLE_COUNTS = 4  # times as much as a chain, in which one kernel has the caches for itself


def session_of(path):
    session = judging.session_of(path, optimize=True)
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.random([d if isinstance(d, int) else 1 for d in i.shape]).astype(np.float32)
             for i in session.get_inputs()}
    return session, feeds


def microseconds(paths):
    """Of a run of each, in turns: the least of the blocks, since others only add."""
    sessions = [session_of(p) for p in paths]

    def block(session, feeds, runs):
        start = time.perf_counter()
        for _ in range(runs):
            session.run(None, feeds)
        return (time.perf_counter() - start) / runs

    runs = [max(1, int(BLOCK_S / min(block(*s, 2) for _ in range(3)))) for s in sessions]
    best = [float("inf")] * len(sessions)
    for _ in range(ROUNDS):
        best = [min(b, block(*s, n)) for b, s, n in zip(best, sessions, runs)]
    return [1e6 * b for b in best]


def steps_of(program, paths):
    done = subprocess.run([program, *paths], capture_output=True, text=True, check=True)
    return [json.loads(line)["steps"] for line in done.stdout.splitlines()]


def amounts(steps):
    """{family: [launches, mflop, kb]}"""
    found = collections.defaultdict(lambda: np.zeros(3))
    for family, launches, mflop, kb, _ in steps:
        found[family] += (launches, mflop, kb)
    return found


def drawn(kind, int8, seed):
    if kind == "nothing":
        return ort_layers.Nothing()
    return ort_layers.Mixture(int8, seed) if kind == "mixture" else ort_layers.Chain(kind, int8, seed)


def write(model, path):
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    return path


def measure(args):
    chains = [(k, args.draws) for k in {**ort_layers.LAYERS, **ort_layers.NETWORKS}]
    kinds = [("nothing", 1), *chains, ("mixture", 6 * args.draws)]
    rows = []
    for kind, draws in kinds:
        for seed in range(draws):
            for int8 in (False, True):
                net = drawn(kind, int8, seed)
                with tempfile.TemporaryDirectory() as folder:
                    paths = [write(net.model(n), os.path.join(folder, f"{n}.onnx"))
                             for n in (SHORT, LONG)[:1 if kind in WHOLE else 2]]
                    rows.append({"kind": kind, "seed": seed, "int8": int8, "shape": net.shape(),
                                 "us": microseconds(paths)})
        print(f"{kind}: {[[round(t, 1) for t in r['us']] for r in rows[-2:]]}", file=sys.stderr, flush=True)
    return rows


def explain(args, rows):
    """Adds to each row what the longer chain has more of each family, or what the whole network has."""
    with tempfile.TemporaryDirectory() as folder:
        paths, ends = [], []
        for i, r in enumerate(rows):
            net = drawn(r["kind"], r["int8"], r["seed"])
            paths += [write(net.model(n), os.path.join(folder, f"{i}.{n}.onnx"))
                      for n, _ in zip((SHORT, LONG), r["us"])]
            ends.append(len(paths))
        steps = [amounts(s) for s in steps_of(args.ort_steps, paths)]
    for r, end in zip(rows, ends):
        if len(r["us"]) == 1:
            r["more"], r["took"] = steps[end - 1], r["us"][0]
            continue
        short, long = steps[end - 2], steps[end - 1]
        r["more"] = {f: (long[f] - short[f]) / (LONG - SHORT) for f in long}
        r["took"] = max((r["us"][1] - r["us"][0]) / (LONG - SHORT), 0.05)


def nonnegative(a, y, rounds=400):
    """x >= 0 of least squares, by coordinate descent."""
    gram, right = a.T @ a, a.T @ y
    x = np.zeros(a.shape[1])
    for _ in range(rounds):
        before = x.copy()
        for k in range(len(x)):
            if gram[k, k] > 0:
                x[k] = max(0.0, x[k] + (right[k] - gram[k] @ x) / gram[k, k])
        if np.abs(x - before).max() < 1e-9 * max(1e-9, np.abs(x).max()):
            break
    return x


def fitted(rows):
    families = sorted({f for r in rows for f in r["more"]})
    a = np.array([np.concatenate([r["more"].get(f, np.zeros(3)) for f in families]) for r in rows])
    y = np.array([r["took"] for r in rows])
    scale = np.maximum(np.abs(a).max(0), 1e-12)
    counts = np.sqrt([WHOLE_COUNTS if r["kind"] in WHOLE else 1 for r in rows])
    weight = counts / y
    for _ in range(25):
        x = nonnegative(a / scale * weight[:, None], y * weight) / scale
        says = np.maximum(a @ x, 0.1 * y)
        middle = np.sqrt(says * y)  # half counts as much as twice
        weight = counts / middle / np.sqrt(np.maximum(np.abs(says - y) / middle, 0.03))
    return {f: x[3 * i:3 * i + 3] for i, f in enumerate(families)}


def told(prices, more):
    return sum(float(np.dot(prices[f], a)) for f, a in more.items() if f in prices)


def tell_layers(prices, rows):
    by_kind = collections.defaultdict(list)
    for r in rows:
        by_kind[r["kind"], r["int8"]].append(told(prices, r["more"]) / r["took"])
    for (kind, int8), ratios in by_kind.items():
        print(f"{kind:16} {'int8' if int8 else 'f32 '} told / measured: {np.min(ratios):.2f} to {np.max(ratios):.2f}, "
              f"median {np.median(ratios):.2f} of {len(ratios)}", file=sys.stderr)


def tell_networks(prices, rows):
    """Ratios INT8 / FP32 of the networks, told and measured; returns `sure`."""
    pairs = collections.defaultdict(dict)
    for r in rows:
        pairs[r["kind"], r["seed"]][r["int8"]] = r
    off, judged = [], []
    for (kind, seed), pair in pairs.items():
        said = told(prices, pair[True]["more"]) / told(prices, pair[False]["more"])
        is_so = pair[True]["took"] / pair[False]["took"]
        off.append(said / is_so)
        judged.append((said, is_so <= 1))
        print(f"{kind} {seed} {pair[True]['shape']}: INT8 / FP32 told {said:.2f}, measured {is_so:.2f}", file=sys.stderr)
    print(f"networks: told / measured median {np.median(off):.2f}, {np.quantile(off, 0.1):.2f} to {np.quantile(off, 0.9):.2f} "
          f"(tenths); median factor {np.exp(np.median(np.abs(np.log(off)))):.2f}", file=sys.stderr)
    judged.sort()
    faster = np.cumsum([fast for _, fast in judged])
    sure = max([min(said, 1) for k, (said, _) in enumerate(judged) if faster[k] >= FASTER * (k + 1)] or [0.5])
    told_faster = [fast for said, fast in judged if said <= sure]
    print(f"told at most {sure:.2f}: {len(told_faster)} networks, {sum(told_faster)} of them faster", file=sys.stderr)
    return sure


def check(args, prices):
    names = sorted(f[:-len(".int8.onnx")] for f in os.listdir(args.check) if f.endswith(".int8.onnx"))
    for name in names:
        paths = [os.path.join(args.check, f"{name}.{kind}.onnx") for kind in ("fp32", "int8")]
        took, steps = microseconds(paths), steps_of(args.ort_steps, paths)
        says = [told(prices, amounts(s)) for s in steps]
        print(f"{name:28} FP32 {took[0]:9.1f} us, told {says[0]:9.1f}; INT8 {took[1]:9.1f}, told {says[1]:9.1f}; "
              f"ratio {took[1] / took[0]:.2f}, told {says[1] / says[0]:.2f}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].replace("%", "%%"))
    parser.add_argument("ort_steps")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--measured")
    parser.add_argument("--check")
    args = parser.parse_args()
    if args.measured and os.path.exists(args.measured):
        with open(args.measured) as f:
            rows = json.load(f)
    else:
        rows = measure(args)
        if args.measured:
            with open(args.measured, "w") as f:
                json.dump(rows, f)
    explain(args, rows)
    unseen = [r for r in rows if r["kind"] in ort_layers.NETWORKS or r["kind"] == "mixture" and r["seed"] % 3 == 0]
    seen = [r for r in rows if r not in unseen]
    prices = fitted(seen)
    tell_layers(prices, rows)
    sure = tell_networks(prices, unseen)
    if args.check:
        check(args, prices)
    json.dump({"schema": "infer-opt/cost-table@1", "name": f"ONNX Runtime {ort.__version__}, 1 thread",
               "runtime": "onnxruntime", "sure": round(sure, 2),
               "prices": {f: {c: float(f"{v:.4g}") for c, v in zip(COLUMNS, p)} for f, p in prices.items()}},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
