#!/usr/bin/python3
"""A search that is killed again and again comes to the end that it would have come to, and loses at
most the one measurement that each kill hit.

usage: killed_search_test.py INFER_OPT SOURCE [KILLS]

Twice 20 processes (KILLS) are ended with SIGKILL at moments drawn by chance, each between nothing
and a little more than what a whole search takes. First each of them starts at the log of a search
of its own; then one log goes through all of them. Every line that stood in the log must stand there
at the end, and must not be measured again: a search that goes on measures what the log lacks, no
more. What it then decides, from the numbers of the log, must be what a search decides that reads
all of them at once."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time


def main():
    tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    demo = source / "datasets/demo"
    chance = random.Random(20261122)
    with tempfile.TemporaryDirectory(prefix=f"killed_search_{os.getpid()}_") as name:
        folder = pathlib.Path(name)
        args = [tool, "quantize", str(demo / "digits.onnx"), "--mixed", "--threads", "1", "--calib",
                str(demo / "calib_images.npy"), "--calib-samples", "24", "--no-verify",
                "--preprocess", "resize=32,interp=nearest,scale=1/255,layout=nchw",
                "--layer-samples", "8", "--timing-ms", "5", "--precisions",
                "int8,int8-weights,int4-weights", "--goal", "size", "--keep-failed"]

        def start(log, more=()):
            return subprocess.Popen(args + ["--search-log", str(log), "-o", str(folder / "m.onnx"),
                                            *more], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True)

        def finish(log):
            """(policy, report of the search) of a search that may run to its end."""
            running = start(log, ["--json", str(folder / "r.json"), "--save-policy",
                                  str(folder / "p.json")])
            _, said = running.communicate(timeout=600)
            assert running.returncode == 0, said
            return (json.loads((folder / "p.json").read_text()),
                    json.loads((folder / "r.json").read_text())["search"])

        def whole_lines(log):
            """Measurements whose line is complete, without the header."""
            text = log.read_text() if log.exists() else ""
            return text[:text.rfind("\n") + 1].splitlines()[1:]

        def kill_at_random(log, seconds):
            before = whole_lines(log)
            running = start(log)
            time.sleep(chance.uniform(0, 1.05 * seconds))
            running.kill()
            running.communicate()
            after = whole_lines(log)
            assert after[:len(before)] == before, "a line that was written is gone or has changed"
            return len(before), len(after)

        whole = folder / "whole.log"
        began = time.monotonic()
        policy, search = finish(whole)
        seconds = time.monotonic() - began
        total = len(whole_lines(whole))
        assert search["measured"] == total > 20, (search["measured"], total)
        # The same numbers, read from the log, decide the same.
        again, search = finish(whole)
        assert again == policy and search["measured"] == 0, search["measured"]
        print(f"uninterrupted: {seconds:.1f} s, {total} measurements")

        hit = 0
        for i in range(kills):
            log = folder / f"own{i}.log"
            # Errors are the same in every run and times are not: what the uninterrupted search
            # measured up to a moment drawn by chance stands in for a search that was killed there.
            lines = whole.read_text().splitlines(keepends=True)
            keep = chance.randrange(1, len(lines))
            cut = chance.randrange(0, len(lines[keep]))
            log.write_text("".join(lines[:keep]) + lines[keep][:cut])
            before, after = kill_at_random(log, seconds)
            assert before == keep - 1, (before, keep)
            shutil.copy(log, folder / "copy.log")
            hit += after < total
            resumed, search = finish(log)
            lines = whole_lines(log)
            keys = [json.loads(line)["key"] for line in lines]
            assert len(keys) == len(set(keys)), "something was measured twice"
            assert search["measured"] == len(lines) - after, (search["measured"], len(lines), after)
            reread, search = finish(log)
            assert search["measured"] == 0 and reread == resumed, "the log decides something else"
            scores = {json.loads(x)["key"]: json.loads(x)["numbers"] for x in whole_lines(whole)}
            for line in lines:
                e = json.loads(line)
                if e["key"].startswith("layer ") and e["key"] in scores:
                    assert e["numbers"] == scores[e["key"]], f"{e['key']} differs"
        print(f"{kills} kills, a log each: {hit} hit a search that had more to measure")

        log, counts = folder / "chain.log", []
        for _ in range(kills):
            before, after = kill_at_random(log, seconds / 4)
            counts.append(after - before)
        left = total - len(whole_lines(log))
        resumed, search = finish(log)
        reread, search2 = finish(log)
        assert resumed == reread and search2["measured"] == 0
        keys = [json.loads(line)["key"] for line in whole_lines(log)]
        assert len(keys) == len(set(keys)), "something was measured twice"
        same = sum(a["precision"] == b["precision"]
                   for a, b in zip(policy["layers"], resumed["layers"]))
        print(f"{kills} kills, one log: {counts} measurements each, about {left} left to the last; "
              f"{same} of {len(policy['layers'])} layers as in the uninterrupted search")
        # With the goal of size no time decides: all layers must be the same.
        assert same == len(policy["layers"]), (policy, resumed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
