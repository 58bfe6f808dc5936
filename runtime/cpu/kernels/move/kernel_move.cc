/// Operators that only move elements: Transpose, Slice, Concat, Pad, nearest Resize, ... One
/// kernel: the reference kernel, run once per shape on element *numbers* instead of elements, says
/// where each element of the result comes from; that map is kept as a strided copy where it is one,
/// else as runs of contiguous elements, else as a table. Transpose, Split, Expand and Concat need
/// no such run: their shapes say it, which makes plans for new shapes cheap. Also Gather by indices
/// that only the run knows.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/ir/roles.h"
#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/move_plan.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/plan_ir/groups/quant_group.h"
#include "runtime/plan_ir/known_operands.h"

namespace infer {
namespace {

struct MoveOp {
  std::string_view op;
  bool all = false;         ///< every operand moves, not only the first
  bool as_it_lies = false;  ///< an operand that lies channels last moves so, too
  int fill = -1;            ///< the operand that says what stands where nothing moves
};
constexpr MoveOp kMoves[] = {{.op = "Transpose", .as_it_lies = true},
                             {.op = "Slice", .as_it_lies = true},
                             {.op = "Split", .as_it_lies = true},
                             {.op = "Concat", .all = true},
                             {.op = "Expand"},
                             {.op = "Tile"},
                             {.op = "Gather"},
                             {.op = "DepthToSpace", .as_it_lies = true},
                             {.op = "SpaceToDepth", .as_it_lies = true},
                             {.op = "Pad", .as_it_lies = true, .fill = 2},
                             {.op = "Trilu"},
                             {.op = "Resize", .as_it_lies = true},
                             {.op = "GatherND"},
                             {.op = "GatherElements"},
                             {.op = "ReverseSequence"}};

/// Element numbers are i64 while the map is made: above this it would need too much memory.
constexpr int64_t kMaxElements = int64_t{1} << 24;

/// How the node's operands take part.
struct Moved {
  std::vector<int> from;  ///< by input of the node: operand of the step that moves, or -1
  int64_t width = 0;      ///< bytes of an element
  uint64_t fill = 0;      ///< its bits where nothing moves
  const Value* fill_value = nullptr;
};

const MoveOp& FindMove(const Node& n) {
  return *std::find_if(std::begin(kMoves), std::end(kMoves),
                       [&](const MoveOp& m) { return n.Is(m.op); });
}

Result<Moved> DecodeMove(const StepCall& call) {
  const Node& n = call.main();
  const MoveOp& op = FindMove(n);
  if (call.step.nodes.size() > 1) return Unsupported("it has no epilogue");
  if (Interpolates(n)) return Unsupported("it interpolates");
  Moved m;
  DType type = DType::kUndefined;
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    const Value* v = n.input(i);
    m.from.push_back(v && (op.all || i == 0) ? call.operand(v) : -1);
    if (m.from.back() < 0) continue;
    if (!v->type().is_tensor()) return Unsupported("not a tensor");
    if (type != DType::kUndefined && v->dtype() != type) return Unsupported("types differ");
    type = v->dtype();
  }
  const int bits = type == DType::kString || type == DType::kUndefined ? 0 : BitWidth(type);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return Unsupported(Cat("elements of ", Name(type)));
  m.width = bits / 8;
  if (op.fill >= 0 && n.input(static_cast<size_t>(op.fill))) {
    m.fill_value = n.input(static_cast<size_t>(op.fill));
    const Tensor* c = call.constant(m.fill_value);
    if (!c || c->num_elements() != 1 || c->dtype() != type)
      return Unsupported("what is filled in is not a constant");
    std::memcpy(&m.fill, c->raw(), static_cast<size_t>(m.width));
  }
  return m;
}

/// DQ -> move -> Q of one common scale and zero point moves the integers.
Result<Moved> DecodeMove8(const StepCall& call) {
  INFER_ASSIGN(const QuantGroup g, DecodeQuantGroup(call));
  const Node& n = call.main();
  const MoveOp& op = FindMove(n);
  if (!g.output) return Unsupported("the result is not quantized");
  if (!g.activations.empty()) return Unsupported("an activation follows");
  if (n.outputs().size() > 1) return Unsupported("it has several results");
  if (Interpolates(n)) return Unsupported("it interpolates");
  Moved m;
  m.width = 1;
  m.fill = static_cast<uint8_t>(g.output->zero_point());
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    m.from.push_back(-1);
    const bool moves = n.input(i) && (op.all || i == 0);
    if (!moves) {
      if (g.inputs[i]) return Unsupported("a parameter is quantized");
      continue;
    }
    if (!g.inputs[i]) return Unsupported("an operand is not quantized");
    if (!(g.inputs[i]->params == *g.output)) return Unsupported("scales differ");
    m.from.back() = g.inputs[i]->operand;
  }
  if (op.fill >= 0 && n.input(static_cast<size_t>(op.fill))) {
    m.fill_value = n.input(static_cast<size_t>(op.fill));
    const Tensor* c = call.constant(m.fill_value);
    if (!c || c->num_elements() != 1 || c->At(0) != 0) return Unsupported("0 is not filled in");
  }
  return m;
}

