#pragma once
/// The rewriting of `fuse`, within what the opset of the file can say.
#include "tools/common/export_options.h"

namespace infer {

/// Optimize. Where the file that `exported` (nullptr: none is written) makes cannot hold the
/// result, rules are left out, one after another and with a note, until it can.
Result<OptimizeReport> RewriteForFile(Context& context, Model& model,
                                      const OptimizeOptions& options, const ExportFlags* exported);

}  // namespace infer
