#!/usr/bin/env python3
"""`infer-opt prune --structured` beside Torch-Pruning, on classifiers that nobody tuned for.

    torch_pruning_judge.py INFER_OPT DEMO [--models a,b] [--flops 0.7] [--steps 500] [--folds 1] [--ways norm,...]
                           [--times] [--work FOLDER] [--table FILE]

Needs PyTorch, torch-pruning, onnx2torch (PyPI), onnx, onnxruntime and INFER_TEST_DATA (DEMO: datasets/demo); says what is
missing and ends with 77. A model that onnx2torch does not read is ours alone.

Ours prunes to the share of the FLOPs at its defaults, bare and with --fine-tune-steps, without labels. Torch-Pruning
prunes to the FLOPs that ours has left, or as near to that as its channels allow; both files are counted by `infer-opt inspect`
as ours simplifies them. Its ways:

  norm    GroupMagnitudeImportance, the same share of every layer: what its README prescribes
  global  the same, channels of all layers in one order
  taylor  GroupTaylorImportance in one order, the gradients of the cross-entropy of the dense model's answers

It trains by the same number of steps on the same samples: Adam, warm-up, half cosine, temperature, copies and the
held-out eighth that picks among ten states as docs/pruning.md tells of --fine-tune-steps; BatchNormalization as PyTorch trains it.

Judged on samples that neither has seen, by ONNX Runtime: answers lost against the dense model and the SQNR of the scores.
Exit 1 where, bare or trained, ours loses more answers of all models together than the better way of theirs does."""
import argparse
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

import judging
from judging import np, onnx
from published_pruning import prepared, torch

try:
    import onnx2torch
    import torch_pruning as tp
except ImportError as error:
    judging.skip(str(error))

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/infer_opt"))
import prune_table  # noqa: E402: images, labels, preprocessing and parts of each classifier
import structured_table  # noqa: E402: times in turns

DEMO = "digits"
WAYS = {"norm": (tp.importance.GroupMagnitudeImportance, False), "global": (tp.importance.GroupMagnitudeImportance, True),
        "taylor": (tp.importance.GroupTaylorImportance, True)}
SEED, BATCH, RATE, TEMPERATURE = 0, 32, 1e-3, 2.0  # as --fine-tune-steps
HELD_OUT, CHECKS = 8, 10
GRADIENT_SAMPLES = 128
HALVINGS = 12  # of the share that leads to the wanted FLOPs


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


class Data:
    """Samples that fit and that judge, as files for ours and as arrays for the peer."""

    def __init__(self, args, model, fold):
        if model == DEMO:
            self.how = "scale=1/255,layout=nchw"
            self.files = {"fit": args.work / "digits.fit.npy", "judge": args.work / "digits.judge.npy"}
            for role, part in (("fit", "train"), ("judge", "eval")):
                x = np.load(args.demo / f"{part}_images.npy")
                np.save(self.files[role], np.repeat(np.repeat(x, 4, 1), 4, 2)[..., None])
            answers = np.loadtxt(args.demo / "eval_labels.csv", dtype=np.int64, skiprows=1)
            self.labels = args.work / "digits.labels.npy"
            np.save(self.labels, answers)
        else:
            images, labels, self.how, parts = prune_table.MODELS[model]
            fit, judge = prune_table.split(args.data, args.work, images, parts, fold)
            self.files = {"fit": fit, "judge": judge}
            _, self.labels = prune_table.split(args.data, args.work, labels, parts, fold)

    def samples(self, role, shape):
        x = prepared(np.load(self.files[role]), self.how)
        return np.ascontiguousarray(x.reshape(len(x), *shape[1:]))

    def answers(self):
        return np.load(self.labels).reshape(-1)


def one_input(model):
    constants = {t.name for t in model.graph.initializer}
    (asked,) = [i for i in model.graph.input if i.name not in constants]
    return asked.name, [d.dim_value or 1 for d in asked.type.tensor_type.shape.dim]


def scores(path, x):
    session = judging.session_of(str(path), True)
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: row[None]})[0].reshape(1, -1) for row in x])


