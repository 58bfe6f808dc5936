#!/usr/bin/env python3
"""What `infer-opt fuse` writes, for both targets, on every engine.

usage: fused_models.py INFER_OPT [MODEL...]

Fuses every model of $INFER_TEST_DATA/models, and small ones of the zoo in every exporter's spelling, for
--target onnx and ort, and runs what was written in ONNX Runtime as it is and with its own rewrites, and in our
cpu and reference backends: against the stored outputs, else against what ONNX Runtime gets from the model as it
came. At the opset that the model came with, as without options, the file has no more nodes than it had, and all that was
fused is found in it again; and in ONNX Runtime no more nodes are left of it. MODEL: some of these names. Exit 77 (a skip) without onnx, onnxruntime or numpy; without the data the zoo
alone is judged.
"""

import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx
from same_as_onnxruntime import inputs_of, run_ours

TOLERANCE = 1e-3  # max|d| / max|ref| per output; other than float: equal
HALVES = 2.0 ** -8  # of f16 models: both sides round every layer to 11 bits
ZOO = ("resnet18", "mobilenetv3-small", "yolo", "bert-base", "vit-b16", "gpt2-small", "gpt2-small-kv")
STYLES = ("pytorch", "onnxscript", "tf", "jax")


def stored_runs(folder, session):
    """[(inputs by name, outputs in order)]"""
    runs = []
    for data_set in judging.data_sets(folder):
        files = sorted((f for f in os.listdir(data_set) if f.startswith("output_")),
                       key=lambda f: int(f[len("output_"):-len(".pb")]))
        runs.append((judging.load_inputs(data_set, session),
                     [judging.read_tensor(os.path.join(data_set, f))[1] for f in files]))
    return runs


def worst_difference(runs, names, run):
    """Over all outputs of all runs. run(inputs) gives the outputs by name."""
    worst = 0.0
    for inputs, wanted in runs:
        got = run(inputs)
        for name, want in zip(names, wanted):
            worst = max(worst, judging.difference(want, np.asarray(got[name])))
    return worst


def nodes_of(path):
    """How many nodes a model's graph has; constants are none."""
    return sum(n.op_type != "Constant" for n in onnx.load(path, load_external_data=False).graph.node)


# More nodes are left in ONNX Runtime of what fuse wrote than of the model as it came, known and why.
FUSED_BY_ORT = {
    "bert_toy": "its Attention of com.microsoft wants three products for queries, keys and values, which are one here",
    "silero_op15": "Squeeze and Unsqueeze around an LSTM's state, which stay in both branches of an If",
}


def nodes_in_ort(path, work):
    """How many nodes ONNX Runtime has of a file, its fusions done."""
    options = judging.ort.SessionOptions()
    options.graph_optimization_level = judging.ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = os.path.join(work, "in_ort.onnx")
    options.log_severity_level = 4
    judging.ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return nodes_of(options.optimized_model_filepath)


def whole_nodes(infer_opt, path, work):
    """How many nodes our own runtime has of a file."""
    out, report = os.path.join(work, "whole.onnx"), os.path.join(work, "whole.json")
    subprocess.run([infer_opt, "fuse", path, "-o", out, "-q", "--no-verify", "--opset", "max", "--target", "infer",
                    "--json", report], check=True, stdout=subprocess.DEVNULL)
    with open(report) as f:
        return json.load(f)["optimize"]["after"]["nodes"]


