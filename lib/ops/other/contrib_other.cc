/// CDist and MurmurHash3 of ONNX Runtime (domain com.microsoft), which exporters of scikit-learn's
/// nearest neighbours, Gaussian processes and feature hashing write.
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/ops/common.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

// ---- CDist -----------------------------------------------------------------------------------

/// Whether the root of the sum is taken.
Result<bool> TakesRoot(const OpCall& call) {
  const std::string& metric = call.Str("metric");
  if (metric != "euclidean" && metric != "sqeuclidean")
    return InvalidModel(Cat("metric is '", metric, "', wants euclidean or sqeuclidean"));
  return metric == "euclidean";
}

Status InferCDist(OpCall& call) {
  INFER_TRY(TakesRoot(call).status());
  for (const size_t i : {size_t{0}, size_t{1}}) INFER_TRY(CheckRank(call, i, 2, 2));
  const Shape &a = call.shape(0), &b = call.shape(1);
  if (a.has_rank() && b.has_rank()) INFER_TRY(Meet(a[1], b[1]).status());
  call.SetOut(0, call.dtype(0), Shape({a.has_rank() ? a[0] : Dim(), b.has_rank() ? b[0] : Dim()}));
  return {};
}

/// y[i, j] = the distance of row i of a from row j of b.
Status RunCDist(OpRun& run) {
  INFER_ASSIGN(const bool root, TakesRoot(run.call()));
  const Tensor &a = run.in(0), &b = run.in(1);
  const int64_t rows = a.dim(0), columns = b.dim(0), n = a.dim(1);
  Tensor& y = run.Out(0, a.dtype(), {rows, columns});
  return DispatchF32F64(run, a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = a.data<T>().data(), *to = b.data<T>().data();
    T* const out = y.mutable_data<T>().data();
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(columns * n, 1));
    ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < n; ++k) {
            const double d =
                static_cast<double>(from[i * n + k]) - static_cast<double>(to[j * n + k]);
            sum += d * d;
          }
          out[i * columns + j] = static_cast<T>(root ? std::sqrt(sum) : sum);
        }
    });
  });
}

void CDistAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  LinkSame(call, 1, 0, 0, 1, links);
}

Cost CDistCost(const OpCall& call) {
  Cost c = TrafficOf(call);
  if (call.out(0).is_static() && call.in(0).is_static())
    c.flops = 3 * NumElements(call.out(0).shape.static_dims()) * call.shape(0)[1].value();
  return c;
}

// ---- MurmurHash3 -----------------------------------------------------------------------------

/// A. Appleby's MurmurHash3 of 32 bits (x86), which is in the public domain.
uint32_t Murmur(std::string_view bytes, uint32_t seed) {
  const auto mixed = [](uint32_t k) { return std::rotl(k * 0xcc9e2d51U, 15) * 0x1b873593U; };
  const size_t blocks = bytes.size() / 4;
  uint32_t h = seed;
  for (size_t i = 0; i < blocks; ++i) {
    uint32_t k;
    std::memcpy(&k, bytes.data() + 4 * i, sizeof k);
    h = std::rotl(h ^ mixed(k), 13) * 5 + 0xe6546b64U;
  }
  uint32_t rest = 0;
  for (size_t i = bytes.size(); i-- > 4 * blocks;)
    rest = rest << 8 | static_cast<unsigned char>(bytes[i]);
  h ^= mixed(rest);  // of 0 it is 0
  h ^= static_cast<uint32_t>(bytes.size());
  h = (h ^ h >> 16) * 0x85ebca6bU;
  h = (h ^ h >> 13) * 0xc2b2ae35U;
  return h ^ h >> 16;
}

Status InferMurmurHash3(OpCall& call) {
  call.SetOut(0, call.Int("positive") != 0 ? DType::kU32 : DType::kI32, call.shape(0));
  return {};
}

/// The hash of each element's bytes, of a string its own.
Status RunMurmurHash3(OpRun& run) {
  const Tensor& x = run.in(0);
  const auto seed = static_cast<uint32_t>(run.Int("seed"));
  Tensor& y = run.Out(0, run.Int("positive") != 0 ? DType::kU32 : DType::kI32, x.dims());
  const bool is_text = x.dtype() == DType::kString;
  const size_t width = is_text ? 0 : static_cast<size_t>(BitWidth(x.dtype()) / 8);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const uint32_t hash =
        is_text
            ? Murmur(x.strings()[at], seed)
            : Murmur({reinterpret_cast<const char*>(x.bytes().data()) + at * width, width}, seed);
    y.SetInt(i, y.dtype() == DType::kU32 ? int64_t{hash} : int64_t{static_cast<int32_t>(hash)});
  }
  return {};
}

}  // namespace

std::span<const OpDef> ContribOtherOps() {
  static const OpDef ops[] = {
      {
          .name = "CDist",
          .domain = kMicrosoft,
          .doc = "Distances of each row of A from each row of B; `metric` is euclidean or "
                 "sqeuclidean.",
          .traits = Trait::kNonNegative,
          .axes = CDistAxes,
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"C", "T"}},
          .attrs = {{"metric", AttrKind::kString, std::string("sqeuclidean")}},
          .constraints = {{"T", TypeSet(DType::kF32, DType::kF64)}},
          .infer = InferCDist,
          .reference = RunCDist,
          .cost = CDistCost,
          .example = R"(graph g(x: f32[3,2], z: f32[5,2]) -> (y) {
            y = com.microsoft::CDist(x, z) {metric="euclidean"} })",
      },
      {
          .name = "MurmurHash3",
          .domain = kMicrosoft,
          .doc = "The 32-bit MurmurHash3 of each element's bytes; unsigned where `positive`.",
          .traits = Trait::kUnary,
          .axes = BroadcastAxes,
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}},
          .attrs = {{"positive", AttrKind::kInt, int64_t{1}}, {"seed", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", TypeSet(DType::kU32, DType::kI32, DType::kU64, DType::kI64,
                                         DType::kF32, DType::kF64, DType::kString)},
                          {"T2", TypeSet(DType::kU32, DType::kI32)}},
          .infer = InferMurmurHash3,
          .reference = RunMurmurHash3,
          .example = R"(graph g(x: i64[3]) -> (y) {
            y = com.microsoft::MurmurHash3(x) {positive=0, seed=7} })",
      },
  };
  return ops;
}

}  // namespace infer
