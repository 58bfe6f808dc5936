#!/usr/bin/python3
"""Whole commands in which one call fails, each number of it in turn: malloc, mmap, read, write.

usage: failures_test.py SHIM [--points N] [--commands a,b] [--calls malloc,mmap]

SHIM is fail_call.cc as a library. A command in which the call fails ends with 71 (memory) or 5 (files) and at most four lines
beside warnings, or with the right result; it leaves no temporary file and no half-written one. A model that is complete before
memory ends stays, and the command says so. --points: so many per command and call, spread evenly; by default every one. Sites
in libraries that are not ours to mend are counted apart (LIBRARIES). Run with INFER_BIN (the folder of the binaries) and
INFER_SOURCE (the repository)."""
import argparse
import concurrent.futures
import errno
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["INFER_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/tools"))
from onnx_wire import INT64, ints_attribute, model, node, tensor, value_info  # noqa: E402

BIN = pathlib.Path(os.environ["INFER_BIN"])
# Debian's oneDNN writes machine code into memory that it does not check; libgomp ends the process itself; OpenSSL reads what its
# own set-up had no memory for.
LIBRARIES = ("libdnnl.so", "libgomp.so", "libcrypto.so")
# The frames of the call itself.
BELOW = ("libfail_call", "libstdc++", "libc.so")


def small_model():
    f32 = struct.Struct("<f").pack
    return model([node("Conv", ["x", "w"], ["c"], [ints_attribute("pads", [1, 1, 1, 1])]), node("Relu", ["c"], ["r"]),
                  node("Reshape", ["r", "s"], ["f"]), node("MatMul", ["f", "m"], ["y"])],
                 [value_info("x", [1, 2, 4, 4])], [value_info("y", [1, 3])],
                 [tensor("w", [2, 2, 3, 3], f32(0.5) * 36), tensor("m", [32, 3], f32(0.25) * 96),
                  tensor("s", [2], struct.pack("<2q", 1, 32), INT64)])


# name: (command, files that it writes, whether their bytes are the same in every run)
COMMANDS = {
    "run": (["infer-opt", "run", "m.onnx", "--threads", "1"], [], True),
    "inspect": (["infer-opt", "inspect", "m.onnx", "--kernels"], [], True),
    "fuse": (["infer-opt", "fuse", "m.onnx", "-o", "out.onnx", "--threads", "1"], ["out.onnx"], True),
    "weights": (["infer-opt", "quantize", "m.onnx", "-o", "out.onnx", "--mode", "fp16"], ["out.onnx"], True),
    "compare": (["infer-opt", "compare", "m.onnx", "m.onnx", "--json", "out.json"], ["out.json"], False),
    "bench": (["infer-bench", "run", "m.onnx", "--min-time", "0", "--min-runs", "1", "--warmup", "0", "--json", "out.json"],
              ["out.json"], False),
    "demo": (["infer-opt", "run", "demo.onnx", "--threads", "1"], [], True),
}
# The small model makes oneDNN map nothing.
CALLS_OF = {"demo": ("mmap",)}
MODELS = ("m.onnx", "demo.onnx")


class Folders:
    """Folders of one run: `work`, its working folder, in `root`, its home. Reports lie outside of both."""

    def __init__(self, folder):
        self.root, self.report, self.said = (pathlib.Path(folder) / n for n in ("root", "report", "said"))
        self.work = self.root / "work"
        self.work.mkdir(parents=True)
        (self.work / "m.onnx").write_bytes(small_model())
        shutil.copy(SOURCE / "datasets/demo/digits.onnx", self.work / "demo.onnx")

    def environment(self, shim, call, error):
        return dict(os.environ, LD_PRELOAD=shim, FAIL_CALL=call, FAIL_ERRNO=str(error), FAIL_REPORT=str(self.report),
                    OMP_NUM_THREADS="1", TMPDIR=str(self.root), HOME=str(self.root), XDG_CACHE_HOME=str(self.root / "cache"))

    def written(self):
        return {f.name: f.read_bytes() for f in self.work.iterdir() if f.name not in MODELS}

    def restore(self):
        """Removes what a child has written."""
        for folder in (self.work, self.root):
            for f in folder.iterdir():
                if f.name not in (*MODELS, "work"):
                    shutil.rmtree(f) if f.is_dir() else f.unlink()
        for f in (self.report, self.said):
            f.unlink(missing_ok=True)


