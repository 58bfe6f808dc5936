#!/usr/bin/env python3
"""Our text decoding beside llama.cpp's, on a decoder of the zoo with the same 4-bit weights.

usage: beside_llama.py INFER_OPT INFER_BENCH [--model tinyllama-1.1b-int4] [--layers N] [--accuracy-level 4] [--threads 1,2]
                    [--prompt 512] [--generate 32] [--depth 0,1024] [--rounds 5] [--work FOLDER] [--json FILE]

Writes the decoder by `infer-bench zoo` and from its weights a GGUF file: a block of 32 codes and its scale is Q4_0's block (scales
become f16, queries and keys are put in the order of llama.cpp's rotation, normalizations stay f32). First both compute the scores
behind the same prompt, on a decoder of two layers, and have to agree. Then they take turns: `infer-bench llm` in a process of its
own, llama.cpp through its C interface in a process that stays (a call per token; no sampling). Both round activations to 8 bits
(`--accuracy-level 0`: ours stay f32). Told are the medians of the rounds,
and the ratio of tokens per second, ours over theirs, with the range of the rounds.

The interpreter needs llama-cpp-python, gguf, onnx and numpy from PyPI; ctest has no entry, since llama.cpp is compiled on
installation. Exits 1 where scores differ, 77 without the packages."""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile

try:
    import gguf
    import llama_cpp
    import numpy as np
    import onnx
    import onnx.numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

BLOCK = 32
TOLERANCE = 0.05  # of the scores' norm: llama.cpp rounds activations to 8 bits per block of 32, and scales to f16


def q4_0(codes, scales, rows):
    """[rows, bytes] of Q4_0 from codes (low half first in each byte) and a scale per block."""
    codes = codes.reshape(rows, -1, BLOCK // 2)
    numbers = np.stack([codes & 15, codes >> 4], axis=-1).reshape(rows, -1, BLOCK)
    packed = numbers[..., :16] | numbers[..., 16:] << 4
    scale = scales.reshape(rows, -1, 1).astype(np.float16).view(np.uint8)
    return np.concatenate([scale, packed], axis=-1).reshape(rows, -1)


def rotated(rows, heads):
    """Rows of queries or keys: llama.cpp turns neighbours, our files an element and the one half a head further."""
    n, width = rows.shape
    return rows.reshape(heads, 2, n // heads // 2, width).swapaxes(1, 2).reshape(n, width)


def write_gguf(model, path, theta, epsilon):
    graph = onnx.load(model).graph
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    products = [n for n in graph.node if n.op_type == "MatMulNBits"]
    embedding = next(n for n in graph.node if n.op_type == "GatherBlockQuantized")
    norms = [constants[i] for n in graph.node if n.op_type == "Mul" for i in n.input
             if i in constants and constants[i].ndim == 1 and constants[i].size > 1]
    attention = [n for n in graph.node if n.op_type == "GroupQueryAttention"]
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in attention[0].attribute}
    heads, groups = settings["num_heads"], settings["kv_num_heads"]
    layers = len(attention)

    def product(node):
        rows = next(a.i for a in node.attribute if a.name == "N")
        if len(node.input) > 3:
            raise SystemExit("products with zero points or biases are not written")
        return q4_0(constants[node.input[1]], constants[node.input[2]], rows)

    codes = constants[embedding.input[0]]
    vocabulary, width = codes.shape[0], codes.shape[1] * 2
    head = product(products[0]).shape[0] // (heads + 2 * groups)
    inner = product(products[2]).shape[0]
    if len(products) != 5 * layers + 1 or len(norms) != 2 * layers + 1:
        raise SystemExit("this is no decoder as the zoo writes it")
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(2048)
    w.add_embedding_length(width)
    w.add_block_count(layers)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(groups)
    w.add_rope_dimension_count(head)
    w.add_rope_freq_base(theta)
    w.add_layer_norm_rms_eps(epsilon)
    w.add_vocab_size(vocabulary)
    w.add_tokenizer_model("none")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)

    def add(name, rows):
        w.add_tensor(name, np.ascontiguousarray(rows), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    add("token_embd.weight", q4_0(codes, constants[embedding.input[2]], vocabulary))
    for i in range(layers):
        qkv, out, gate, up, down = products[5 * i:5 * i + 5]
        rows = product(qkv)
        q, k, v = np.split(rows, [heads * head, (heads + groups) * head])
        add(f"blk.{i}.attn_q.weight", rotated(q, heads))
        add(f"blk.{i}.attn_k.weight", rotated(k, groups))
        add(f"blk.{i}.attn_v.weight", v)
        for name, node in (("attn_output", out), ("ffn_gate", gate), ("ffn_up", up), ("ffn_down", down)):
            add(f"blk.{i}.{name}.weight", product(node))
        w.add_tensor(f"blk.{i}.attn_norm.weight", norms[2 * i])
        w.add_tensor(f"blk.{i}.ffn_norm.weight", norms[2 * i + 1])
    w.add_tensor("output_norm.weight", norms[-1])
    add("output.weight", product(products[-1]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return {"vocabulary": vocabulary, "layers": layers, "groups": groups, "head": head}


class Llama:
    """A model in llama.cpp, fed token by token through its C interface."""

    def __init__(self, path, threads, context):
        llama_cpp.llama_log_set(SILENT, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        p = llama_cpp.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = context, context, min(context, 512)
        p.n_threads = p.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, p)
        self.memory = llama_cpp.llama_get_memory(self.context)

    def begin(self):
        llama_cpp.llama_memory_clear(self.memory, True)

    def feed(self, tokens):
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(array, len(tokens))) != 0:
            raise RuntimeError("llama_decode fails")

    def scores(self, vocabulary):
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), (vocabulary,)).copy()


