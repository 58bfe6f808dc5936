/// TopK of f32, i32 and i64. An element is a key of its value and its position, so that the order
/// is total: NaN above everything, the first of equal elements first, as in the reference kernel.
/// Elements that are not above the worst of the best so far are passed over, many at a time.
#include <algorithm>
#include <cstring>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/step_results.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Of so few a sorted list is kept.
constexpr int64_t kShortList = 16;
/// Elements that are looked at together.
constexpr int64_t kTogether = 32;
/// Parts of the lines, each with a list of its own: what lanes take.
constexpr int64_t kMostParts = 16;

/// Keys of 32-bit elements: the order of the element, then how far it is from the end.
struct NarrowKey {
  using Order = int32_t;
  int64_t bits;
  static NarrowKey Of(Order order, int64_t i) {
    return {int64_t{order} * (int64_t{1} << 32) + (0xffffffff - i)};
  }
  bool Above(const NarrowKey& o) const { return bits > o.bits; }
  int64_t index() const { return 0xffffffff - (bits & 0xffffffff); }
  Order order() const { return static_cast<Order>(bits >> 32); }
};
struct WideKey {
  using Order = int64_t;
  Order value;
  int64_t i;
  static WideKey Of(Order order, int64_t i) { return {order, i}; }
  bool Above(const WideKey& o) const { return value > o.value || (value == o.value && i < o.i); }
  int64_t index() const { return i; }
  Order order() const { return value; }
};
template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == 8, WideKey, NarrowKey>;

/// Larger for elements that come first.
template <bool kLargest>
int32_t OrderOf(float v) {
  const float plus = v + 0.0f;  // one zero
  int32_t bits;
  std::memcpy(&bits, &plus, sizeof bits);
  bits ^= (bits >> 31) & INT32_MAX;
  const int32_t order = v != v ? INT32_MAX : bits;
  return kLargest ? order : ~order;
}
template <bool kLargest>
int32_t OrderOf(int32_t v) {
  return kLargest ? v : ~v;
}
template <bool kLargest>
int64_t OrderOf(int64_t v) {
  return kLargest ? v : ~v;
}

/// The k best of n elements, `inner` apart, into best[0 .. k), sorted. `best` has room for
/// `capacity` keys. Pre: 0 < k <= n; capacity > k, or capacity = n.
template <bool kLargest, typename T>
void FindBest(const T* x, int64_t inner, int64_t n, int64_t k, KeyOf<T>* best, int64_t capacity) {
  using Key = KeyOf<T>;
  const auto above = [](const Key& a, const Key& b) { return a.Above(b); };
  const auto order = [&](int64_t i) { return OrderOf<kLargest>(x[i * inner]); };
  int64_t i = 0, count = 0;
  const bool is_short = k <= kShortList;
  for (; i < (is_short ? k : std::min(n, capacity)); ++i) best[count++] = Key::Of(order(i), i);
  const auto cut = [&] {
    if (count > k) std::nth_element(best, best + k - 1, best + count, above);
    count = k;
  };
  if (is_short)
    std::sort(best, best + k, above);
  else
    cut();
  typename Key::Order worst = best[k - 1].order();
  T bound = x[best[k - 1].index() * inner];
  const auto settle = [&] {
    worst = best[k - 1].order();
    bound = x[best[k - 1].index() * inner];
  };
  const auto take = [&](int64_t at) {
    const typename Key::Order o = order(at);
    // An equal one that comes later is not better.
    if (o <= worst) return;
    const Key key = Key::Of(o, at);
    if (is_short) {
      int64_t to = k - 1;
      for (; to > 0 && key.Above(best[to - 1]); --to) best[to] = best[to - 1];
      best[to] = key;
      settle();
      return;
    }
    best[count++] = key;
    if (count < capacity) return;
    cut();
    settle();
  };
  if (inner == 1)
    for (; i + kTogether <= n; i += kTogether) {
      // Also NaN, and what meets a NaN, is looked at one by one.
      typename Key::Order any = 0;
      for (int64_t j = 0; j < kTogether; ++j)
        any |= (kLargest ? x[i + j] <= bound : x[i + j] >= bound) ? 0 : 1;
      for (int64_t j = 0; any != 0 && j < kTogether; ++j) take(i + j);
    }
  for (; i < n; ++i) take(i);
  if (is_short) return;
  cut();
  std::sort(best, best + k, above);
}

struct TopK {
  int64_t lines = 0, n = 0, k = 0, inner = 1, parts = 1, capacity = 0;
  int x = 0, values = -1, indices = -1, scratch = 0;
  bool largest = true;

  template <typename T>
  void Run(std::byte* const* args) const {
    const T* const from = As<T>(static_cast<const std::byte*>(args[x]));
    ForRange(parts, std::max<int64_t>(1, kElementGrain * parts / (lines * n)),
             [&](int64_t begin, int64_t end) {
               for (int64_t p = begin; p < end; ++p) {
                 auto* const best = As<KeyOf<T>>(args[scratch]) + p * capacity;
                 for (int64_t line = lines * p / parts; line < lines * (p + 1) / parts; ++line)
                   Line(from, line, best, args);
               }
             });
  }

