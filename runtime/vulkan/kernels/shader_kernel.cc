#include "runtime/vulkan/kernels/shader_kernel.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

/// Shaders count elements in 32 bits with a sign.
constexpr int64_t kMostElements = INT32_MAX;
/// Of workgroups along one axis that every device takes.
constexpr int64_t kMostGroups = 65535;

struct PreparedDispatch {
  const Pipeline* pipeline;
  std::vector<LaunchBuilder::Arg> args;
  PushData push;
  Extent extent;
};

class ShaderLaunch final : public Launch {
 public:
  ShaderLaunch(Facts facts, std::vector<PreparedDispatch> dispatches,
               std::vector<std::shared_ptr<Memory>> tables,
               std::vector<std::shared_ptr<Memory>> kept, LaunchBuilder::BeforeFn before)
      : facts_(std::move(facts)),
        dispatches_(std::move(dispatches)),
        tables_(std::move(tables)),
        kept_(std::move(kept)),
        before_(std::move(before)) {}
  Status Renew(Encoder& encoder, std::span<const BufferView> args) const override {
    return before_ ? before_(encoder, args) : Status();
  }
  Status Record(Encoder& encoder, std::span<const BufferView> args, LaunchState*) const override {
    INFER_TRY(Renew(encoder, args));
    std::vector<Binding> bindings;
    for (const PreparedDispatch& d : dispatches_) {
      bindings.clear();
      for (const LaunchBuilder::Arg& a : d.args) {
        if (a.at >= 0) {
          bindings.push_back({PartOf(args[static_cast<size_t>(a.at)], a), a.written});
          continue;
        }
        const auto& own = a.table >= 0 ? tables_ : kept_;
        Memory& memory = *own[static_cast<size_t>(a.table >= 0 ? a.table : a.kept)];
        bindings.push_back({{&memory, 0, memory.bytes()}, false});
      }
      INFER_TRY(
          static_cast<VulkanEncoder&>(encoder).Dispatch(*d.pipeline, bindings, d.push, d.extent));
    }
    return {};
  }

 private:
  static BufferView PartOf(BufferView view, const LaunchBuilder::Arg& a) {
    view.offset += a.offset;
    view.bytes = a.bytes < 0 ? view.bytes - a.offset : a.bytes;
    return view;
  }

  Facts facts_;  // keeps the pipelines
  std::vector<PreparedDispatch> dispatches_;
  std::vector<std::shared_ptr<Memory>> tables_, kept_;
  LaunchBuilder::BeforeFn before_;
};

}  // namespace

std::string Tiling::suffix() const { return Cat(tile, wide ? "w" : ""); }

Tiling TilingOf(const DeviceFacts& facts, int64_t m, int64_t n, int64_t k, int64_t batches,
                bool may_split, int64_t largest) {
  // A part shorter than this is not worth the memory that its sums pass through.
  constexpr int64_t kShortestPart = 64, kMostParts = 32, kDepth = 16;
  // Of shared memory, by tiles of 128 (shaders/tile.glsl).
  constexpr int64_t kLargeTileBytes = kDepth * 2 * (128 + 4) * 4;
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  Tiling t;
  t.tile = m > 32 && n > 32 ? 64 : 32;
  if (!may_split && up(m, 64) * up(n, 64) * batches < facts.busy_groups) t.tile = 32;
  // Tiles of 128 read half as much for a result; a CPU's driver wants small workgroups.
  const bool wide = facts.max_invocations >= 256 && facts.busy_groups > 1;
  const bool fits = wide && largest >= 128 && facts.shared_bytes >= kLargeTileBytes;
  if (fits && m > 64 && n > 64 && 2 * up(m, 128) * up(n, 128) * batches >= facts.busy_groups)
    t.tile = 128;
  // Who measures wants each.
  if (facts.tile == 32 || facts.tile == 64 || (facts.tile == 128 && fits)) t.tile = facts.tile;
  if (TileRounds(t.tile, k) > facts.max_iterations) t.tile = 32;
  t.tiles_m = up(m, t.tile);
  t.tiles_n = up(n, t.tile);
  t.k_part = k;
  const int64_t whole = t.groups() * batches;
  t.wide = wide && t.tile >= 64;
  int64_t parts = std::min(facts.busy_groups / whole, k / kShortestPart);
  // Of these a multiprocessor holds twice as many, which hide each other's waits.
  if (t.wide && t.tile == 64)
    parts = std::max(parts, std::min(2 * facts.busy_groups / whole, k / (4 * kShortestPart)));
  parts = std::min(parts, kMostParts);
  if (parts < 2 || !may_split) return t;
  t.k_part = up(up(k, parts), kDepth) * kDepth;
  t.parts = up(k, t.k_part);
  return t;
}

