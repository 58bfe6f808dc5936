#!/usr/bin/env bash
# The release binaries on older x86-64 processors, emulated by qemu-user: one without SSE4 (qemu64), one without
# AVX (Nehalem), one with AVX2 (Haswell). Quick tests, `infer-bench run`, and the integers of int8 models, which
# must be those of this machine. Prints what it ran. Needs qemu-user (apt-get install qemu-user) and the release
# build; arguments: processors instead of these three.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=build/release/bin
[ $# -gt 0 ] || set -- qemu64 Nehalem Haswell
command -v qemu-x86_64 >/dev/null || { echo "qemu: qemu-x86_64 is missing (apt-get install qemu-user)" >&2; exit 77; }
for t in infer-opt infer-bench integer_tensors support_test tensor_test runtime_cpu_test suite_cpu; do
  [ -x $bin/$t ] || { echo "qemu: $bin/$t is missing: build the release preset first" >&2; exit 1; }
done
export OMP_WAIT_POLICY=passive
unset INFER_MAX_ISA
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The demo model in u8 and s8 activations, and a network of the zoo.
demo=datasets/demo
for a in u8 s8; do
  $bin/infer-opt quantize $demo/digits.onnx -o "$work/digits.$a.onnx" --calib $demo/calib_images.npy \
    --preprocess resize=32,interp=nearest,scale=1/255,layout=nchw --activations $a --recipe none --no-verify -q >/dev/null
done
/usr/bin/python3 - "$work/images.npy" <<'P'
import sys
import numpy as np
np.save(sys.argv[1], np.random.default_rng(1).random((1, 3, 224, 224), dtype=np.float32))
P
$bin/infer-bench zoo mobilenetv2 -o "$work/mobilenetv2.onnx" -q >/dev/null
$bin/infer-opt quantize "$work/mobilenetv2.onnx" -o "$work/mobilenetv2.u8.onnx" --calib "$work/images.npy" \
  --recipe none --no-verify -q >/dev/null
models=("$work"/*.u8.onnx "$work"/*.s8.onnx)
$bin/integer_tensors "${models[@]}" 2>/dev/null >"$work/native"

g++ -O0 -mavx2 tools/ci/gather_probe.cc -o "$work/gather_probe"
failed=0
for cpu in "$@"; do
  emulate=(qemu-x86_64 -cpu "$cpu")
  # qemu says which features of the model it does not have.
  quiet() { "$@" 2> >(grep -v "TCG doesn't support requested feature" >&2); }
  quiet "${emulate[@]}" $bin/integer_tensors "${models[@]}" >"$work/$cpu" 2>"$work/$cpu.kernels"
  grep -v TCG "$work/$cpu.kernels" || true
  cmp "$work/native" "$work/$cpu" || { echo "qemu: $cpu gives other integers" >&2; exit 1; }
  echo "qemu: $cpu: $(grep -cE ' [ui]8\[' "$work/$cpu") tensors of integers in ${#models[@]} models are those of this machine"
  for model in $demo/digits.onnx "$work/digits.u8.onnx"; do
    quiet "${emulate[@]}" $bin/infer-bench run "$model" --min-runs 3 --min-time 0 --warmup 1 --cold 0 -q |
      tail -1 | sed "s|^.*/|qemu: $cpu: infer-bench run |"
  done
  suites='Int8*:Product*:Convolution*:Elements*:Kernels*:Bodies*:Contract*'
  # Exit 1 is the probe's; an illegal instruction is a processor that has none.
  if "${emulate[@]}" "$work/gather_probe" 2>/dev/null; [ $? -eq 1 ]; then
    without=Bodies.BranchesWithCapturedWeights:Bodies.RunsAgain
    echo "qemu: $cpu: this qemu's vgatherdps knows no index in ymm4, and oneDNN's tanh has it there: left out are $without"
    suites+=:-$without
  fi
  for t in support_test:'*' tensor_test:'*' runtime_cpu_test:'*' suite_cpu:"$suites"; do
    quiet "${emulate[@]}" $bin/"${t%%:*}" --gtest_brief=1 --gtest_filter="${t#*:}" >"$work/log" || failed=1
    sed -n "s/^\[  *PASSED *\]/qemu: $cpu: ${t%%:*}: passed/p" "$work/log"
    grep '^\[  *FAILED' "$work/log" || true
  done
done
exit $failed
