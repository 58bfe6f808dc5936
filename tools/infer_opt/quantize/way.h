#pragma once
/// Which form a quantized file takes for its reader, chosen before the work.
#include "tools/common/export_options.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {

/// What newcomers meet first: a mode that calibrates, without data.
std::string WithoutData(const std::string& mode, const std::string& model,
                        const std::string& output);

/// Sets what `job` says of the reader of the file, as --target names it ("": nobody in particular).
void MakeFor(const std::string& target, QuantizeJob& job);

/// The first of the mode's forms that the file's reader takes, by a draft; a note says how it
/// differs from what was asked for. Unsupported, with the way out: there is none, and `keep_failed`
/// is not set.
Status ChooseWay(QuantizeJob& job, const Model& model, QuantizeMode& mode,
                 const ExportFlags& exported, bool keep_failed);

}  // namespace infer