Result<int64_t> RowsOfAPart(const DeviceFacts& facts, int64_t rows, const Dims& row_bytes) {
  int64_t step = 1, largest = 1;
  for (int64_t bytes : row_bytes) {
    step = std::max(step, kPartAlignment / std::gcd(kPartAlignment, bytes));
    largest = std::max(largest, bytes);
  }
  if (rows <= facts.max_buffer_bytes / largest) return rows;
  const int64_t fit = facts.max_buffer_bytes / largest / step * step;
  if (fit > 0) return fit;
  return Unsupported(Cat(step, " rows of ", HumanBytes(largest), ", a buffer of this device holds ",
                         HumanBytes(facts.max_buffer_bytes)));
}

Result<std::shared_ptr<Memory>> OnDevice(const std::shared_ptr<DeviceParts>& parts,
                                         const void* data, size_t size) {
  const auto bytes = static_cast<int64_t>(size);
  INFER_ASSIGN(auto memory, parts->allocator->Allocate(MemoryKind::kDevice, bytes));
  INFER_ASSIGN(const auto encoder, VulkanEncoder::Make(parts));
  INFER_TRY(encoder->Upload({memory.get(), 0, bytes}, static_cast<const std::byte*>(data)));
  INFER_ASSIGN(const auto ended, encoder->Submit());
  INFER_TRY(ended->Wait());
  return memory;
}

KernelDef Def(const Facts& facts, std::string_view op, std::string_view domain,
              std::string_view name, RefuseFn refuse, MakeFn make) {
  return {op, domain, name, [facts, refuse](const StepCall& call) { return refuse(call, *facts); },
          [facts, make](const StepCall& call) { return make(call, facts); }};
}

Push& Push::F(float v) {
  uint32_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return Word(bits);
}

Push& Push::List(const Dims& values, size_t count, int64_t before) {
  INFER_CHECK(values.size() <= count);
  for (size_t i = values.size(); i < count; ++i) U(before);
  for (int64_t v : values) U(v);
  return *this;
}

void LaunchBuilder::Dispatch(std::string_view shader, std::vector<int32_t> constants,
                             std::vector<Arg> args, const Push& push, int64_t groups) {
  calls_.push_back(
      {std::string(shader), std::move(constants), std::move(args), push.data(), groups});
}

const Operand& LaunchBuilder::OperandAt(int arg) const {
  const auto i = static_cast<size_t>(arg);
  return i < in_.size() ? in_[i] : out_[i - in_.size()];
}

void LaunchBuilder::Finish(const Split& split, std::vector<int32_t> constants, Arg bias,
                           Arg residual, const std::function<void(Push&)>& add_tail) {
  const int64_t n = split.batches * split.m * split.n;
  Push push;
  push.U(n).U(split.tiling.parts).U(split.m).U(split.n).U(split.bias_row).U(split.bias_column);
  push.F(split.alpha).F(split.beta);
  add_tail(push);
  DispatchElements("finish", std::move(constants), {ScratchRead(), bias, residual, Write()}, push,
                   n, 64);
}

