#!/usr/bin/env python3
"""`infer-opt compare --against ort`: what it says of ONNX Runtime's outputs is what ONNX Runtime gives.

usage: compare_against_ort.py INFER_OPT DEMO_FOLDER

Exit 77 (ctest's skip) without onnx, onnxruntime and numpy."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print(f"SKIPPED: {e}")
    sys.exit(77)


def compare(tool, code, *args):
    done = subprocess.run([tool, "compare", *args, "--against", "ort", "--python", sys.executable,
                           "--json", "-"], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    assert "Error: " not in done.stderr, done.stderr  # the name of a Python exception
    return json.loads(done.stdout) if done.stdout else done.stderr


def save(path, nodes, inputs, outputs, constants=()):
    """A model of (name, element type, shape) inputs and outputs; no element type: whatever it is."""
    def info(name, *type_and_shape):
        return helper.make_tensor_value_info(name, *type_and_shape) if type_and_shape else \
            onnx.ValueInfoProto(name=name)
    graph = helper.make_graph(nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs],
                              [numpy_helper.from_array(value, name) for name, value in constants])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)])
    onnx.save(model, path)
    return path


def more_than_numbers(tool, folder):
    """Text both ways, maps and sequences back, a type that the engine does not hand out left out."""
    node = helper.make_node
    path = save(folder + "/text.onnx", [node("StringConcat", ["x", "end"], ["y"])],
                [("x", TensorProto.STRING, [3])], [("y", TensorProto.STRING, [3])],
                [("end", np.array(["a", "\u00e4\u4f60", ""], dtype=object))])
    outputs = compare(tool, 0, path)["accuracy"]["outputs"]
    assert [(o["unequal"], o["elements"]) for o in outputs] == [(0, 9)], outputs

    scores = ("x", TensorProto.FLOAT, [4, 3])
    for labels in ({"classlabels_strings": ["no", "yes", "maybe"]}, {"classlabels_int64s": [5, 1, 3]}):
        path = save(folder + "/maps.onnx", [node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", **labels)],
                    [scores], [("z",)])
        outputs = compare(tool, 0, path)["accuracy"]["outputs"]
        assert outputs[0]["elements"] == 36 and outputs[0]["max_abs_error"] == 0, outputs
        assert outputs[0]["rows"]["count"] == 12, outputs

    path = save(folder + "/sequence.onnx", [node("Abs", ["x"], ["a"]), node("Softmax", ["x"], ["b"]),
                                            node("SequenceConstruct", ["a", "b"], ["s"])], [scores], [("s",)])
    outputs = compare(tool, 0, path)["accuracy"]["outputs"]
    assert outputs[0]["elements"] == 72 and outputs[0]["sqnr_db"] > 100, outputs

    path = save(folder + "/float8.onnx", [node("Abs", ["x"], ["y"]),
                                          node("Cast", ["x"], ["q"], to=TensorProto.FLOAT8E4M3FN)],
                [scores], [("y", TensorProto.FLOAT, [4, 3]), ("q", TensorProto.FLOAT8E4M3FN, [4, 3])])
    report = compare(tool, 0, path)
    assert [o["name"] for o in report["accuracy"]["outputs"]] == ["y"]
    assert [o["name"] for o in report["against"]["left_out"]] == ["q"]
    assert "from_reference" not in report["against"]


def nearer(tool, folder):
    """Where the two disagree, which of them is nearer to the reference kernels."""
    node = helper.make_node
    # Small results: ONNX Runtime's approximation of the sigmoid is off by 1e-7.
    path = save(folder + "/small.onnx", [node("Abs", ["x"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Sigmoid", ["c"], ["y"])],
                [("x", TensorProto.FLOAT, [64])], [("y", TensorProto.FLOAT, [64])], [("b", np.full(1, -16, np.float32))])
    distance = compare(tool, 1, path, "--max-error", "1e-7")["against"]["from_reference"]
    assert distance["ours"] < 1e-5, distance
    assert distance["theirs"] > 1e-7, distance




def weights_of_4_bits(tool, folder):
    """ONNX Runtime multiplies in f32, not on codes of 8 bits, and the report says how it was set."""
    rng = np.random.default_rng(2)
    node, codes = helper.make_node, rng.integers(0, 256, 64 * 32).astype(np.uint8)
    initializers = [helper.make_tensor("w", TensorProto.UINT4, [64, 64], codes.tobytes(), raw=True),
                    numpy_helper.from_array(rng.random((2, 64), np.float32), "scale"),
                    helper.make_tensor("zero", TensorProto.UINT4, [2, 64], b"\x88" * 64, raw=True)]
    graph = helper.make_graph(
        [node("DequantizeLinear", ["w", "scale", "zero"], ["d"], axis=0, block_size=32),
         node("MatMul", ["x", "d"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])], initializers)
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]),
              folder + "/q4.onnx")
    report = compare(tool, 0, folder + "/q4.onnx")
    assert report["against"]["settings"]["session.qdq_matmulnbits_accuracy_level"] == "1", report
    assert report["accuracy"]["outputs"][0]["sqnr_db"] > 100, report


def main():
    tool, demo = sys.argv[1:]
    model = os.path.join(demo, "digits.onnx")
    with tempfile.TemporaryDirectory() as folder:
        x = np.random.default_rng(1).random((24, 1, 32, 32), np.float32)
        np.save(folder + "/x.npy", x)
        data = ["--data", folder + "/x.npy"]
        one = compare(tool, 0, model, *data)
        assert one["against"]["side"] == "golden" and one["accuracy"]["samples"] == 24
        assert one["accuracy"]["outputs"][0]["sqnr_db"] > 100
        assert one["against"]["versions"]["onnxruntime"] == ort.__version__

        int8 = folder + "/int8.onnx"
        subprocess.run([tool, "quantize", model, "-o", int8, *data, "--recipe", "fast",
                        "--no-verify"], check=True, timeout=300, capture_output=True)
        two = compare(tool, 0, model, int8, *data, "--min-sqnr", "10")
        assert two["against"]["side"] == "candidate"

        def run(path):
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            name = session.get_inputs()[0].name
            return np.concatenate([session.run(None, {name: x[i:i + 1]})[0] for i in range(len(x))])

        golden, candidate = run(model).astype(np.float64), run(int8).astype(np.float64)
        sqnr = 10 * np.log10((golden ** 2).sum() / ((candidate - golden) ** 2).sum())
        told = two["accuracy"]["outputs"][0]["sqnr_db"]
        more_than_numbers(tool, folder)
        nearer(tool, folder)
        weights_of_4_bits(tool, folder)
        print(f"ONNX Runtime's INT8: {told:.4f} dB told, {sqnr:.4f} dB computed here")
        assert abs(told - sqnr) < 0.01, (told, sqnr)


if __name__ == "__main__":
    main()
