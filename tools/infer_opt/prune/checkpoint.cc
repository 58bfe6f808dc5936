#include "tools/infer_opt/prune/checkpoint.h"

#include <bit>

#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "runtime/api/build_identity.h"
#include "tools/common/host.h"

namespace infer {
namespace {

void AddNumber(Hasher& h, double x) { h.Add(std::bit_cast<uint64_t>(x)); }

}  // namespace

Result<std::unique_ptr<RecordFile>> OpenPruneCheckpoint(Context& context, const std::string& path,
                                                        const Graph& golden, const Samples& samples,
                                                        const DeviceOptions& device,
                                                        const PruneOptions& weights,
                                                        const ChannelOptions* channels) {
  Hasher h;
  INFER_ASSIGN(const uint64_t data, LabelledDataKey(samples, context.stop()));
  const HostFacts host = GetHostFacts();
  h.Add(BuildIdentity()).Add(Fingerprint(golden)).Add(device.device).Add(data);
  h.Add(host.cpu_model).Add(host.isa);
  const PruneScope& scope = channels ? channels->scope : weights.scope;
  for (const auto* patterns : {&scope.include, &scope.exclude}) {
    h.Add("patterns");
    for (const NodePattern& p : *patterns) h.Add(ToString(p));
  }
  if (channels) {
    h.Add("channels").Add(static_cast<uint64_t>(channels->goal.kind));
    AddNumber(h, channels->goal.value);
  } else {
    const SparsityPattern& p = weights.pattern;
    h.Add("weights").Add(ToString(p)).Add(Name(weights.method));
    h.Add(weights.allocation ? Name(*weights.allocation) : "auto");
    AddNumber(h, p.share);
    AddNumber(h, weights.spare_share);
  }
  INFER_ASSIGN(auto file,
               RecordFile::Open(path, {"infer-opt/prune-checkpoint@1", std::to_string(h.value()),
                                       "name another --checkpoint, or delete it"}));
  if (file->size() > 0)
    context.Note(Cat(path, ": goes on from ", file->size(),
                     file->size() == 1 ? " record" : " records", " of an earlier run"));
  return file;
}

}  // namespace infer
