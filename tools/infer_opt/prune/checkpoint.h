#pragma once
/// infer-opt prune --checkpoint: what a killed run has found out already.
#include <memory>

#include "quant/calibrate/samples.h"
#include "quant/prune/structured.h"
#include "tools/common/command.h"
#include "tools/common/model_options.h"
#include "tools/common/record_file.h"

namespace infer {

/// Of this build and processor, the model, the data to fit and the options that decide results:
/// those of `weights`, or of `channels` where that is set. Errors: as RecordFile::Open.
Result<std::unique_ptr<RecordFile>> OpenPruneCheckpoint(Context& context, const std::string& path,
                                                        const Graph& golden, const Samples& samples,
                                                        const DeviceOptions& device,
                                                        const PruneOptions& weights,
                                                        const ChannelOptions* channels);

}  // namespace infer
