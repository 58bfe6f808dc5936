#!/usr/bin/python3
"""A search that is killed comes to the end that it would have come to, and loses at most the one
measurement that the kill hit.

usage: killed_search_test.py INFER_OPT SOURCE [KILLS]

KILLS (20) processes are ended with SIGKILL once a number of lines drawn by chance stands in their
log, and a moment drawn by chance later: in the middle of the next measurement. Every fourth is
killed behind its last line, where the front is solved for and the model is written. Then

- no line that was written is gone, and none is measured again;
- the terminal was told of no measurement that the log lacks;
- the search that goes on takes the same layers to the same precisions as one that nobody killed
  (the goal is size: errors are the same in every run, times are not);
- the model file is the old one or the whole new one;
- a search that reads all lines at once decides the same from them, byte for byte.

One log goes through all kills, too, and logs are broken: the last line cut off or overwritten, a
line inside changed, a disk that is full."""
import json
import os
import pathlib
import pty
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 600


def whole_lines(log):
    """Measurements whose line is complete, without the header."""
    text = log.read_bytes() if log.exists() else b""
    return text[:text.rfind(b"\n") + 1].splitlines()[1:]


class Terminal:
    """What a process writes to its terminal, read by a thread."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.text = b""
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            while block := os.read(self.ours, 4096):
                self.text += block
        except OSError:  # nobody holds the other end any more
            pass

    def finish(self):
        os.close(self.theirs)
        self.thread.join()
        os.close(self.ours)
        return self.text.decode(errors="replace")


class Searches:
    def __init__(self, tool, demo, folder):
        self.folder = folder
        self.model = folder / "m.onnx"
        self.args = [tool, "quantize", str(demo / "digits.onnx"), "--mixed", "--threads", "1",
                     "--calib", str(demo / "calib_images.npy"), "--calib-samples", "24",
                     "--no-verify", "--preprocess",
                     "resize=32,interp=nearest,scale=1/255,layout=nchw", "--layer-samples", "8",
                     "--timing-ms", "5", "--precisions", "int8,int8-weights,int4-weights", "--opset", "21",
                     "--goal", "size", "--keep-failed", "-o", str(self.model)]

    def command(self, log, more=()):
        return self.args + ["--search-log", str(log), *more]

    def finish(self, log):
        """(policy, report of the search) of a search that may run to its end."""
        done = subprocess.run(
            self.command(log, ["--json", str(self.folder / "r.json"), "--save-policy",
                               str(self.folder / "p.json")]),
            capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return (json.loads((self.folder / "p.json").read_text()),
                json.loads((self.folder / "r.json").read_text())["search"])

    def refused(self, log, code, said, **more):
        done = subprocess.run(self.command(log), capture_output=True, text=True, timeout=LIMIT_S,
                              **more)
        assert done.returncode == code and said in done.stderr, (done.returncode, done.stderr)

    def killed(self, log, at, wait_s):
        """Kills a search `wait_s` after line `at` was there. What the terminal was told last."""
        terminal = Terminal()
        running = subprocess.Popen(self.command(log), stdout=subprocess.DEVNULL,
                                   stderr=terminal.theirs)
        until = time.monotonic() + LIMIT_S
        while len(whole_lines(log)) < at and running.poll() is None and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(wait_s)
        hit = running.poll() is None
        running.kill()
        running.wait()
        told = re.findall(r"search +\[[#.]*\] (\d+)/", terminal.finish())
        return hit, int(told[-1]) if told else 0


def precisions(policy):
    return [(layer["layer"], layer["precision"]) for layer in policy["layers"]]


def decided(search):
    """A search's report without what its process counted and timed."""
    return {k: v for k, v in search.items() if k not in ("measured", "reused", "latency")}


def check_end(searches, log, before, policy, errors):
    """Finishes the search of a log with `before` lines; everything that must hold then."""
    resumed, search = searches.finish(log)
    lines = whole_lines(log)
    assert lines[:len(before)] == before, "a line that was written is gone or has changed"
    entries = [json.loads(line) for line in lines]
    keys = [e["key"] for e in entries]
    assert len(keys) == len(set(keys)), "something was measured twice"
    assert search["measured"] == len(lines) - len(before), (search["measured"], len(lines))
    assert precisions(resumed) == precisions(policy), (precisions(policy), precisions(resumed))
    for e in entries:
        if e["key"] in errors:
            assert e["value"] == errors[e["key"]], f"{e['key']} differs"
    reread, again = searches.finish(log)
    assert again["measured"] == 0 and reread == resumed, "the log decides something else"
    assert decided(again) == decided(search), "another front from the same log"