@llama_cpp.llama_log_callback
def SILENT(level, text, data):
    del level, text, data


def worker(arguments):
    """Answers a line of JSON {"test", "depth", "tokens"} by the seconds."""
    import re
    import time
    path, threads, context, vocabulary = arguments[0], *(int(a) for a in arguments[1:4])
    llama = Llama(path, threads, context)
    draw = np.random.default_rng(1)

    def peak():  # of getrusage it would be that of the process that started this one, too
        with open("/proc/self/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) * 1024

    for line in sys.stdin:
        ask = json.loads(line)
        tokens = draw.integers(0, vocabulary, ask["depth"] + ask["tokens"]).tolist()
        llama.begin()
        if ask["depth"]:
            llama.feed(tokens[:ask["depth"]])
            llama.scores(1)
        begin = time.perf_counter()
        if ask["test"] == "prompt":
            llama.feed(tokens[ask["depth"]:])
            llama.scores(1)
        else:
            for t in tokens[ask["depth"]:]:
                llama.feed([t])
                llama.scores(1)
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "peak": peak()}), flush=True)


def run(*command):
    result = subprocess.run(command, text=True, capture_output=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr[-2000:]}")


def make(args, work, layers, name):
    """The decoder as ONNX and as GGUF, with its form."""
    model, other = os.path.join(work, name + ".onnx"), os.path.join(work, name + ".gguf")
    run(args.infer_bench, "zoo", args.model, "--past", "2048", "--accuracy-level", str(args.accuracy_level), "--num-layers",
        str(layers), "-o", model)
    theta, epsilon = (1e6, 1e-6) if args.model.startswith("qwen") else (1e4, 1e-5)
    return model, other, write_gguf(model, other, theta, epsilon)


def check_scores(args, work):
    model, other, form = make(args, work, 2, "check")
    tokens = np.random.default_rng(2).integers(0, form["vocabulary"], 24)
    ids, last, out = (os.path.join(work, name) for name in ("ids.npy", "last.npy", "out"))
    np.save(ids, tokens[None].astype(np.int64))
    np.save(last, np.array([len(tokens) - 1], np.int32))
    run(args.infer_opt, "run", model, "-i", f"input_ids={ids}", "-i", f"seqlens_k={last}", "--fill", "constant:0", "-o", out)
    ours = np.load(os.path.join(out, "logits.npy")).reshape(-1)
    llama = Llama(other, 1, 64)
    llama.feed(tokens.tolist())
    theirs = llama.scores(form["vocabulary"])
    error = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    print(f"scores behind {len(tokens)} tokens, two layers: differ by {error:.4f} of their norm, best token "
          f"{'the same' if ours.argmax() == theirs.argmax() else 'another'}", flush=True)
    return error <= TOLERANCE


