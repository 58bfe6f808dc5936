#!/usr/bin/env bash
# usage: tools/ci/nightly.sh [FUZZ_SECONDS]
# What runs by night, outside of .ci/run: the nightly tests (tests/differential, tests/failures and others), the quick tests
# on a machine under load, batches beside single files, the thread sanitizer, models and mutants from the seeds of this day,
# then each fuzzer for FUZZ_SECONDS of processor time (default 10800). A line with a finding names the seed or the file that
# makes it again.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10800}
day=$(($(date +%s) / 86400))
export OMP_WAIT_POLICY=passive
[ -d build/release ] || cmake --preset release -DINFER_BATCHED=ON >/dev/null
cmake --build --preset release -j "$(nproc)" --target all nightly_tests | tail -1
failed=0
ctest --test-dir build/release -L nightly -LE clock -j "$(nproc)" --output-on-failure || failed=1
# Times are judged by tests that run alone.
ctest --test-dir build/release -L clock --output-on-failure || failed=1
for check in busy batches tsan; do "tools/ci/$check.sh" || failed=1; done
mkdir -p build/nightly && cd build/nightly
# Hostile extents ask for memory that is there: a limit, as containers have one.
(ulimit -v 8000000 && ../release/bin/generated_models 60000 "${day}000000") || failed=1
(ulimit -v 8000000 && ../release/bin/generated_models --mutants 300000 "${day}000000" 7200) || failed=1
cd ../..
tools/ci/fuzz.sh "$seconds" "$day" || failed=1
exit $failed
