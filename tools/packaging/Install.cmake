# Four components. tools: the commands. library: libinfer.so. library_development: infer.h, infer.hpp, pkg-config and infer::infer. development: the static
# libraries with their C++ headers, which are internals (infer::infer_engine, ...).
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/infer)
get_property(libraries GLOBAL PROPERTY INFER_LIBRARIES)
list(FILTER libraries EXCLUDE REGEX "infer_(tools_common|graph_page|bench_[a-z]+|engines|peers|compare|zoo)")

# infer_built_first(COMPONENT TARGET...): whatever was built so far, installing begins with a build of these. A test that installs while
# others run what is built sets INFER_INSTALL_AS_IT_IS.
function(infer_built_first component)
  install(CODE "if(NOT DEFINED ENV{INFER_INSTALL_AS_IT_IS})
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endif()"
          COMPONENT ${component})
endfunction()

string(REPLACE ";" " " libraries_in_words "${libraries}")
include(tools/packaging/Manual.cmake)
infer_built_first(tools infer-opt infer-bench ${infer_manual})
infer_built_first(library infer)
infer_built_first(development ${libraries_in_words})

install(TARGETS infer-opt infer-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)

install(TARGETS infer EXPORT inferTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
                                                  NAMELINK_COMPONENT library_development)
install(FILES runtime/c_api/infer.h runtime/c_api/infer.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/infer COMPONENT library_development)
install(EXPORT inferTargets NAMESPACE infer:: DESTINATION ${package} COMPONENT library_development)
file(RELATIVE_PATH to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(tools/packaging/infer.pc.in ${CMAKE_BINARY_DIR}/infer.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/infer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library_development)
configure_package_config_file(tools/cmake/inferConfig.cmake.in ${CMAKE_BINARY_DIR}/inferConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/inferConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/inferConfig.cmake ${CMAKE_BINARY_DIR}/inferConfigVersion.cmake
        DESTINATION ${package} COMPONENT library_development)

install(TARGETS ${libraries} infer_options EXPORT inferStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                                                             COMPONENT development)
foreach(dir lib passes datasets runtime quant)
  install(DIRECTORY ${dir} DESTINATION include/infer-opt COMPONENT development FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT inferStaticTargets NAMESPACE infer:: DESTINATION ${package} COMPONENT development)
