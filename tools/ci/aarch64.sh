#!/usr/bin/env bash
# Builds for 64-bit ARM with Debian's cross compiler and runs tests under qemu-aarch64. The arm64 packages are
# unpacked into build/aarch64/sysroot by an apt of its own, so that the machine's packages stay as they are. Needs
# g++-aarch64-linux-gnu and qemu-user; prints what it ran. $1: seconds that a test program may take (300); one that
# needs longer is named as cut short, not as passed.
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=${1:-300}
build=$PWD/build/aarch64
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null ||
    { echo "aarch64: $tool is missing (apt-get install g++-aarch64-linux-gnu qemu-user)" >&2; exit 77; }
done

packages=(
  libc6-dev libstdc++-12-dev libgomp1 libonnx-dev libprotobuf-dev libeigen3-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libbenchmark-dev libgtest-dev libgmock-dev libdnnl-dev libhwy-dev libre2-dev zlib1g-dev libssl-dev libpng-dev
  libjpeg-dev libvulkan-dev libvulkan-volk-dev
)
if [ ! -e "$build/sysroot/unpacked" ]; then
  apt=$build/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$build/sysroot/usr/"{lib,bin,sbin}
  : >"$apt/status"
  cat >"$apt/apt.conf" <<C
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
C
  # From where this machine gets Debian 12.
  mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' | sed -n 's/^bookworm main //p' | head -1)
  [ -n "$mirror" ] || { echo "aarch64: apt knows no source of bookworm main" >&2; exit 77; }
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$apt/sources.list"
  APT_CONFIG=$apt/apt.conf apt-get update -qq
  APT_CONFIG=$apt/apt.conf apt-get install -y -qq --download-only "${packages[@]}" >/dev/null
  for d in lib bin sbin; do ln -sfn usr/$d "$build/sysroot/$d"; done
  for f in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$f" | tar -x --keep-directory-symlink --exclude=./usr/share/doc \
      --exclude=./usr/share/man -C "$build/sysroot"
  done
  touch "$build/sysroot/unpacked"
  echo "aarch64: $(find "$apt/cache/archives" -name '*.deb' | wc -l) packages unpacked"
fi

tests=(support_test tensor_test image_test ops_test ir_test onnx_test plan_ir_test runtime_cpu_test passes_test
       quant_calibrate_test quant_scheme_test quant_accuracy_test suite_cpu suite_reference suite_mock)
cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/cmake/aarch64.cmake" \
  -DCMAKE_BUILD_TYPE=Release -DINFER_BATCHED=ON >/dev/null
cmake --build "$build" -j "$(nproc)" --target infer-opt infer-bench integer_tensors "${tests[@]}" | tail -1

export OMP_WAIT_POLICY=passive
# qemu-user 7.2 ends by an assertion of its own in a child that is forked beside other threads.
export GTEST_FILTER='-Fork.*:LaneLease.WithoutThreadsReservingIsAnException:OneDnn.RunsInTheChildOfAFork'
echo "aarch64: left out, as qemu fails in them: $GTEST_FILTER"
arm=(qemu-aarch64 -L "$build/sysroot")
failed=0
for t in "${tests[@]}"; do
  begin=$SECONDS
  rc=0
  INFER_TEST_DATA= timeout "$limit" "${arm[@]}" "$build/bin/$t" --gtest_brief=1 >"$build/$t.log" 2>&1 || rc=$?
  case $rc in
    0) echo "aarch64: $t: $(sed -n 's/^\[  *PASSED *\] *//p' "$build/$t.log") in $((SECONDS - begin)) s" ;;
    124) if grep '^\[  *FAILED' "$build/$t.log"; then
           echo "aarch64: $t: failed, and cut short after $limit s"
           failed=1
         else
           echo "aarch64: $t: cut short after $limit s, nothing had failed"
         fi ;;
    *) echo "aarch64: $t: failed"
       tail -15 "$build/$t.log"
       failed=1 ;;
  esac
done

# The integers of int8 models are those of this machine, where its release build is there.
here=build/release/bin
if [ -x $here/integer_tensors ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for a in u8 s8; do
    $here/infer-opt quantize datasets/demo/digits.onnx -o "$work/digits.$a.onnx" \
      --calib datasets/demo/calib_images.npy --preprocess resize=32,interp=nearest,scale=1/255,layout=nchw --activations $a \
      --recipe none --no-verify -q >/dev/null
  done
  $here/integer_tensors "$work"/*.onnx 2>/dev/null >"$work/here"
  "${arm[@]}" "$build/bin/integer_tensors" "$work"/*.onnx >"$work/arm"
  if cmp "$work/here" "$work/arm"; then
    echo "aarch64: $(grep -cE ' [ui]8\[' "$work/arm") tensors of integers are those of this machine"
  else
    failed=1
  fi
fi
exit $failed
