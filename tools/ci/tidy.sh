#!/usr/bin/env bash
# usage: tools/ci/tidy.sh [BASE | --all]: clang-tidy (.clang-tidy) over the .cc files that differ from
# BASE (default: the commit before), uncommitted and new ones too, or over all. A changed header counts
# as the .cc of its name or, where there is none, as the first .cc that includes it. Tests are left out: GoogleTest's
# macros drown what there is to see.
set -euo pipefail
cd "$(dirname "$0")/../.."
folders=(lib passes quant runtime datasets tools)

changed() {
  local base="${1:-HEAD~1}"
  git diff --name-only --diff-filter=d "$base" -- "${folders[@]}"
  git ls-files --others --exclude-standard -- "${folders[@]}"
}

if [ "${1:-}" = --all ]; then
  names=$(git ls-files -- "${folders[@]}")
else
  if ! git rev-parse -q --verify "${1:-HEAD~1}^{commit}" >/dev/null; then
    [ $# -eq 0 ] || { echo "tidy: no commit $1" >&2; exit 2; }
    echo "tidy: SKIPPED: this checkout has no commit before its newest"
    exit 0
  fi
  names=$(changed "$@")
fi
# The .cc through which a file is seen; nothing for a header that no .cc includes.
source_of() {
  case "$1" in
    *.cc) echo "$1" ;;
    *.h)
      if [ -f "${1%.h}.cc" ]; then
        echo "${1%.h}.cc"
      else
        # sed reads to the end: a closed pipe would end the loop below, and files would be left out in silence.
        git grep -lF "#include \"$1\"" -- "${folders[@]/%//*.cc}" | sed -n 1p || true
      fi ;;
  esac
}
mapfile -t files < <(for f in $names; do source_of "$f"; done | sort -u)
if [ ${#files[@]} -eq 0 ]; then
  echo "tidy: no changed files"
  exit 0
fi
# A build folder of its own: clang does not read g++'s precompiled headers. Nothing is built in it.
cmake --preset tidy >/dev/null
# One file; prints what was found, if any. clang-tidy 16 runs the analyzer's core checks even where .clang-tidy
# switches them off, so the one of these that we do not want is filtered here.
check() {
  local found
  if ! found=$(clang-tidy-16 -p build/tidy --quiet "$1" 2>&1); then
    echo "$found"
    return 1
  fi
  grep -E ' (warning|error): ' <<<"$found" | grep -qvF '[clang-analyzer-core.uninitialized.Assign]' || return 0
  echo "$found"
  return 1
}
export -f check
if ! printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'check "$0"'; then
  echo "tidy: there are findings"
  exit 1
fi
echo "tidy: ${#files[@]} files are clean"
