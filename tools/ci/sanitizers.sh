#!/usr/bin/env bash
# The quick tests and the hostile inputs under AddressSanitizer and UndefinedBehaviorSanitizer. It uses
# the fuzz preset's build (clang, the same sanitizers), so that one build serves this and the fuzzers.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)" --target quick_tests | tail -1
# What is too slow here is left to the release build: INFER_SANITIZED as an option of the build leaves tests out
# (SANITIZED_WITHOUT in tests/), as a variable it makes a few tests do less, and allows programs to be slow.
export OMP_WAIT_POLICY=passive INFER_SANITIZED=1
# Of a test that passes, nothing; of one that fails, all that it printed.
ctest --test-dir build/fuzz -L 'quick|sanitized' -j "$(($(nproc) + 2))" --output-on-failure | grep --line-buffered -v -E '^ +Start +[0-9]+: | Passed +[0-9.]+ sec$'
