#!/usr/bin/env python3
"""Our reference kernels of ai.onnx.ml against ONNX Runtime, on random models with fixed seeds.

usage: ml_operators.py INFER_OPT [GLOB]

Prints a line per operator; exit 1 for a difference that KEPT does not explain, 77 (a skip) without
onnxruntime.
"""

import fnmatch
import itertools
import os
import subprocess
import sys
import tempfile

from judging import difference, np, onnx, ort, session_of

from onnx import TensorProto as T
from onnx import helper, numpy_helper

TOLERANCE = 1e-5
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
# Where we keep the standard's reading, or the better number: glob of the case -> why.
KEPT = {
    "SVMClassifier/*_2_raw_SOFTMAX*": "two classes: the transform is applied to both scores, as in "
    "ONNX's reference; ONNX Runtime writes 1 - s and s",
    "LinearRegressor/1_SOFTMAX*": "a transform is applied to one target as to more",
    "LinearRegressor/1_LOGISTIC": "a transform is applied to one target as to more",
    "SVMClassifier/linear_2": "the class of the greater score, as in ONNX's reference; ONNX Runtime "
    "takes the second when either score is positive",
    "TreeEnsembleClassifier/2_*": "the class of the greater score; ONNX Runtime takes the second when "
    "its own score is positive, and writes the integer labels 0 and 1 whatever the model lists",
    "*PROBIT": "exact, where ONNX Runtime approximates to 1e-4",
}


def rng(*key):
    return np.random.default_rng(list(map(lambda k: sum(map(ord, str(k))), key)))


def labels(kind, n):
    if kind == "ints":
        return {"classlabels_ints": [3 * i + 4 for i in range(n)]}
    return {"classlabels_strings": ["c%d" % i for i in range(n)]}


def random_x(r, features, rows=7):
    return r.normal(size=(rows, features)).astype(np.float32)


def svm_classifiers():
    kernels = ["LINEAR", "POLY", "RBF", "SIGMOID"]
    for kernel, classes, proba, transform in itertools.product(
        kernels, [2, 3, 5], [False, True], TRANSFORMS
    ):
        if transform == "PROBIT":
            continue  # of raw scores: not a number
        name = "%s_%d_%s_%s" % (kernel, classes, "proba" if proba else "raw", transform)
        r = rng(name)
        counts = [int(c) for c in r.integers(1, 4, classes)]
        supports, pairs, features = sum(counts), classes * (classes - 1) // 2, 3
        attrs = dict(
            kernel_type=kernel,
            kernel_params=[0.5, 0.25, 3.0],
            vectors_per_class=counts,
            support_vectors=r.normal(size=supports * features).tolist(),
            coefficients=r.normal(size=(classes - 1) * supports).tolist(),
            rho=r.normal(size=pairs).tolist(),
            post_transform=transform,
            **labels("ints" if classes != 3 else "strings", classes),
        )
        if proba:
            attrs.update(
                prob_a=(-np.abs(r.normal(size=pairs)) - 0.5).tolist(),
                prob_b=r.normal(size=pairs).tolist(),
            )
        yield name, [random_x(r, features)], attrs, 2
    for classes in (2, 3):
        r = rng("linear", classes)
        attrs = dict(coefficients=r.normal(size=4 * classes).tolist(), rho=[0.25], kernel_params=[0.0] * 3)
        yield "linear_%d" % classes, [random_x(r, 4)], {**attrs, **labels("ints", classes)}, 2


def svm_regressors():
    for kernel, one_class in itertools.product(["LINEAR", "POLY", "RBF", "SIGMOID"], [0, 1]):
        r = rng(kernel, one_class)
        attrs = dict(
            kernel_type=kernel,
            kernel_params=[0.5, 0.25, 3.0],
            n_supports=4,
            support_vectors=r.normal(size=12).tolist(),
            coefficients=r.normal(size=4).tolist(),
            rho=[0.1],
            one_class=one_class,
        )
        yield "%s_%d" % (kernel, one_class), [random_x(r, 3)], attrs, 1
    r = rng("linear")
    attrs = dict(coefficients=[1.0, -2.0, 0.5], rho=[0.5], kernel_params=[0.0] * 3)
    yield "no_supports", [random_x(r, 3)], attrs, 1


