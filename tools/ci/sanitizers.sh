#!/usr/bin/env bash
# The quick tests and the hostile inputs under AddressSanitizer and UndefinedBehaviorSanitizer. It uses
# the fuzz preset's build (clang, the same sanitizers), so that one build serves this and the fuzzers.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" | tail -1
# Left to the release build, as too slow here: the shared models on the reference and mock devices (they
# run on cpu, all but protocol_transformer), the runs of the cpu suite with older instruction sets, and the
# largest models of the zoo. INFER_SANITIZED makes a few tests do less, and allows programs to be slow.
export OMP_WAIT_POLICY=passive INFER_SANITIZED=1
ctest --test-dir build/fuzz -L quick -E '^(suite_((reference|mock)\.Models|cpu.Models/.*/protocol_transformer|cpu_(sse4|avx2|avx512))|(passes_)?zoo_test\..*(gpt2|vit_|vgg|Int4))' \
  -j "$(nproc)" --output-on-failure | tail -25
ctest --test-dir build/fuzz -R '^hostile$' --output-on-failure