/// Extents of [N, C, spatial..] as they lie channels last, or any numbers that go with its axes.
Dims ChannelsToEnd(Dims dims) {
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return dims;
}
/// Strides by axis of [N, C, spatial..] that lies channels last.
Dims LastStrides(const Dims& dims) {
  Dims strides = Strides(ChannelsToEnd(dims));
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}
/// Calls f(element, place) for each element of [N, C, spatial..] and where it lies channels last.
template <typename F>
void ForLast(const Dims& dims, const F& f) {
  const int64_t channels = dims[1], points = NumElements(dims) / dims[0] / channels;
  int64_t i = 0;
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < points; ++p) f(i++, (n * points + p) * channels + c);
}

class MoveKernel final : public Kernel {
 public:
  MoveKernel(const StepCall& call, Moved moved)
      : node_(call.main()), ops_(call.plan.graph.ops()), moved_(std::move(moved)) {
    for (const Value* v : node_.inputs()) operand_.push_back(call.operand(v));
    const bool group = call.step.nodes.size() > 1;
    for (const Value* v : node_.outputs())
      wanted_.push_back(v && (group || std::find(call.step.outputs.begin(), call.step.outputs.end(),
                                                 call.plan.id(v)) != call.step.outputs.end()));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const bool last = LiesLast(in), gives_last = last && !node_.Is(Trait::kPermutation);
    std::vector<MovePlan> plans = FromShapes(in, out, last);
    if (plans.empty()) {
      INFER_ASSIGN(const auto maps, Maps(in, out, last));
      std::vector<int64_t> starts(in.size(), -1);
      Number(in, starts);
      for (size_t o = 0; o < out.size(); ++o)
        plans.push_back(MovePlan::Of(gives_last ? Stored(maps[o]) : maps[o],
                                     gives_last ? ChannelsToEnd(out[o].dims) : out[o].dims, starts,
                                     Sizes(in), moved_.width, moved_.fill));
    }
    Prepared p;
    if (last) {
      p.in_layouts.resize(in.size());
      p.in_layouts[static_cast<size_t>(moved_.from[0])] =
          in[static_cast<size_t>(moved_.from[0])].layout;
    }
    if (gives_last)
      for (const Operand& o : out) p.out_layouts.push_back(onednn::ChannelsLast(o.dtype, o.dims));
    p.name = Cat("own:", plans[0].name());
    p.unused.assign(in.size(), true);
    for (int i : moved_.from)
      if (i >= 0) p.unused[static_cast<size_t>(i)] = false;
    const size_t results = in.size();
    p.launch = LaunchOf([plans = std::move(plans), results](std::byte* const* args) {
      for (size_t o = 0; o < plans.size(); ++o) plans[o].Run(args, args[results + o]);
    });
    return p;
  }

 private:
  /// Whether the operand lies channels last and moves as it lies. All results but a Transpose's,
  /// whose axes are others, then lie so, too.
  bool LiesLast(std::span<const Operand> in) const {
    if (!FindMove(node_).as_it_lies) return false;
    const Operand& x = in[static_cast<size_t>(moved_.from[0])];
    return !x.layout.plain() && x.dims.size() >= 3 && x.dims.size() <= 5 &&
           x.layout == onednn::ChannelsLast(x.dtype, x.dims);
  }

  /// A map in the order in which its result lies channels last.
  static Tensor Stored(const Tensor& map) {
    Tensor stored(DType::kI64, map.dims());
    const auto from = map.data<int64_t>();
    auto to = stored.mutable_data<int64_t>();
    ForLast(map.dims(), [&](int64_t i, int64_t place) {
      to[static_cast<size_t>(place)] = from[static_cast<size_t>(i)];
    });
    return stored;
  }

