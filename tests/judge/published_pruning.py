#!/usr/bin/env python3
"""`infer-opt prune` beside the published SparseGPT and Wanda, layer by layer.

    published_pruning.py INFER_OPT --sparsegpt FOLDER --wanda FOLDER [--models a,b] [--rows 8192] [--table FILE]

FOLDER: a checkout of github.com/IST-DASLab/sparsegpt and of github.com/locuslab/wanda, whose code runs as it stands there, on
the CPU. Needs PyTorch, onnx, onnxruntime and INFER_TEST_DATA; says what is missing and ends with 77.

X, what a layer reads in the dense model (windows of convolutions as rows, input channels innermost), and W are taken out of each
shared classifier. All three prune W by the same rows of X, ours as a model of one MatMul at its defaults. Judged by |X'(V - W)| of
the layer's outputs on rows X' of samples that nobody saw. A layer counts as worse by ours over the better of the other two.
The pruned matrices are put back into the model, too, and its outputs are compared with the dense one's.

Exit 1 where ours is not better in the geometric mean at 50 %, 2:4 and 70 %, or worse by more than 5 % in a layer."""
import argparse
import contextlib
import importlib
import io
import math
import pathlib
import subprocess
import sys
import tempfile
import types

import judging
from judging import np, onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/infer_opt"))
from prune_table import MODELS  # noqa: E402: images, labels, preprocessing and parts of each classifier

try:
    import torch
except ImportError as error:
    judging.skip(str(error))

PATTERNS = {"50 %": (["--sparsity", "50%"], 0.5, 0, 0), "2:4": (["--nm", "2:4"], 0.5, 2, 4), "70 %": (["--sparsity", "70%"], 0.7, 0, 0)}
OURS, OTHERS = "ours", ("SparseGPT", "Wanda")
MOST_WORSE = 1.05
FIT, JUDGE = 400, 200  # samples
ROWS_OF_SAMPLE = 64    # of a convolution
BATCH = 64             # rows that one sample of the one-layer model has


