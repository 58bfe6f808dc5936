#!/usr/bin/env bash
# usage: tools/packaging/reference.sh OUT
# Makes OUT/html, the reference of infer.h and infer.hpp, by Doxygen. Comments of infer.h are C's own; they are made
# Doxygen's on the way. Fails where a function has no page.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1")
mkdir -p "$out"
version=$(sed -nE 's/^project\(infer-opt VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
# A comment that begins a line documents what follows; one behind code, what stands before it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -E -e 's#^( *)/\* #\1/** #' -e 's#([;,{] +)/\* #\1/**< #' runtime/c_api/infer.h >"$work/infer.h"
cp runtime/c_api/infer.hpp docs/library.md "$work"
doxygen - >"$out/doxygen.log" 2>"$out/warnings.txt" <<DOXYGEN
PROJECT_NAME = "infer-opt"
PROJECT_NUMBER = $version
PROJECT_BRIEF = "The library in C and C++"
INPUT = $work
STRIP_FROM_PATH = $work
USE_MDFILE_AS_MAINPAGE = library.md
OUTPUT_DIRECTORY = $out
GENERATE_LATEX = NO
JAVADOC_AUTOBRIEF = YES
EXTRACT_ALL = YES
QUIET = YES
WARN_IF_DOC_ERROR = YES
PREDEFINED = INFER_API= __cplusplus
ENABLE_PREPROCESSING = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
HAVE_DOT = NO
DOXYGEN
grep -v "library.md" "$out/warnings.txt" || true
for function in $(grep -oE 'infer_[a-z_]+\(' runtime/c_api/infer.h | tr -d '(' | sort -u); do
  grep -q "$function" "$out/html/infer_8h.html" || { echo "reference: $function is not there" >&2; exit 1; }
done
echo "$out/html/index.html: $(find "$out/html" -name '*.html' | wc -l) pages"
