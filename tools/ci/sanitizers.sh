#!/usr/bin/env bash
# The quick tests and the hostile inputs under AddressSanitizer and UndefinedBehaviorSanitizer. It uses
# the fuzz preset's build (clang, the same sanitizers), so that one build serves this and the fuzzers.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" | tail -1
# Allocations that fail are part of the tests: they give an error, not an abort.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 OMP_WAIT_POLICY=passive
ctest --test-dir build/fuzz -L quick -j "$(nproc)" --output-on-failure | tail -25
ctest --test-dir build/fuzz -R '^hostile$' --output-on-failure
