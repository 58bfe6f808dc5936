"""infer-opt on whole models: as they came, and fused, against their stored outputs.

usage: models_test.py INFER_OPT DEVICE models|fusion_graphs [--compute f16] [NAME...]

models: every model of $INFER_TEST_DATA/models: `compare --reference`, `fuse` with its own check,
whether the file grew without a warning, and `compare --reference` of what it wrote. fusion_graphs: every graph of that folder is fused with
the check; refusals (exit code 3 or 4: bad or random graphs) and graphs that no random inputs fit are
counted, anything else must be 0. Exit 77 (a skip) without the data.

--compute f16: of models alone, `compare --reference` as they came: each output within MOST_F16 of its largest number, or with no
more noise than what the CPU makes of the same model's file in fp16, but for MOST_NOISE_DB. docs/vulkan.md, "Products in f16", has
the table.

Models of more than 1 GFLOP are fused without a check, which runs them six times on reference and fast kernels: what it wrote is
compared with the stored outputs. On reference kernels models of more than 10 GFLOP as they came are left to suite_reference.
"""

import json
import os
import subprocess
import sys
import tempfile

SKIP = 77
UNCHECKED = 2  # no random inputs fit: fuse asks for shapes or data
REFUSED = (3, 4)
MAY_GROW = 1 << 16  # bytes of which fuse need not speak
MANY_FLOPS = 1e10
CHECKED_FLOPS = 1e9
MOST_F16 = 5e-3  # the gate of `compare --compute f16`
MOST_NOISE_DB = 3  # beside the fp16 file, which rounds tensors, too, but not those of the same layers


def run(*command):
    """(exit code, last line of stderr or of the gates)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return done.returncode, lines[-1] if lines else ""


class Count:
    def __init__(self):
        self.by_verdict = {}

    def add(self, verdict, name, detail):
        self.by_verdict[verdict] = self.by_verdict.get(verdict, 0) + 1
        if verdict != "ok":
            print("%-9s %s  %s" % (verdict, name, detail), flush=True)

    def report(self, what):
        counts = ", ".join("%d %s" % (n, v) for v, n in sorted(self.by_verdict.items()))
        print("%s: %s" % (what, counts or "none"), flush=True)
        return not self.by_verdict.get("bad") and self.by_verdict.get("ok", 0) > 0


def graphs_below(root):
    return sorted(
        os.path.relpath(os.path.join(folder, f), root)
        for folder, _, files in os.walk(root)
        for f in files
        if f.endswith(".onnx"))


def flops_of(infer_opt, model):
    done = subprocess.run([infer_opt, "inspect", model, "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)["cost"]["flops"] if done.returncode == 0 else 0


def check_model(infer_opt, device, folder, work, count):
    name = os.path.basename(folder)
    model, fused = os.path.join(folder, "model.onnx"), os.path.join(work, name + ".onnx")
    compared = any(n.startswith("test_data_set_") for n in os.listdir(folder))
    report = os.path.join(work, name + ".json")
    steps = [("fuse", [model, "-o", fused, "--json", report])]
    if compared:
        steps.append(("compare", [fused, "--reference", folder]))
    flops = flops_of(infer_opt, model) if compared else 0
    if flops > CHECKED_FLOPS:
        steps[0][1].append("--no-verify")
    if device == "reference" and flops > MANY_FLOPS:
        print("%s: as it came left to suite_reference" % name, flush=True)
    elif compared:
        steps.insert(0, ("compare", [model, "--reference", folder]))
    for command, arguments in steps:
        code, line = run(infer_opt, command, *arguments, "--device", device, "-q")
        if code != 0:
            what = "fused" if arguments[0] == fused else "as it came"
            return count.add("bad", name, "%s (%s) exits with %d: %s" % (command, what, code, line))
    with open(report) as f:
        said = json.load(f)
    grown = said["output"]["bytes"] + said["output"]["external_bytes"] - said["model"]["bytes"]
    if grown > max(MAY_GROW, said["optimize"]["before"]["constant_bytes"] // 16) and not any(
            "the file grew" in w for w in said["warnings"]):
        return count.add("bad", name, "the fused file grew by %d bytes without a word" % grown)
    count.add("ok", name, "")


def outputs_of(infer_opt, model, folder, work, *options):
    """(exit code, last line, {output: its part of the report of `compare --reference`})"""
    report = os.path.join(work, "compare.json")
    code, line = run(infer_opt, "compare", model, "--reference", folder, *options, "--max-error", str(MOST_F16), "--json", report, "-q")
    if code not in (0, 1):
        return code, line, {}
    with open(report) as f:
        return code, line, {o["name"]: o for o in json.load(f)["accuracy"]["outputs"]}


def check_compute(infer_opt, device, compute, folder, work, count):
    name, model = os.path.basename(folder), os.path.join(folder, "model.onnx")
    if not any(n.startswith("test_data_set_") for n in os.listdir(folder)):
        return count.add("no data", name, "")
    code, line, outputs = outputs_of(infer_opt, model, folder, work, "--device", device, "--compute", compute)
    if not outputs:
        return count.add("bad", name, "exits with %d: %s" % (code, line))
    print("%s: %.1e" % (name, max(o["max_error_ratio"] for o in outputs.values())), flush=True)
    if code == 0:
        return count.add("ok", name, "")
    halves = os.path.join(work, name + ".onnx")
    code, line = run(infer_opt, "quantize", model, "--mode", "fp16", "-o", halves, "-q")
    if code != 0:
        return count.add("bad", name, "quantize --mode fp16 exits with %d: %s" % (code, line))
    _, _, limits = outputs_of(infer_opt, halves, folder, work)
    for output, got in outputs.items():
        if got["max_error_ratio"] <= MOST_F16:
            continue
        limit = limits[output]["sqnr_db"] - MOST_NOISE_DB
        print("%s: %s: %.1f dB, the fp16 file %.1f" % (name, output, got["sqnr_db"], limits[output]["sqnr_db"]), flush=True)
        if got["sqnr_db"] < limit:
            return count.add("bad", name, "%s: %.1f dB, at least %.1f" % (output, got["sqnr_db"], limit))
    count.add("ok", name, "")


def check_graph(infer_opt, device, path, name, work, count):
    code, line = run(infer_opt, "fuse", path, "-o", os.path.join(work, "fused.onnx"), "--device",
                     device, "-q")
    if code == UNCHECKED:
        return count.add("unchecked", name, line)
    if code in REFUSED:
        return count.add("refused", name, line)
    count.add("ok" if code == 0 else "bad", name, "exits with %d: %s" % (code, line))


def main():
    infer_opt, device, kind = sys.argv[1:4]
    names = sys.argv[4:]
    compute = names[1] if names[:1] == ["--compute"] else ""
    if compute:
        names = names[2:]
    root = os.path.join(os.environ.get("INFER_TEST_DATA", ""), kind)
    if not os.environ.get("INFER_TEST_DATA") or not os.path.isdir(root):
        print("skipped: INFER_TEST_DATA is not set or has no " + kind)
        sys.exit(SKIP)
    count = Count()
    with tempfile.TemporaryDirectory() as work:
        if kind == "models":
            for name in names or sorted(os.listdir(root)):
                if compute:
                    check_compute(infer_opt, device, compute, os.path.join(root, name), work, count)
                else:
                    check_model(infer_opt, device, os.path.join(root, name), work, count)
        else:
            for name in names or graphs_below(root):
                check_graph(infer_opt, device, os.path.join(root, name), name, work, count)
    sys.exit(0 if count.report(kind + " on " + device) else 1)


main()
