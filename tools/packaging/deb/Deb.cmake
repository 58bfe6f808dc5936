# `cpack -G DEB` in the build folder: infer-opt (the commands), libinfer0 (the shared library), libinfer-dev (its header, CMake and
# pkg-config files). Their dependencies are read from the programs (dpkg-shlibdeps).
set(INFER_MAINTAINER "infer-opt developers <infer-opt@localhost>" CACHE STRING "Maintainer field of the Debian packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME infer-opt)
set(CPACK_PACKAGE_CONTACT "${INFER_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_ALL tools library library_development)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME infer-opt)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libinfer0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/tools/packaging/deb/triggers)
set(CPACK_DEBIAN_LIBRARY_DEVELOPMENT_PACKAGE_NAME libinfer-dev)
set(CPACK_DEBIAN_LIBRARY_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_DEVELOPMENT_PACKAGE_DEPENDS "libinfer0 (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Make ONNX models smaller and faster, prove that they are still right
 Fuses, quantizes, prunes, runs, compares and measures neural networks in
 ONNX files.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Run and rewrite ONNX models, shared library
 The C API of infer-opt.")
set(CPACK_COMPONENT_LIBRARY_DEVELOPMENT_DESCRIPTION "Run and rewrite ONNX models, files for development
 Header, CMake package and pkg-config file of libinfer0.")
# What each Debian package says of itself; lintian asks for it.
find_program(GZIP gzip REQUIRED)
mark_as_advanced(GZIP)
file(WRITE ${CMAKE_BINARY_DIR}/deb/changelog "infer-opt (${PROJECT_VERSION}) unstable; urgency=medium

  * CHANGELOG.md of the sources says what is new.

 -- ${INFER_MAINTAINER}  Thu, 01 Jan 2026 00:00:00 +0000
")
execute_process(COMMAND ${GZIP} -9nf ${CMAKE_BINARY_DIR}/deb/changelog COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${CMAKE_BINARY_DIR}/deb/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: infer-opt

Files: *
Copyright: 2026 infer-opt developers
License: Apache-2.0
 On Debian systems, the full text of the Apache License version 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
")
foreach(pair tools:infer-opt library:libinfer0 library_development:libinfer-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 name)
  install(FILES ${CMAKE_BINARY_DIR}/deb/copyright ${CMAKE_BINARY_DIR}/deb/changelog.gz DESTINATION share/doc/${name} COMPONENT ${component})
endforeach()
include(CPack)
