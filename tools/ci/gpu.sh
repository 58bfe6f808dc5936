#!/usr/bin/env bash
# tools/ci/gpu.sh pack FILE.tar.xz [BIN]: one archive of the built programs (BIN, by default build/release/bin), the libraries that
# they load, the Vulkan loader and the scripts: a bare machine with a GPU's driver needs nothing else. Prints its size.
# tools/ci/gpu.sh unpack FILE.tar.xz DIR: takes it apart, and runs what follows there.
# tools/ci/gpu.sh [BIN] [SECONDS]: the Vulkan backend on a GPU within SECONDS (480), the most important first; a step that has no time
# left, or is cut off, is said. The device; the bits of INT8, f16 and the shaders; latencies of the zoo, fused, in f32, f16 and INT8 at batch 1
# and 16; decoding beside the CPU; cold starts with an empty and a filled file of pipelines (aim: warm <= 0.3 x cold); throughput
# and use of the device by lanes (traces in $OUT, if it is set); products; the suites with what time is left. Nothing is installed; a
# GPU's driver compiles each pipeline in 0.1 to 1 s. SHORT=1: a small model each, to try the script where there is no GPU.
# Ends with 1 if a test failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=(infer-opt infer-bench vulkan_test suite_vulkan vulkan_product_bench)

pack() {
  local archive=$1 bin=${2:-build/release/bin} stage
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' RETURN
  mkdir -p "$stage"/{bin,lib,ci}
  for program in "${programs[@]}"; do
    [ ! -x "$bin/$program" ] || strip -o "$stage/bin/$program" "$bin/$program"
  done
  # Not the C library, which goes with its dynamic linker, and is the machine's.
  ldd "$stage"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt)\.so' | xargs -I{} cp -L {} "$stage/lib"
  local loader
  loader=$(/sbin/ldconfig -p | awk '/libvulkan\.so\.1 / && !found {print $NF; found = 1}')
  cp -L "$loader" "$stage/lib/libvulkan.so.1"
  cp "$here/gpu.sh" "$here/gpu_lanes.py" "$stage/ci"
  tar -C "$stage" -c . | xz -T0 -1 >"$archive"
  echo "$archive: $(stat -c %s "$archive") bytes, $(find "$stage/bin" -type f | wc -l) programs, $(find "$stage/lib" -type f | wc -l) libraries"
}

case ${1:-} in
  pack) pack "$2" "${3:-build/release/bin}"; exit ;;
  unpack)
    mkdir -p "$3"
    tar -C "$3" -xJf "$2"
    export LD_LIBRARY_PATH="$3/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    exec bash "$3/ci/gpu.sh" "$3/bin" "${4:-480}"
    ;;
esac

bin=${1:-build/release/bin}
deadline=$((SECONDS + ${2:-480}))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export INFER_VULKAN_CACHE="$work/pipelines"
left() { echo $((deadline - SECONDS)); }
left_out=()

# step MOST NAME COMMAND...: for MOST seconds at most, and no longer than there are.
step() {
  local most=$1 name=$2 status=0
  shift 2
  if [ "$(left)" -lt 5 ]; then
    left_out+=("$name")
    return 0
  fi
  [ "$most" -le "$(left)" ] || most=$(left)
  timeout "$most" "$@" || status=$?
  [ "$status" != 124 ] || left_out+=("$name (cut off after $most s)")
  return $((status == 124 ? 0 : status))
}

tested=0 failed=0
count() { # FILE
  tested=$((tested + $(grep -c '\[       OK \]' "$1" || true)))
  failed=$((failed + $(grep -c '\[  FAILED  \].*ms)' "$1" || true)))
  grep -B12 '\[  FAILED  \].*ms)' "$1" || true
}

# The model, fused: fused NAME FILE [ARGUMENTS of zoo]
fused() {
  local name=$1 file=$2
  shift 2
  "$bin/infer-bench" zoo "$name" "$@" -o "$work/raw.onnx" -q >/dev/null
  "$bin/infer-opt" fuse "$work/raw.onnx" -o "$file" --no-verify -q >/dev/null
  rm -f "$work/raw.onnx"
}

# random_images FILE COUNT: f32 of 3 x 224 x 224, as .npy; calibrated with them a model has the types and places of a real one.
random_images() {
  python3 - "$@" <<'PY'
import array, random, sys
file, count = sys.argv[1], int(sys.argv[2])
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3, 224, 224), }" % count
header += " " * (63 - (10 + len(header)) % 64) + "\n"
with open(file, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    array.array("f", (random.uniform(-2, 2) for _ in range(count * 3 * 224 * 224))).tofile(f)
PY
}

# measure NAME FILE ARGUMENTS of run: one line, and the device's own time.
measure() {
  local name=$1 file=$2
  shift 2
  echo "$name"
  step 60 "$name" "$bin/infer-bench" run "$file" --device vulkan --layers --max-warmup 1 --min-time "$min_time" "$@" \
    --json "$work/report.json" 2>/dev/null | grep -E "^$work|device busy" | sed "s#$work/##" | cut -c1-150 || true
}

