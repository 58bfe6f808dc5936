#!/usr/bin/env python3
"""What `infer-opt extract` and `edit` write, in ONNX Runtime and beside onnx.utils.

usage: surgery.py INFER_OPT [--every N] [MODEL...]

Every model of $INFER_TEST_DATA/models is cut where the fewest values cross; both parts, one behind the other, must give
the bits of the whole (without rewrites), be what onnx.utils.Extractor cuts out, and pass onnx.checker. Then inputs,
outputs and an inner value get new names, weights leave the file and come back, and open dimensions get the extents of the
stored inputs: the same bits, the same nodes. `check` finds errors where onnx.checker does. Exit 77 (a skip) without onnx, onnxruntime, numpy or the data.
"""

import json
import os
import subprocess

import judging
from judging import np, onnx
from same_as_onnxruntime import inputs_of


# ONNX Runtime keeps f32 between nodes of f16, so that a cut there rounds once more.
HALVES = 2.0 ** -8


def reads(node, hidden=frozenset()):
    """Names of values that the node reads, also within bodies."""
    out = [i for i in node.input if i and i not in hidden]
    for a in node.attribute:
        for body in ([a.g] if a.HasField("g") else []) + list(a.graphs):
            own = hidden | {x.name for x in body.input} | {x.name for x in body.initializer} | {o for n in body.node
                                                                                                  for o in n.output}
            out += [r for n in body.node for r in reads(n, own)] + [o.name for o in body.output if o.name not in own]
    return out


def narrowest_cut(model):
    """(values that cross it, outputs made before it, graph inputs read behind it), or None."""
    graph = model.graph
    constants = {x.name for x in graph.initializer} | {x.values.name for x in graph.sparse_initializer}
    inputs = [x.name for x in graph.input if x.name not in constants]
    outputs = [x.name for x in graph.output]
    best = None
    last = {}
    for i, n in enumerate(graph.node):
        for name in reads(n):
            last[name] = i
    made_by = {o: i for i, n in enumerate(graph.node) for o in n.output if o}
    # Constant nodes are no crossing: both parts have them.
    constant_nodes = {o for n in graph.node if n.op_type == "Constant" for o in n.output}
    for at in range(len(graph.node) // 4, 3 * len(graph.node) // 4):
        crossing = [v for v, i in made_by.items() if i < at <= last.get(v, -1) and v not in constant_nodes]
        if crossing and (best is None or len(crossing) < len(best[0])):
            best = (crossing, [o for o in outputs if made_by.get(o, len(graph.node)) < at],
                    [x for x in inputs if last.get(x, -1) >= at])
    return best


def infer_opt(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("exit %d of %s: %s" % (done.returncode, " ".join(map(str, arguments)), done.stderr.strip()))
    return done


def names(option, values):
    return [x for v in values for x in (option, v)]


def run(path, feeds):
    session = judging.session_of(path, optimize=False)
    wanted = {i.name for i in session.get_inputs()}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {k: v for k, v in feeds.items() if k in wanted})))


def same(a, b):
    if isinstance(a, (list, dict)) or not isinstance(a, np.ndarray):
        return str(a) == str(b)
    if a.dtype == np.float16:
        return judging.difference(a, b) <= HALVES
    return a.dtype == b.dtype and a.shape == b.shape and (
        np.array_equal(a, b) or (a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True)))


def expect_same(wanted, got, what):
    for name, value in wanted.items():
        if not same(value, got[name]):
            raise RuntimeError("%s: output '%s' differs" % (what, name))


def cut(program, path, model, feeds, wanted, work):
    found = narrowest_cut(model)
    if not found:
        return "no cut"
    crossing, early, late = found
    head, tail = os.path.join(work, "head.onnx"), os.path.join(work, "tail.onnx")
    ends = list(dict.fromkeys(crossing + early))
    infer_opt(program, "extract", path, "-o", head, *names("--to", ends))
    later = [o.name for o in model.graph.output if o.name not in early]
    starts = crossing + [x for x in late if x not in crossing]
    infer_opt(program, "extract", path, "-o", tail, *names("--from", starts), *names("--to", later))
    if is_valid(path):
        for part in (head, tail):
            onnx.checker.check_model(part)
    middle = run(head, feeds)
    got = {**middle, **run(tail, {**feeds, **middle})}
    their_head, said = beside_onnx(model, head, [i.name for i in onnx.load(head).graph.input], ends, work)
    their_tail, said = beside_onnx(model, tail, starts, later, work) if their_head else (None, said)
    try:
        expect_same(wanted, got, "the parts")
    except RuntimeError:
        # It may choose other kernels for a part, too: then parts that onnx.utils cut are judge.
        if not their_tail:
            raise
        middle = run(their_head, feeds)
        expect_same({**middle, **run(their_tail, {**feeds, **middle})}, got, "beside the parts of onnx.utils")
        said += ", whose parts differ from the whole with the same bits"
    return "%d values cross%s" % (len(crossing), said)


