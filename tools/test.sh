#!/usr/bin/env bash
# Sets everything up, builds the release preset and runs all tests but the nightly ones.
# INFER_TEST_DATA may name a folder with further test material (docs/testing.md); what is absent is
# skipped in print.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh --judges --checks
# Waiting threads yield: spinning ones stall when anything else runs on the machine.
export OMP_WAIT_POLICY=passive
judge=/usr/bin/python3
[ -x .cache/judges/bin/python ] && judge="$PWD/.cache/judges/bin/python"
# A fresh build is a batched one; where one exists already, it stays as it was configured.
options=(-DINFER_JUDGE_PYTHON="$judge" -DINFER_WERROR=ON)
[ -d build/release ] || options+=(-DINFER_BATCHED=ON)
cmake --preset release "${options[@]}" >/dev/null
cmake --build --preset release -j "$(nproc)"
tools/ci/affected.py build/release || echo "affected: not known; tests run in their usual order"
# Further arguments go to ctest; by default all tests but the nightly ones run.
[ $# -gt 0 ] || set -- -LE nightly
log=build/release/ctest.log
status=0
ctest --test-dir build/release "$@" -j "$(($(nproc) + 2))" --output-on-failure | tee "$log" || status=$?
# Skips within GoogleTest programs, which ctest counts as passed; then ctest's summary once more, as the last word.
tools/ci/times.py --skipped build/release
sed -n '/tests passed, .* tests failed/,$p' "$log"
exit "$status"