models=(resnet50 bert-base mobilenetv2 vit-b16 resnet18 squeezenet1.1) batches=(1 16) images=(resnet50 mobilenetv2)
decoders=(gpt2-small-gqa-int4 gpt2-small-kv) layers=() tokens=128 min_time=1 filter='VulkanCodes.*:VulkanHalf.*:VulkanDots.*:Vulkan.EveryGraph*'
cold_models=(resnet50 bert-base)
if [ -n "${SHORT:-}" ]; then
  models=(squeezenet1.1) batches=(1) images=(squeezenet1.1) decoders=(gpt2-small-gqa-int4) layers=(--num-layers 1) tokens=4 min_time=0
  filter='Vulkan.DevicesAreDescribed' cold_models=(squeezenet1.1)
fi

"$bin/infer-opt" devices
step 100 "tests of INT8, f16 and the shaders" "$bin/vulkan_test" --gtest_filter="$filter" >"$work/vulkan_test.txt" 2>&1 || true
count "$work/vulkan_test.txt"

for batch in "${batches[@]}"; do
  for model in "${models[@]}"; do
    [ "$(left)" -ge 5 ] || { left_out+=("$model, batch $batch"); continue; }
    file="$work/$model.$batch.onnx"
    fused "$model" "$file" --batch "$batch"
    for compute in f32 f16; do
      measure "$model, batch $batch, $compute" "$file" --compute "$compute"
    done
    if [[ " ${images[*]} " = *" $model "* ]]; then
      random_images "$work/images.npy" "$batch"
      step 60 "$model in INT8" "$bin/infer-opt" quantize "$file" -o "$work/int8.onnx" --calib "$work/images.npy" --recipe fast --no-verify -q \
        >"$work/quantize.txt" 2>&1 || cat "$work/quantize.txt"
      [ ! -f "$work/int8.onnx" ] || measure "$model, batch $batch, INT8" "$work/int8.onnx"
    fi
    rm -f "$work"/*.onnx
  done
done

for model in "${decoders[@]}"; do
  [ "$(left)" -ge 5 ] || { left_out+=("$model"); continue; }
  "$bin/infer-bench" zoo "$model" "${layers[@]}" --past 256 -o "$work/decoder.onnx" -q >/dev/null
  for device in vulkan cpu; do
    echo "$model, $tokens tokens one by one, $device"
    step 40 "$model on $device" "$bin/infer-bench" llm "$work/decoder.onnx" --device "$device" --prompt 0 --generate "$tokens" \
      --repetitions 3 2>/dev/null | grep -i 'generate' || true
  done
done

# Each start is a process; the file of pipelines is removed before it, or left.
for model in "${cold_models[@]}"; do
  [ "$(left)" -ge 5 ] || { left_out+=("$model, cold"); continue; }
  fused "$model" "$work/cold.onnx"
  folder="$work/cold"
  for state in empty filled; do
    [ "$state" = filled ] || rm -rf "$folder"
    began=$(date +%s%N)
    # A driver's own cache on disk would make the first start a second one.
    INFER_VULKAN_CACHE="$folder" MESA_SHADER_CACHE_DISABLE=true __GL_SHADER_DISK_CACHE=0 step 60 "$model, cold" "$bin/infer-opt" run \
      "$work/cold.onnx" --device vulkan -q >/dev/null 2>&1 || true
    eval "$state=$((($(date +%s%N) - began) / 1000000))"
  done
  # shellcheck disable=SC2154
  awk -v m="$model" -v a="$empty" -v b="$filled" \
    'BEGIN {printf "%s from start to end: %d ms with no pipelines, %d ms with those of before: %.2f (aim 0.3)\n", m, a, b, b / a}'
done

if [ -z "${SHORT:-}" ]; then
  step 90 "lanes" python3 "$here/gpu_lanes.py" --bin "$bin" ${OUT:+--keep "$OUT"} || true
  [ ! -x "$bin/vulkan_product_bench" ] || step 30 "products" "$bin/vulkan_product_bench" || true
fi

shards=$(($(nproc) > 2 ? $(nproc) - 2 : 1)) pids=() suites='-*Models*'
[ -z "${SHORT:-}" ] || shards=1 suites='Kernels.Powers'
if [ "$(left)" -ge 10 ]; then
  for ((i = 0; i < shards; i++)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout "$(left)" "$bin/suite_vulkan" --gtest_filter="$suites" >"$work/suite$i.txt" 2>&1 &
    pids+=($!)
  done
  cut=0
  for pid in "${pids[@]}"; do
    status=0
    wait "$pid" || status=$?
    [ "$status" != 124 ] || cut=$((cut + 1))
  done
  for ((i = 0; i < shards; i++)); do count "$work/suite$i.txt"; done
  [ "$cut" = 0 ] || left_out+=("$cut of $shards shares of the suites (cut off)")
else
  left_out+=("suites")
fi
echo "tests: $tested passed, $failed failed"
for name in "${left_out[@]}"; do echo "left out: $name"; done
exit $((failed > 0))