  /// Where the shapes alone say what moves where; else nothing.
  std::vector<MovePlan> FromShapes(std::span<const Operand> in, std::span<const Operand> out,
                                   bool last) const {
    if (node_.Is(Trait::kConcatenation)) return Joined(in, out[0].dims);
    const int x = moved_.from[0];
    const Dims& from = in[static_cast<size_t>(x)].dims;
    const Dims strides = last ? LastStrides(from) : Strides(from);
    if (from.size() > kMostAxes || out[0].dims.size() > kMostAxes) return {};
    if (node_.Is(Trait::kPermutation)) {
      Dims permuted;
      for (int64_t d : PermOf(node_, static_cast<int>(from.size())))
        permuted.push_back(strides[static_cast<size_t>(d)]);
      return {MovePlan::View(x, 0, out[0].dims, permuted, moved_.width)};
    }
    if (node_.Is("Expand")) {
      Dims repeated(out[0].dims.size(), 0);
      const size_t skipped = repeated.size() - from.size();
      for (size_t d = 0; d < from.size(); ++d)
        if (from[d] != 1) repeated[skipped + d] = strides[d];
      return {MovePlan::View(x, 0, out[0].dims, repeated, moved_.width)};
    }
    if (!node_.Is("Split") || out.size() != node_.outputs().size()) return {};
    const auto axis = NormalizeAxis(node_.Attr<int64_t>("axis"), static_cast<int>(from.size()));
    if (!axis.ok()) return {};
    std::vector<MovePlan> plans;
    int64_t at = 0;
    for (const Operand& o : out) {
      plans.push_back(MovePlan::View(x, at * strides[static_cast<size_t>(*axis)],
                                     last ? ChannelsToEnd(o.dims) : o.dims,
                                     last ? ChannelsToEnd(strides) : strides, moved_.width));
      at += o.dims[static_cast<size_t>(*axis)];
    }
    return plans;
  }

  /// Concat: a run of each operand in turn.
  std::vector<MovePlan> Joined(std::span<const Operand> in, const Dims& out) const {
    const auto axis = NormalizeAxis(node_.Attr<int64_t>("axis"), static_cast<int>(out.size()));
    if (!axis.ok()) return {};
    const int64_t times = NumElements(Dims(out.begin(), out.begin() + *axis));
    std::vector<int64_t> runs;
    for (int i : moved_.from) {
      if (i < 0) return {};
      runs.push_back(NumElements(in[static_cast<size_t>(i)].dims) / times);
    }
    return {MovePlan::Joined(moved_.from, runs, times, moved_.width)};
  }

  static constexpr size_t kMostAxes = 16;

  static std::vector<int64_t> Sizes(std::span<const Operand> in) {
    std::vector<int64_t> sizes;
    for (const Operand& o : in) sizes.push_back(NumElements(o.dims));
    return sizes;
  }

  /// The number of each moving operand's first element, from 1; 0 is what nothing moved to.
  int64_t Number(std::span<const Operand> in, std::vector<int64_t>& starts) const {
    int64_t next = 1;
    for (int i : moved_.from) {
      if (i < 0 || starts[static_cast<size_t>(i)] >= 0) continue;
      starts[static_cast<size_t>(i)] = next;
      next += NumElements(in[static_cast<size_t>(i)].dims);
    }
    return next;
  }

  /// Per wanted result the number of the element that stands at each place.
  Result<std::vector<Tensor>> Maps(std::span<const Operand> in, std::span<const Operand> out,
                                   bool last) const {
    std::vector<int64_t> starts(in.size(), -1);
    int64_t largest = Number(in, starts);
    for (const Operand& o : out) largest = std::max(largest, NumElements(o.dims));
    if (largest > kMaxElements) return Unsupported("too large for a table of its elements");
    const auto stand_in = [&](size_t i) -> std::optional<Tensor> {
      if (const Value* v = node_.input(i); moved_.from[i] < 0) {
        if (v != moved_.fill_value) return std::nullopt;
        return Tensor::Zeros(DType::kI64, v->constant() ? v->constant()->dims() : Dims());
      }
      const auto k = static_cast<size_t>(moved_.from[i]);
      Tensor numbers(DType::kI64, in[k].dims);
      auto data = numbers.mutable_data<int64_t>();
      if (last)
        ForLast(in[k].dims, [&](int64_t e, int64_t place) {
          data[static_cast<size_t>(e)] = starts[k] + place;
        });
      else
        std::iota(data.begin(), data.end(), starts[k]);
      return numbers;
    };
    INFER_ASSIGN(auto results, EvaluateKnown(node_, ops_, in, operand_, stand_in));
    std::vector<Tensor> maps;
    for (size_t o = 0; o < wanted_.size() && o < results.size(); ++o)
      if (wanted_[o]) maps.push_back(results[o].tensor());
    if (maps.size() != out.size()) return Unsupported("results");
    for (size_t o = 0; o < out.size(); ++o)
      if (maps[o].dims() != out[o].dims) return Unsupported("extents");
    return maps;
  }

  const Node& node_;
  const OpRegistry& ops_;
  Moved moved_;
  std::vector<int> operand_;  // by input of the node
  std::vector<bool> wanted_;  // by output of the node
};