def linear_regressors():
    for targets, transform in itertools.product([1, 2, 3], TRANSFORMS):
        r = rng("regressor", targets, transform)
        scale = 0.05 if transform == "PROBIT" else 1
        attrs = dict(
            coefficients=(scale * r.normal(size=3 * targets)).tolist(),
            intercepts=(0.5 + scale * r.normal(size=targets)).tolist(),
            targets=targets,
            post_transform=transform,
        )
        yield "%d_%s" % (targets, transform), [random_x(r, 3)], attrs, 1


def linear_classifiers():
    for classes, transform, kind in itertools.product([1, 2, 4], TRANSFORMS, ["ints", "strings"]):
        if transform == "PROBIT":
            continue
        r = rng("classifier", classes, transform, kind)
        attrs = dict(
            coefficients=r.normal(size=3 * classes).tolist(),
            intercepts=r.normal(size=classes).tolist(),
            post_transform=transform,
            **labels(kind, max(classes, 2)),
        )
        yield "%d_%s_%s" % (classes, transform, kind), [random_x(r, 3)], attrs, 2


def features():
    r = rng("features")
    x = random_x(r, 4)
    yield "Binarizer", "threshold", [x], dict(threshold=0.25), 1
    yield "Scaler", "each", [x], dict(offset=[0.5, 1.0, -1.0, 2.0], scale=[2.0, 0.5, 1.0, 3.0]), 1
    yield "Scaler", "one", [x], dict(offset=[0.5], scale=[2.0]), 1
    yield "Scaler", "i64", [(4 * x).astype(np.int64)], dict(offset=[0.5], scale=[2.0]), 1
    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", norm, [x], dict(norm=norm), 1
    holes = x.copy()
    holes[2, 1] = holes[4, 0] = np.nan
    values = dict(imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    yield "Imputer", "nan", [holes], values, 1
    ints = r.integers(0, 4, (5, 3)).astype(np.int64)
    yield "Imputer", "i64", [ints], dict(imputed_value_int64s=[9], replaced_value_int64=2), 1
    yield "OneHotEncoder", "ints", [ints], dict(cats_int64s=[0, 1, 2, 3], zeros=1), 1
    yield "OneHotEncoder", "absent", [ints], dict(cats_int64s=[0, 2], zeros=1), 1
    words = np.array([["a", "b"], ["c", "a"]], dtype=object)
    yield "OneHotEncoder", "strings", [words], dict(cats_strings=["a", "c"], zeros=1), 1
    yield "FeatureVectorizer", "two", [x, x[:, :2].copy()], dict(inputdimensions=[4, 2]), 1
    yield "ArrayFeatureExtractor", "columns", [x, np.array([2, 0, 3], np.int64)], {}, 1
    yield "CategoryMapper", "strings", [words], dict(cats_int64s=[5, 6], cats_strings=["a", "b"]), 1
    back = dict(cats_int64s=[0, 2, 3], cats_strings=["a", "b", "c"], default_string="none")
    yield "CategoryMapper", "ints", [ints], back, 1
    yield "LabelEncoder", "strings", [words], dict(
        keys_strings=["a", "b"], values_floats=[1.5, 2.5], default_float=-3.0), 1
    yield "LabelEncoder", "ints", [ints], dict(
        keys_int64s=[0, 1, 2], values_strings=["x", "y", "z"], default_string="?"), 1
    yield "LabelEncoder", "floats", [np.floor(x)], dict(
        keys_floats=[0.0, 1.0], values_int64s=[7, 8], default_int64=-2), 1


def maps():
    for vocabulary, x in (
        (dict(int64_vocabulary=[3, 1, 7]), {1: 0.5, 7: 2.0}),
        (dict(string_vocabulary=["a", "b", "c"]), {"c": 1.5, "a": 4.0}),
    ):
        yield "DictVectorizer", list(vocabulary)[0], [x], vocabulary, 1
    x = {3: 0.5, 1: 2.0, 6: -1.0}
    for to in ("TO_FLOAT", "TO_INT64"):
        yield "CastMap", "dense_" + to, [x], dict(cast_to=to), 1
        yield "CastMap", "sparse_" + to, [x], dict(cast_to=to, map_form="SPARSE", max_map=8), 1


def trees(r, count, depth, features, per_leaf, prefix, modes):
    """Attributes of a random forest; `per_leaf` (target or class id) entries for each leaf."""
    a = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                         "falsenodeids", "missing_value_tracks_true", "hitrates")}
    leaf = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def add(tree, node, **values):
        for k, v in dict(treeids=tree, nodeids=node, hitrates=1.0, **values).items():
            a[k].append(v)

    for tree in range(count):
        for node in range(2 ** (depth + 1) - 1):
            inner = node < 2**depth - 1
            add(tree, node, featureids=int(r.integers(features)) if inner else 0,
                values=float(np.float32(r.normal())) if inner else 0.0,
                modes=str(r.choice(modes)) if inner else "LEAF",
                truenodeids=2 * node + 1 if inner else 0,
                falsenodeids=2 * node + 2 if inner else 0,
                missing_value_tracks_true=int(r.integers(2)))
            if not inner:
                for i in per_leaf(r):
                    for k, v in dict(treeids=tree, nodeids=node, ids=i,
                                     weights=float(np.float32(r.normal()))).items():
                        leaf[k].append(v)
    return {**{"nodes_" + k: v for k, v in a.items()}, **{prefix + "_" + k: v for k, v in leaf.items()}}


