#!/usr/bin/env python3
"""Models of scikit-learn and LightGBM beside ONNX Runtime, as a table in Markdown: median times by rows of a batch.

usage: classical_models.py FOLDER --export              # fits and writes the models (scikit-learn, skl2onnx; LightGBM where it is)
       classical_models.py FOLDER --bench infer-bench --python PYTHON [--rows 1,16,400,10000] [--threads 1] [--only NAME]...

The models are fitted to 800 random rows of 20 features; nothing is downloaded. PYTHON has onnxruntime.
"""
import argparse
import json
import pathlib
import subprocess
import sys

FEATURES = 20


def data(numpy):
    random = numpy.random.RandomState(7)
    x = random.randn(800, FEATURES).astype("float32")
    value = x @ random.randn(FEATURES) + 3 * x[:, 0] * x[:, 1]
    return x, (value > 0).astype(int), numpy.digitize(value, [-3, 0, 3]), value.astype("float32")


def models(x, two, four, value):
    """(name, what fits it); a Pipeline where a step is part of the name."""
    from sklearn import (discriminant_analysis, ensemble, gaussian_process, linear_model, naive_bayes, neighbors, neural_network,
                         pipeline, preprocessing, svm, tree)
    join = pipeline.make_pipeline
    logistic, ridge = linear_model.LogisticRegression, linear_model.Ridge
    yield "SVC, Gaussian, probabilities", svm.SVC(probability=True).fit(x, four)
    yield "SVC, Gaussian, two classes", svm.SVC().fit(x, two)
    yield "SVC, linear, probabilities", svm.SVC(kernel="linear", probability=True).fit(x, four)
    yield "SVC, cubic", svm.SVC(kernel="poly").fit(x, four)
    yield "NuSVC, sigmoid", svm.NuSVC(nu=0.2, kernel="sigmoid").fit(x, two)
    yield "SVR, Gaussian", svm.SVR(C=10).fit(x, value)
    yield "NuSVR, cubic", svm.NuSVR(kernel="poly").fit(x, value)
    yield "OneClassSVM", svm.OneClassSVM(nu=0.3).fit(x)
    yield "LogisticRegression", logistic().fit(x, four)
    yield "LogisticRegression, two classes", logistic().fit(x, two)
    yield "LinearDiscriminantAnalysis", discriminant_analysis.LinearDiscriminantAnalysis().fit(x, four)
    yield "Ridge", ridge().fit(x, value)
    yield "RidgeClassifier", linear_model.RidgeClassifier().fit(x, four)
    yield "DecisionTreeClassifier", tree.DecisionTreeClassifier(random_state=1).fit(x, four)
    yield "DecisionTreeRegressor", tree.DecisionTreeRegressor(random_state=1).fit(x, value)
    yield "RandomForestClassifier", ensemble.RandomForestClassifier(100, random_state=1).fit(x, four)
    yield "RandomForestRegressor", ensemble.RandomForestRegressor(100, random_state=1).fit(x, value)
    yield "GradientBoostingClassifier", ensemble.GradientBoostingClassifier(n_estimators=40, random_state=1).fit(x, four)
    yield "GradientBoostingRegressor", ensemble.GradientBoostingRegressor(random_state=1).fit(x, value)
    yield "AdaBoostRegressor", ensemble.AdaBoostRegressor(n_estimators=10, random_state=1).fit(x, value)
    yield "KNeighborsClassifier", neighbors.KNeighborsClassifier(5).fit(x, four)
    yield "GaussianNB", naive_bayes.GaussianNB().fit(x, four)
    yield "GaussianProcessRegressor", gaussian_process.GaussianProcessRegressor(
        gaussian_process.kernels.RBF(3.0) + gaussian_process.kernels.WhiteKernel(0.1)).fit(x[:300], value[:300])
    yield "StandardScaler, MLP", join(preprocessing.StandardScaler(), neural_network.MLPClassifier(
        (64, 32), max_iter=40, random_state=1)).fit(x, four)
    yield "PolynomialFeatures, MLP", join(preprocessing.StandardScaler(), preprocessing.PolynomialFeatures(2),
                                          neural_network.MLPClassifier((64, 32), max_iter=40, random_state=1)).fit(x, four)
    yield "Normalizer, LogisticRegression", join(preprocessing.Normalizer(), logistic()).fit(x, four)
    yield "PowerTransformer, Ridge", join(preprocessing.PowerTransformer(), ridge()).fit(x, value)
    yield "KBinsDiscretizer, LogisticRegression", join(preprocessing.KBinsDiscretizer(5, encode="onehot-dense"),
                                                       logistic()).fit(x, four)
    yield "Stacking", ensemble.StackingClassifier(
        [("forest", ensemble.RandomForestClassifier(20, random_state=1)),
         ("svm", join(preprocessing.StandardScaler(), svm.SVC(probability=True))),
         ("bayes", naive_bayes.GaussianNB())], logistic()).fit(x, four)