template <Result<Moved> (*Decode)(const StepCall&)>
std::string RefuseBy(const StepCall& call) {
  const auto m = Decode(call);
  return m.ok() ? "" : m.status().message();
}
template <Result<Moved> (*Decode)(const StepCall&)>
std::unique_ptr<Kernel> MakeMove(const StepCall& call) {
  return std::make_unique<MoveKernel>(call, *Decode(call));
}

/// Concat of operands that lie in blocked layouts, without unblocking them.
template <Result<Moved> (*Decode)(const StepCall&)>
std::unique_ptr<Kernel> MakeBlockedConcat(const StepCall& call) {
  const Moved m = *Decode(call);
  const int64_t axis = call.main().Attr<int64_t>("axis");
  return KernelOf([m, axis](std::span<const Operand> in,
                            std::span<const Operand> out) -> Result<Prepared> {
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(out[0].dims.size())));
    std::vector<onednn::Spec> sources;
    std::vector<onednn::Binding> bindings;
    Prepared p;
    p.unused.assign(in.size(), true);
    p.in_layouts.resize(in.size());
    bool blocked = false;
    for (int i : m.from) {
      const auto k = static_cast<size_t>(i);
      blocked |= !in[k].layout.plain();
      bindings.push_back(
          {.arg = onednn::Arg::kSource, .index = i, .source = static_cast<int>(sources.size())});
      sources.push_back({in[k].dtype, in[k].dims, in[k].layout});
      p.unused[k] = false;
      p.in_layouts[k] = in[k].layout;
    }
    if (!blocked) return Unsupported("no operand is blocked");
    INFER_ASSIGN(const onednn::Made made,
                 onednn::MakeConcat(sources, {out[0].dtype, out[0].dims, {}, {}, true}, a));
    const int n = static_cast<int>(in.size());
    bindings.push_back({onednn::Arg::kDst, n});
    p.name = made.name;
    p.scratch_bytes = made.scratch_bytes;
    p.out_layouts = {made.dst};
    p.launch = MakeLaunch(made, std::move(bindings), n + 1);
    return p;
  });
}

/// y[o, j, :] = x[o, index[j], :] by indices of the run; a bad one is an error, as in the
/// reference.
class GatherLaunch final : public Launch {
 public:
  int64_t outer, extent, count, run_bytes;
  int data, indices, result;
  bool wide;  // i64 indices
  Status Run(std::byte* const* args, LaunchState*) const override {
    for (int64_t j = 0; j < count; ++j)
      if (const int64_t k = At(args, j); k < -extent || k >= extent)
        return InvalidModel(Cat("Gather: index ", k, " does not fit an extent of ", extent));
    ParallelFor(outer * count, std::max<int64_t>(1, 65536 / run_bytes),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    int64_t k = At(args, i % count);
                    if (k < 0) k += extent;
                    std::memcpy(args[result] + i * run_bytes,
                                args[data] + (i / count * extent + k) * run_bytes,
                                static_cast<size_t>(run_bytes));
                  }
                });
    return {};
  }

 private:
  int64_t At(std::byte* const* args, int64_t j) const {
    return wide ? As<int64_t>(args[indices])[j] : As<int32_t>(args[indices])[j];
  }
};

std::unique_ptr<Kernel> MakeGather(const StepCall& call) {
  const int64_t axis = call.main().Attr<int64_t>("axis"), width = DecodeMove(call)->width;
  const int x = call.operand(call.main().input(0)), i = call.operand(call.main().input(1));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    const Operand& index = in[static_cast<size_t>(i)];
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    auto launch = std::make_shared<GatherLaunch>();
    launch->outer = NumElements(Dims(dims.begin(), dims.begin() + a));
    launch->extent = dims[static_cast<size_t>(a)];
    launch->count = NumElements(index.dims);
    launch->run_bytes = width * NumElements(Dims(dims.begin() + a + 1, dims.end()));
    launch->data = x;
    launch->indices = i;
    launch->result = static_cast<int>(in.size());
    launch->wide = index.dtype == DType::kI64;
    Prepared p;
    p.name = "own:gather";
    p.launch = std::move(launch);
    return p;
  });
}

}  // namespace

KernelList MoveKernels() {
  KernelList list = {
      {"Concat", "", "int8:onednn", RefuseBy<DecodeMove8>, MakeBlockedConcat<DecodeMove8>},
      {"Concat", "", "onednn", RefuseBy<DecodeMove>, MakeBlockedConcat<DecodeMove>}};
  for (const MoveOp& m : kMoves) {
    list.push_back({m.op, "", "int8:own", RefuseBy<DecodeMove8>, MakeMove<DecodeMove8>});
    list.push_back({m.op, "", "own", RefuseBy<DecodeMove>, MakeMove<DecodeMove>});
  }
  list.push_back({"Gather", "", "own", RefuseBy<DecodeMove>, MakeGather});
  return list;
}

}  // namespace infer
