/// Watched outputs: what is shown is what an output would hold, in the layout that a kernel left.
#include <gtest/gtest.h>

#include <cstring>

#include "lib/ir/editor.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "runtime/mock/backend.h"
#include "runtime/reference/backend.h"

namespace infer {
namespace {

/// Row-major, of any element type.
std::vector<std::byte> Plain(const RawValue& v) {
  const auto size = static_cast<size_t>(PackedBytes(v.dtype, 1));
  const int64_t all = NumElements(v.dims);
  std::vector<std::byte> plain(static_cast<size_t>(all) * size);
  if (v.channel_block == 0) {
    std::memcpy(plain.data(), v.data, plain.size());
    return plain;
  }
  const int64_t channels = v.dims[1], b = v.channel_block;
  const int64_t spatial = all / (v.dims[0] * channels), blocks = (channels + b - 1) / b;
  size_t at = 0;
  for (int64_t n = 0; n < v.dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t s = 0; s < spatial; ++s, ++at)
        std::memcpy(
            plain.data() + at * size,
            v.data + static_cast<size_t>(((n * blocks + c / b) * spatial + s) * b + c % b) * size,
            size);
  return plain;
}

/// Convolutions of 20 and of 16 channels, channels last of an odd number, a residual, a view, a
/// value that is watched twice and an output, what hangs on data, a constant, an input.
constexpr std::string_view kNet = R"(graph g(x: f32[2,3,12,12]) -> (y, c) {
  w1 = const f32[20,3,3,3] ~1
  w2 = const f32[16,20,3,3] ~2
  w3 = const f32[16,16,1,1] ~3
  a = Conv(x, w1) {pads=[1,1,1,1]}
  b = Relu(a)
  c = Conv(b, w2) {pads=[1,1,1,1], strides=[2,2]}
  d = Conv(c, w3)
  e = Add(d, c)
  f = Relu(e)
  s = const i64[2] {2, -1}
  h = Reshape(f, s)
  i = NonZero(h)
  j = Cast(i) {to=1}
  k = Shape(f)
  y = GlobalAveragePool(f)
})";
const std::vector<std::string> kWatched = {"a", "b", "c", "c", "e", "f", "h", "i", "j", "k", "x"};

Graph WithOutputs(const OpRegistry& ops) {
  auto g = ParseGraph(kNet, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  GraphEditor editor(*g);
  for (const std::string& name : kWatched) editor.MarkOutput(g->FindValue(name));
  return *std::move(g);
}

TEST(Watch, ShowsWhatAnOutputWouldHold) {
  const OpRegistry ops = AllOps();
  const Graph g = WithOutputs(ops);
  Tensor x(DType::kF32, {2, 3, 12, 12});
  Random random(4);
  for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
  std::unique_ptr<Backend> backends[] = {MakeCpuBackend(), MakeReferenceBackend(),
                                         MakeMockBackend()};
  bool blocked = false;
  for (const auto& backend : backends)
    for (const int level : {0, 1, 2})
      for (const int threads : {1, 2}) {
        if (backend->name() != "cpu" && level + threads > 1) continue;  // they know neither
        SCOPED_TRACE(Cat(backend->name(), " level ", level, ", ", threads, " threads"));
        CompileOptions options;
        options.level = level;
        options.threads = threads;
        const auto plain = backend->Compile(g, options);
        options.watched = kWatched.size();
        const auto watched = backend->Compile(g, options);
        ASSERT_TRUE(plain.ok() && watched.ok()) << watched.status().message();
        const auto expected = RunOnce(**plain, std::vector<Datum>{x});
        ASSERT_TRUE(expected.ok()) << expected.status().message();
        const auto context = *(*watched)->NewContext();
        for (int run = 0; run < 2; ++run) {
          ASSERT_TRUE(context->BindInput(0, x).ok());
          std::vector<int> shown(expected->size(), 0);
          RunOptions watching;
          watching.watch = [&](const RawValue& v) {
            ++shown[v.output];
            blocked |= v.channel_block > 0;
            const Tensor& t = (*expected)[v.output].tensor();
            EXPECT_EQ(v.dtype, t.dtype());
            EXPECT_EQ(v.dims, t.dims());
            const std::vector<std::byte> plain_bytes = Plain(v);
            ASSERT_EQ(static_cast<int64_t>(plain_bytes.size()), t.byte_size());
            EXPECT_EQ(std::memcmp(plain_bytes.data(), t.raw(), plain_bytes.size()), 0) << v.output;
          };
          const Status s = context->Run(watching);
          ASSERT_TRUE(s.ok()) << s.message();
          for (size_t o = 0; o < shown.size(); ++o) EXPECT_EQ(shown[o], o < 2 ? 0 : 1) << o;
          for (size_t o = 0; o < 2; ++o)
            EXPECT_EQ(std::memcmp(context->output(o).tensor().raw(), (*expected)[o].tensor().raw(),
                                  static_cast<size_t>((*expected)[o].tensor().byte_size())),
                      0);
        }
        ASSERT_TRUE(context->Run({}).ok());  // nobody watches
      }
  EXPECT_TRUE(blocked);  // else this looked at plain values only
}

/// What is only watched does not stay: ten convolutions need no more memory than two values of
/// each.
TEST(Watch, MemoryIsUsedAgain) {
  const OpRegistry ops = AllOps();
  Graph g(ops, "chain");
  GraphEditor editor(g);
  Value* v = editor.AddInput("x", TensorType{DType::kF32, Shape(Dims{1, 32, 40, 40})});
  Tensor w(DType::kF32, {32, 32, 1, 1});
  for (float& e : w.mutable_data<float>()) e = 1.0f / 32;
  Value* const weights = editor.AddConstant(std::move(w));
  std::vector<Value*> inner;
  for (int i = 0; i < 10; ++i) inner.push_back(v = *editor.Add("Conv", {v, weights}));
  editor.MarkOutput(*editor.Add("GlobalAveragePool", {v}));
  for (Value* i : inner) editor.MarkOutput(i);
  CompileOptions options;
  options.watched = inner.size();
  const auto program = MakeCpuBackend()->CompileOwned(std::move(g), options);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = *(*program)->NewContext();
  ASSERT_TRUE(context->BindInput(0, Tensor::Zeros(DType::kF32, {1, 32, 40, 40})).ok());
  ASSERT_TRUE(context->Run({}).ok());
  EXPECT_LE(context->memory().arena_bytes, 3 * 32 * 40 * 40 * 4);
}

}  // namespace
}  // namespace infer