def readable(model):
    """As onnx2torch and batches want it: SAME padding as numbers, what flattens as Flatten, products of vectors as Gemm, and
    constants as initializers."""
    model = onnx.shape_inference.infer_shapes(model)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    shapes |= {name: list(value.shape) for name, value in constants.items()}
    helper, nodes = onnx.helper, []
    for n in model.graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        of, to = shapes.get(n.input[0], []) if n.input else [], shapes.get(n.output[0], [])
        if n.op_type == "Constant" and "value" in attrs:
            model.graph.initializer.append(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attrs["value"]), n.output[0]))
            continue
        same = attrs.pop("auto_pad", b"NOTSET").decode()
        if same.startswith("SAME"):
            kernel = attrs.get("kernel_shape") or shapes[n.input[1]][2:]
            wanted = [max((o - 1) * s + k - i, 0)
                      for o, s, k, i in zip(to[2:], attrs.get("strides", [1] * len(kernel)), kernel, of[2:])]
            few, many = [w // 2 for w in wanted], [w - w // 2 for w in wanted]
            attrs["pads"] = few + many if same == "SAME_UPPER" else many + few
        if n.op_type == "Reshape" and n.input[0] in constants and n.input[1] in constants:
            constants[n.output[0]] = constants[n.input[0]].reshape(constants[n.input[1]])
            model.graph.initializer.append(onnx.numpy_helper.from_array(constants[n.output[0]], n.output[0]))
        elif n.op_type == "Reshape" and of and len(to) == 2 and of[0] in (0, 1, to[0]) and to[0] in (0, 1):
            nodes.append(helper.make_node("Flatten", n.input[:1], n.output, axis=1))
        elif n.op_type == "MatMul" and n.input[1] in constants and len(to) == 2:
            none = np.zeros(to[1], np.float32)  # without it there is no torch.nn.Linear
            model.graph.initializer.append(onnx.numpy_helper.from_array(none, n.output[0] + ".none"))
            nodes.append(helper.make_node("Gemm", [*n.input, n.output[0] + ".none"], n.output))
        else:
            nodes.append(helper.make_node(n.op_type, n.input, n.output, n.name, domain=n.domain, **attrs))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for n in nodes for name in n.input}
    kept = [t for t in model.graph.initializer if t.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.ir_version = max(model.ir_version, 8)  # before 4 each constant is an input, too
    if model.opset_import[0].version < 9:
        model = onnx.version_converter.convert_version(model, 13)
    return model


def last_layers(net):
    """Modules whose channels are the model's scores."""
    modules = dict(net.named_modules())
    (end,) = [n for n in net.graph.nodes if n.op == "output"]
    found, todo = [], list(end.all_input_nodes)
    while todo:
        node = todo.pop()
        if node.op == "call_module" and isinstance(modules[node.target], (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
            found.append(modules[node.target])
        else:
            todo += node.all_input_nodes
    return found


class Peer:
    def __init__(self, model, x):
        self.name, self.shape = one_input(model)
        self.dense = onnx2torch.convert(readable(model)).eval()
        self.x = torch.from_numpy(x)
        self.example = self.x[:1].reshape(1, *self.shape[1:])
        with torch.no_grad():
            self.dense(self.x[:2])  # what does not take batches is refused here

    def cut(self, way, ratio):
        importance, together = WAYS[way]
        net = copy.deepcopy(self.dense)
        pruner = tp.pruner.BasePruner(net, self.example, importance=importance(), global_pruning=together, pruning_ratio=ratio,
                                      ignored_layers=last_layers(net))
        if way == "taylor":
            y = net(self.x[:GRADIENT_SAMPLES])
            torch.nn.functional.cross_entropy(y, y.detach().argmax(-1)).backward()
        pruner.step()
        net.zero_grad()
        return net

    def prune(self, way, path, wanted, count):
        """The cut whose FLOPs are nearest to `wanted`."""
        low, high, best = 0.0, 1.0, None
        for _ in range(HALVINGS):
            ratio = (low + high) / 2
            try:
                net = self.cut(way, ratio)
                self.write(net, path)
                flops = count(path)
            except (RuntimeError, ZeroDivisionError, ValueError):
                high = ratio  # nothing is left of a layer
                continue
            if best is None or abs(flops - wanted) < abs(best[0] - wanted):
                best = flops, net
            low, high = (ratio, high) if flops > wanted else (low, ratio)
            if abs(flops - wanted) < 0.002 * wanted:
                break
        self.write(best[1], path)
        return best[1]

    def write(self, net, path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net.eval(), self.example, path, dynamo=False, input_names=["x"])

    def copies(self, x, random):
        """As --fine-tune-copies both."""
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            return x
        made = torch.empty_like(x)
        for i, one in enumerate(x):
            down, right = [int(random.uniform(-1, 1) * (side // 8)) for side in one.shape[1:]]
            rows = (torch.arange(one.shape[1]) - down).clamp(0, one.shape[1] - 1)
            columns = (torch.arange(one.shape[2]) - right).clamp(0, one.shape[2] - 1)
            moved = one[:, rows][:, :, columns]
            made[i] = moved.flip(-1) if random.random() < 0.5 else moved
        return made

    def loss(self, net, x):
        with torch.no_grad():
            golden = torch.softmax(self.dense(x) / TEMPERATURE, -1)
        return torch.nn.functional.kl_div(torch.log_softmax(net(x) / TEMPERATURE, -1), golden, reduction="batchmean")

    def train(self, net, steps):
        torch.manual_seed(SEED)
        random = np.random.default_rng(SEED)
        held = np.arange(len(self.x)) % HELD_OUT == HELD_OUT - 1
        x, judge = self.x[~held], self.x[held][:256]
        adam, warm = torch.optim.Adam(net.parameters(), RATE), max(1, min(50, steps // 20))
        best, order = (math.inf, None), []
        for step in range(steps + 1):
            if step % max(1, steps // CHECKS) == 0 or step == steps:
                with torch.no_grad():
                    now = self.loss(net.eval(), judge).item()
                if now < best[0]:
                    best = now, copy.deepcopy(net.state_dict())
            if step == steps:
                break
            if len(order) < BATCH:
                order = [*order, *random.permutation(len(x))]
            picked, order = order[:BATCH], order[BATCH:]
            rate = (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
            adam.param_groups[0]["lr"] = RATE * rate
            adam.zero_grad()
            self.loss(net.train(), self.copies(x[picked], random)).backward()
            adam.step()
        net.load_state_dict(best[1])
        return net.eval()


class Result:
    """What a file loses of the dense model's answers, in how many FLOPs."""

    def __init__(self, path, flops, x, answers, golden):
        self.path, self.flops = path, flops
        made = scores(path, x)
        right, was = made.argmax(-1) == answers, golden.argmax(-1) == answers
        self.lost, self.gained, self.n = int(np.sum(was & ~right)), int(np.sum(right & ~was)), len(x)
        self.signal, self.noise = float(np.sum(golden ** 2.0)), float(np.sum((made - golden) ** 2.0))

    def as_json(self):
        return {**vars(self), "path": str(self.path)}


class Judge:
    def __init__(self, args):
        self.args, self.rows = args, {}  # (model, way) -> results of folds

    def flops(self, path):
        simple, report = self.args.work / "simple.onnx", self.args.work / "inspect.json"
        run(self.args.tool, "fuse", path, "-o", simple, "--rewrites", "simplify", "--quiet")
        run(self.args.tool, "inspect", simple, "--quiet", "--json", report)
        return json.loads(report.read_text())["cost"]["flops"]

    def ours(self, path, data, small, steps):
        run(self.args.tool, "prune", path, "-o", small, "--structured", "--flops", f"{100 * self.args.flops:g}%", "--calib",
            data.files["fit"], *(["--preprocess", data.how] if data.how else []), "--no-verify", "--quiet",
            *(["--fine-tune-steps", steps] if steps else []), *self.args.flags.split())

    def model(self, name, fold):
        args = self.args
        path = args.demo / "digits.onnx" if name == DEMO else args.data / f"models/{name}/model.onnx"
        data, model = Data(args, name, fold), onnx.load(path)
        shape = one_input(model)[1]
        x, answers = data.samples("judge", shape), data.answers()
        golden, dense = scores(path, x), self.flops(path)

        def result(way, small, make):
            kept = small.with_suffix(".json")
            if not kept.exists():
                make(small)
                r = Result(small, self.flops(small) / dense, x, answers, golden)
                kept.write_text(json.dumps(r.as_json()))
            r = json.loads(kept.read_text())
            self.rows.setdefault((name, way), []).append(r)
            print(f"  {name} {fold} {way}: {100 * r['flops']:.1f} % of the FLOPs, {r['lost']} lost, {r['gained']} gained of "
                  f"{r['n']}, {10 * math.log10(r['signal'] / max(r['noise'], 1e-30)):.1f} dB", flush=True)
            return r

        def file(way):
            return args.work / f"{name}.{fold}.{way.replace(' ', '_')}.{round(1000 * args.flops)}.{args.steps}.onnx"

        result("ours bare", file("ours bare"), lambda to: self.ours(path, data, to, 0))
        share = self.rows[name, "ours bare"][-1]["flops"]
        if args.steps:
            result("ours trained", file("ours trained"), lambda to: self.ours(path, data, to, args.steps))
        try:
            peer = Peer(model, data.samples("fit", shape))
        except Exception as e:  # whatever onnx2torch raises
            print(f"  {name}: not read by onnx2torch: {str(e).splitlines()[0][:100]}", flush=True)
            return
        for way in args.ways:
            nets = {}

            def bare(to):
                nets[way] = peer.prune(way, to, share * dense, self.flops)

            def trained(to):
                if way not in nets:
                    bare(to)
                peer.write(peer.train(nets[way], args.steps), to)

            result(f"{way} bare", file(f"{way} bare"), bare)
            if args.steps:
                result(f"{way} trained", file(f"{way} trained"), trained)

    def pooled(self, name, way):
        rows = self.rows.get((name, way))
        return rows and {k: sum(r[k] for r in rows) for k in ("lost", "gained", "n", "signal", "noise")} | {
            "flops": sum(r["flops"] for r in rows) / len(rows)}

    def cell(self, name, way):
        r = self.pooled(name, way)
        return "-" if not r else (f"{100 * (r['lost'] - r['gained']) / r['n']:.1f} ({r['lost']}, {r['gained']}), "
                                  f"{10 * math.log10(r['signal'] / max(r['noise'], 1e-30)):.1f} dB, {100 * r['flops']:.0f} %")

    def table(self, models):
        lines = []
        for kind in ["bare", *(["trained"] if self.args.steps else [])]:
            lines += [f"| {kind} | ours | " + " | ".join(self.args.ways) + " |", "|---" * (2 + len(self.args.ways)) + "|"]
            lines += [f"| {m} | " + " | ".join(self.cell(m, f"{w} {kind}") for w in ("ours", *self.args.ways)) + " |" for m in models]
            lines.append("")
        return lines

    def times(self, models):
        lines = ["| times as fast as dense, one thread | ours: our runtime | ours: ONNX Runtime |", "|---|---|---|"]
        how = argparse.Namespace(**vars(self.args), low_rank=False)
        for name in models:
            small = pathlib.Path(self.rows[name, "ours bare"][0]["path"])
            dense = self.args.demo / "digits.onnx" if name == DEMO else self.args.data / f"models/{name}/model.onnx"
            data = Data(self.args, name, 0)
            lines.append(f"| {name} | {structured_table.times_ours(how, dense, small, data.files['judge'], data.how)} | "
                         f"{structured_table.times_ort(dense, small)} |")
            print(lines[-1], flush=True)
        return lines

    def verdict(self, models):
        bad = 0
        for kind in ["bare", *(["trained"] if self.args.steps else [])]:
            both = [m for m in models if all((m, f"{w} {kind}") in self.rows for w in ("ours", *self.args.ways))]
            points = {w: [100 * (p["lost"] - p["gained"]) / p["n"] for m in both for p in [self.pooled(m, f"{w} {kind}")]]
                      for w in ("ours", *self.args.ways)}
            best = [min(points[w][i] for w in self.args.ways) for i in range(len(both))]
            ours, theirs = sum(points["ours"]), sum(best)
            print(f"{kind}: {len(both)} models, ours loses {ours / max(1, len(both)):.2f} points in the mean, the better of theirs "
                  f"of each model {theirs / max(1, len(both)):.2f}")
            bad += not both or ours > theirs
        return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("demo", type=pathlib.Path)
    p.add_argument("--models", type=lambda s: s.split(","), default=[DEMO, *(m for m in prune_table.MODELS if "squeezenet" not in m)])
    p.add_argument("--ways", type=lambda s: s.split(","), default=list(WAYS))
    p.add_argument("--flops", type=float, default=0.7, help="share that stays")
    p.add_argument("--steps", type=int, default=500, help="0: bare alone")
    p.add_argument("--folds", type=int, default=1)
    p.add_argument("--flags", default="", help="further options of ours")
    p.add_argument("--times", action="store_true")
    p.add_argument("--work", type=pathlib.Path, help="what is measured stays there and is not measured again")
    p.add_argument("--table", type=pathlib.Path)
    args = p.parse_args()
    args.data = pathlib.Path(judging.data_folder())
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as own:
        args.work = (args.work or pathlib.Path(own)).resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        judge = Judge(args)
        for name in args.models:
            for fold in range(1 if name == DEMO else min(args.folds, prune_table.MODELS[name][3])):
                judge.model(name, fold)
        lines = judge.table(args.models) + (judge.times(args.models) if args.times else [])
        print("\n".join(lines))
        if args.table:
            args.table.write_text("\n".join(lines) + "\n")
        sys.exit(judge.verdict(args.models) > 0)


if __name__ == "__main__":
    main()
