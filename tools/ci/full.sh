#!/usr/bin/env bash
# Everything, by hand, before an issue is resolved: static checks, all tests with the nightly ones,
# sanitizers, thread sanitizer, fuzzers, older processors and 64-bit ARM under qemu.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh --judges --checks
tools/ci/check_layers.py
tools/ci/format.sh
tools/test.sh
ctest --test-dir build/release -L nightly --output-on-failure
tools/ci/sanitizers.sh
cmake --preset tsan >/dev/null
cmake --build --preset tsan -j "$(nproc)" --target support_test ir_test suite_cpu suite_mock
for t in support_test ir_test suite_mock; do "build/tsan/bin/$t" --gtest_brief=1; done
tools/ci/fuzz.sh "${1:-600}"
tools/ci/qemu.sh
tools/ci/aarch64.sh
tools/ci/tidy.sh
