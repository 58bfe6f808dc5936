#!/usr/bin/python3
"""What pruning costs trained classifiers: dense top-1, and each method at 50 % and 2:4 (docs/pruning.md).

    tools/infer_opt/prune_table.py build/release/bin/infer-opt DATA [--folds 1] [--models a,b] [--work FOLDER]

DATA has models/NAME/model.onnx and labelled/*.npy, as INFER_TEST_DATA. Of the first 1,000 samples each fold judges every
fifth (ImageNet: every second), the others fit; what a fold has measured stays in FOLDER and is not measured again. The
answers of the folds are pooled; the interval of the drop is Tango's of paired proportions, as infer-opt tells it."""
import argparse
import ast
import json
import math
import pathlib
import subprocess

CIFAR = "scale=1/255,mean=0.4914:0.4822:0.4465,std={},layout=nchw"
MODELS = {  # images, labels, preprocessing, parts
    "resnet20_cifar": ("cifar10_dev_images_u8_nhwc", "cifar10_dev_labels", CIFAR.format("0.2023:0.1994:0.2010"), 5),
    "cifar_resnet_2b": ("cifar10_dev_images_u8_nhwc", "cifar10_dev_labels", CIFAR.format("0.2471:0.2435:0.2616"), 5),
    "cifar_sri_resnet_a": ("cifar10_dev_images_u8_nhwc", "cifar10_dev_labels", CIFAR.format("0.2471:0.2435:0.2616"), 5),
    "vit_ibp_cifar": ("cifar10_dev_images_u8_nhwc", "cifar10_dev_labels", CIFAR.format("0.2023:0.1994:0.2010"), 5),
    "winml_cifar": ("cifar10_dev_images_u8_nhwc", "cifar10_dev_labels", "scale=1/255,mean=0.5,std=0.5,layout=nchw", 5),
    "mnist_cntk8": ("mnist_dev_images_u8", "mnist_dev_labels", "dtype=f32,shape=1x28x28", 5),
    "mnist_fc_256x4": ("mnist_dev_images_u8", "mnist_dev_labels", "scale=1/255,shape=784x1", 5),
    "squeezenet11_fp32": ("imagenet_dev_256x256_u8_nhwc", "imagenet_dev_labels",
                          "crop=224,order=bgr,mean=103.939:116.779:123.68,layout=nchw", 2),
    "matchboxnet_kws": ("fsdd_dev_mfcc_f32", "fsdd_dev_labels33", "", 5),
}
PATTERNS = {"50 %": ["--sparsity", "50%"], "2:4": ["--nm", "2:4"]}
METHODS = {"auto": [], **{m: ["--method", m, "--allocation", "uniform"] for m in ("sparsegpt", "wanda", "magnitude")}}
MOST = 1000


def rows_of(path):
    """Header and rows of an .npy file, the first MOST."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[8:10], "little") if raw[6] == 1 else int.from_bytes(raw[8:12], "little")
    begin = (10 if raw[6] == 1 else 12) + size
    header = ast.literal_eval(raw[begin - size:begin].decode())
    count = header["shape"][0]
    step = (len(raw) - begin) // count
    return header, [raw[begin + i * step:begin + (i + 1) * step] for i in range(min(count, MOST))]


def write_rows(path, header, rows):
    text = repr({**header, "shape": (len(rows), *header["shape"][1:])})
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"".join(rows))


def split(data, work, name, parts, fold):
    """The file's samples that fit and those that judge."""
    paths = [work / f"{name}.{fold}of{parts}.{role}.npy" for role in ("fit", "judge")]
    if not all(p.exists() for p in paths):
        header, rows = rows_of(data / f"labelled/{name}.npy")
        for path, judges in zip(paths, (False, True)):
            write_rows(path, header, [r for i, r in enumerate(rows) if (i % parts == fold) == judges])
    return paths


def measure(args, model, pattern, method, fold):
    images, labels, preprocess, parts = MODELS[model]
    done = args.work / f"{model}.{pattern.replace(':', '-').replace(' ', '')}.{method}.{fold}.json"
    if not done.exists():
        fit, judge = split(args.data, args.work, images, parts, fold)
        _, answers = split(args.data, args.work, labels, parts, fold)
        command = [args.tool, "prune", args.data / f"models/{model}/model.onnx", "-o", args.work / "pruned.onnx",
                   "--calib", fit, "--eval", judge, "--eval-labels", answers, "--quiet", "--json", done,
                   *(["--preprocess", preprocess] if preprocess else []), *PATTERNS[pattern], *METHODS[method]]
        ran = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"{model}: {ran.stderr}")
    return json.loads(done.read_text())


def tango(lost, gained, n, z=1.959964):
    """95 % score interval of the drop (Tango 1998)."""
    def score(d):
        a, b, c = 2 * n, -lost - gained + (2 * n - lost + gained) * d, -gained * d * (1 - d)
        q = (math.sqrt(max(b * b - 4 * a * c, 0)) - b) / (2 * a)
        under = n * (2 * q + d * (1 - d))
        over = lost - gained - n * d
        if under > 0 or over == 0:
            return over / math.sqrt(under) if over else 0.0
        return math.copysign(math.inf, over)
    ends = []
    for target in (z, -z):
        low, high = -1.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if score(middle) > target else (low, middle)
        ends.append(low)
    return ends


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tool", type=lambda t: pathlib.Path(t).resolve())
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("--folds", type=int, default=1)
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--methods", default=",".join(METHODS))
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/prune_table"))
    args = p.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for pattern in PATTERNS:
        print(f"\n| {pattern} | dense top-1 | " + " | ".join(args.methods.split(",")) + " |")
        print("|---|---|" + "---|" * len(args.methods.split(",")))
        for model in args.models.split(","):
            row = []
            for method in args.methods.split(","):
                lost = gained = golden = n = zeros = weights = 0
                db = []
                for fold in range(min(args.folds, MODELS[model][3])):
                    report = measure(args, model, pattern, method, fold)
                    task = report["accuracy"]["task"]
                    lost, gained, n = lost + task["lost"], gained + task["gained"], n + task["samples"]
                    golden += task["golden_top1"] * task["samples"]
                    zeros, weights = zeros + report["pruning"]["zeros"], weights + report["pruning"]["weights"]
                    db.append(float(report["accuracy"]["outputs"][0]["sqnr_db"]))
                if not row:
                    row = [model, f"{100 * golden / n:.1f}"]
                low, high = tango(lost, gained, n)
                drop = f"{100 * (lost - gained) / n:.1f}"
                if method == "auto":
                    drop = f"**{drop}** ({100 * low:.1f} to {100 * high:.1f}; {100 * zeros / weights:.1f} % zero)"
                row.append(f"{drop}, {sum(db) / len(db):.1f} dB")
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
