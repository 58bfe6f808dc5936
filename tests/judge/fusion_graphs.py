#!/usr/bin/env python3
"""ONNX Runtime's own optimizer tests as ours: what it fuses on the CPU we fuse, or say why not.

usage: fusion_graphs.py INFER_OPT [--all] [--table FILE] [GLOB...]

For every graph of $INFER_TEST_DATA/fusion_graphs: the nodes that ONNX Runtime leaves with all rewrites but
those of layout, the nodes that `infer-opt fuse` leaves for both targets, and whether ONNX Runtime, without
rewrites, gets the same values from what we wrote as from the graph as it came. Of every model of
$INFER_TEST_DATA/models (as models/ID) the nodes alone: fused_models.py compares their values. Where we leave more
nodes for `--target ort`, fusion_graphs.txt must hold the reason ("values: ..." where the values themselves differ by right); a reason that
no graph needs any more is an error, too. Graphs whose
names say that a fusion must not happen (not_triggered, invalid, negative, ...) must keep their values like all
others. One line per graph that is not plainly fine (--all: every one), then the numbers; --table writes the counts
as Markdown. Exit 1 for a wrong or unexplained one, 77 without the data or ONNX Runtime.
"""

import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile

import judging
from judging import np, onnx, ort
from same_as_onnxruntime import TYPES, random_input

TOLERANCE = 1e-3
EXPLAINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fusion_graphs.txt")
NEGATIVE = ("not_triggered", "invalid", "negative-", "no_fusion", "mismatch", "unfusable", "not_share", "failure")


def nodes_in(graph):
    """Nodes with those of subgraphs; constants are none."""
    count = 0
    for node in graph.node:
        count += node.op_type != "Constant"
        for attribute in node.attribute:
            for sub in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                count += nodes_in(sub)
    return count


def nodes_of(path):
    return nodes_in(onnx.load(path, load_external_data=False).graph)


def optimized(path, out):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = out
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return nodes_of(out)


def extents(spec, named):
    """Small extents, the same for the same symbol."""
    return [d if isinstance(d, int) and d > 0 else named.setdefault(d or ("%s %d" % (spec.name, i)), 2)
            for i, d in enumerate(spec.shape)]


def feeds_of(session):
    r, named, feeds = np.random.default_rng(0), {}, {}
    for spec in session.get_inputs():
        if not spec.type.startswith("tensor(") or spec.type[7:-1] not in TYPES:
            raise RuntimeError("no value of type " + spec.type)
        spec_like = type("Spec", (), {"shape": extents(spec, named), "type": spec.type})
        feeds[spec.name] = random_input(spec_like, r, 2)
        if feeds[spec.name].dtype.kind in "iu":
            feeds[spec.name] %= 2
    return feeds


def compare(path, fused):
    """None: the same; else what is wrong. Raises where ONNX Runtime does not run the graph as it came."""
    session = judging.session_of(path, optimize=False)
    feeds = feeds_of(session)
    want = session.run(None, feeds)

    def check_is_fixed(runs):
        """Results that follow a seed, or memory that nobody wrote, are equal by chance now and then."""
        for _ in range(runs):
            again = judging.session_of(path, optimize=False).run(None, feeds)
            if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(want, again)
                       if isinstance(a, np.ndarray)):
                raise RuntimeError("its results are random")

    check_is_fixed(1)
    try:
        got = judging.session_of(fused, optimize=False).run(None, feeds)
    except Exception as e:
        return "what we wrote does not run: " + str(e).splitlines()[0]
    for spec, a, b in zip(session.get_outputs(), want, got):
        if isinstance(a, np.ndarray) and a.dtype != object:
            d = judging.difference(np.asarray(a), np.asarray(b))
            if d > TOLERANCE:
                check_is_fixed(50)
                return "output %s differs by %.1e" % (spec.name, d)
    return None


def takes(path):
    """Whether ONNX Runtime loads the file: fuse --target ort rightly refuses to write what it would not."""
    try:
        judging.session_of(path, optimize=False)
        return True
    except Exception:
        return False


