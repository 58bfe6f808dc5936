#!/usr/bin/env python3
"""Files of `infer-opt fuse` and `quantize` in the runtimes that should read them.

usage: readers_survey.py INFER_OPT [--table FILE] [--modes] [MODEL...]

Of each shared model: `fuse` by default, with --opset of the input, with --opset max, and for each
--target; with --modes also `quantize --mode weight-only`, fp16, bf16 and dynamic, plain and for each
target. A file written by default must have no newer opset and IR version than its model, and every
file must load where the report says so: in ONNX Runtime from the version that it names (the judge's
own, and each folder of INFER_JUDGE_ORT as `pip install --target` leaves it), in OpenVINO (the
judge's own, and each of INFER_JUDGE_OPENVINO), unless the runtime refuses the model as it came. A refusal (exit 1 or 4) must come with a reason.
--table writes the result as Markdown. Exits 1 where a file is other than foretold, 77 without data."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import judging
from judging import onnx

TARGETS = ["onnx", "ort-1.17", "ort-1.20", "ort-1.22", "ort-1.24", "ort-1.30", "openvino"]
MODES = {"weight-only": ["--mode", "weight-only"], "fp16": ["--mode", "fp16"],
         "bf16": ["--mode", "bf16"], "dynamic": ["--mode", "dynamic"]}
# A process for all files of a runtime; one that dies is started again behind the file.
LOADER = """
import sys
name = sys.argv[1]
if name == "onnxruntime":
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    load = lambda path: ort.InferenceSession(path, options, ["CPUExecutionProvider"])
else:
    import openvino
    core = (openvino.Core if hasattr(openvino, "Core") else openvino.runtime.Core)()
    # Reading converts every operator; what was made for it is compiled, too.
    load = lambda path: (core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": "1"})
                         if path.endswith("openvino.onnx") else core.read_model(path))
for path in sys.stdin.read().split():
    try:
        load(path)
        print(path, "ok", flush=True)
    except Exception as e:
        print(path, "refused", " ".join(str(e).split())[-200:], flush=True)