def is_valid(path):
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError:
        return False
    return True


def beside_onnx(model, path, starts, ends, work):
    """What onnx.utils cuts out, as a file, None where that is no valid model, and what to say of it. Nodes and initializers
    must be the same."""
    out = os.path.join(work, "theirs_" + os.path.basename(path))
    try:
        theirs = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(model)).extract_model(starts, ends)
        onnx.checker.check_model(theirs)
    except Exception as e:
        return None, ", onnx.utils gives no valid part (%s)" % (str(e) or type(e).__name__).splitlines()[0][:60]
    ours = onnx.load(path)
    if [list(n.output) for n in ours.graph.node] != [list(n.output) for n in theirs.graph.node]:
        raise RuntimeError("other nodes than onnx.utils cuts out")
    if {t.name for t in ours.graph.initializer} != {t.name for t in theirs.graph.initializer}:
        raise RuntimeError("other initializers than onnx.utils cuts out")
    onnx.save(theirs, out)
    return out, ", as onnx.utils"


def attribute_equal(a, b):
    if a.HasField("t"):
        return np.array_equal(onnx.numpy_helper.to_array(a.t), onnx.numpy_helper.to_array(b.t), equal_nan=a.t.data_type in (1, 10, 11))
    return a.HasField("g") or bool(a.graphs) or a == b


def expect_nodes_kept(before, after):
    if len(before.graph.node) != len(after.graph.node):
        raise RuntimeError("the number of nodes changed")
    for x, y in zip(before.graph.node, after.graph.node):
        if x.op_type != y.op_type or x.domain != y.domain or len(x.attribute) != len(y.attribute) or not all(
                a.name == b.name and attribute_equal(a, b) for a, b in zip(x.attribute, y.attribute)):
            raise RuntimeError("node %s changed" % x.name)


def rename(program, path, model, feeds, wanted, work):
    out, back = os.path.join(work, "renamed.onnx"), os.path.join(work, "inline.onnx")
    constants = {x.name for x in model.graph.initializer}
    inputs = [x.name for x in model.graph.input if x.name not in constants]
    outputs = [x.name for x in model.graph.output]
    inner = model.graph.node[len(model.graph.node) // 2].output[0]
    changed = list(dict.fromkeys(inputs + outputs + [inner]))
    infer_opt(program, "edit", path, "-o", out, "--external-data",
              *[x for v in changed for x in ("--rename", "%s=new/%s" % (v, v))])
    if is_valid(path):
        onnx.checker.check_model(out)
    expect_nodes_kept(model, onnx.load(out))
    infer_opt(program, "edit", out, "-o", back)
    for renamed in (out, back):
        got = run(renamed, {"new/" + k: v for k, v in feeds.items()})
        expect_same({"new/" + k: v for k, v in wanted.items()}, got, os.path.basename(renamed))
    if any(t.external_data for t in onnx.load(back, load_external_data=False).graph.initializer):
        raise RuntimeError("weights are still outside")


def fix(program, path, model, feeds, wanted, work):
    """Open dimensions get extents; what is declared of outputs must be true."""
    options = []
    for x in model.graph.input:
        if x.name not in feeds:
            continue
        dims = x.type.tensor_type.shape.dim
        if all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims):
            continue
        options += ["--set-shape", "%s=%s" % (x.name, ",".join(map(str, np.shape(feeds[x.name]))) or "scalar")]
    if not options:
        return "closed"
    out = os.path.join(work, "fixed.onnx")
    infer_opt(program, "edit", path, "-o", out, *options)
    if is_valid(path):
        onnx.checker.check_model(out)
    expect_same(wanted, run(out, feeds), "with fixed shapes")
    for x in onnx.load(out).graph.output:
        value = wanted[x.name]
        dims = x.type.tensor_type.shape.dim
        if x.type.tensor_type.HasField("shape") and any(
                d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, np.shape(value))):
            raise RuntimeError("output '%s' is declared %s, is %s" % (x.name, [d.dim_value for d in dims], np.shape(value)))
    return "%d shapes fixed" % (len(options) // 2)


def check(program, folder, work):
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    try:
        session = judging.session_of(path, optimize=False)
    except Exception as e:
        return "unsupported", str(e).splitlines()[0][:100]
    sets = judging.data_sets(folder)
    feeds = judging.load_inputs(sets[0], session) if sets else inputs_of(path, session, 8)
    wanted = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    linted = json.loads(subprocess.run([program, "check", path, "--json", "-"], capture_output=True, text=True).stdout)["models"][0]
    if (linted["errors"] == 0) != is_valid(path):
        raise RuntimeError("%d errors by check, but onnx.checker %s" % (linted["errors"], "takes it" if linted["errors"] else "refuses it"))
    said = cut(program, path, model, feeds, wanted, work)
    rename(program, path, model, feeds, wanted, work)
    return "ok", "%s; %s" % (said, fix(program, path, model, feeds, wanted, work))


if __name__ == "__main__":
    judging.judge_models(check)
