#!/usr/bin/python3
"""Google Benchmark's own compare.py reads what `infer-bench run` and `kernels` write with --format gbench.

usage: gbench_compare.py INFER_BENCH MODEL
compare.py: Debian's libbenchmark-tools, or the folder that $INFER_GBENCH_TOOLS names; it needs SciPy."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(os.environ.get("INFER_GBENCH_TOOLS", "/usr/share/benchmark"))


def main(infer_bench, model):
    if not (TOOLS / "compare.py").exists():
        print(f"skipped: no {TOOLS}/compare.py (libbenchmark-tools)")
        return 77
    try:
        import scipy  # noqa: F401: compare.py imports it
    except ImportError:
        print("skipped: no SciPy, which compare.py imports")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for name, batch in (("a", "1"), ("b", "1"), ("c", "16")):
            out = pathlib.Path(scratch) / f"{name}.json"
            out.write_text(subprocess.run(
                [infer_bench, "run", model, "--batch", batch, "--threads", "1", "--min-time", "0.2", "--cold", "0",
                 "-q", "--format", "gbench"], check=True, text=True, stdout=subprocess.PIPE).stdout)
            files.append(str(out))
        # Benchmarks are matched by name: batch 16 plays a slower version of the same.
        slow = json.loads(pathlib.Path(files[2]).read_text())
        for b in slow["benchmarks"]:
            b["name"] = b["name"].replace("batch:16", "batch:1")
            b["run_name"] = b["run_name"].replace("batch:16", "batch:1")
        pathlib.Path(files[2]).write_text(json.dumps(slow))

        def compare(a, b):
            done = subprocess.run([sys.executable, str(TOOLS / "compare.py"), "--no-color", "benchmarks", a, b],
                                  text=True, capture_output=True)
            print(done.stdout[-1500:], done.stderr)
            if done.returncode:
                sys.exit(f"compare.py: exit {done.returncode}")
            return done.stdout

        same, slower = compare(files[0], files[1]), compare(files[0], files[2])
        name = re.escape(pathlib.Path(model).name) + "/batch:1/threads:1"
        for text in (same, slower):
            assert re.search(name + r"_pvalue\s+\S+\s+\S+\s+U Test, Repetitions: \d+ vs \d+", text), text
        # Sixteen samples take at least four times as long as one: columns are Time (new - old) / old first.
        change = float(re.search(name + r"_median\s+([+-]\S+)", slower)[1])
        assert change > 3, change
        pvalue = float(re.search(name + r"_pvalue\s+(\S+)", slower)[1])
        assert pvalue < 0.01, pvalue

        kernels = pathlib.Path(scratch) / "kernels.json"
        kernels.write_text(subprocess.run(
            [infer_bench, "kernels", model, "--threads", "1", "--min-time", "0.005", "--repetitions", "9", "-q",
             "--format", "gbench"], check=True, text=True, stdout=subprocess.PIPE).stdout)
        # The same numbers, doubled: every kernel takes twice the time.
        twice = json.loads(kernels.read_text())
        for b in twice["benchmarks"]:
            b["real_time"] *= 2
        doubled = pathlib.Path(scratch) / "doubled.json"
        doubled.write_text(json.dumps(twice))
        text = compare(str(kernels), str(doubled))
        names = {b["run_name"] for b in twice["benchmarks"]}
        assert len(names) > 3, names
        for name in names:
            line = re.search(re.escape(name) + r"_median\s+([+-]\S+)", text)
            assert line and abs(float(line[1]) - 1) < 1e-3, (name, text)
    print("gbench_compare: compare.py reads our files")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