def boosted(x, two, four, value):
    import lightgbm
    common = {"verbose": -1, "n_jobs": 1}
    yield "LightGBM regressor", lightgbm.LGBMRegressor(n_estimators=60, **common).fit(x, value)
    yield "LightGBM, Poisson", lightgbm.LGBMRegressor(n_estimators=60, objective="poisson", **common).fit(
        x, 2.718 ** (value / 10))


def export(folder):
    import numpy
    from skl2onnx import to_onnx
    from sklearn.base import is_classifier
    from skl2onnx.common.data_types import FloatTensorType
    folder.mkdir(parents=True, exist_ok=True)
    parts = data(numpy)
    names = {}

    def keep(name, model):
        file = "m%02d.onnx" % len(names)
        (folder / file).write_bytes(model.SerializeToString())
        names[file] = name

    for name, model in models(*parts):
        options = {id(model): {"zipmap": False}} if is_classifier(model) else None
        keep(name, to_onnx(model, initial_types=[("X", FloatTensorType([None, FEATURES]))], options=options))
    try:
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType as LightType
        for name, model in boosted(*parts):
            keep(name, convert_lightgbm(model, initial_types=[("X", LightType([None, FEATURES]))], target_opset=15))
    except ImportError as missing:
        print("without LightGBM: %s" % missing, file=sys.stderr)
    (folder / "names.json").write_text(json.dumps(names, indent=1))


def measure(options, file, rows):
    report = options.folder / "peers.json"
    report.unlink(missing_ok=True)
    command = [options.bench, "peers", str(options.folder / file), "--engines", "infer,ort", "--threads", str(options.threads),
               "--python", options.python, "--rounds", "6", "--max-rounds", "12", "--starts", "2", "--block-time", "0.03",
               "--warmup-time", "0.1", "--max-other-load", str(options.max_other_load), "--shape", "X=%dx%d" % (rows, FEATURES),
               "--json", str(report), "-q"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if not report.exists():
        return "no verdict"
    engines = {e["name"]: e for e in json.loads(report.read_text())["results"][0]["engines"]}
    times = [(engines[name].get("latency_ms") or {}).get("median") for name in ("infer", "ort")]
    if None in times:
        return "no verdict"
    return "%.2f (%.3g / %.3g us)" % (times[0] / times[1], 1e3 * times[0], 1e3 * times[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--bench", default="build/release/bin/infer-bench")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rows", default="1,16,400,10000")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-other-load", type=float, default=0.2)
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    if options.export:
        return export(options.folder)
    rows = [int(r) for r in options.rows.split(",")]
    print("| model | %s |" % " | ".join("%d row%s" % (r, "" if r == 1 else "s") for r in rows))
    print("|---|%s" % ("---|" * len(rows)))
    for file, name in json.loads((options.folder / "names.json").read_text()).items():
        if not options.only or name in options.only:
            print("| %s | %s |" % (name, " | ".join(measure(options, file, r) for r in rows)), flush=True)


if __name__ == "__main__":
    main()