def stand_in(name, **members):
    """A package that the published code imports and does not need here."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


class Published:
    """Their routines, from their files."""

    def __init__(self, sparsegpt, wanda):
        stand_in("transformers", Conv1D=type("Conv1D", (torch.nn.Module,), {}))
        stand_in("datasets", load_dataset=None)
        torch.cuda.synchronize = torch.cuda.empty_cache = lambda: None
        sys.path[:0] = [str(sparsegpt), str(wanda)]
        self.sparsegpt = importlib.import_module("sparsegpt")
        self.wanda = importlib.import_module("lib.prune")

    @torch.no_grad()
    def prune(self, way, x, w, share, zeros, of):
        linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
        linear.weight.data = torch.from_numpy(w.copy())
        with contextlib.redirect_stdout(io.StringIO()):
            if way == "SparseGPT":
                one = self.sparsegpt.SparseGPT(linear)
                one.add_batch(torch.from_numpy(x), None)
                one.fasterprune(share, prunen=zeros, prunem=of, percdamp=0.01, blocksize=128)
            else:
                self.run_wanda(linear, torch.from_numpy(x), share, zeros, of)
        return linear.weight.data.numpy()

    def run_wanda(self, linear, x, share, zeros, of):
        """Their loop over a model, of one layer that reads one sequence."""
        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = linear

            def forward(self, x, attention_mask=None, position_ids=None):
                return (self.fc(x),)

        model = types.SimpleNamespace(config=types.SimpleNamespace(use_cache=False), seqlen=len(x), hf_device_map={},
                                      model=types.SimpleNamespace(layers=[Layer()]))
        args = types.SimpleNamespace(nsamples=1, seed=0, sparsity_ratio=share, use_variant=False)
        inputs = x[None].clone()
        self.wanda.get_loaders = lambda *_, **__: (None, None)
        self.wanda.prepare_calibration_input = lambda *_: (inputs, torch.zeros(1, len(x), linear.out_features), None, None)
        self.wanda.prune_wanda(args, model, None, torch.device("cpu"), prune_n=zeros, prune_m=of)


def prepared(x, how):
    """What `--preprocess` makes of stored images."""
    for word in filter(None, how.split(",")):
        name, value = word.split("=")
        numbers = [float(v.split("/")[0]) / float((v.split("/") + ["1"])[1]) for v in value.split(":")] if name in ("scale", "mean", "std") else None
        if name == "crop":
            cut = [(n - int(value)) // 2 for n in x.shape[1:3]]
            x = x[:, cut[0]:cut[0] + int(value), cut[1]:cut[1] + int(value)]
        elif name == "order":
            x = x[..., ::-1]
        elif name == "shape":
            x = x.reshape(len(x), *map(int, value.split("x")))
        elif numbers:
            x = x.astype(np.float32)
            x = x * np.float32(numbers[0]) if name == "scale" else x - np.float32(numbers) if name == "mean" else x / np.float32(numbers)
    if "layout=nchw" in how:
        x = np.moveaxis(x, -1, 1)
    return np.ascontiguousarray(x, dtype=np.float32)


def samples(model, path):
    """Those that fit and those that judge, with the axis of the batch where the model has one."""
    images, _, how, parts = MODELS[model]
    x = prepared(np.load(f"{judging.data_folder()}/labelled/{images}.npy")[:1000], how)
    asked = judging.session_of(path, True).get_inputs()[0]
    if len(asked.shape) == x.ndim - 1 or "shape=784x1" in how:
        x = x.reshape(len(x), *[d if isinstance(d, int) else 1 for d in asked.shape])
    else:
        x = x[:, None]
    judges = np.arange(len(x)) % parts == 0
    return asked.name, x[~judges][:FIT], x[judges][:JUDGE]


class Layer:
    """A Conv of one group, Gemm or MatMul with constant weights: its matrix [outputs, inputs], and rows that it reads."""

    def __init__(self, node, weights):
        self.node, self.name, self.read, self.dims = node, node.input[1], node.input[0], weights.shape
        self.attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.turned = node.op_type == "MatMul" or (node.op_type == "Gemm" and not self.attrs.get("transB", 0))
        self.w = np.ascontiguousarray(self.matrix(weights), dtype=np.float32)

    def matrix(self, weights):
        if self.node.op_type == "Conv":
            return np.moveaxis(weights, 1, -1).reshape(self.dims[0], -1)
        return weights.T if self.turned else weights

    def weights(self, matrix):
        if self.node.op_type == "Conv":
            return np.moveaxis(matrix.reshape(self.dims[0], *self.dims[2:], self.dims[1]), -1, 1)
        return matrix.T if self.turned else matrix

    def rows(self, x, random):
        """Of one sample."""
        if self.node.op_type != "Conv":
            return x.reshape(-1, x.shape[-1])
        kernel, rank = self.dims[2:], len(self.dims) - 2
        strides, dilations = (self.attrs.get(a, [1] * rank) for a in ("strides", "dilations"))
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
        pads = self.pads(x.shape[2:], strides, reach)
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        starts = np.stack(np.meshgrid(*[np.arange(0, n - r + 1, s) for n, r, s in zip(x.shape[2:], reach, strides)],
                                      indexing="ij"), -1).reshape(-1, rank)
        starts = starts[random.permutation(len(starts))[:ROWS_OF_SAMPLE]]
        picked = [x[(0, slice(None), *[slice(b, b + r, d) for b, r, d in zip(at, reach, dilations)])] for at in starts]
        return np.stack([np.moveaxis(p, 0, -1).reshape(-1) for p in picked])

    def pads(self, extents, strides, reach):
        how = self.attrs.get("auto_pad", b"NOTSET")
        if how.startswith(b"SAME"):
            wanted = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(extents, strides, reach)]
            halves = [(p // 2, p - p // 2) for p in wanted]
            return halves if how == b"SAME_UPPER" else [(b, a) for a, b in halves]
        pads = self.attrs.get("pads", [0] * 2 * len(reach))
        return list(zip(pads[:len(reach)], pads[len(reach):]))


def layers_of(model):
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or len(node.input) < 2 or node.input[1] not in constants:
            continue
        weights = constants[node.input[1]]
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if weights.ndim < 2 or (node.op_type == "MatMul" and weights.ndim != 2) or attrs.get("group", 1) != 1 or attrs.get("transA", 0):
            continue
        if min(weights.size // weights.shape[0], weights.shape[0]) >= 4:
            yield Layer(node, weights)


def run(model, path, name, samples, wanted):
    """Values by sample."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    known = {o.name for o in model.graph.output}
    given = {i.name for i in model.graph.input}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(wanted) if n not in known | given)
    onnx.save(model, path)
    session = judging.session_of(str(path), False)
    names = [n for n in wanted if n not in given]
    for x in samples:
        yield dict(zip(names, session.run(names, {name: x}))) | {name: x}


