#!/usr/bin/env bash
# The main job on the demo model: inspect, fuse, quantize with an accuracy gate, run and benchmark,
# then one table FP32 -> fused -> INT8. Everything it writes goes to build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
options=()
[ -d build/release ] || options+=(-DINFER_BATCHED=ON)
cmake --preset release "${options[@]}" >/dev/null
cmake --build --preset release -j "$(nproc)" --target infer-opt infer-bench | tail -1

bin=build/release/bin
demo=datasets/demo
out=build/demo
threads=1
mkdir -p "$out"
preprocess=(--preprocess resize=32,interp=nearest,scale=1/255,layout=nchw)
evaluation=(--data "$demo/eval_images.npy" --labels "$demo/eval_labels.csv" "${preprocess[@]}")
say() { printf '\n$ %s\n' "$*"; "$@"; }

say "$bin/infer-opt" inspect "$demo/digits.onnx"
say "$bin/infer-opt" fuse "$demo/digits.onnx" -o "$out/fused.onnx" --json "$out/fuse.json"
say "$bin/infer-opt" quantize "$demo/digits.onnx" -o "$out/int8.onnx" --json "$out/quantize.json" \
  --calib "$demo/calib_images.npy" --eval "$demo/eval_images.npy" \
  --eval-labels "$demo/eval_labels.csv" "${preprocess[@]}" --max-drop 1%
for model in "$demo/digits.onnx" "$out/fused.onnx" "$out/int8.onnx"; do
  say "$bin/infer-opt" eval "$model" "${evaluation[@]}" --json "$out/eval-$(basename "$model").json"
done
say "$bin/infer-bench" run "$demo/digits.onnx" "$out/fused.onnx" "$out/int8.onnx" \
  --set batch=1 --threads "$threads" --json "$out/bench.json"

/usr/bin/python3 - "$demo/digits.onnx" "$out" <<'PY'
import json, os, sys
demo, out = sys.argv[1:]
models = [("FP32", demo), ("fused", f"{out}/fused.onnx"), ("INT8", f"{out}/int8.onnx")]
bench = [r["latency_ms"] for r in json.load(open(f"{out}/bench.json"))["results"]]
print("\n           top-1 %   size kB   median ms   95 % interval      speed-up")
for (name, path), ms in zip(models, bench):
    top1 = json.load(open(f"{out}/eval-{os.path.basename(path)}.json"))["top1"]
    low, high = ms["median_ci95"]
    print(f"{name:8} {100 * top1:9.2f} {os.path.getsize(path) / 1e3:9.1f} {ms['median']:11.3f}   "
          f"{low:.3f} to {high:.3f} {bench[0]['median'] / ms['median']:11.2f}x")
PY
