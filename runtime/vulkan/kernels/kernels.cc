#include "runtime/vulkan/kernels/kernels.h"

#include <mutex>
#include <set>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

class CopyLaunch final : public Launch {
 public:
  Status Record(Encoder& encoder, std::span<const BufferView> args, LaunchState*) const override {
    return encoder.Copy(args[1], args[0]);
  }
};

}  // namespace

KernelList AllKernels(const Facts& facts) {
  KernelList all;
  using Family = KernelList (*)(const Facts&);
  // Of an operator the kernels of groups come first.
  const Family families[] = {QuantProductKernels, QuantCodeKernels, ElementwiseKernels,
                             ChainKernels,        MoveKernels,      CastKernels,
                             GatherKernels,       HalfKernels,      MatMulKernels,
                             MatMulBitsKernels,   WinogradKernels,  ConvKernels,
                             PoolKernels,         AttentionKernels, GroupAttentionKernels,
                             RecurrentKernels,    RowKernels};
  for (const Family family : families) {
    KernelList list = family(facts);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

namespace {

/// "conv" and "32" make "conv:32". What KernelDef names outlives all lists.
std::string_view VariantName(std::string_view kernel, std::string_view variant) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  return *names.insert(Cat(kernel, ":", variant)).first;
}

}  // namespace

KernelList ProductVariants(const Facts& facts) {
  KernelList all;
  const auto add = [&](std::string_view variant, KernelList (*family)(const Facts&),
                       const std::function<void(DeviceFacts&)>& change) {
    auto changed = std::make_shared<DeviceFacts>(*facts);
    change(*changed);
    for (KernelDef& k : family(changed)) {
      k.name = VariantName(k.name, variant);
      all.push_back(std::move(k));
    }
  };
  const auto tile = [](int64_t rows) { return [rows](DeviceFacts& f) { f.tile = rows; }; };
  const bool is_gpu = facts->busy_groups > 1;
  if (is_gpu) {
    add("64", HalfKernels, tile(64));
    add("128", HalfKernels, tile(128));
    if (facts->matrix) add("256", HalfKernels, tile(256));
    add("128", MatMulKernels, tile(128));
    add("128", ConvKernels, tile(128));
  }
  for (const auto& [name, rows] : {std::pair("32", 32), {"64", 64}}) {
    add(name, MatMulKernels, tile(rows));
    // Without subgroups, where those are the rule.
    add(name, ConvKernels, [rows = rows](DeviceFacts& f) {
      f.tile = rows;
      f.subgroup = false;
    });
    add(name, QuantProductKernels, [rows = rows](DeviceFacts& f) {
      f.tile = rows;
      f.subgroup = false;
    });
  }
  if (facts->winograd != WinogradUse::kOff) {
    const auto always = [](DeviceFacts& f) { f.winograd = WinogradUse::kAlways; };
    add("any", WinogradKernels, always);
    if (is_gpu)
      add("128", WinogradKernels, [](DeviceFacts& f) {
        f.winograd = WinogradUse::kAlways;
        f.tile = 128;
      });
  }
  if (is_gpu) {
    // More parts of a sum.
    const auto parts = [](DeviceFacts& f) { f.busy_groups *= 4; };
    add("parts", MatMulKernels, parts);
    add("parts", ConvKernels, parts);
    add("parts", QuantProductKernels, parts);
  }
  if (facts->dot) add("codes", QuantProductKernels, [](DeviceFacts& f) { f.dot = false; });
  return all;
}

Prepared MakeCopy() {
  Prepared p;
  p.name = "vulkan:copy";
  p.launch = std::make_shared<CopyLaunch>();
  return p;
}

}  // namespace infer::vulkan
