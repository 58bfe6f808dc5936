#pragma once
/// This program's own file, to start it again.
#include <string>

#include "lib/support/status.h"

namespace infer {

/// A path that starts the program that runs. Without /proc (chroot, some sandboxes) the name that
/// it was started by. Io where there is neither.
Result<std::string> SelfPath();

}  // namespace infer
