#include "runtime/api/program.h"

#include "lib/support/strings.h"

namespace infer {

Result<std::vector<Datum>> RunOnce(const Program& program, std::span<const Datum> inputs,
                                   const RunOptions& options) {
  if (inputs.size() != program.inputs().size())
    return InvalidArgument(
        Cat("got ", inputs.size(), " inputs, the model has ", program.inputs().size()));
  INFER_ASSIGN(auto context, program.NewContext());
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context->BindInput(i, inputs[i]));
  INFER_TRY(context->Run(options));
  std::vector<Datum> out;
  for (size_t i = 0; i < program.outputs().size(); ++i) out.push_back(context->output(i));
  return out;
}

}  // namespace infer
