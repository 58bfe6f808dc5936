#!/usr/bin/env bash
# The quick tests beside a busy loop per core, each program in another order: no verdict may hang on what else the machine
# does, or on what the test before left. Needs build/release.
set -euo pipefail
cd "$(dirname "$0")/../.."
loops=()
end() { kill "${loops[@]}" 2>/dev/null || true; }
trap end EXIT
for ((i = 0; i < $(nproc); ++i)); do
  (while :; do :; done) &
  loops+=($!)
done
OMP_WAIT_POLICY=passive GTEST_SHUFFLE=1 ctest --test-dir build/release -L quick -j "$(nproc)" --output-on-failure