def own_logs(searches, chance, kills, whole, policy, each_s, end_s):
    lines = whole.read_bytes().splitlines(keepends=True)
    errors = {e["key"]: e["value"] for e in map(json.loads, lines[1:])
              if e["key"].startswith("layer ")}
    total, hits, left = len(lines) - 1, [0, 0], []
    for i in range(kills):
        log, late = searches.folder / f"own{i}.log", i % 4 == 3
        # What the uninterrupted search wrote up to a moment stands in for a first killed process,
        # and cut off in the middle of a line.
        keep = total if late else chance.randrange(0, total - 1)
        cut = chance.randrange(0, len(lines[keep + 1])) if not late else 0
        log.write_bytes(b"".join(lines[:keep + 1]) + (lines[keep + 1][:cut] if cut else b""))
        at = total if late else chance.randrange(keep + 1, total)
        searches.model.write_bytes(b"old")
        hit, told = searches.killed(log, at, chance.uniform(0, end_s / 2 if late else 2 * each_s))
        hits[late] += hit
        after = whole_lines(log)
        assert len(after) >= at and after[:keep] == [x.rstrip(b"\n") for x in lines[1:keep + 1]]
        if not late:
            assert told <= len(after), f"{told} measurements were told, {len(after)} stand there"
            left.append(total - len(after))
        model = searches.model.read_bytes()
        assert model == b"old" or not hit or len(model) > 1000, len(model)
        check_end(searches, log, after, policy, errors)
    print(f"{kills} kills, a log each: {hits[0]} while it measured (about {left} of {total} were "
          f"left), {hits[1]} behind the last line")
    assert hits[0] >= (kills - kills // 4) * 3 / 4, "the kills came too late"


def one_log(searches, chance, kills, total, policy, each_s):
    log, counts = searches.folder / "chain.log", []
    for k in range(kills):
        before = whole_lines(log)
        at = min(len(before) + chance.randrange(1, max(2, 2 * total // (kills + 1))), total - 1)
        if at <= len(before):
            break
        searches.killed(log, at, chance.uniform(0, 2 * each_s))
        after = whole_lines(log)
        assert after[:len(before)] == before, "a line that was written is gone or has changed"
        counts.append(len(after) - len(before))
    print(f"{len(counts)} kills, one log: {counts} measurements each of {total}")
    check_end(searches, log, whole_lines(log), policy, {})


def broken_logs(searches, chance, whole, policy):
    text = whole.read_bytes()
    lines = text.splitlines(keepends=True)
    log = searches.folder / "broken.log"
    half = b"".join(lines[:len(lines) // 2])
    for tail in (b'{"key": "layer int8 x", "val', b"\0\0\0\0", b"garbage\n",
                 lines[len(lines) // 2].replace(b'"check":"', b'"check":"1')):
        log.write_bytes(half + tail)
        check_end(searches, log, whole_lines(whole)[:len(lines) // 2 - 1], policy, {})
    at = chance.randrange(1, len(lines) - 2)
    for bad in (b"garbage\n", lines[at].replace(b'"value":{', b'"value":{"kl":0.5,')):
        inside = b"".join(lines[:at]) + bad + b"".join(lines[at + 1:])
        log.write_bytes(inside)
        searches.refused(log, 3, f"broken.log:{at + 1}: a broken line")
        assert log.read_bytes() == inside, "a log that was refused has changed"
    log.write_bytes(b"something else\n")
    searches.refused(log, 3, "no log of this kind")
    print("broken lines: dropped at the end, refused inside")

    full = searches.folder / "full.log"
    full.write_bytes(half)
    room = len(half) + len(lines[len(lines) // 2]) + 20
    searches.refused(full, 5, "full.log", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (room, room)))
    assert full.read_bytes().startswith(half) and full.stat().st_size <= room
    check_end(searches, full, whole_lines(full), policy, {})
    print("a full disk: what was written is used")


def main():
    tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    chance = random.Random(20261123)
    with tempfile.TemporaryDirectory(prefix=f"killed_search_{os.getpid()}_") as name:
        folder = pathlib.Path(name)
        searches = Searches(tool, source / "datasets/demo", folder)
        whole = folder / "whole.log"
        began = time.monotonic()
        policy, search = searches.finish(whole)
        seconds = time.monotonic() - began
        total = len(whole_lines(whole))
        assert search["measured"] == total > 20, (search["measured"], total)
        began = time.monotonic()
        again, same = searches.finish(whole)  # solves and writes
        end_s = time.monotonic() - began
        assert again == policy and same["measured"] == 0 and decided(same) == decided(search)
        each_s = max(0.0, seconds - end_s) / total
        print(f"uninterrupted: {seconds:.1f} s, {total} measurements; from its log {end_s:.1f} s")
        own_logs(searches, chance, kills, whole, policy, each_s, end_s)
        one_log(searches, chance, kills, total, policy, each_s)
        broken_logs(searches, chance, whole, policy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
