# Loops compiled once per instruction set (lib/support/isa.h).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(INFER_ISAS generic avx2 avx512 vnni)
  # Sanitized loops that this processor cannot run find nothing; they were 7 % of what that build compiles for the libraries.
  if(INFER_SANITIZED AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo has_avx512 REGEX "^flags.* avx512bw" LIMIT_COUNT 1)
    if(NOT has_avx512)
      set(INFER_ISAS generic avx2)
      set(INFER_WITHOUT_AVX512 INFER_WITHOUT_AVX512)
    endif()
  endif()
else()
  set(INFER_ISAS generic)
endif()
set(infer_isa_avx2 -mavx2 -mfma)
set(infer_isa_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
set(infer_isa_vnni ${infer_isa_avx512} -mavx512vnni)
set(infer_isa_vbmi ${infer_isa_avx512} -mavx512vbmi)

# Where the linker puts a loop of few instructions, the same machine code takes up to 1.8 of its time (64x56x56 bytes gathered in
# rows, Intel Xeon, 2026-11-30: 72 and 132 us in two builds of equal objects): functions and loops begin a line.
set(INFER_PLACED -falign-functions=64 -falign-loops=32)

# infer_isa_options(SOURCE ISA [OPTIONS...]): compiles SOURCE for ISA; it is left out where INFER_ISAS lacks that.
# Of what -ffast-math changes only errno and floating-point exceptions, which nobody reads.
function(infer_isa_options source isa)
  set(wanted ${isa})
  if(isa STREQUAL vbmi)
    set(wanted avx512)
  endif()
  if(NOT wanted IN_LIST INFER_ISAS)
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
    return()
  endif()
  # GCC 12 takes the undefined operands of its own intrinsics for mistakes.
  set(level $<IF:$<BOOL:${INFER_SANITIZED}>,-O1,-O3>)  # with sanitizers -O3 costs compile time and gains none
  set_source_files_properties(
    ${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
    "${level};${INFER_PLACED};-fno-math-errno;-fno-trapping-math;${infer_isa_${isa}};${ARGN};$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
endfunction()

# infer_isa_tables(TARGET LIST): adds to TARGET the tables of LIST, a file of lines
#   INFER_ISA_TABLE(file, Type, fused|exact, generic, avx2, avx512, vnni)
# where 1 asks for an instruction set. Each table is compiled from file.inc beside LIST, in a generated file.
function(infer_isa_tables target list)
  target_compile_definitions(${target} PRIVATE ${INFER_WITHOUT_AVX512})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${list})
  file(STRINGS ${list} lines REGEX "^INFER_ISA_TABLE")
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR}/${list} DIRECTORY)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
  foreach(line ${lines})
    string(REGEX MATCHALL "[A-Za-z0-9_]+" words ${line})
    list(GET words 1 name)
    list(GET words 3 rounding)
    set(options)
    if(rounding STREQUAL exact)
      set(options -ffp-contract=off)
    endif()
    set(column 4)
    foreach(isa generic avx2 avx512 vnni)
      list(GET words ${column} wanted)
      math(EXPR column "${column} + 1")
      if(NOT wanted OR NOT isa IN_LIST INFER_ISAS)
        continue()
      endif()
      string(SUBSTRING ${isa} 0 1 first)
      string(TOUPPER ${first} first)
      string(SUBSTRING ${isa} 1 -1 rest)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/isa/${name}_${isa}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT
           "#define INFER_ISA ::infer::Isa::k${first}${rest}\n#include \"${folder}/${name}.inc\"\n" @ONLY)
      target_sources(${target} PRIVATE ${file})
      infer_isa_options(${file} ${isa} ${options})
    endforeach()
  endforeach()
endfunction()
