#!/usr/bin/env python3
"""Single layers beside ONNX Runtime: which of them does our runtime compute slower, and on which kernel?

layer_map.py [--bin DIR] [--before DIR] [--python FILE] [--seed N] [--count N] [--threads N] [--family NAME]...
             [--filter GLOB]... [--above R] [--most R] [--json FILE]

Draws --count layers (convolutions of 1 to 3 dimensions with windows of 1 to 7, strides, dilations, groups; transposed
convolutions; pooling; products; normalizations; reductions; resizing; broadcasting; moves; recurrent layers; attention),
the same for the same seed, and writes each as a model. Both engines are workers of `infer-bench peers`, bound to one set
of processors; blocks of runs in turns, the ratio is the median over rounds of the blocks' medians. Layers whose ratio is
above --above (1.15) are listed with their kernels, the largest loss first; the summary tells the share of each family.

--family draws from these families alone. Four are drawn only so: `quantized` (convolutions, products, sums and means of codes,
between DequantizeLinear and QuantizeLinear; their results may differ by one code), `functions` (trigonometric, hyperbolic and their inverses),
`sampling` (DeformConv, Col2Im, DFT, GridSample) and `wide` (convolutions with windows of up to 128 points, large dilations, images
smaller than the window, groups of few or odd channels, padding before the image alone), which networks have seldom.

--before takes the binaries of an older build, which is measured in the same turns: each family then has both ratios, and layers
on which the newer one is slower by more than --above are listed, too.

A layer by itself finds its operands in the caches, and pays for bringing an image into the layout of its kernel and
back, which neighbours in a network share. Results of both are compared; a layer whose results differ by more than
1e-3 of the largest is listed as wrong, and the exit code is 1. --most R wants a verdict on times, too: 1 where a layer takes
more than R times ONNX Runtime's time in every round.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
    from layer_generator import Generator, Layer
except ImportError as e:
    print("%s: start it with a Python that has numpy, onnx and onnxruntime (tools/setup.sh --judges)" % e)
    sys.exit(77)

TOOLS = pathlib.Path(__file__).resolve().parents[1]
ROUNDS, BLOCK_S = 5, 0.02
TOLERANCE, CODES = 1e-3, 1  # of the largest result; steps of codes


class Worker:
    """One engine of `infer-bench peers` (tools/engines/peers_protocol.py)."""

    def __init__(self, argv, cpus):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"ok": False, "error": "the worker ended"}
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        return answer

    def cpu_ns(self):
        """Processor time of all its threads."""
        total = 0
        for task in pathlib.Path("/proc/%d/task" % self.process.pid).iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except OSError:  # a thread that has just ended
                pass
        return total

    def await_sleep(self):
        """Until its threads sleep: those of ONNX Runtime spin for some 30 ms after a run."""
        until, before = time.monotonic() + 1, self.cpu_ns()
        while time.monotonic() < until:
            time.sleep(0.012)  # the clock of a thread that runs moves with the kernel's ticks
            now = self.cpu_ns()
            if now == before:
                return
            before = now

    def block(self, count):
        answer = self.ask(op="run", settle=2, count=count)
        return statistics.median(answer.get("undisturbed_ns") or answer["ns"])


DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8",
          "bool": "bool"}


def write_case(layer, folder):
    model = layer.model()
    path = folder / "layer.onnx"
    onnx.save(model, str(path))
    inputs = []
    for name, value in layer.inputs.items():
        file = folder / (name + ".raw")
        file.write_bytes(np.ascontiguousarray(value).tobytes())
        inputs.append({"name": name, "dtype": DTYPES[str(value.dtype)], "dims": list(value.shape), "file": str(file)})
    return {"op": "load", "model": str(path), "inputs": inputs, "outputs": [n for n in layer.outputs if n],
            "symbols": {}}


def difference(layer, a, b, folder):
    """max|d| / max|ref| of the two engines' results, of the output that differs most; of codes max|d|."""
    kinds = {short: long for long, short in DTYPES.items()}
    results = [[np.fromfile(d["file"], kinds[d["dtype"]]).astype(np.float64)
                for d in worker.ask(op="outputs", folder=str(folder))["outputs"]] for worker in (a, b)]
    most = 0.0
    for ours, theirs in zip(*results):
        if ours.size != theirs.size:
            return float("inf")
        scale = 0 if layer.of_codes else np.max(np.abs(theirs), initial=0)
        worst = np.max(np.abs(ours - theirs), initial=0)
        most = max(most, float(worst / scale) if scale > 0 else float(worst))
    return most


def compare(layer, ours, theirs, before, threads, folder):
    request = write_case(layer, folder)
    workers = {"ours": ours, "theirs": theirs, **({"before": before} if before else {})}
    def await_sleep():
        for worker in workers.values() if threads > 1 else []:
            worker.await_sleep()

    for name, worker in workers.items():
        await_sleep()
        if name == "theirs":
            worker.ask(**request, threads=threads)
        else:
            worker.ask(**request, threads=threads, infer={"device": "cpu", "level": 2, "rewrites": 3})
    error = difference(layer, ours, theirs, folder)
    first = max(w.block(3) for w in workers.values())
    count = int(min(400, max(5, BLOCK_S * 1e9 / first)))
    times = {name: [] for name in workers}
    for turn in range(ROUNDS):
        for name in list(workers)[::1 if turn % 2 else -1]:
            await_sleep()
            times[name].append(workers[name].block(count))
    ratios = [a / b for a, b in zip(times["ours"], times["theirs"])]
    older = {}
    if before:
        older = {"before_us": statistics.median(times["before"]) / 1e3,
                 "before_ratio": statistics.median(a / b for a, b in zip(times["before"], times["theirs"])),
                 "of_before": statistics.median(a / b for a, b in zip(times["ours"], times["before"]))}
    return {**older, "name": layer.name, "family": layer.family, "ratio": statistics.median(ratios),
            "least": min(ratios), "most": max(ratios), "error": error, "tolerance": CODES if layer.of_codes else TOLERANCE,
            "us": statistics.median(times["ours"]) / 1e3, "their_us": statistics.median(times["theirs"]) / 1e3}


