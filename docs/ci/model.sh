#!/usr/bin/env bash
# Quantizes a model with a gate, compares its latency with the model as it came, and writes a comment for a pull request.
#
#   model.sh MODEL OUT DATA [options of quantize...]
#
# OUT gets int8.onnx, quantize.json, latency.json, latency.html and comment.md. Exit code: that of the gate (1: a gate failed, 6: the
# data cannot decide), else 1 where the quantized model is slower. The comment is there in any case.
set -euo pipefail
model=$1 out=$2 data=$3
shift 3
mkdir -p "$out"
gate=0
infer-opt quantize "$model" -o "$out/int8.onnx" --data "$data" --json "$out/quantize.json" "$@" || gate=$?
latency=0
if [ -e "$out/int8.onnx" ]; then
  infer-bench compare "$model" "$out/int8.onnx" --threads 1 --budget "${BUDGET:-60}" --json "$out/latency.json" \
    --html "$out/latency.html" --summary "$out/table.md" || latency=$?
fi
{
  echo "### $(basename "$model") in INT8"
  case $gate in
    0) echo "Accuracy: the gate passes." ;;
    6) echo "Accuracy: **inconclusive**, more samples are needed." ;;
    *) echo "Accuracy: **a gate failed** (exit code $gate)." ;;
  esac
  case $latency in
    0) ;;
    6) echo "Latency: inconclusive on this machine." ;;
    *) echo "Latency: **slower** (exit code $latency)." ;;
  esac
  if [ -e "$out/table.md" ]; then echo && cat "$out/table.md"; fi
} > "$out/comment.md"
[ "$gate" = 0 ] || exit "$gate"
[ "$latency" = 0 ] || [ "$latency" = 6 ] || exit "$latency"
