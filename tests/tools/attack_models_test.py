#!/usr/bin/python3
"""Reproducers of $INFER_TEST_DATA/attack: a documented exit code in time on every device and as a fused file, never a crash.

usage: attack_models_test.py [PART OF A FOLDER'S NAME]

Each folder holds m.onnx and inputs in*.pb. `run` on the cpu and on reference kernels must end alike (both right or both refused,
resources and time apart), `fuse` must write a file that runs where the model does. Exits 1 with the folders that fail, 77 without
the data. Run with INFER_BIN."""
import concurrent.futures
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ["INFER_BIN"])
DATA = pathlib.Path(os.environ.get("INFER_TEST_DATA", "/nonexistent")) / "attack"
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 71, 124}
TIMEOUT = "30"  # seconds for one command: some loop for ever, and must stop when told
SECONDS = 60  # of processor time, for one that does not
MEMORY = 6 << 30


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def command(*args):
    done = subprocess.run([str(BIN / "infer-opt"), *map(str, args), "--timeout", TIMEOUT], capture_output=True, preexec_fn=limit, timeout=1200,
                          env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    return done.returncode, done.stderr.decode(errors="replace").strip()[-200:]


def findings(folder):
    """What is wrong with the commands on one reproducer."""
    model, inputs = folder / "m.onnx", sorted(folder.glob("in*.pb"))
    given = [word for f in inputs for word in ("--input", f)]
    codes, wrong = {}, []
    with tempfile.TemporaryDirectory() as work:
        fused = pathlib.Path(work) / "fused.onnx"
        runs = {device: ("run", model, "--device", device, "--threads", 1, *given) for device in ("cpu", "reference")}
        runs["fuse"] = ("fuse", model, "-o", fused, "--threads", 1)
        for name, args in runs.items():
            codes[name], said = command(*args)
            if codes[name] not in DOCUMENTED:
                wrong.append(f"{name} ended with {codes[name]}: {said}")
        if fused.exists() and codes["cpu"] == 0:
            code, said = command("run", fused, "--threads", 1, *given)
            if code != 0:
                wrong.append(f"the fused file ended with {code}: {said}")
    ends = {codes["cpu"], codes["reference"]}
    if not wrong and (0 in ends) and len(ends) > 1 and not ends & {71, 124}:
        wrong.append(f"cpu ended with {codes['cpu']}, reference with {codes['reference']}")
    return folder, wrong


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    folders = sorted(m.parent for m in DATA.rglob("m.onnx") if part in str(m.parent))
    if not folders:
        print("SKIPPED: no reproducers (INFER_TEST_DATA)")
        return 77
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for folder, wrong in pool.map(findings, folders):
            failed += bool(wrong)
            for line in wrong:
                print(f"FAIL {folder.relative_to(DATA)}: {line}", flush=True)
    print(f"{len(folders) - failed} of {len(folders)} reproducers end as they should")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