def kernels_of(bin_dir, model):
    done = subprocess.run([bin_dir / "infer-opt", "inspect", model, "--kernels", "--json", "-", "--quiet"],
                          capture_output=True, text=True)
    if done.returncode:
        return "?"
    steps = json.loads(done.stdout).get("kernels", [])
    return ", ".join("%s %s" % (s.get("op", "?"), s.get("kernel", "?")) for s in steps) or "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="of ONNX Runtime's worker")
    parser.add_argument("--seed", type=int, default=27)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--before", type=pathlib.Path, help="binaries of an older build")
    parser.add_argument("--family", action="append", help="only layers of this family; more than once: any of them")
    parser.add_argument("--filter", action="append", help="only layers with such a name; more than once: any of them")
    parser.add_argument("--above", type=float, default=1.15)
    parser.add_argument("--most", type=float, help="exit code 1 where the least ratio of a layer is above")
    parser.add_argument("--least-loss-us", type=float, default=0, help="leave out smaller losses than these microseconds")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[:args.threads]
    ours = Worker([str(args.bin / "infer-bench"), "peers-worker"], cpus)
    theirs = Worker([args.python, str(TOOLS / "engines/ort_worker.py")], cpus)
    before = Worker([str(args.before / "infer-bench"), "peers-worker"], cpus) if args.before else None
    theirs.ask(op="hello")
    generator = Generator(args.seed)
    results, seen = [], set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for i in range(args.count):
            layer = generator.draw(args.family)
            if layer.name in seen or not any(fnmatch.fnmatch(layer.name, f) for f in args.filter or ["*"]):
                continue
            seen.add(layer.name)
            try:
                result = compare(layer, ours, theirs, before, args.threads, folder)
            except RuntimeError as e:
                results.append({"name": layer.name, "family": layer.family, "failed": str(e)})
                continue
            wanted = max(result["ratio"], result.get("of_before", 0)) > args.above or result["error"] > result["tolerance"]
            result["kernels"] = kernels_of(args.bin, folder / "layer.onnx") if wanted else ""
            results.append(result)
            if args.json and i % 20 == 0:
                args.json.write_text(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    sys.exit(report(results, args))


def report(results, args):
    timed = [r for r in results if "ratio" in r]
    slow = [r for r in timed if r["ratio"] > args.above and r["us"] - r["their_us"] >= args.least_loss_us]
    slow.sort(key=lambda r: -r["ratio"])
    print("| layer | us | ONNX Runtime | ratio | least | kernels |\n|---|---:|---:|---:|---:|---|")
    for r in slow:
        print("| %s | %.1f | %.1f | %.2f | %.2f | %s |" % (r["name"], r["us"], r["their_us"], r["ratio"], r["least"],
                                                        r["kernels"]))
    print("\n| family | layers | geometric mean | above %.2f |\n|---|---:|---:|---:|" % args.above)
    for family in sorted({r["family"] for r in timed}):
        own = [r for r in timed if r["family"] == family]
        mean = float(np.exp(np.mean([np.log(r["ratio"]) for r in own])))
        print("| %s | %d | %.2f | %d |" % (family, len(own), mean, sum(r["ratio"] > args.above for r in own)))
    if args.before:
        report_before(timed, args.above)
    wrong = [r for r in timed if not r["error"] <= r["tolerance"]]
    for r in wrong:
        print("wrong: %s: %g (%s)" % (r["name"], r["error"], r["kernels"]))
    failed = [r for r in results if "failed" in r]
    for r in failed:
        print("not compared: %s: %s" % (r["name"], r["failed"].splitlines()[0][:160]))
    print("%d layers, %d slower than %.2f, load %.2f" % (len(timed), len(slow), args.above, os.getloadavg()[0]))
    most = getattr(args, "most", None)
    too_slow = [r for r in slow if most and r["least"] > most]
    for r in too_slow:
        print("above %.2f in every round: %s: %.2f (%s)" % (most, r["name"], r["ratio"], r["kernels"]))
    return bool(wrong or too_slow or failed)


def report_before(timed, above):
    print("\n| layers | number | before | now | above %.2f before | now | now of before |\n|---|---:|---:|---:|---:|---:|---:|" % above)
    mean = lambda rows, key: float(np.exp(np.mean([np.log(r[key]) for r in rows])))
    for family in sorted({r["family"] for r in timed}) + ["all"]:
        own = [r for r in timed if family in (r["family"], "all")]
        print("| %s | %d | %.2f | %.2f | %d | %d | %.2f |" % (
            family, len(own), mean(own, "before_ratio"), mean(own, "ratio"), sum(r["before_ratio"] > above for r in own),
            sum(r["ratio"] > above for r in own), mean(own, "of_before")))
    for r in sorted(timed, key=lambda r: -r["of_before"]):
        if r["of_before"] > above:
            print("slower than before: %s: %.1f us, before %.1f (%s)" % (r["name"], r["us"], r["before_us"], r["kernels"]))


if __name__ == "__main__":
    main()