def measure_ours(args, model, threads, asks):
    """{(test, depth): seconds} of a process, and its peak."""
    seconds, peak = {}, 0
    for depth in sorted({a["depth"] for a in asks}):
        mine = [a for a in asks if a["depth"] == depth]
        tokens = {t: next((a["tokens"] for a in mine if a["test"] == t), 0) for t in ("prompt", "generate")}
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run(args.infer_bench, "llm", model, "--threads", str(threads), "--prompt", str(tokens["prompt"]), "--generate",
                str(tokens["generate"]), "--depth", str(depth), "--repetitions", "1", "--json", report.name)
            told = json.load(open(report.name))
        peak = max(peak, told["memory"]["peak_resident_bytes"])
        for r in told["results"]:
            seconds[r["test"], depth] = r["seconds"][0]
    return seconds, peak


def compare(args, work):
    model, other, form = make(args, work, args.layers, "decoder")
    print(f"{args.model}, {form['layers']} layers: ONNX {os.path.getsize(model) / 1e6:.0f} MB, GGUF "
          f"{os.path.getsize(other) / 1e6:.0f} MB; {args.rounds} rounds in turns")
    depths = [int(d) for d in args.depth.split(",")]
    asks = [{"test": "prompt", "depth": 0, "tokens": args.prompt}] if args.prompt else []
    asks += [{"test": "generate", "depth": d, "tokens": args.generate} for d in depths]
    rows = []
    for threads in (int(t) for t in args.threads.split(",")):
        theirs = subprocess.Popen([sys.executable, __file__, "--worker", other, str(threads), "2048", str(form["vocabulary"])],
                                  text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        found, peaks = {(a["test"], a["depth"]): ([], []) for a in asks}, [0, 0]

        def ask_theirs():
            for a in asks:
                theirs.stdin.write(json.dumps(a) + "\n")
                theirs.stdin.flush()
                reply = json.loads(theirs.stdout.readline())
                found[a["test"], a["depth"]][1].append(reply["seconds"])
                peaks[1] = max(peaks[1], reply["peak"])

        def ask_ours():
            seconds, peak = measure_ours(args, model, threads, asks)
            peaks[0] = max(peaks[0], peak)
            for key, s in seconds.items():
                if key in found:
                    found[key][0].append(s)

        for r in range(args.rounds):
            for turn in (ask_ours, ask_theirs) if r % 2 else (ask_theirs, ask_ours):
                turn()
        theirs.stdin.close()
        theirs.wait()
        for a in asks:
            ours, others = found[a["test"], a["depth"]]
            ratios = sorted(o / m for m, o in zip(ours, others))
            row = {"test": a["test"], "depth": a["depth"], "tokens": a["tokens"], "threads": threads,
                   "ours": a["tokens"] / statistics.median(ours), "theirs": a["tokens"] / statistics.median(others),
                   "ratio": statistics.median(ratios), "least": ratios[0], "most": ratios[-1], "peaks": peaks}
            rows.append(row)
            print(f"{row['test']:9} {row['tokens']:4} tokens, depth {row['depth']:4}, {threads} threads: ours {row['ours']:8.2f} "
                  f"tokens/s, llama.cpp {row['theirs']:8.2f}, ratio {row['ratio']:.3f} ({row['least']:.3f} to {row['most']:.3f})")
        print(f"peak of memory, {threads} threads: ours {peaks[0] / 1e6:.0f} MB, llama.cpp {peaks[1] / 1e6:.0f} MB", flush=True)
    return rows


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer_opt")
    parser.add_argument("infer_bench")
    parser.add_argument("--model", default="tinyllama-1.1b-int4")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--accuracy-level", type=int, default=4)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--depth", default="0,1024")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or temporary
        if not check_scores(args, work):
            print("the scores differ")
            return 1
        rows = compare(args, work)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"llama_cpp_python": llama_cpp.__version__, "model": args.model, "rows": rows}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