Status LaunchBuilder::CheckBuffer(const Arg& arg) const {
  const bool is_scratch = arg.at >= static_cast<int>(in_.size() + out_.size());
  const Operand* o = arg.at >= 0 && !is_scratch ? &OperandAt(arg.at) : nullptr;
  int64_t bytes = is_scratch ? scratch_bytes_ : 0;
  if (o) bytes = o->plain_bytes();
  if (arg.table >= 0)
    bytes = static_cast<int64_t>(tables_[static_cast<size_t>(arg.table)].size() * sizeof(int32_t));
  if (arg.kept >= 0) bytes = kept_[static_cast<size_t>(arg.kept)]->bytes();
  if (arg.bytes >= 0) bytes = arg.bytes;
  if (bytes > facts_->max_buffer_bytes)
    return Unsupported(Cat("'", o && o->value ? o->value->name() : "a table", "' takes ",
                           HumanBytes(bytes), ", a buffer of this device holds ",
                           HumanBytes(facts_->max_buffer_bytes)));
  if (o && arg.bytes < 0 && NumElements(o->dims) > kMostElements)
    return Unsupported("more than 2^31 elements");
  return {};
}

Result<Prepared> LaunchBuilder::Finish(std::string_view name) {
  if (!facts_->parts) return Internal("a kernel without a device was asked to run");
  if (most_iterations_ > facts_->max_iterations)
    return Unsupported(Cat("loops of ", most_iterations_, " rounds, this driver ends them after ",
                           facts_->max_iterations));
  Prepared p;
  p.name = Cat("vulkan:", name);
  p.unused.assign(in_.size(), true);
  if (!on_host_.empty()) p.on_host.assign(in_.size(), false);
  for (int i : on_host_) {
    p.on_host[static_cast<size_t>(i)] = true;
    p.unused[static_cast<size_t>(i)] = false;
  }
  std::vector<PreparedDispatch> dispatches;
  for (Call& c : calls_) {
    for (const Arg& a : c.args) {
      INFER_TRY(CheckBuffer(a));
      if (a.at >= 0 && static_cast<size_t>(a.at) < in_.size())
        p.unused[static_cast<size_t>(a.at)] = false;
    }
    const int64_t x = std::clamp<int64_t>(c.groups, 1, kMostGroups), y = (c.groups + x - 1) / x;
    if (y > kMostGroups) return Unsupported("more workgroups than a device takes");
    INFER_ASSIGN(const Pipeline* const pipeline,
                 facts_->parts->pipelines.Get(ShaderNamed(c.shader), c.constants));
    dispatches.push_back({pipeline,
                          std::move(c.args),
                          c.push,
                          {{static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1},
                           std::max(most_iterations_, kFewRounds)}});
  }
  std::vector<std::shared_ptr<Memory>> tables;
  for (const std::vector<int32_t>& numbers : tables_) {
    INFER_ASSIGN(auto memory,
                 OnDevice(facts_->parts, numbers.data(), numbers.size() * sizeof(int32_t)));
    tables.push_back(std::move(memory));
  }
  p.scratch_bytes = scratch_bytes_;
  p.launch = std::make_shared<ShaderLaunch>(facts_, std::move(dispatches), std::move(tables),
                                            std::move(kept_), std::move(before_));
  return p;
}

std::string RefuseUnlessAllF32(const StepCall& call) {
  for (const Node* n : call.step.nodes) {
    for (const Value* v : n->inputs())
      if (v && !IsF32(v)) return Cat("operand '", v->name(), "' is ", ToString(v->type()));
    for (const Value* v : n->outputs())
      if (v && !IsF32(v)) return Cat("result '", v->name(), "' is ", ToString(v->type()));
  }
  return "";
}

std::string RefuseEpilogue(const StepCall& call) {
  return call.step.nodes.size() > 1 ? "it has no epilogue" : "";
}

std::string RefuseUnlessPlainF32(const StepCall& call) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  return RefuseUnlessAllF32(call);
}

}  // namespace infer::vulkan
