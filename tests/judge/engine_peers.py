#!/usr/bin/env python3
"""Our inference engine beside other runtimes' ways to serve many requests in a process.

usage: engine_peers.py INFER_OPT INFER_BENCH [--rounds N] [--seconds S] [--concurrency 1,2,4,8] [--json FILE] [MODEL...]

A closed loop, so many requests in flight, on two workers of one thread each (one core: one): `infer-bench load --engine` on
the fused file; ONNX Runtime under a pool of Python threads over one session; OpenVINO's AsyncInferQueue. Beside them single
runs of one thread. All take turns within each round, in another order each time. For each model and concurrency, ours over theirs:

  throughput   time of an answer (less is better for us), the median of the rounds and their range
  p99          of all rounds' latencies together
  bare         time of a single run

Demanded: neither above 1.03 times the bare ratio, and at most 0.9 in the geometric mean over all. Exits 1 where a ratio of
throughputs is above in all rounds but one in eight, or the mean is; 77 without a runtime or data."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import judging
from judging import np

MODELS = ["yunet_n_320", "ultraface_rfb320", "squeezenet11_fp32", "resnet20_cifar", "ocr_angle", "basic_pitch", "tinyvit_demo"]
ZOO = {"zoo:mobilenetv3-small": ["mobilenetv3-small", "--batch", "1"], "zoo:resnet18": ["resnet18", "--batch", "1"]}
MOST_OVER_BARE, MOST_MEAN = 1.03, 0.9
PEERS = ("ort", "openvino")
BARE_S = 0.1
MOST_MS = 150
DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "uint8": "u8", "int8": "i8",
          "bool": "bool"}


class Worker:
    """A process that answers each line of JSON by a line of JSON."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline() or '{"error": "it has ended"}')
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Pool(Worker):
    """Another runtime (engine_pools.py)."""

    def __init__(self, name, model, workers, inputs):
        here = os.path.dirname(os.path.abspath(__file__))
        super().__init__(sys.executable, os.path.join(here, "engine_pools.py"), name)
        self.settings = self.ask(op="load", model=model, workers=workers, inputs=inputs)["settings"]

    def closed(self, concurrency, seconds):
        return self.ask(op="closed", concurrency=concurrency, seconds=seconds)

    def bare(self, count):
        return self.ask(op="bare", count=count)["ms"]