ORDERED = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]


def tree_regressors():
    for aggregate, targets, modes in itertools.product(
        ["SUM", "AVERAGE", "MIN", "MAX"], [1, 3], [ORDERED[:1], ORDERED]
    ):
        r = rng("trees", aggregate, targets, len(modes))
        attrs = trees(r, 4, 3, 5, lambda r: range(targets), "target", modes)
        attrs.update(n_targets=targets, aggregate_function=aggregate,
                     base_values=r.normal(size=targets).tolist())
        x = random_x(r, 5, 40)
        x[3, 1] = x[5, 2] = np.nan
        yield "%s_%d_%d" % (aggregate, targets, len(modes)), [x], attrs, 1
    for transform in TRANSFORMS[1:4]:
        r = rng("trees", transform)
        attrs = trees(r, 3, 2, 4, lambda r: range(2), "target", ORDERED)
        yield transform, [random_x(r, 4)], dict(attrs, n_targets=2, post_transform=transform), 1


def tree_classifiers():
    for classes, transform, kind in itertools.product([2, 3], TRANSFORMS[:4], ["ints", "strings"]):
        r = rng("forest", classes, transform, kind)
        attrs = trees(r, 4, 3, 4, lambda r: range(classes), "class", ORDERED)
        attrs.update(post_transform=transform)
        names = labels(kind, classes)
        attrs["classlabels_int64s" if kind == "ints" else "classlabels_strings"] = list(
            names.values())[0]
        yield "%d_%s_%s" % (classes, transform, kind), [random_x(r, 4, 40)], attrs, 2
    r = rng("probabilities")  # as exporters of random forests write two classes
    attrs = trees(r, 1, 3, 4, lambda r: [0], "class", ORDERED[:1])
    p = np.float32(r.uniform(size=len(attrs["class_ids"])))
    for k in ("treeids", "nodeids"):
        attrs["class_" + k] *= 2
    attrs.update(class_ids=[0] * len(p) + [1] * len(p), class_weights=[*(1 - p), *p])
    yield "2_probabilities", [random_x(r, 4, 40)], dict(attrs, classlabels_int64s=[0, 1]), 2
    for transform in TRANSFORMS[:4]:
        r = rng("binary", transform)
        attrs = trees(r, 4, 3, 4, lambda r: [1], "class", ORDERED)
        attrs.update(post_transform=transform, classlabels_int64s=[0, 1])
        yield "binary_" + transform, [random_x(r, 4, 40)], attrs, 2


def cases():
    """(operator, case, inputs, attributes, number of outputs)"""
    yield from (("SVMClassifier", *c) for c in svm_classifiers())
    yield from (("SVMRegressor", *c) for c in svm_regressors())
    yield from (("LinearRegressor", *c) for c in linear_regressors())
    yield from (("LinearClassifier", *c) for c in linear_classifiers())
    yield from features()
    yield from maps()
    yield from (("TreeEnsembleRegressor", *c) for c in tree_regressors())
    yield from (("TreeEnsembleClassifier", *c) for c in tree_classifiers())


def type_of(x):
    if not isinstance(x, dict):
        t = T.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
        return helper.make_tensor_type_proto(t, x.shape)
    key = T.INT64 if isinstance(next(iter(x)), int) else T.STRING
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(T.FLOAT, []))


