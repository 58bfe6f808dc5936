# cmake -DSOURCE=... -DOUT=... -DOPTIONS=... -P: writes kBuildSources, a hash of every source file and of the compiler
# and its options, and touches the file only where it changes. Git's revision would not do: not every checkout has one,
# and changes that are not committed count.
set(all "")
foreach(folder lib datasets passes runtime quant tools)
  file(GLOB_RECURSE found RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.cc ${SOURCE}/${folder}/*.h
       ${SOURCE}/${folder}/*.inc ${SOURCE}/${folder}/*.comp ${SOURCE}/${folder}/*.glsl
       ${SOURCE}/${folder}/*.in ${SOURCE}/${folder}/*.py ${SOURCE}/${folder}/*.cmake ${SOURCE}/${folder}/CMakeLists.txt)
  list(APPEND all ${found})
endforeach()
list(SORT all)
set(text "${OPTIONS}\n")
foreach(path ${all})
  file(SHA256 ${SOURCE}/${path} hash)
  string(APPEND text "${hash} ${path}\n")
endforeach()
string(SHA256 sum "${text}")
set(text "#pragma once\ninline constexpr char kBuildSources[] = \"${sum}\";\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