def check(infer_opt, name, path, runs, work):
    """(verdict, detail)"""
    original = judging.session_of(path, optimize=False)
    names = [o.name for o in original.get_outputs()]
    if callable(runs):
        runs = runs(original)
    if not runs:
        inputs = {name: value % 2 if value.dtype.kind in "iu" else value  # an index of any table
                  for name, value in inputs_of(path, original, 8).items()}
        runs = [(inputs, original.run(None, inputs))]
    found = {}
    for target in ("onnx", "ort"):
        fused = os.path.join(work, target + ".onnx")
        code, error = judging.run_quietly([infer_opt, "fuse", path, "-o", fused, "-q", "--no-verify", "--opset", "max",
                                           *([] if target == "onnx" else ["--target", target])])
        if code != 0:
            return "bad", "fuse --target %s exits with %d: %s" % (target, code, error)
        if target == "onnx":
            onnx.checker.check_model(fused)
        for how in ("as it is", "rewritten"):
            session = judging.session_of(fused, how == "rewritten")
            found["%s %s" % (target, how)] = worst_difference(
                runs, names, lambda inputs, s=session: dict(zip(names, s.run(None, inputs))))
        for device in ("cpu", "reference"):
            some = runs if device == "cpu" else runs[:1]  # the reference kernels take their time

            def ours(inputs, device=device, fused=fused):
                with tempfile.TemporaryDirectory() as scratch:
                    return run_ours(infer_opt, fused, device, inputs, scratch)
            found["%s %s" % (target, device)] = worst_difference(some, names, ours)
    plain = os.path.join(work, "plain.onnx")
    code, error = judging.run_quietly([infer_opt, "fuse", path, "-o", plain, "-q", "--no-verify"])
    if code != 0:
        return "bad", "fuse exits with %d: %s" % (code, error)
    had, has = nodes_of(path), nodes_of(plain)
    if has > had:
        return "bad", "grows from %d to %d nodes at its own opset" % (had, has)
    # Nodes that fused operators are written as at this opset are found again by who reads the file.
    whole, again = (whole_nodes(infer_opt, of, work) for of in (path, plain))
    if again > whole:
        return "bad", "%d nodes are left of it, %d of what fuse wrote" % (whole, again)
    before, after = nodes_in_ort(path, work), nodes_in_ort(plain, work)
    if (after > before) != (name in FUSED_BY_ORT):
        return "bad", "in ONNX Runtime %d nodes are left of it, %d of what fuse wrote" % (before, after)
    session = judging.session_of(plain, False)
    found["own opset"] = worst_difference(runs, names, lambda inputs: dict(zip(names, session.run(None, inputs))))
    halves = any(o.type == "tensor(float16)" for o in original.get_outputs())
    bad = {how: d for how, d in found.items() if not d <= (HALVES if halves else TOLERANCE)}
    how, most = max(found.items(), key=lambda item: item[1])
    detail = ", ".join("%s %.2g" % item for item in bad.items()) or "at most %.2g (%s)" % (most, how)
    return ("bad" if bad else "ok"), detail


def zoo_file(infer_opt, name, style, work):
    path = os.path.join(work, "zoo.onnx")
    transformer = not any(name.startswith(n) for n in ("resnet", "mobilenet", "yolo"))
    size = ["--num-layers", "2"] if transformer else []
    if not name.startswith(("bert", "gpt2")):
        size += ["--resolution", "64"]
    elif "-kv" not in name:
        size += ["--sequence", "8"]
    else:
        size += ["--past", "7"]
    bench = os.path.join(os.path.dirname(infer_opt), "infer-bench")
    subprocess.run([bench, "zoo", name, "--style", style, "-o", path, "-q"] + size, check=True,
                   stdout=subprocess.DEVNULL)
    return path


def cases(infer_opt):
    """(name, function of a scratch folder that gives (model file, runs))"""
    root = os.path.join(os.environ.get("INFER_TEST_DATA", ""), "models")
    if os.path.isdir(root):
        for name in sorted(os.listdir(root)):
            folder = os.path.join(root, name)
            yield name, lambda work, folder=folder: (os.path.join(folder, "model.onnx"),
                                                     lambda session: stored_runs(folder, session))
    else:
        print("INFER_TEST_DATA is not set or has no models/: the zoo alone")
    for name in ZOO:
        for style in STYLES:
            yield "%s.%s" % (name, style), lambda work, name=name, style=style: (
                zoo_file(infer_opt, name, style, work), [])


def main():
    if len(sys.argv) < 2:
        sys.exit("the program under test is missing")
    infer_opt, wanted, count = sys.argv[1], sys.argv[2:], {}
    for name, make in cases(infer_opt):
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                verdict, detail = check(infer_opt, name, *make(work), work)
            except Exception as e:  # a file that a judge refuses is a failure of ours
                verdict, detail = "bad", str(e)
        count[verdict] = count.get(verdict, 0) + 1
        print("%-12s %s %s" % (verdict, name, detail), flush=True)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())))
    sys.exit(1 if count.get("bad") or not count.get("ok") else 0)


main()
