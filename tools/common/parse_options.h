#pragma once
/// Options that do not come from the command line: what `declare` declares, set as `arguments`
/// ("--bits", "4") say.
#include <functional>

#include "lib/support/status.h"
#include "tools/common/options.h"

namespace infer {

/// InvalidArgument: an argument that is unknown or does not fit.
Status ParseOptions(const std::function<void(Options&)>& declare,
                    std::vector<std::string> arguments);

}  // namespace infer