"""
VERSION = "import sys; m = __import__(sys.argv[1]); print(m.__version__.split('-')[0])"


def runtimes():
    """(name, version, environment) of everything that is installed."""
    for name, variable in [("onnxruntime", "INFER_JUDGE_ORT"), ("openvino", "INFER_JUDGE_OPENVINO")]:
        for folder in [""] + [f for f in os.environ.get(variable, "").split(";") if f]:
            env = dict(os.environ, **({"PYTHONPATH": folder} if folder else {}))
            said = subprocess.run([sys.executable, "-c", VERSION, name], env=env, capture_output=True, text=True)
            if said.returncode == 0:
                yield name, tuple(int(x) for x in said.stdout.split(".")[:2]), env


def load_all(name, env, paths):
    """path -> "" or why the runtime refuses it."""
    said, left = {}, list(paths)
    while left:
        done = subprocess.run([sys.executable, "-c", LOADER, name], input="\n".join(left), env=env,
                              capture_output=True, text=True)
        for line in done.stdout.splitlines():
            path, verdict, *why = line.split(" ", 2)
            said[path] = "" if verdict == "ok" else (why[0] if why else "?")
        rest = [p for p in left if p not in said]
        if len(rest) == len(left) or (rest and done.returncode >= 0):
            said[rest[0]] = "the runtime dies: " + done.stderr.strip()[-100:]
            rest = rest[1:]
        elif rest:
            said[rest[0]] = "the runtime dies"
            rest = rest[1:]
        left = rest
    return said


def versions_of(path):
    proto = onnx.load(path, load_external_data=False)
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0), proto.ir_version


class File:
    def __init__(self, tool, source, way, command, path):
        self.way, self.path, self.source, self.problem = way, path, source, ""
        report = path + ".json"
        done = subprocess.run([tool, *command, "-o", path, "--json", report, "--quiet", "--no-verify"],
                              capture_output=True, text=True)
        self.code, self.said = done.returncode, done.stderr.strip() or done.stdout.strip()
        self.refused = self.code in (1, 4)
        if self.refused and not self.said:
            self.problem = "refused without a word"
        if self.code not in (0, 1, 4):
            self.problem = f"exit {self.code}: {self.said[-200:]}"
        self.written = self.code == 0
        if not self.written:
            return
        self.readers = json.load(open(report))["output"]["readers"]
        self.opset, self.ir = versions_of(path)
        given, given_ir = versions_of(source)
        if way in ("default", "own opset") and (self.opset > given or self.ir > given_ir):
            self.problem = f"opset {given} -> {self.opset}, IR {given_ir} -> {self.ir}"

    def expected_in(self, name, version):
        """Whether the runtime must read it; None: nothing is promised."""
        said = self.readers[name]
        if said is None:
            return None
        if name == "openvino":
            return True if version >= tuple(map(int, said.split("."))) else None
        return True if version >= tuple(map(int, said.split("."))) else None


def ways_of(source, opset, modes):
    fuse = ["fuse", source, "--no-match-check"]
    yield "default", fuse
    yield "own opset", [*fuse, "--opset", str(opset)]
    yield "max", [*fuse, "--opset", "max"]
    for target in TARGETS:
        yield target, [*fuse, "--target", target]
    for mode, options in MODES.items() if modes else []:
        yield mode, ["quantize", source, *options]
        for target in TARGETS:
            yield f"{mode} {target}", ["quantize", source, *options, "--target", target]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--table")
    parser.add_argument("--modes", action="store_true")
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    root = os.path.join(judging.data_folder(), "models")
    installed = list(runtimes())
    files, failed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models or sorted(os.listdir(root)):
            source = os.path.join(root, model, "model.onnx")
            opset, _ = versions_of(source)
            files[model] = [File(args.tool, source, way, command,
                                 os.path.join(folder, f"{model}.{way.replace(' ', '-')}.onnx"))
                            for way, command in ways_of(source, opset, args.modes)]
            print(f"{model}: {sum(f.written for f in files[model])} of {len(files[model])} written", flush=True)
        everything = [f for these in files.values() for f in these if f.written]
        for name, version, env in installed:
            shown = f"{name} {version[0]}.{version[1]}"
            asked = [f for f in everything if f.expected_in(name, version)]
            said = load_all(name, env, [*(f.path for f in asked), *{f.source for f in asked}])
            for f in asked:
                if said[f.path] and not said[f.source]:
                    f.problem = f.problem or f"{shown}: {said[f.path]}"
            print(f"{shown}: {sum(not said[f.path] for f in asked)} of {len(asked)} promised files load", flush=True)
            for source in sorted({f.source for f in asked if said[f.source]}):
                print(f"{shown} refuses the model as it came: {source}: {said[source]}", flush=True)
        for model, these in files.items():
            for f in these:
                if f.problem:
                    failed += 1
                    print(f"FAIL {model} {f.way}: {f.problem}")
        if args.table:
            with open(args.table, "w") as out:
                write_table(out, files, root)
    print(f"{failed} of {sum(map(len, files.values()))} are other than foretold")
    return 1 if failed else 0


def write_table(out, files, root):
    ways = [f.way for f in next(iter(files.values()))]
    out.write("| model | opset, IR | " + " | ".join(ways) + " |\n|---|---|" + "---|" * len(ways) + "\n")
    for model, these in files.items():
        opset, ir = versions_of(os.path.join(root, model, "model.onnx"))
        cells = [f"{f.opset}, {f.ir}" if f.written and not f.problem else
                 "refused" if f.refused and not f.problem else "FAIL" for f in these]
        out.write(f"| {model} | {opset}, {ir} | " + " | ".join(cells) + " |\n")


if __name__ == "__main__":
    sys.exit(main())
