#pragma once
/// Two graphs that should compute the same are run, not believed.
#include "quant/calibrate/calibrate.h"

namespace infer {

/// On two of `samples`, none of them given: nothing is looked at. Internal: `after` differs from
/// `before` by more than rounding; the message begins with `what`, as "the model without its
/// channels differs from the one in which they are zero".
Status CheckSame(const Graph& before, const Graph& after, const Samples& samples,
                 const Backend& backend, int threads, std::string_view what);

}  // namespace infer
