/// ReduceSum, ReduceMean, ReduceProd, ReduceMax and ReduceMin of integers and of bool, over any
/// axes: sums in i64, which wraps, as in the reference kernel, whose results they are.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/element_type.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/norm/reduce_plan.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

using simd::Fold;

struct IntegerReduceOp {
  std::string_view op;
  Fold fold;
  bool mean = false;
};
constexpr IntegerReduceOp kIntegerReduce[] = {{"ReduceSum", Fold::kSum},
                                              {"ReduceMean", Fold::kSum, true},
                                              {"ReduceProd", Fold::kProduct},
                                              {"ReduceMax", Fold::kMax},
                                              {"ReduceMin", Fold::kMin}};

/// Columns of which sums are kept at once.
constexpr int64_t kSums = 64;

const IntegerReduceOp& IntegerReduceOf(const Node& n) {
  return *std::find_if(std::begin(kIntegerReduce), std::end(kIntegerReduce),
                       [&](const IntegerReduceOp& r) { return n.Is(r.op); });
}

/// Bool is 0 or 1 here, so that its largest is u8's.
std::optional<simd::Element> FoldedElement(DType t) {
  if (t == DType::kBool) return simd::Element::kU8;
  if (IsFloat(t)) return std::nullopt;
  return ElementOf(t);
}

std::string RefuseIntegerReduce(const StepCall& call) {
  const Node& n = call.main();
  const DType t = ElementTypeOf(n.input(0));
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.operand(n.input(0)) != 0) return "the operand is not the first";
  const Fold fold = IntegerReduceOf(n).fold;
  if (t == DType::kBool && fold != Fold::kMax && fold != Fold::kMin) return "elements of bool";
  const auto element = FoldedElement(t);
  return element &&
                 simd::TheFolds().row[static_cast<int>(fold)][static_cast<int>(*element)] != nullptr
             ? ""
             : Cat("elements of ", Name(t));
}

template <typename T>
void StoreFolded(const int64_t* from, int64_t n, int64_t divisor, std::byte* to) {
  for (int64_t i = 0; i < n; ++i)
    As<T>(to)[i] = static_cast<T>(divisor > 1 ? from[i] / divisor : from[i]);
}

struct IntegerReduce {
  ReducePlan plan;
  Fold fold = Fold::kSum;
  simd::Folds::RowFn row = nullptr;
  simd::Folds::ColumnsFn columns = nullptr;
  int64_t width = 8, divisor = 1;

  /// Parts [begin, end): each up to kSums results.
  void Run(const std::byte* x, std::byte* y, int64_t begin, int64_t end) const {
    int64_t sums[kSums];
    for (int64_t u = begin; u < end; ++u) {
      if (plan.columns == 1) {
        const int64_t first = u * kSums, n = std::min(kSums, plan.blocks - first);
        for (int64_t i = 0; i < n; ++i) {
          const std::byte* const from = x + plan.Start(first + i) * width;
          sums[i] = simd::FoldStart(fold);
          for (int64_t o : plan.offsets) sums[i] = row(from + o * width, plan.row, sums[i]);
        }
        Store(sums, n, y + first * width);
        continue;
      }
      const int64_t parts = PartsOfBlock(), block = u / parts, first = (u - block * parts) * kSums,
                    n = std::min(kSums, plan.columns - first);
      const std::byte* const from = x + (plan.Start(block) + first) * width;
      std::fill_n(sums, n, simd::FoldStart(fold));
      for (int64_t o : plan.offsets) columns(from + o * width, sums, n);
      Store(sums, n, y + (block * plan.columns + first) * width);
    }
  }
  void Store(const int64_t* sums, int64_t n, std::byte* to) const {
    switch (width) {
      case 1: return StoreFolded<uint8_t>(sums, n, divisor, to);
      case 4: return StoreFolded<uint32_t>(sums, n, divisor, to);
      default: return StoreFolded<int64_t>(sums, n, divisor, to);
    }
  }
  int64_t PartsOfBlock() const { return (plan.columns + kSums - 1) / kSums; }
  int64_t Parts() const {
    return plan.columns == 1 ? (plan.blocks + kSums - 1) / kSums : plan.blocks * PartsOfBlock();
  }
};

std::unique_ptr<Kernel> MakeIntegerReduce(const StepCall& call) {
  const Node& node = call.main();
  const IntegerReduceOp op = IntegerReduceOf(node);
  const auto element = static_cast<int>(*FoldedElement(ElementTypeOf(node.input(0))));
  IntegerReduce like;
  like.fold = op.fold;
  like.row = simd::TheFolds().row[static_cast<int>(op.fold)][element];
  like.columns = simd::TheFolds().columns[static_cast<int>(op.fold)][element];
  like.width = BitWidth(ElementTypeOf(node.input(0))) / 8;
  const bool none_means_none = node.Attr<int64_t>("noop_with_empty_axes") != 0;
  const int axes_at = call.operand(node.input(1));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    INFER_ASSIGN(const std::vector<int> axes, ReducedAxes(in, axes_at, none_means_none));
    IntegerReduce reduce = like;
    INFER_ASSIGN(reduce.plan, ReducePlan::Of(in[0].dims, axes));
    if (op.mean) reduce.divisor = reduce.plan.n;
    const size_t y = in.size();
    const int64_t results = reduce.plan.columns == 1 ? reduce.plan.blocks : reduce.plan.columns;
    const int64_t grain =
        std::max<int64_t>(1, kElementGrain / (reduce.plan.n * std::min(kSums, results)));
    Prepared p;
    p.name = Cat("own:folds:", simd::TheLoops().isa);
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    p.launch = LaunchOf([reduce = std::move(reduce), grain, y](std::byte* const* args) {
      ForRange(reduce.Parts(), grain,
               [&](int64_t begin, int64_t end) { reduce.Run(args[0], args[y], begin, end); });
    });
    return p;
  });
}

}  // namespace

KernelList IntegerReduceKernels() {
  KernelList list;
  for (const IntegerReduceOp& r : kIntegerReduce)
    list.push_back({r.op, "", "own", RefuseIntegerReduce, MakeIntegerReduce});
  return list;
}

}  // namespace infer
