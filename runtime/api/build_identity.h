#pragma once
/// Which build this is: part of the key of whatever outlives the process and depends on code
/// (caches of outputs and calibrations, logs of measurements, tuned kernels). A version number does
/// not do, since it stays for months of changes.
#include <string>

namespace infer {

/// 16 hexadecimal digits: of our sources, compiler and options, alike in every program of one
/// build, and of the shared libraries that compute (oneDNN, the C and C++ libraries, OpenMP).
const std::string& BuildIdentity();

}  // namespace infer
