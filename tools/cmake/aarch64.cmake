# Cross-compiles for 64-bit ARM with Debian's g++-aarch64-linux-gnu against a folder of unpacked arm64
# packages, which tools/ci/aarch64.sh makes. Nothing of the machine's own packages is touched.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
get_filename_component(INFER_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64/sysroot" ABSOLUTE)
set(CMAKE_SYSROOT "${INFER_SYSROOT}")
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# The loader looks for libraries of libraries in the sysroot, too.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${INFER_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${INFER_SYSROOT}")