 private:
  template <typename T>
  void Line(const T* x_all, int64_t line, KeyOf<T>* best, std::byte* const* args) const {
    const T* const row = x_all + line / inner * n * inner + line % inner;
    if (largest)
      FindBest<true>(row, inner, n, k, best, capacity);
    else
      FindBest<false>(row, inner, n, k, best, capacity);
    const int64_t to = line / inner * k * inner + line % inner;
    for (int64_t i = 0; indices >= 0 && i < k; ++i)
      As<int64_t>(args[indices])[to + i * inner] = best[i].index();
    for (int64_t i = 0; values >= 0 && i < k; ++i)
      As<T>(args[values])[to + i * inner] = row[best[i].index() * inner];
  }
};

/// K = 1 of f32: as ArgMax and ArgMin, whose order is the same.
Prepared PrepareOne(const TopK& top) {
  Prepared p;
  const simd::Loops& loops = simd::TheLoops();
  p.name = Cat("own:one:", loops.isa);
  p.launch =
      LaunchOf([top, of = simd::ArgIndex(!top.largest, false), &loops](std::byte* const* args) {
        constexpr int64_t kPart = 64;
        const int64_t n = top.n, inner = top.inner, in_row = inner == 1 ? kPart : inner;
        const int64_t rows = (top.lines + in_row - 1) / in_row,
                      parts = (in_row + kPart - 1) / kPart;
        const auto* const x = As<float>(static_cast<const std::byte*>(args[top.x]));
        ForRange(rows * parts, std::max<int64_t>(1, kElementGrain / (n * kPart)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t u = begin; u < end; ++u) {
                     const int64_t line = u / parts * in_row + u % parts * kPart;
                     const int64_t count =
                         std::min(std::min(top.lines, (u / parts + 1) * in_row) - line, kPart);
                     const float* const from = x + line / inner * n * inner + line % inner;
                     int64_t places[kPart];
                     if (inner == 1)
                       loops.arg_lists[of](from, places, n, 1, 0, count);
                     else
                       loops.arg_columns[of](from, places, n, inner, count);
                     for (int64_t k = 0; top.indices >= 0 && k < count; ++k)
                       As<int64_t>(args[top.indices])[line + k] = places[k];
                     for (int64_t k = 0; top.values >= 0 && k < count; ++k)
                       As<float>(args[top.values])[line + k] =
                           inner == 1 ? from[k * n + places[k]] : from[places[k] * inner + k];
                   }
                 });
      });
  return p;
}

std::string RefuseTopK(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType t = ElementTypeOf(call.main().input(0));
  return t == DType::kF32 || t == DType::kI32 || t == DType::kI64 ? ""
                                                                  : Cat("elements of ", Name(t));
}

std::unique_ptr<Kernel> MakeTopK(const StepCall& call) {
  const Node& node = call.main();
  TopK like;
  like.x = call.operand(node.input(0));
  like.values = ResultOf(call, 0);
  like.indices = ResultOf(call, 1);
  like.largest = node.Attr<int64_t>("largest") != 0;
  const DType type = ElementTypeOf(node.input(0));
  const int64_t axis = node.Attr<int64_t>("axis");
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(like.x)].dims;
        INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
        TopK top = like;
        top.n = dims[static_cast<size_t>(a)];
        top.k = out[0].dims[static_cast<size_t>(a)];
        if (top.k > top.n) return Unsupported("K is larger than the axis");
        if (top.n > INT32_MAX) return Unsupported("places beyond 32 bits");
        top.inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
        top.lines = NumElements(dims) / top.n;
        top.parts = std::min(top.lines, kMostParts);
        top.capacity = top.k <= kShortList ? top.k : std::min(top.n, 2 * top.k + 256);
        const auto results = static_cast<int>(in.size());
        if (top.values >= 0) top.values += results;
        if (top.indices >= 0) top.indices += results;
        top.scratch = results + static_cast<int>(out.size());
        const bool one = top.k == 1 && type == DType::kF32;
        Prepared p = one ? PrepareOne(top) : Prepared();
        p.unused.assign(in.size(), true);
        p.unused[static_cast<size_t>(like.x)] = false;
        if (one) return p;
        p.name = "own:keys";
        p.scratch_bytes =
            top.parts * top.capacity *
            static_cast<int64_t>(type == DType::kI64 ? sizeof(WideKey) : sizeof(NarrowKey));
        p.launch = LaunchOf([top, type](std::byte* const* args) {
          switch (type) {
            case DType::kF32: return top.Run<float>(args);
            case DType::kI32: return top.Run<int32_t>(args);
            default: return top.Run<int64_t>(args);
          }
        });
        return p;
      });
}

}  // namespace

KernelList TopKKernels() { return {{"TopK", "", "own", RefuseTopK, MakeTopK}}; }

}  // namespace infer
