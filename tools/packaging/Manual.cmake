# Manual pages and completions: what the programs that were built print of themselves. Sets infer_manual to the target, or to nothing where
# the programs cannot run here (cross builds without an emulator).
set(infer_manual)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "No manual pages and completions: the programs do not run here")
  return()
endif()
set(infer_manual infer_manual)
set(folder ${CMAKE_BINARY_DIR}/manual)
find_program(GZIP gzip)
mark_as_advanced(GZIP)
add_custom_command(OUTPUT ${folder}/made
                   COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DGZIP=${GZIP} -DSOURCE=${PROJECT_SOURCE_DIR}
                           "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}"
                           "-DTOOLS=$<TARGET_FILE:infer-opt>;$<TARGET_FILE:infer-bench>"
                           -P ${PROJECT_SOURCE_DIR}/tools/packaging/make_manual.cmake
                   DEPENDS infer-opt infer-bench ${PROJECT_SOURCE_DIR}/tools/packaging/make_manual.cmake
                   COMMENT "Manual pages and completions" VERBATIM)
add_custom_target(infer_manual ALL DEPENDS ${folder}/made)

install(DIRECTORY ${folder}/man1 DESTINATION share/man COMPONENT tools)
install(DIRECTORY ${folder}/bash/ DESTINATION share/bash-completion/completions COMPONENT tools)
install(DIRECTORY ${folder}/fish/ DESTINATION share/fish/vendor_completions.d COMPONENT tools)
# zsh of a distribution looks into a folder for packages, and below /usr/local into this one.
install(CODE "set(zsh site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
  set(zsh vendor-completions)
endif()
file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/zsh/\${zsh}\" TYPE DIRECTORY FILES \"${folder}/zsh/\")"
        COMPONENT tools)
