#!/usr/bin/env bash
# usage: tools/infer_bench/models_speed.sh MODELS WORK [option of infer-bench peers...]: compares our latency with
# ONNX Runtime's, on one and two threads, on every model of the folder MODELS (ID/model.onnx, inputs from its
# test_data_set_0, random where there are none), keeps a report each in the folder WORK, and writes
# docs/performance-models.md. Needs the release build and tools/setup.sh --judges, and a machine on which nothing else
# runs. A model whose report lies in WORK is not measured again.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
models="$1" work="$2"
shift 2
python="$PWD/.cache/judges/bin/python"
mkdir -p "$work"

for folder in "$models"/*/; do
  folder="${folder%/}" id="$(basename "$folder")"
  [ -f "$folder/model.onnx" ] && [ ! -s "$work/$id.json" ] || continue
  mapfile -t inputs < <("$python" - "$folder" <<'PY'
import os
import sys
import onnx
folder = sys.argv[1]
graph = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False).graph
constants = {t.name for t in graph.initializer}
names = [i.name for i in graph.input if i.name not in constants]
for k, name in enumerate(names):
    file = os.path.join(folder, "test_data_set_0", "input_%d.pb" % k)
    if os.path.exists(file):
        print("--input=%s=%s" % (name, file))
PY
  )
  # Verdicts that cannot be had are said in the tables; they do not end the run.
  build/release/bin/infer-bench peers "$folder/model.onnx" "${inputs[@]}" --engines infer,ort \
    --python "$python" --threads 1,2 --json "$work/$id.json" "$@" || echo "$id: exit code $?" >&2
done
python3 tools/infer_bench/peers/report.py --above 1 "$work"/*.json > docs/performance-models.md