def judge(infer_opt, path, explained, with_values, counts):
    """(verdict, detail); puts (before, ours, ours for ort, theirs) into `counts`."""
    before = nodes_of(path)
    with tempfile.TemporaryDirectory() as work:
        ours = {}
        for target in ("onnx", "ort"):
            fused = os.path.join(work, target + ".onnx")
            code, error = judging.run_quietly([infer_opt, "fuse", path, "-o", fused, "-q", "--opset", "max", "--no-verify",
                                               *([] if target == "onnx" else ["--target", target])])
            if code == 1 and target == "ort" and not takes(path):
                return "no judge", "ONNX Runtime does not take the graph as it came, nor does --target ort write it"
            if code != 0:
                error = " ".join(error.split())[:300]
                return ("refused" if code in (3, 4) else "wrong"), "fuse --target %s exits with %d: %s" % (target, code, error)
            ours[target] = nodes_of(fused)
        try:
            theirs = optimized(path, os.path.join(work, "theirs.onnx"))
        except Exception as e:
            return "no judge", str(e).splitlines()[0]
        ran = ""
        for target in ours if with_values else []:
            try:
                wrong = compare(path, os.path.join(work, target + ".onnx"))
            except Exception as e:
                ran = ", values not compared: " + str(e).splitlines()[0][:120]
                break
            if wrong and explained.startswith("values: "):
                return "explained", wrong
            if wrong:
                return "wrong", "--target %s: %s" % (target, wrong)
        detail = "%d nodes -> ours %d (ort %d), ONNX Runtime %d%s" % (before, ours["onnx"], ours["ort"], theirs, ran)
        counts.extend([before, ours["onnx"], ours["ort"], theirs])
        if ours["ort"] <= theirs:
            return "fused", detail
        return ("explained" if explained else "unexplained"), detail + (": " + explained if explained else "")


def explanations():
    """Of lines "GLOB: reason"."""
    found = []
    with open(EXPLAINED) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                glob, _, reason = line.strip().partition(": ")
                found.append((glob, reason))
    return found


def graphs_of(root):
    """(name, path, whether values are compared here) of all graphs and models."""
    found = []
    graphs, models = os.path.join(root, "fusion_graphs"), os.path.join(root, "models")
    for folder, _, names in sorted(os.walk(graphs)):
        for name in sorted(n for n in names if n.endswith(".onnx")):
            path = os.path.join(folder, name)
            found.append((os.path.relpath(path, graphs)[:-len(".onnx")], path, True))
    for name in sorted(os.listdir(models)) if os.path.isdir(models) else []:
        found.append(("models/" + name, os.path.join(models, name, "model.onnx"), False))
    return found


def write_table(path, rows):
    with open(path, "w") as f:
        f.write("| graph | nodes | onnx | ort | ONNX Runtime |\n|---|---:|---:|---:|---:|\n")
        for name, counts in rows:
            f.write("| %s | %s |\n" % (name, " | ".join(map(str, counts))))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("infer_opt")
    parser.add_argument("globs", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th graph")
    parser.add_argument("--table")
    args = parser.parse_args()
    root = judging.data_folder()
    if not os.path.isdir(os.path.join(root, "fusion_graphs")):
        judging.skip("no fusion_graphs in INFER_TEST_DATA")
    known, count, negative, needed, rows = explanations(), {}, 0, set(), []
    for short, path, with_values in graphs_of(root)[::args.every]:
        if args.globs and not any(fnmatch.fnmatch(short, g) for g in args.globs):
            continue
        glob, reason = next(((g, r) for g, r in known if fnmatch.fnmatch(short, g)), ("", ""))
        counts = []
        verdict, detail = judge(args.infer_opt, path, reason, with_values, counts)
        count[verdict] = count.get(verdict, 0) + 1
        if counts:
            rows.append((short, counts))
        if verdict == "explained":
            needed.add(glob)
        negative += any(n in short for n in NEGATIVE) and verdict in ("fused", "explained")
        if args.all or verdict not in ("fused", "explained"):
            print("%-11s %s  %s" % (verdict, short, detail), flush=True)
    if args.table:
        write_table(args.table, rows)
    stale = [] if args.globs or args.every > 1 else [g for g, _ in known if g not in needed]
    for glob in stale:
        print("stale       %s: nothing needs this reason any more" % glob)
    print(", ".join("%d %s" % (n, v) for v, n in sorted(count.items())), "; %d of names that forbid a fusion" % negative)
    return 1 if stale or count.get("wrong") or count.get("unexplained") or not count.get("fused") else 0


if __name__ == "__main__":
    sys.exit(main())
