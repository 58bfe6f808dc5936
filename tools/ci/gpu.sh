#!/usr/bin/env bash
# tools/ci/gpu.sh [BIN] [SECONDS]: the Vulkan backend on a GPU, from built programs alone (BIN, by default
# build/release/bin): the device, its tests for at most SECONDS (120) side by side, then latencies of the
# zoo, fused, in f32 and by --compute f16, at batch 1 and 16, then throughput and use of the device by lanes (traces in
# $OUT, if it is set). Nothing is installed; a GPU's driver compiles each pipeline in 0.1 to 1 s, which is
# what the tests wait for. Ends with 1 if a test failed; tests that were
# cut off by the time are counted.
set -euo pipefail
bin=${1:-build/release/bin} seconds=${2:-120}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/infer-opt" devices
shards=$(($(nproc) > 2 ? $(nproc) - 2 : 1))
export INFER_VULKAN_CACHE="$work/pipelines"
pids=()
for ((i = 0; i < shards; i++)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout "$seconds" "$bin/suite_vulkan" \
    --gtest_filter='-*Models*' >"$work/suite$i.txt" 2>&1 &
  pids+=($!)
done
[ ! -x "$bin/vulkan_product_bench" ] || "$bin/vulkan_product_bench"
timeout "$seconds" "$bin/vulkan_test" >"$work/vulkan_test.txt" 2>&1 &
pids+=($!)
cut=0
for pid in "${pids[@]}"; do
  status=0
  wait "$pid" || status=$?
  [ "$status" = 124 ] && cut=$((cut + 1))
done
passed=$(cat "$work"/*.txt | grep -c '\[       OK \]' || true)
failed=$(cat "$work"/*.txt | grep -c '\[  FAILED  \].*ms)' || true)
echo "tests: $passed passed, $failed failed; $cut of ${#pids[@]} programs were cut off after $seconds s"
cat "$work"/*.txt | grep -B12 '\[  FAILED  \].*ms)' || true
for model in resnet18 resnet50 mobilenetv2 squeezenet1.1 bert-base vit-b16; do
  for batch in 1 16; do
    "$bin/infer-bench" zoo "$model" --batch "$batch" -o "$work/raw.onnx" -q >/dev/null
    "$bin/infer-opt" fuse "$work/raw.onnx" -o "$work/$model.$batch.onnx" --no-verify -q >/dev/null
    for compute in f32 f16; do
      echo "$model, batch $batch, $compute"
      "$bin/infer-bench" run "$work/$model.$batch.onnx" --device vulkan --compute "$compute" --layers --max-warmup 1 \
        --json "$work/$model.$batch.json" 2>/dev/null | grep -E "^$work|device busy" | sed "s#$work/##" | cut -c1-150
    done
    if [ "$batch" = 16 ]; then
      echo "$model, batch $batch, f16, by measured choices"
      "$bin/infer-opt" run "$work/$model.$batch.onnx" --device vulkan --compute f16 --tune --tune-cache "$work/tune.txt" -q >/dev/null
      "$bin/infer-bench" run "$work/$model.$batch.onnx" --device vulkan --compute f16 --tune-cache "$work/tune.txt" --layers --max-warmup 1 \
        --json "$work/$model.$batch.json" 2>/dev/null | grep -E "^$work|device busy" | sed "s#$work/##" | cut -c1-150
    fi
    rm -f "$work"/*.onnx
  done
done
python3 "$(dirname "$0")/gpu_lanes.py" --bin "$bin" ${OUT:+--keep "$OUT"} || true
exit $((failed > 0))
