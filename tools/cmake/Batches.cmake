# Several files compiled as one: a clean build takes less than half the time, since headers are read and
# templates instantiated once for all of them. Off where one works on the code: a change would compile many
# files again. Sixteen take another eighth less than eight (2 % where clang optimises with sanitizers); tests stay at
# eight, whose helpers often have the same names.
option(INFER_BATCHED "Compile files many at a time" OFF)

# Large inputs: g++ frees memory less often.
if(INFER_BATCHED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()

# Compiled alone: what they include changes with every commit. Where a batched build finds a file-local name twice, give
# one of the two a better name.
set(INFER_APART
    runtime/api/build_identity.cc
    runtime/c_api/dlpack.cc
    tools/bench/build_facts.cc)

# infer_batched(TARGET): TARGET's files in batches, but those that ask for compile options of their own or
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
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(most 16)
  if(folder MATCHES "^tests")
    set(most 8)
  endif()
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
    if(length EQUAL most OR (source STREQUAL LAST AND length GREATER 0))
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
