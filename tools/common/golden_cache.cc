#include "tools/common/golden_cache.h"

#include <algorithm>
#include <filesystem>

#include "lib/onnx/import.h"
#include "lib/support/file.h"
#include "lib/support/hash.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/api/build_identity.h"
#include "tools/common/host.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

std::string KeyOf(const Graph& g, const DeviceOptions& device) {
  Hasher h;
  h.Add(Fingerprint(g)).Add(device.device).Add(GetHostFacts().isa).Add(BuildIdentity());
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h.value()));
  return text;
}

/// "" for what is no tensor.
std::string Sha256Of(const std::vector<Datum>& inputs) {
  Sha256 sha;
  const auto add = [&](const std::string& text) { sha.Add(text.data(), text.size()); };
  for (const Datum& d : inputs) {
    if (!d.is_tensor()) return "";
    const Tensor& t = d.tensor();
    add(Cat(ToString(t.type()), ";"));
    if (t.dtype() == DType::kString)
      for (const std::string& s : t.strings()) add(Cat(s.size(), ":", s));
    else
      sha.Add(t.bytes().data(), t.bytes().size());
  }
  return sha.Hex();
}

class Cache {
 public:
  Cache(const std::string& folder, const Graph& g, const DeviceOptions& device,
        const std::stop_token& stop, CacheCounts& counts)
      : folder_(Cat(folder, "/", KeyOf(g, device))),
        g_(g),
        device_(device),
        stop_(stop),
        counts_(counts) {}

  Result<std::vector<Datum>> Outputs(int64_t run, const std::vector<Datum>& inputs) {
    const std::string name = Sha256Of(inputs);
    std::vector<Datum> outputs;
    if (!name.empty() && Read(name, outputs)) {
      ++counts_.hits;
      return outputs;
    }
    ++counts_.misses;
    if (!run_) {
      SetLaneBudget(device_.threads > 0 ? device_.threads : AvailableCores());
      INFER_ASSIGN(backend_, MakeBackend(device_.device));
      INFER_ASSIGN(run_, RunsOf(g_, *backend_, 0, device_.threads, stop_));
    }
    INFER_ASSIGN(outputs, run_(run, inputs));
    if (!name.empty()) INFER_TRY(Write(name, outputs).In("--golden-cache"));
    return outputs;
  }

 private:
  std::string PathOf(const std::string& name, size_t k) const {
    return Cat(folder_, "/", name, "-", k, ".pb");
  }

  bool Read(const std::string& name, std::vector<Datum>& outputs) const {
    outputs.clear();
    for (size_t k = 0; k < g_.outputs().size(); ++k) {
      const ValueType& type = g_.outputs()[k]->type();
      if (!type.is_tensor()) return false;
      auto d = ReadDatumPb(PathOf(name, k), type);
      if (!d.ok() || !d->is_tensor() || d->tensor().dtype() != type.tensor().dtype) return false;
      outputs.push_back(*std::move(d));
    }
    return true;
  }

  Status Write(const std::string& name, const std::vector<Datum>& outputs) const {
    if (!std::all_of(outputs.begin(), outputs.end(), [](const Datum& d) { return d.is_tensor(); }))
      return {};
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return IoError(Cat(folder_, ": ", error.message()));
    for (size_t k = 0; k < outputs.size(); ++k)
      INFER_TRY(WriteTensorPb(outputs[k].tensor(), PathOf(name, k), g_.outputs()[k]->name()));
    return {};
  }

  std::string folder_;
  const Graph& g_;
  DeviceOptions device_;
  std::stop_token stop_;
  CacheCounts& counts_;
  std::unique_ptr<Backend> backend_;
  OutputSource run_;
};

}  // namespace

OutputSource CachedGolden(const std::string& folder, const Graph& g, const DeviceOptions& device,
                          const std::stop_token& stop, CacheCounts& counts) {
  const auto cache = std::make_shared<Cache>(folder, g, device, stop, counts);
  return [cache](int64_t run, const std::vector<Datum>& inputs) {
    return cache->Outputs(run, inputs);
  };
}

}  // namespace infer
