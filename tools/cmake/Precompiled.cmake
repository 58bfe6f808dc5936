# Precompiled headers, which halve the time of a clean build: much of a file's compile time is reading
# the same headers. Two sets, each compiled once: `ops` up to lib/ops/op_def.h, `ir` up to the graph.
# They change nothing else: every file includes what it uses, and builds without them (the fuzz and
# tsan presets switch them off) show it.
option(INFER_PRECOMPILE "Precompile common headers" ON)

set(INFER_STD_HEADERS
    <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
    <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
set(INFER_PRECOMPILED_ops ${INFER_STD_HEADERS} <lib/ops/op_def.h>)
set(INFER_PRECOMPILED_ir ${INFER_PRECOMPILED_ops} <lib/ir/editor.h>)
set(INFER_PRECOMPILED_test ${INFER_PRECOMPILED_ir} <gmock/gmock.h> <gtest/gtest.h>)

# infer_precompiled(TARGET SET [LIBRARY...]): TARGET's files start from SET, whose headers need LIBRARY.
function(infer_precompiled target set)
  if(NOT INFER_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)  # compiled as the libraries are, whose precompiled headers it shares
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  set(provider infer_precompiled_${set}${INFER_PRECOMPILED_SUFFIX})
  if(NOT TARGET ${provider})
    file(WRITE ${CMAKE_BINARY_DIR}/${provider}.cc "")
    add_library(${provider} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${provider}.cc)
    target_include_directories(${provider} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${provider} PRIVATE ${INFER_OPTIONS${INFER_PRECOMPILED_SUFFIX}})
    target_link_libraries(${provider} PRIVATE infer_options ${ARGN})
    if(CMAKE_CXX_COMPILER_LAUNCHER)
      # CCACHE_DEPEND: by the bytes of the headers, not by their text without comments. GCC tells by
      # size and content whether a header with #pragma once is the precompiled one, so that a result
      # from before a changed comment would define everything twice.
      set_property(
        TARGET ${provider} PROPERTY CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tools/cmake/fresh_output.sh
                                    ${ENV_COMMAND} CCACHE_DEPEND=1 ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    target_precompile_headers(${provider} PRIVATE ${INFER_PRECOMPILED_${set}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${provider})
endfunction()