def collect(model, layers, path, name, samples, seed, most):
    random, rows = np.random.default_rng(seed), {l.name: [] for l in layers}
    for values in run(model, path, name, samples, [l.read for l in layers]):
        for l in layers:
            rows[l.name].append(l.rows(values[l.read], random))
    for l in layers:
        x = np.concatenate(rows[l.name]).astype(np.float32)
        x = x[random.permutation(len(x))[:most]]
        rows[l.name] = x[:len(x) // BATCH * BATCH]
    return rows


def prune_ours(tool, work, x, w, options):
    """The matrix that the command writes for a model of one product."""
    rows, depth = x.shape
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "layer", [value("x", onnx.TensorProto.FLOAT, [1, BATCH, depth])],
        [value("y", onnx.TensorProto.FLOAT, [1, BATCH, len(w)])], [onnx.numpy_helper.from_array(np.ascontiguousarray(w.T), "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), work / "layer.onnx")
    np.save(work / "x.npy", x.reshape(rows // BATCH, BATCH, depth))
    done = subprocess.run([tool, "prune", work / "layer.onnx", "-o", work / "pruned.onnx", "--calib", work / "x.npy", "--no-verify",
                           "--quiet", *options], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"infer-opt prune: {done.stderr}")
    pruned = [onnx.numpy_helper.to_array(t) for t in onnx.load(work / "pruned.onnx").graph.initializer]
    (v,) = [p for p in pruned if p.size == w.size]
    return v.T if v.shape == w.shape[::-1] and v.shape[0] == depth else v


def error(x, v, w):
    dense = x @ w.T
    return float(np.linalg.norm(x @ (v - w).T) / max(np.linalg.norm(dense), 1e-30))


def spliced_db(model, layers, matrices, path, given, samples, golden):
    """SQNR of the first output with these matrices."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    by_name = {t.name: t for t in model.graph.initializer}
    for l in layers:
        by_name[l.name].CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(l.weights(matrices[l.name])), l.name))
    name = model.graph.output[0].name
    made = np.stack([v[name] for v in run(model, path, given, samples, [name])])
    return 10 * math.log10(np.sum(golden ** 2.0) / max(np.sum((made - golden) ** 2.0), 1e-30))


class Judge:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.published = Published(args.sparsegpt, args.wanda)
        self.ratios = {p: [] for p in PATTERNS}  # (ratio, "model layer")
        self.lines = []

    def model(self, name):
        path = f"{judging.data_folder()}/models/{name}/model.onnx"
        model = onnx.load(path)
        layers = list({l.name: l for l in layers_of(model)}.values())
        given, fit, judge = samples(name, path)
        at = self.work / "taps.onnx"
        x = collect(model, layers, at, given, fit, 3, self.args.rows)
        seen = collect(model, layers, at, given, judge, 4, self.args.rows // 4)
        layers = [l for l in layers if len(x[l.name]) >= 4 * BATCH]
        output = model.graph.output[0].name
        golden = np.stack([v[output] for v in run(model, at, given, judge, [output])])
        for pattern, (options, share, zeros, of) in PATTERNS.items():
            matrices = {way: {} for way in (OURS, *OTHERS)}
            for l in layers:
                if of and l.w.shape[1] % of:
                    for way in matrices:  # their loop takes whole groups alone
                        matrices[way][l.name] = l.w
                    continue
                matrices[OURS][l.name] = prune_ours(self.args.tool, self.work, x[l.name], l.w, options)
                for way in OTHERS:
                    matrices[way][l.name] = self.published.prune(way, x[l.name], l.w, share, zeros, of)
                self.layer(name, pattern, l, seen[l.name], matrices)
            decibels = {way: spliced_db(model, layers, m, at, given, judge, golden) for way, m in matrices.items()}
            self.tell(name, pattern, decibels)

    def layer(self, name, pattern, l, x, matrices):
        errors = {way: error(x, m[l.name], l.w) for way, m in matrices.items()}
        zeros = {way: float(np.mean(m[l.name] == 0)) for way, m in matrices.items()}
        if zeros[OURS] < min(zeros[w] for w in OTHERS) - 0.01:
            raise SystemExit(f"{name} {l.name}: zeros differ: {zeros}")
        best = min(errors[w] for w in OTHERS)
        if best > 1e-6:
            self.ratios[pattern].append((errors[OURS] / best, f"{name} {l.name}"))
        if self.args.layers:
            print(f"  {name} {pattern} {l.name} {l.w.shape}: " + ", ".join(f"{w} {100 * e:.3f} %" for w, e in errors.items()), flush=True)

    def tell(self, name, pattern, decibels):
        of_model = [r for r, where in self.ratios[pattern] if where.startswith(name + " ")]
        if not of_model:
            return
        mean = math.exp(sum(map(math.log, of_model)) / len(of_model))
        self.lines.append(f"| {name} | {pattern} | {len(of_model)} | {mean:.3f} | {max(of_model):.3f} | "
                          + " | ".join(f"{decibels[w]:.1f}" for w in (OURS, *OTHERS)) + " |")
        print(self.lines[-1], flush=True)

    def verdict(self):
        bad = 0
        for pattern, ratios in self.ratios.items():
            if not ratios:
                continue
            mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
            worst, where = max(ratios)
            print(f"{pattern}: {len(ratios)} layers, geometric mean {mean:.3f}, worst {worst:.3f} ({where})")
            bad += mean >= 1 or worst > MOST_WORSE
        return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=pathlib.Path)
    p.add_argument("--sparsegpt", type=pathlib.Path)
    p.add_argument("--wanda", type=pathlib.Path)
    p.add_argument("--models", type=lambda s: s.split(","), default=MODELS)
    p.add_argument("--rows", type=int, default=8192, help="of X that prune")
    p.add_argument("--layers", action="store_true", help="a line for each layer")
    p.add_argument("--table", type=pathlib.Path, help="also write the lines of the table there")
    args = p.parse_args()
    args.tool = args.tool.resolve()
    for name, file in (("sparsegpt", "sparsegpt.py"), ("wanda", "lib/prune.py")):
        folder = getattr(args, name)
        if not folder or not (folder / file).exists():
            judging.skip(f"--{name}: a checkout with {file}")
    with tempfile.TemporaryDirectory() as work:
        judge = Judge(args, pathlib.Path(work))
        for name in args.models:
            judge.model(name)
        if args.table:
            args.table.write_text("\n".join(judge.lines) + "\n")
        sys.exit(judge.verdict() > 0)


if __name__ == "__main__":
    main()
