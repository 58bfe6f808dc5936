#!/usr/bin/env bash
# usage: tools/infer_bench/performance.sh WORK [option of infer-bench peers...]: makes the zoo's networks and
# their INT8 forms in the folder WORK (3 GB), compares their latency with ONNX Runtime's and OpenVINO's
# on one and two threads, and writes docs/performance.md. Needs the release build and
# tools/setup.sh --judges, and a machine on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
work="$1"
shift
bin="$PWD/build/release/bin"
python="$PWD/.cache/judges/bin/python"
images=(resnet50 resnet18 vgg16 mobilenetv2 mobilenetv3-small efficientnet-lite0 squeezenet1.1 vit-b16)
texts=(bert-base gpt2-small)
mkdir -p "$work"

# Calibration data is random: what is measured is speed. Weights are, too.
[ -f "$work/images.npy" ] || "$python" - "$work" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(0)
np.save(sys.argv[1] + "/images.npy", r.standard_normal((4, 3, 224, 224)).astype("f4"))
ids = r.integers(0, 20000, (4, 128))
np.savez(sys.argv[1] + "/gpt2-small.npz", input_ids=ids)
np.savez(sys.argv[1] + "/bert-base.npz", input_ids=ids, attention_mask=np.ones_like(ids),
         token_type_ids=np.zeros_like(ids))
PY

files=()
for name in "${images[@]}" "${texts[@]}"; do
  f32="$work/$name.onnx"
  int8="$work/$name.int8.onnx"
  calib="$work/images.npy"
  [ ! -f "$work/$name.npz" ] || calib="$work/$name.npz"
  [ -f "$f32" ] || "$bin/infer-bench" zoo "$name" -o "$f32" -q
  [ -f "$int8" ] || "$bin/infer-opt" quantize "$f32" -o "$int8" --calib "$calib" --recipe none \
    --no-verify -q  # every layer that can be, in INT8: accuracy means nothing for random weights
  files+=("$f32" "$int8")
done

# A step of decoding with weights of 4 bits, activations in f32 and (a4) quantized. OpenVINO quantizes
# them in both: its outputs of the first disagree.
for level in 0 4; do
  step="$work/gpt2-small-kv-int4.a$level.onnx"
  [ -f "$step" ] || "$bin/infer-bench" zoo gpt2-small-kv-int4 --accuracy-level "$level" -o "$step" -q
  files+=("$step")
done

# Verdicts that cannot be had are said in the tables; they do not end the run.
"$bin/infer-bench" peers "${files[@]}" --engines infer,ort,openvino \
  --python "$python" --threads 1,2 --json "$work/peers.json" "$@" || [ $? -eq 1 ]
# From "Prediction" on the page is written by hand.
kept="$(sed -n '/^## Prediction/,$p' docs/performance.md)"
{ python3 tools/infer_bench/peers/report.py "$work/peers.json"; printf '\n%s\n' "$kept"; } > docs/performance.new
mv docs/performance.new docs/performance.md
