#!/usr/bin/env bash
# usage: tools/ci/full.sh [FUZZ_SECONDS]
# Everything, by hand, before a larger piece of work is done: static checks, all tests with the nightly ones (thread
# sanitizer, fuzzers, load), sanitizers, older processors and 64-bit ARM under qemu.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup.sh --judges --checks --packages
tools/ci/check_layers.py
tools/ci/operator_names.py
tools/ci/format.sh
tools/test.sh
tools/ci/nightly.sh "${1:-600}"
tools/ci/sanitizers.sh
# The checks that the quick sanitized build leaves out.
cmake --preset dev >/dev/null
cmake --build --preset dev -j "$(nproc)" --target quick_tests suite_reference suite_vulkan
INFER_SANITIZED=1 OMP_WAIT_POLICY=passive ctest --test-dir build/dev -R '^(suite_vulkan|cli.first_hour|docs.commands)' -j "$(nproc)" --output-on-failure
INFER_SANITIZED=1 OMP_WAIT_POLICY=passive ctest --test-dir build/dev -L quick -j "$(nproc)" --output-on-failure
# What these programs leave out under sanitizers at each change (SANITIZED_WITHOUT in tests/).
for program in c_api_test engine_test quant_prune_test runtime_cpu_test suite_mock suite_reference; do
  "build/dev/bin/$program" --gtest_brief=1 --gtest_filter=-*Models*
done
# All forms of what Vulkan's tests have few of under sanitizers.
[ ! -x build/dev/bin/vulkan_test ] || ASAN_OPTIONS=detect_leaks=0 INFER_BY_NIGHT=1 build/dev/bin/vulkan_test --gtest_brief=1
tools/ci/qemu.sh
tools/ci/aarch64.sh
tools/ci/tidy.sh
