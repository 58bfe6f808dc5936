"""The worker's side of `infer-bench peers` and `infer-opt compare --against`: one engine in a process of its own.

Each line of stdin is a JSON request; its answer is one line of JSON on stdout, {"ok": true, ...} or
{"ok": false, "error": TEXT}, with "missing": true where a package is not installed:

  {"op": "hello"}                              -> {"engine", "versions": {PACKAGE: VERSION}}
  {"op": "load", "model", "threads", "inputs", "outputs", "symbols"}
                                               -> {"load_ms", "first_ms", "timed", "settings"}
  {"op": "run", "settle": S, "count": K}       -> {"ns": [K times]}; S runs before them are not timed;
                                                  "undisturbed_ns" beside it, if known: without the
                                                  time in which others had the processor
  {"op": "outputs", "folder"}                  -> {"outputs": [TENSOR]}
  {"op": "infer", "inputs", "folder"}          -> {"outputs": [TENSOR]}; one run on other inputs

The end of stdin ends the worker. A tensor is {"name", "dtype", "dims", "file"}: raw little-endian
values in a file, dtype as infer-opt prints it (f32, u8, ...); of dtype str each text is its number of
bytes (8 bytes, little-endian) and its bytes in UTF-8. "outputs" of a load lists the names in the order
in which they are wanted back; "symbols" gives the symbolic dimensions their extents.

A load with "compare": true is for outputs, not for times: the engine computes as exactly as it can, inputs
may be text, and an output may also be
  {"name", "sequence": [VALUE]}                      a sequence
  {"name", "maps": {"lengths", "keys", "values"}}    a sequence of maps as three tensors of rank 1: the number
                                                     of pairs in each map, all keys, all values
  {"name", "map": {"lengths", "keys", "values"}}     a map, the same way
  {"name", "optional": VALUE or null}                an optional
  {"name", "left_out": REASON}                       what cannot travel

An engine is a class with `name` and the methods of Engine below. This file needs no package.
"""

import gc
import json
import os
import platform
import struct
import sys
import time
import traceback

ONNX_NUMBERS = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9,
                "f16": 10, "f64": 11, "u32": 12, "u64": 13, "bf16": 16}
NAMES = {number: name for name, number in ONNX_NUMBERS.items()}
# By name as numpy and OpenVINO spell it.
NUMPY_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bool": "bool",
               "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
               "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}


class Engine:
    """What a worker implements. Failures are exceptions; their text goes to the user."""

    name = ""

    def hello(self):
        """Imports the packages (ImportError: not installed) and returns their versions."""
        raise NotImplementedError

    def load(self, request):
        """Compiles the model and binds the inputs. Returns (timed, settings): what a timed step
        calls, in words, and the settings in force as a dict."""
        raise NotImplementedError

    def step(self):
        """One inference, to the end."""
        raise NotImplementedError

    def bind(self):
        """Called once after the first step: output buffers can be fixed now."""

    def rebind(self, inputs):
        """Other inputs, maybe of other extents, for the steps that follow."""
        raise NotImplementedError("this engine keeps its inputs")

    def outputs(self):
        """Of the last step: a list of (name, dtype, dims, bytes), or of (name, VALUE), where VALUE is as the
        protocol has it, with (dtype, dims, bytes) for tensors."""
        raise NotImplementedError


def read_bytes(tensor):
    with open(tensor["file"], "rb") as f:
        return f.read()


def text_bytes(texts):
    """The texts as the file of a tensor of dtype str holds them."""
    encoded = [t.encode("utf-8", "surrogateescape") for t in texts]
    return b"".join(struct.pack("<Q", len(t)) + t for t in encoded)


def texts_in(data):
    texts, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        texts.append(data[at + 8:at + 8 + size].decode("utf-8", "surrogateescape"))
        at += 8 + size
    return texts


class ValueFiles:
    """Writes values into numbered files of a folder."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def tensor(self, dtype, dims, data):
        path = os.path.join(self.folder, "output_%d.raw" % self.count)
        self.count += 1
        with open(path, "wb") as f:
            f.write(data)
        return {"dtype": dtype, "dims": list(dims), "file": path}

    def value(self, value):
        if isinstance(value, tuple):
            return self.tensor(*value)
        if isinstance(value, list):
            return [self.value(v) for v in value]
        if isinstance(value, dict):
            return {key: self.value(v) for key, v in value.items()}
        return value


def write_outputs(engine, folder):
    files = ValueFiles(folder)
    listed = []
    for name, *value in engine.outputs():
        described = files.value(tuple(value) if len(value) == 3 else value[0])
        listed.append({"name": name, **described})
    return {"outputs": listed}


def load(engine, request):
    clock = time.perf_counter_ns
    start = clock()
    timed, settings = engine.load(request)
    loaded = clock()
    engine.step()
    done = clock()
    engine.bind()
    return {"load_ms": (loaded - start) / 1e6, "first_ms": (done - loaded) / 1e6,
            "timed": timed, "settings": settings}


def run(engine, request):
    step = engine.step
    for _ in range(request["settle"]):
        step()
    clock = time.perf_counter_ns
    times = [0] * request["count"]
    for i in range(len(times)):
        start = clock()
        step()
        times[i] = clock() - start
    return {"ns": times}


def answer(engine, request):
    op = request["op"]
    if op == "hello":
        versions = {"python": platform.python_version()}
        versions.update(engine.hello())
        return {"engine": engine.name, "versions": versions}
    if op == "load":
        return load(engine, request)
    if op == "run":
        return run(engine, request)
    if op == "infer":
        engine.rebind(request["inputs"])
        engine.step()
        return write_outputs(engine, request["folder"])
    if op == "outputs":
        return write_outputs(engine, request["folder"])
    raise ValueError("unknown request: %s" % op)


def serve(engine):
    # Libraries print where they like: answers keep a descriptor of their own.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.disable()  # a collection inside a timed step would be the language's time, not the engine's
    for line in sys.stdin:
        try:
            reply = {"ok": True, **answer(engine, json.loads(line))}
        except ImportError as e:
            reply = {"ok": False, "missing": True, "error": str(e)}
        except Exception as e:  # told to the user; the worker lives on
            traceback.print_exc()  # into the log: the class of an error says nothing to a user
            reply = {"ok": False, "error": str(e) or "it failed without saying why"}
        out.write(json.dumps(reply) + "\n")
        out.flush()