def to_proto(x, name):
    if not isinstance(x, dict):
        return numpy_helper.from_array(x, name)
    m = onnx.MapProto(name=name)
    if isinstance(next(iter(x)), int):
        m.key_type = T.INT64
        m.keys.extend(x)
    else:
        m.key_type = T.STRING
        m.string_keys.extend(k.encode() for k in x)
    m.values.elem_type = onnx.SequenceProto.TENSOR
    m.values.tensor_values.extend(numpy_helper.from_array(np.float32(v)) for v in x.values())
    return m


def model_of(operator, inputs, attrs, outputs):
    names = ["x%d" % i for i in range(len(inputs))]
    node = helper.make_node(
        operator, names, ["y%d" % i for i in range(outputs)], domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_value_info(n, type_of(x)) for n, x in zip(names, inputs)],
        [helper.make_empty_tensor_value_info(o) for o in node.output])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run_ours(infer_opt, work, inputs, outputs):
    command = [infer_opt, "run", os.path.join(work, "m.onnx"), "-q", "--device", "reference",
               "--output-dir", work, "--format", "pb"]
    for i, x in enumerate(inputs):
        path = os.path.join(work, "x%d.pb" % i)
        with open(path, "wb") as f:
            f.write(to_proto(x, "x%d" % i).SerializeToString())
        command += ["--input", "x%d=%s" % (i, path)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    got = []
    for i in range(outputs):
        t = onnx.TensorProto()
        with open(os.path.join(work, "y%d.pb" % i), "rb") as f:
            t.ParseFromString(f.read())
        got.append(numpy_helper.to_array(t))
    return got


def judge(infer_opt, operator, inputs, attrs, outputs):
    """(verdict, worst difference or reason)"""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "m.onnx")
        # Outputs without a type: both infer it. ONNX Runtime wants one, so ask for all outputs.
        onnx.save(model_of(operator, inputs, attrs, outputs), path)
        try:
            session = session_of(path, optimize=False)
            want = session.run(None, {"x%d" % i: x for i, x in enumerate(inputs)})
        except Exception as e:
            return "refused", str(e).splitlines()[0]
        try:
            got = run_ours(infer_opt, work, inputs, outputs)
        except RuntimeError as e:
            return "bad", str(e)
    worst = 0.0
    for w, g in zip(want, got):
        if w.dtype == object or g.dtype == object:
            same = [str(v) for v in w.ravel()] == [
                v.decode() if isinstance(v, bytes) else str(v) for v in g.ravel()]
            worst = max(worst, 0.0 if same and w.shape == g.shape else float("inf"))
        else:
            worst = max(worst, difference(w, g))
    if worst <= TOLERANCE:
        return "ok", worst
    return "bad", "differs by %g: %s against %s" % (
        worst, [np.asarray(w).ravel()[:6].tolist() for w in want],
        [g.ravel()[:6].tolist() for g in got])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    glob = sys.argv[2] if len(sys.argv) == 3 else "*"
    table, failed, seen = {}, 0, set()
    for operator, case, inputs, attrs, outputs in cases():
        name = operator + "/" + case
        if not fnmatch.fnmatch(name, glob):
            continue
        verdict, detail = judge(sys.argv[1], operator, inputs, attrs, outputs)
        row = table.setdefault(operator, dict(ok=0, worst=0.0, kept=0, refused=0, bad=0))
        if verdict == "ok":
            row["worst"] = max(row["worst"], detail)
        else:
            why = next((w for g, w in KEPT.items() if fnmatch.fnmatch(name, g)), None)
            if verdict == "bad" and why:
                verdict, detail = "kept", why
                seen.update(g for g in KEPT if fnmatch.fnmatch(name, g))
            print("%-8s %s: %s" % (verdict, name, detail))
        row[verdict] += 1
        failed += verdict == "bad"
    print("%-24s %5s %5s %8s %5s   worst" % ("operator", "equal", "kept", "refused", "bad"))
    for operator, row in table.items():
        print("%-24s %5d %5d %8d %5d   %.1e" % (
            operator, row["ok"], row["kept"], row["refused"], row["bad"], row["worst"]))
    for g in KEPT.keys() - seen if glob == "*" else ():
        print("no case differs any more: " + g)
        failed += 1
    sys.exit(1 if failed or not table else 0)


if __name__ == "__main__":
    main()
