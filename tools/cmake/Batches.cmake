# Several files compiled as one: a clean build takes less than half the time, since headers are read and
# templates instantiated once for eight files. Off where one works on the code: a change would compile eight
# files again.
option(INFER_BATCHED "Compile files eight at a time" OFF)

# Compiled alone: their file-local names are those of others in their library, or what they include changes
# with every commit. Where a batched build finds a name twice, give it a better one or its file a line here.
set(INFER_APART
    lib/onnx/rule_functions.cc
    lib/ops/attention_reference.cc
    lib/ops/contrib_fused.cc
    lib/ops/contrib_group_attention.cc
    lib/ops/contrib_integer.cc
    lib/ops/contrib_qlinear.cc
    lib/ops/ml_maps.cc
    passes/fuse/hard_activations.cc
    passes/fuse/layernorm_scaled.cc
    passes/fuse/norm_affine.cc
    passes/fuse/rmsnorm.cc
    passes/fuse/softmax.cc
    passes/rewrite/shape_check.cc
    quant/accuracy/isolate.cc
    quant/accuracy/paired.cc
    quant/algorithm/fold_scales.cc
    quant/algorithm/smooth.cc
    quant/convert/float_rules.cc
    quant/convert/narrow.cc
    quant/recipe/recipe.cc
    quant/target/ort_forms.cc
    runtime/cpu/kernel_depthwise.cc
    runtime/cpu/kernel_elementwise.cc
    runtime/cpu/kernel_group_attention.cc
    runtime/cpu/kernel_index.cc
    runtime/cpu/kernel_int8.cc
    runtime/cpu/kernel_int8_elementwise.cc
    runtime/cpu/kernel_integer.cc
    runtime/cpu/tune.cc
    tests/lib/onnx/roundtrip_test.cc
    tests/lib/ops/contrib_fused_test.cc
    runtime/api/build_identity.cc
    tests/lib/ops/contrib_quantized_test.cc
    tests/lib/ops/elementwise_test.cc
    tests/lib/ops/scatter_test.cc
    tests/quant/accuracy/layer_map_test.cc
    tests/quant/algorithm/column_groups_test.cc
    tests/quant/algorithm/data_rounder_test.cc
    tests/quant/algorithm/gptq_test.cc
    tests/quant/algorithm/scale_search_test.cc
    tests/quant/algorithm/smooth_test.cc
    tests/quant/algorithm/static_rounding_test.cc
    tests/quant/calibrate/range_search_test.cc
    tests/runtime/cpu/panels_test.cc
    tests/suites/convolution_suite.cc
    tests/suites/recurrent_suite.cc
    tests/tools/compare/rank_tests_test.cc
    tools/bench/build_facts.cc
    tools/common/graph_page.cc
    tools/common/guilt.cc
    tools/common/profile.cc
    tools/infer_bench/kernels/kernels_report.cc
    tools/infer_bench/predict/measure_cases.cc
    tools/zoo/vit.cc)

# infer_batched(TARGET): TARGET's files in batches of eight, but those that ask for compile options of their own or
# stand in INFER_APART. A batch includes its files by their paths in the repository, so that a compiler cache finds
# its result for a checkout anywhere.
function(infer_batched target)
  if(INFER_BATCHED)
    # At the end of the folder, when the options of all files are known.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL infer_make_batches [[${target}]])")
  endif()
endfunction()

function(infer_make_batches target)
  get_target_property(sources ${target} SOURCES)
  set(alone)
  set(batch)
  set(number 0)
  foreach(source ${sources} LAST)
    if(NOT source STREQUAL LAST)
      if(source MATCHES "^\\$<")
        list(APPEND alone ${source})
        continue()
      endif()
      get_filename_component(path ${source} ABSOLUTE)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      get_source_file_property(header ${source} HEADER_FILE_ONLY)
      if(options OR header OR path IN_LIST INFER_APART OR path MATCHES "^(\\.\\.|build/)")
        list(APPEND alone ${source})
        continue()
      endif()
      list(APPEND batch ${path})
    endif()
    list(LENGTH batch length)
    if(length EQUAL 8 OR (source STREQUAL LAST AND length GREATER 0))
      list(JOIN batch "\"\n#include \"" text)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/batches/${target}_${number}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${text}\"\n" @ONLY)
      list(APPEND alone ${file})
      set(batch)
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
