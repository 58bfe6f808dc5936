#include "tools/infer_opt/inspect/graph.h"

#include <optional>

#include "lib/support/path_parts.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/verification.h"
#include "tools/graph/graph_page.h"
#include "tools/infer_opt/fuse/measure.h"

namespace infer {
namespace {

Status AddMeasured(Context& context, const Graph& g, const DeviceOptions& device,
                   Overlay& overlay) {
  const Graph sized = WithFoundExtents(g);  // as the other figures of the picture
  INFER_ASSIGN(const auto program, CompileFor(sized, device));
  INFER_ASSIGN(const RandomRuns random,
               RandomSamples(context, sized, 1, 0, [&](const std::vector<Datum>& inputs) {
                 return RunOnce(*program, inputs);
               }));
  INFER_ASSIGN(const std::vector<Datum> inputs, random.samples.get(0));
  INFER_ASSIGN(const NodeTimes times, TimesByNode(*program, inputs, context.stop()));
  overlay.AddSteps(*program);
  overlay.AddTimes(times);
  return {};
}

}  // namespace

void GraphFlags::Declare(Options& o) {
  o.Positional("other", &other_, "For --graph: a second model; the picture shows what differs",
               false, PathUse::kRead);
  o.Section("Picture");
  o.Value("--graph", &path_,
          "Write the model as a picture: a page with search, details and colours by cost (.html), "
          "or an image (.svg)",
          PathUse::kWrite);
  o.Values("--overlay FILE", &overlays_,
           "Also colour by these reports: time of run --layers and infer-bench run, error of "
           "compare --layers",
           PathUse::kRead);
  o.Flag("--measure", &measure_, "Time every step on random inputs, and colour by it");
}

Status GraphFlags::Check() const {
  if (wanted()) return CheckGraphPath(path_);
  if (!other_.empty()) return InvalidArgument("a second model needs --graph FILE");
  if (!overlays_.empty()) return InvalidArgument("--overlay needs --graph FILE");
  if (measure_) return InvalidArgument("--measure needs --graph FILE");
  return {};
}

Status GraphFlags::Write(Context& context, const Model& model, const std::string& path,
                         const ModelOptions& shapes, const DeviceOptions& device) const {
  std::optional<Model> other;
  if (!other_.empty()) {
    context.Step("import other");
    INFER_ASSIGN(other, LoadModel(context, other_, shapes));
  }
  GraphPage page{.title = BaseName(other ? other_ : path),
                 .graph = other ? other->graph : model.graph};
  if (other) {
    page.before = &model.graph;
    page.before_title = BaseName(path);
  }
  for (const std::string& report : overlays_) INFER_TRY(page.overlay.AddReport(report));
  if (measure_) {
    context.Step("measure");
    INFER_TRY(AddMeasured(context, page.graph, device, page.overlay));
    if (page.before) INFER_TRY(AddMeasured(context, *page.before, device, page.before_overlay));
  }
  context.Step("draw");
  INFER_TRY(WriteGraph(path_, page));
  context.Note(Cat("wrote ", path_));
  return {};
}

}  // namespace infer