class Ours(Worker):
    """Single runs by the worker of `infer-bench peers`, loads by `infer-bench load --engine`."""

    def __init__(self, bench, path, workers, inputs, work):
        super().__init__(bench, "peers-worker")
        self.bench, self.path, self.inputs, self.workers, self.work = bench, path, inputs, workers, work
        listed = []
        for name, file in inputs.items():
            value = np.load(file)
            raw = file + ".raw"
            value.tofile(raw)
            listed.append({"name": name, "dtype": DTYPES[value.dtype.name], "dims": list(value.shape), "file": raw})
        self.ask(op="load", model=path, threads=1, inputs=listed, outputs=[], symbols={},
                 infer={"device": "cpu", "level": 2, "rewrites": 0})

    def closed(self, concurrency, seconds):
        report = os.path.join(self.work, "report.json")
        given = ["--input=%s=%s" % pair for pair in self.inputs.items()]
        done = subprocess.run(
            [self.bench, "load", self.path, *given, "--engine", "--threads", "1", "--lanes", str(self.workers),
             "--concurrency", str(concurrency), "--duration", str(seconds), "--warmup", "0.2", "--keep", "1000000",
             "--json", report, "-q"], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError("infer-bench load: " + done.stderr.strip()[-300:])
        with open(report, encoding="utf-8") as f:
            result = json.load(f)["result"]
        return {"ms": result["samples"]["ms"], "seconds": result["seconds"],
                "answered": result["throughput_per_s"] * result["seconds"], "python": None}

    def bare(self, count):
        return [ns / 1e6 for ns in self.ask(op="run", settle=1, count=count)["ns"]]


def prepared(infer_opt, bench, name, work):
    """(original, fused, {input: npy}) of a shared model or of the zoo."""
    if name in ZOO:
        path = os.path.join(work, "zoo.onnx")
        subprocess.run([bench, "zoo", *ZOO[name], "-o", path, "-q"], check=True)
    else:
        path = os.path.join(judging.data_folder(), "models", name, "model.onnx")
    fused = os.path.join(work, "fused.onnx")
    subprocess.run([infer_opt, "fuse", path, "-o", fused, "-q", "--no-verify"], check=True, stdout=subprocess.DEVNULL)
    session = judging.session_of(path, optimize=False)
    sets = [] if name in ZOO else judging.data_sets(os.path.dirname(path))
    if sets:
        feeds = judging.load_inputs(sets[0], session)
    else:
        random = np.random.default_rng(1)
        feeds = {i.name: random.standard_normal([d if isinstance(d, int) else 1 for d in i.shape]).astype(np.float32)
                 for i in session.get_inputs()}
    files = {}
    for k, (key, value) in enumerate(feeds.items()):
        files[key] = os.path.join(work, "input%d.npy" % k)
        np.save(files[key], value)
    return path, fused, files


def turns(engines, shift):
    names = list(engines)
    shift %= len(names)
    return names[shift:] + names[:shift]


class Figures:
    """Of one engine and concurrency: rounds of rates, and all latencies."""

    def __init__(self):
        self.rates, self.ms, self.python = [], [], []

    def add(self, block):
        self.rates.append(block["answered"] / block["seconds"])
        self.ms.append(block["ms"])
        if block["python"] is not None:
            self.python.append(block["python"])

    def p99(self):
        return float(np.quantile(np.concatenate(self.ms), 0.99))


def bare_ms(engine):
    """The median of single runs for about BARE_S."""
    first = min(engine.bare(2))
    if first > MOST_MS:
        raise RuntimeError("a run takes %.0f ms, too long for the blocks" % first)
    return statistics.median(engine.bare(max(5, int(1e3 * BARE_S / max(first, 1e-3)))))


def measure(engines, concurrencies, rounds, seconds):
    """({concurrency: {engine: Figures}}, {concurrency: {engine: medians of the single runs beside, by round}})"""
    figures = {c: {e: Figures() for e in engines} for c in concurrencies}
    bare = {c: {e: [] for e in engines} for c in concurrencies}
    for r in range(rounds):
        for c in concurrencies:
            for name in turns(engines, r):
                bare[c][name].append(bare_ms(engines[name]))
                figures[c][name].add(engines[name].closed(c, seconds))
    return figures, bare


def judge_model(arguments, name):
    """Rows of one model."""
    workers = min(2, len(os.sched_getaffinity(0)))
    engines = {}
    with tempfile.TemporaryDirectory() as work:
        path, fused, inputs = prepared(arguments.infer_opt, arguments.infer_bench, name, work)
        try:
            engines["infer"] = Ours(arguments.infer_bench, fused, workers, inputs, work)
            for peer in PEERS:
                engines[peer] = Pool(peer, path, workers, inputs)
                arguments.settings[peer] = engines[peer].settings
            figures, bare = measure(engines, arguments.concurrency, arguments.rounds, arguments.seconds)
        finally:
            for engine in engines.values():
                engine.close()
    return [row(name, c, peer, figures[c], bare[c]) for c in arguments.concurrency for peer in PEERS]


def row(model, concurrency, peer, figures, bare):
    ours, theirs = figures["infer"], figures[peer]
    bare_ratios = [a / b for a, b in zip(bare["infer"], bare[peer])]
    ratios = [b / a for a, b in zip(ours.rates, theirs.rates)]
    return {"model": model, "concurrency": concurrency, "peer": peer,
            "bare": statistics.median(bare_ratios), "bare_rounds": bare_ratios,
            "bare_ms": statistics.median(bare["infer"]),
            "throughput": statistics.median(ratios), "throughput_rounds": ratios,
            "p99": ours.p99() / theirs.p99(), "p99_ms": ours.p99(),
            "p99_rounds": [float(np.quantile(a, 0.99) / np.quantile(b, 0.99)) for a, b in zip(ours.ms, theirs.ms)],
            "python": statistics.median(theirs.python) if theirs.python else None,
            "answers": sum(map(len, ours.ms))}


def slower_beyond_doubt(r):
    """In all rounds but one in eight."""
    over = sorted(a / b for a, b in zip(r["throughput_rounds"], r["bare_rounds"]))
    return len(over) > 2 and over[(len(over) + 7) // 8] > MOST_OVER_BARE


def mark(value, bare):
    return "%.3f%s" % (value, " *" if value > MOST_OVER_BARE * bare else "")


def show_head():
    print("| model | bare run, ms | in flight | beside | bare | throughput (rounds) | p99 | their Python |")
    print("|---|---:|---:|---|---:|---:|---:|---:|", flush=True)


def show(rows):
    for r in rows:
        print("| %s | %.2f | %d | %s | %.3f | %s (%.3f to %.3f) | %s | %s |" % (
            r["model"], r["bare_ms"], r["concurrency"], r["peer"], r["bare"], mark(r["throughput"], r["bare"]),
            min(r["throughput_rounds"]), max(r["throughput_rounds"]), mark(r["p99"], r["bare"]),
            "" if r["python"] is None else "%.2f %%" % (100 * r["python"])), flush=True)


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_opt")
    parser.add_argument("infer_bench")
    parser.add_argument("models", nargs="*", default=MODELS + list(ZOO))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--concurrency", type=lambda text: [int(c) for c in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--json")
    arguments = parser.parse_intermixed_args()
    arguments.settings = {}
    return arguments


def main():
    arguments = options()
    judging.data_folder()
    try:
        import openvino  # noqa: F401
    except ImportError as e:
        judging.skip(str(e))
    rows = []
    show_head()
    for model in arguments.models:
        try:
            rows += judge_model(arguments, model)
            show([r for r in rows if r["model"] == model])
        except (RuntimeError, subprocess.SubprocessError) as e:
            print("%s: left out: %s" % (model, e))
    if not rows:
        sys.exit("no model was measured")
    print("\n*: above %.2f times the bare ratio" % MOST_OVER_BARE)
    for said in arguments.settings.values():
        print(said)
    means = {}
    for peer in PEERS:
        for figure in ("bare", "throughput", "p99"):
            means[peer, figure] = mean(r[figure] for r in rows if r["peer"] == peer)
        print("%s, geometric means of ours over theirs: bare %.3f, throughput %.3f, p99 %.3f"
              % (peer, *(means[peer, f] for f in ("bare", "throughput", "p99"))))
    python = [r["python"] for r in rows if r["python"] is not None]
    print("Python's share of the pool's time: most %.2f %%" % (100 * max(python)))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as f:
            json.dump({"settings": arguments.settings, "rows": rows}, f, indent=1)
    slower = [r for r in rows if slower_beyond_doubt(r)]
    for r in slower:
        print("SLOWER %s, %d in flight, beside %s" % (r["model"], r["concurrency"], r["peer"]))
    return 1 if slower or any(means[p, "throughput"] > MOST_MEAN for p in PEERS) else 0


if __name__ == "__main__":
    sys.exit(main())
