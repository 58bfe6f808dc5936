/// RotaryEmbedding of ai.onnx and of com.microsoft: heads are read and written where they lie.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/one_query.h"

namespace infer {
namespace {

std::string RefuseRotary(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const bool contrib = !call.main().def().domain.empty();
  for (size_t i : {size_t{0}, size_t{contrib ? 2U : 1U}, size_t{contrib ? 3U : 2U}}) {
    const Value* v = call.main().input(i);
    if (!v->type().is_tensor() || v->dtype() != DType::kF32)
      return Cat("operand '", v->name(), "' is ", ToString(v->type()));
  }
  return "";
}

struct Rotation {
  int64_t batch = 0, length = 0, heads = 0, size = 0, half = 0, rows = 0;
  int64_t token = 0, head = 0;  ///< strides of both
  int x = 0, cos = 0, sin = 0, positions = -1;
  bool each = true;  ///< positions are one per token, else one for the first
  bool interleaved = false;

  int64_t RowOf(const int64_t* at, int64_t b, int64_t i) const {
    if (!at) return b * length + i;
    return each ? at[b * length + i] : at[0] + i;
  }

  Status Check(const int64_t* at) const {
    if (!at) return {};
    const int64_t most = each ? rows - 1 : rows - length;
    for (int64_t t = 0; t < (each ? batch * length : 1); ++t)
      if (at[t] < 0 || at[t] > most)
        return InvalidModel(Cat("position ", at[t], " is outside cos_cache"));
    return {};
  }

  Status Run(std::byte* const* args, std::byte* result) const {
    const auto of = [args](int i) { return static_cast<const std::byte*>(args[i]); };
    const int64_t* at = positions < 0 ? nullptr : As<int64_t>(of(positions));
    INFER_TRY(Check(at));
    const auto rotate = simd::TheOneQuery().rotate;
    ForRange(batch * length, std::max<int64_t>(1, kElementGrain / (heads * size)),
             [&](int64_t begin, int64_t end) {
               for (int64_t t = begin; t < end; ++t) {
                 const int64_t b = t / length, i = t % length, row = RowOf(at, b, i);
                 const int64_t first = b * length * heads * size + i * token;
                 for (int64_t h = 0; h < heads; ++h) {
                   const float* from = As<float>(of(x)) + first + h * head;
                   float* to = As<float>(result) + first + h * head;
                   rotate(from, As<float>(of(cos)) + row * half, As<float>(of(sin)) + row * half,
                          half, interleaved, to);
                   std::copy(from + 2 * half, from + size, to + 2 * half);
                 }
               }
             });
    return {};
  }
};

class RotaryLaunch final : public Launch {
 public:
  RotaryLaunch(const Rotation& r, size_t result) : r_(r), result_(result) {}
  Status Run(std::byte* const* args, LaunchState*) const override {
    return r_.Run(args, args[result_]);
  }

 private:
  Rotation r_;
  size_t result_;
};

std::unique_ptr<Kernel> MakeRotary(const StepCall& call) {
  const Node& n = call.main();
  const bool contrib = !n.def().domain.empty();
  const OpCall attributes(n.def(), n.attrs(), 0, 0);
  const int64_t heads = attributes.HasAttr("num_heads") ? attributes.Int("num_heads") : 0;
  const int64_t asked = attributes.Int("rotary_embedding_dim");
  Rotation r;
  r.interleaved = attributes.Int("interleaved") != 0;
  r.x = call.operand(n.input(0));
  r.cos = call.operand(n.input(contrib ? 2 : 1));
  r.sin = call.operand(n.input(contrib ? 3 : 2));
  const Value* positions = n.input(contrib ? 1 : 3);
  if (positions) r.positions = call.operand(positions);
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    Rotation made = r;
    const auto dims = [&](int i) { return in[static_cast<size_t>(i)].dims; };
    const Dims x = dims(r.x), cos = dims(r.cos);
    made.half = cos.back();
    if (made.half < 1) return Unsupported("cos_cache is empty");
    made.rows = NumElements(cos) / made.half;
    made.batch = x[0];
    made.heads = heads;
    if (x.size() == 4) {
      made.heads = x[1];
      made.length = x[2];
      made.size = x[3];
    } else {
      if (contrib && asked == 0) made.heads = x[2] / (2 * made.half);
      if (made.heads < 1 || x[2] % made.heads != 0) return Unsupported("extents do not fit");
      made.length = x[1];
      made.size = x[2] / made.heads;
    }
    made.token = x.size() == 4 ? made.size : made.heads * made.size;
    made.head = x.size() == 4 ? made.length * made.size : made.size;
    const int64_t rotated = asked != 0 ? asked : contrib ? 2 * made.half : made.size;
    if (dims(r.sin) != cos || 2 * made.half != rotated || rotated > made.size)
      return Unsupported("cos_cache and sin_cache do not fit");
    if (contrib && asked == 0 && rotated != made.size && x.size() == 3)
      return Unsupported("extents do not fit");
    const int64_t tokens = made.batch * made.length;
    if (r.positions >= 0) {
      const Dims at = dims(r.positions);
      made.each = at == Dims{made.batch, made.length};
      if (!made.each && (!contrib || NumElements(at) != 1)) return Unsupported("position_ids");
      if (cos.size() != 2) return Unsupported("cos_cache has no rows");
    } else if (cos.size() != 3 || made.rows != tokens) {
      return Unsupported("cos_cache is not one row per token");
    }
    Prepared p;
    p.name = Cat("own:", simd::TheOneQuery().isa);
    p.launch = std::make_shared<RotaryLaunch>(made, in.size());
    return p;
  });
}

}  // namespace

KernelList RotaryKernels() {
  return {{"RotaryEmbedding", "", "own", RefuseRotary, MakeRotary},
          {"RotaryEmbedding", "com.microsoft", "own", RefuseRotary, MakeRotary}};
}

}  // namespace infer
