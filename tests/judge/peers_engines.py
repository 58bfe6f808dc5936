"""infer-bench peers with ONNX Runtime and OpenVINO themselves: they load, agree with us, and run with
the settings that a fair comparison takes. No time is judged.

usage: peers_engines.py INFER_BENCH MODEL"""

import json
import os
import subprocess
import sys
import tempfile

SKIP = 77
EXPECTED = {
    "ort": {"intra_op_num_threads": 1, "inter_op_num_threads": 1, "execution_mode": "ORT_SEQUENTIAL",
            "graph_optimization_level": "ORT_ENABLE_ALL",
            "providers": ["CPUExecutionProvider"], "free_dimension_overrides": {"batch": 2}},
    "openvino": {"INFERENCE_PRECISION_HINT": "<Type: 'float32'>", "PERFORMANCE_HINT": "LATENCY",
                 "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "1", "reshaped_inputs": ["image"]},
}


def main():
    try:
        import onnxruntime  # noqa: F401
        import openvino  # noqa: F401
    except ImportError as e:
        print("skipped: %s" % e)
        return SKIP
    program, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "peers.json")
        done = subprocess.run(
            [program, "peers", model, "--set", "batch=2", "--python", sys.executable, "--rounds", "3",
             "--block-time", "0.02", "--max-other-load", "1000", "--lock",
             os.path.join(folder, "lock"), "--json", path], timeout=300)
        if done.returncode != 0:
            return 1
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
    result, = report["results"]
    wrong = 0
    for comparison in result["comparisons"]:
        print(comparison["peer"], comparison["outputs"], comparison["verdict"])
        wrong += not comparison["outputs_agree"] or comparison["ratio"] is None
    for engine in result["engines"]:
        for key, value in EXPECTED.get(engine["name"], {}).items():
            if engine["settings"].get(key) != value:
                print("%s: %s is %s, not %s" % (engine["name"], key, engine["settings"].get(key), value))
                wrong += 1
    return wrong > 0 or {e["name"] for e in result["engines"]} != {"infer", *EXPECTED}


if __name__ == "__main__":
    sys.exit(main())
