#!/usr/bin/env bash
# Installs what building and testing need on Debian 12. Asks for nothing; does nothing when all is
# there. With --judges it also makes .cache/judges, a Python venv with the engines that tests compare
# with and `infer-bench peers` measures beside ours (ONNX Runtime, onnx, OpenVINO), from PyPI; a machine that
# cannot reach PyPI goes on without.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache git
  libonnx-dev libprotobuf-dev protobuf-compiler libeigen3-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libbenchmark-dev libgtest-dev libgmock-dev libdnnl-dev libhwy-dev libre2-dev zlib1g-dev libssl-dev
  libpng-dev libjpeg-dev
  dpkg-dev libonnx-testdata python3 python3-numpy python3-jsonschema
  libvulkan-dev libvulkan-volk-dev glslc spirv-tools  # --device vulkan
  mesa-vulkan-drivers vulkan-validationlayers         # a device without a GPU, and who watches it, for its tests
)
judge_packages=(python3-venv)
nice_packages=(libbenchmark-tools hyperfine)  # of --judges; without them two tests are skipped
fuzz_packages=(clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev llvm-16)

want=("${packages[@]}")
for arg in "$@"; do
  case "$arg" in
    --judges) want+=("${judge_packages[@]}") ;;
    --checks) want+=("${fuzz_packages[@]}") ;;
    --packages) want+=(patchelf mmdebstrap skopeo lintian doxygen) ;;
    *) echo "usage: tools/setup.sh [--judges] [--checks] [--packages]" >&2; exit 2 ;;
  esac
done

missing=()
for p in "${want[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

for arg in "$@"; do
  [ "$arg" = --judges ] || continue
  if ! dpkg-query -W "${nice_packages[@]}" >/dev/null 2>&1; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${nice_packages[@]}" >/dev/null ||
      echo "setup: no ${nice_packages[*]}: tests with them will be skipped"
  fi
  venv=.cache/judges
  wanted=(onnxruntime==1.30.0 onnx==1.23.2 numpy==2.4.6 openvino==2026.4.1 onnx-ir==1.1.0 sympy==1.14.0 scipy==1.17.1)
  # Asks for versions, not only names: a venv of an earlier checkout is brought up to date.
  have=$("$venv/bin/python" -c 'import importlib.metadata as m, sys
print(*(f"{p}=={m.version(p)}" for p in sys.argv[1:]))' "${wanted[@]%%==*}" 2>/dev/null || true)
  if [ "$have" != "${wanted[*]}" ]; then
    { [ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv "$venv"; } &&
      "$venv/bin/pip" install -q --disable-pip-version-check "${wanted[@]}" ||
      echo "setup: not all judges (PyPI did not answer): tests against them will be skipped"
  fi
done