class Point:
    """The end of one run with one failing call."""

    def __init__(self, name, call, at, code, said, folders):
        self.name, self.call, self.at, self.code, self.said = name, call, at, code, said
        self.files = folders.written()
        lines = folders.report.read_text().splitlines() if folders.report.exists() else []
        self.count = int(lines[-1]) if lines and lines[-1].isdigit() else 0
        stack = next((line.split()[1:] for line in lines if line.startswith("LIBRARY")), [])
        if call == "malloc" and len(stack) > 1:
            del stack[1]  # the tools' own malloc (tools/bench/allocations.cc)
        self.site = next((s for s in stack if not s.startswith(BELOW)), "")

    @staticmethod
    def alone(shim, name, call, at, error=errno.ENOMEM):
        """The end of a run of its own."""
        command, _, _ = COMMANDS[name]
        with tempfile.TemporaryDirectory() as folder:
            folders = Folders(folder)
            try:
                done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=folders.work, timeout=120, capture_output=True,
                                      env=dict(folders.environment(shim, call, error), FAIL_AT=str(at)))
                code, said = done.returncode, done.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                code, said = "no end", ""
            return Point(name, call, at, code, said, folders)

    @staticmethod
    def forked(shim, name, call, step, error):
        """Every step-th call in one run, each failing in a child: (at, point), None where the run could not be forked."""
        command, _, _ = COMMANDS[name]
        with tempfile.TemporaryDirectory() as folder:
            folders = Folders(folder)
            go, told = os.pipe(), os.pipe()
            process = subprocess.Popen([str(BIN / command[0]), *command[1:]], cwd=folders.work, pass_fds=(go[0], told[1]),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=dict(folders.environment(shim, call, error), FAIL_STEP=str(step),
                                                FAIL_PIPES=f"{go[0]},{told[1]}", FAIL_SAID=str(folders.said)))
            os.close(go[0])
            os.close(told[1])
            with os.fdopen(told[0]) as lines:
                for line in lines:
                    at, status = map(int, line.split())
                    if status < 0:
                        yield at, None
                    else:
                        code = os.waitstatus_to_exitcode(status)
                        yield at, Point(name, call, at, "no end" if code == -signal.SIGALRM else code,
                                        folders.said.read_text(errors="replace"), folders)
                        folders.restore()
                    os.write(go[1], b"\n")
            os.close(go[1])
            assert process.wait() == 0, f"{name}: the run without a failure ended with {process.returncode}"

    def complaint(self, golden):
        """What is wrong, or ""."""
        _, written, same = COMMANDS[self.name]
        allowed = (71,) if self.call in ("malloc", "mmap") else (5, 71)
        if self.code == 0:
            if sorted(self.files) != sorted(written):
                return f"left {sorted(self.files)}"
            if same and self.files != golden.files:
                return "wrote something else"
            return ""
        if self.code not in allowed:
            return f"ended with {self.code}: {self.said[-300:].strip()}"
        if sorted(self.files) == ["out.onnx"] and self.files == golden.files and "out.onnx is written, and complete" in self.said:
            return ""
        if self.files:
            return f"failed and left {sorted(self.files)}"
        # Warnings tell of the machine (busy, throttled) and are no part of the error.
        if not 1 <= sum(": warning: " not in line for line in self.said.strip().splitlines()) <= 4:
            return f"said {self.said[:300]!r}"
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shim")
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--calls", default="malloc,mmap,read,write")
    args = parser.parse_args()
    args.shim = os.path.abspath(args.shim)
    pairs = [(name, call) for name in args.commands.split(",") for call in args.calls.split(",")
             if call in CALLS_OF.get(name, (call,))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = sum(pool.map(lambda pair: findings_of(args.shim, *pair, args.points), pairs))
    return 1 if findings else 0


def findings_of(shim, name, call, most):
    """Runs the points of one command and call, prints what came of them, and counts what is wrong."""
    error = errno.ENOMEM if call in ("malloc", "mmap") else errno.EIO
    golden = Point.alone(shim, name, call, 0)
    assert golden.code == 0, f"{name}: {golden.said}"
    assert golden.count > 0 or (call not in ("malloc", "read") and name not in CALLS_OF), "the library does not count"
    step = max(1, -(-golden.count // most)) if most else 1
    if call == "malloc":
        ends = Point.forked(shim, name, call, step, error)
    else:
        ends = ((at, None) for at in range(1, golden.count + 1, step))
    tally, seen, forks = {}, {}, 0
    for at, end in ends:
        forks += end is not None
        p = end or Point.alone(shim, name, call, at, error)
        wrong = p.complaint(golden)
        if wrong and end:  # a forked child differs in details, so a process of its own decides
            p = Point.alone(shim, name, call, at, error)
            wrong = p.complaint(golden)
        kind = "right" if p.code == 0 and not wrong else "refused"
        if wrong:
            kind = p.site if p.site.startswith(LIBRARIES) else "WRONG"
        tally[kind] = tally.get(kind, 0) + 1
        if kind == "WRONG":
            seen.setdefault((wrong, p.site), []).append(p.at)
    lines = [f"{name}, {call}: {sum(tally.values())} of {golden.count} points, {forks} of them forked: "
             + ", ".join(f"{n} {k}" for k, n in sorted(tally.items()))]
    for (wrong, site), at in list(seen.items())[:10]:
        lines.append(f"  {call} {at[0]} (and {len(at) - 1} more) in {site}: {wrong}")
    print("\n".join(lines), flush=True)
    return tally.get("WRONG", 0)


if __name__ == "__main__":
    sys.exit(main())
