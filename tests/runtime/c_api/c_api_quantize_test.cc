/// Quantization through the C API; arguments that make no sense.
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "tests/runtime/c_api/images.h"

namespace c_api_test {
namespace {

using testing::HasSubstr;

infer_quantize_options Options(const char* mode, const infer_samples* samples = nullptr) {
  infer_quantize_options o{};
  o.size = sizeof(o);
  o.mode = mode;
  o.calibration = samples;
  o.threads = 1;
  return o;
}

infer_quantize_report Quantized(const Model& model, const infer_quantize_options& o) {
  infer_quantize_report r{};
  r.size = sizeof(r);
  EXPECT_EQ(infer_model_quantize(model.m, &o, &r), INFER_OK) << infer_last_error();
  return r;
}

TEST(CApiQuantize, StaticFromAnArrayAndFromACallback) {
  const Model golden;
  Images images;
  const infer_samples array = images.array(), callback = images.callback();
  const Model one, two;
  infer_quantize_options o = Options(nullptr, &array);
  o.recipe = "fast";
  const infer_quantize_report r = Quantized(one, o);
  EXPECT_GT(r.integer_layers, 0);
  EXPECT_LE(r.integer_layers, r.quantizable_layers);
  EXPECT_LT(r.weight_bytes_after, r.weight_bytes_before);
  EXPECT_EQ(r.calibration_samples, 24);
  EXPECT_GT(r.held_out_sqnr_db, 10);
  o.calibration = &callback;
  Quantized(two, o);
  EXPECT_GT(images.reads, 24);
  EXPECT_EQ(one.Saved(), two.Saved());
  const infer_accuracy a = Compared(golden, one, array);
  EXPECT_GT(a.sqnr_db, 15);
  EXPECT_EQ(a.samples, 24);
  EXPECT_EQ(a.rows, 24);
  EXPECT_GE(a.top1_agreement, 0.9);
  EXPECT_TRUE(std::isnan(a.golden_top1));
}

TEST(CApiQuantize, ModesThatNeedNoData) {
  const Model golden;
  const Images images;
  for (const char* mode : {"dynamic", "weight-only", "fp16"}) {
    SCOPED_TRACE(mode);
    const Model model;
    const infer_quantize_report r = Quantized(model, Options(mode));
    EXPECT_GT(r.integer_layers, 0);
    EXPECT_TRUE(std::isnan(r.held_out_sqnr_db));
    EXPECT_GT(Compared(golden, model, images.array()).sqnr_db, 10);
  }
}

TEST(CApiQuantize, OptionsOfTheModes) {
  Images images(12);
  const infer_samples samples = images.array();
  const Model four, eight, rounded, operators;
  infer_quantize_options o = Options("weight-only");
  o.bits = 4;
  o.block = 32;
  const int64_t small = Quantized(four, o).weight_bytes_after;
  o.bits = 8;
  o.asymmetric = 1;
  EXPECT_GT(Quantized(eight, o).weight_bytes_after, small);
  o = Options("weight-only", &samples);
  o.method = "gptq";
  EXPECT_EQ(Quantized(rounded, o).calibration_samples, 0);
  o = Options("static", &samples);
  o.recipe = "none";
  o.format = "qoperator";
  const char* exclude[] = {"op:Gemm", nullptr};
  o.exclude = exclude;
  EXPECT_GT(Quantized(operators, o).integer_layers, 0);
}

TEST(CApiQuantize, ZerosAndCodesTogether) {
  const Model golden(Small());
  Images images;
  const infer_samples samples = images.array();
  for (const char* mode : {"static", "dynamic", "weight-only"}) {
    SCOPED_TRACE(mode);
    const Model plain(Small()), half(Small()), pattern(Small());
    infer_quantize_options o = Options(mode, &samples);
    if (std::string_view(mode) == "static") o.recipe = "fast";
    Quantized(plain, o);
    o.sparsity = 0.5;
    EXPECT_GT(Quantized(half, o).integer_layers, 0);
    o.sparsity = 0;
    o.nm = "2:4";
    EXPECT_GT(Quantized(pattern, o).integer_layers, 0);
    EXPECT_NE(half.Saved(), plain.Saved());
    EXPECT_NE(pattern.Saved(), half.Saved());
    EXPECT_GT(Compared(golden, half, samples).sqnr_db, 5);
  }
}

TEST(CApiQuantize, TakesOptionsAndReportsOfOtherVersions) {
  const Model model;
  struct Longer {
    infer_quantize_options o;
    char more[64];
  } longer{Options("dynamic"), {}};
  longer.o.size = sizeof(longer);
  struct {
    infer_quantize_report r;
    int64_t more;
  } report{};
  report.r.size = sizeof(report);
  report.more = 7;
  ASSERT_EQ(infer_model_quantize(model.m, &longer.o, &report.r), INFER_OK) << infer_last_error();
  EXPECT_GT(report.r.integer_layers, 0);
  EXPECT_EQ(report.r.size, sizeof(report));
  EXPECT_EQ(report.more, 7);

  const Model another;
  infer_quantize_options o = Options("dynamic");
  o.size = offsetof(infer_quantize_options, calibration);
  o.threads = -5;  // not read
  infer_quantize_report shorter{};
  shorter.size = offsetof(infer_quantize_report, quantizable_layers);
  shorter.quantizable_layers = -1;
  ASSERT_EQ(infer_model_quantize(another.m, &o, &shorter), INFER_OK) << infer_last_error();
  EXPECT_GT(shorter.integer_layers, 0);
  EXPECT_EQ(shorter.quantizable_layers, -1);
}

/// Each leaves the model as it was, and says why.
void ExpectRefused(const std::function<void(infer_quantize_options&)>& change, infer_code code,
                   const char* text) {
  SCOPED_TRACE(text);
  const Model model;
  const size_t nodes = infer_model_nodes(model.m);
  Images images(12);
  const infer_samples samples = images.array();
  infer_quantize_options o = Options("static", &samples);
  o.recipe = "none";
  change(o);
  infer_quantize_report report{};
  report.size = sizeof(report);
  EXPECT_EQ(infer_model_quantize(model.m, &o, &report), code);
  EXPECT_THAT(infer_last_error(), HasSubstr(text));
  EXPECT_EQ(infer_model_nodes(model.m), nodes);
  EXPECT_EQ(report.integer_layers, 0);
}

TEST(CApiQuantize, RefusesOptionsThatMakeNoSense) {
  using O = infer_quantize_options;
  const auto refused = [](const std::function<void(O&)>& change, const char* text) {
    ExpectRefused(change, INFER_INVALID_ARGUMENT, text);
  };
  refused([](O& o) { o.size = 0; }, "size is not set");
  refused([](O& o) { o.size = size_t{1} << 30; }, "size is not set");
  refused([](O& o) { o.mode = "int8"; }, "mode 'int8'");
  refused([](O& o) { o.mode = "dynamic"; }, "recipe is an option of mode static");
  refused([](O& o) { o.bits = 4; }, "bits is an option of mode weight-only");
  refused([](O& o) { o.calibration = nullptr; }, "no samples");
  refused([](O& o) { o.recipe = "great"; }, "recipe 'great'");
  refused([](O& o) { o.observer = "guess"; }, "unknown observer");
  refused([](O& o) { o.observer = "percentile:nan"; }, "observer");
  refused([](O& o) { o.activations = "f32"; }, "activations 'f32'");
  refused([](O& o) { o.weights = "s16"; }, "weights 's16'");
  refused([](O& o) { o.activations = "s8", o.weights = "u8"; }, "no runtime");
  refused([](O& o) { o.activations = "u16", o.format = "qoperator"; }, "qoperator");
  refused([](O& o) { o.format = "json"; }, "format 'json'");
  refused([](O& o) { o.threads = -1; }, "not negative");
  refused([](O& o) { o.keep_first = -1; }, "not negative");
  refused([](O& o) { o.device = "tpu"; }, "'tpu' is no device");
  static const char* const nobody[] = {"nobody*", nullptr};
  static const char* const broken[] = {"re:(", nullptr};
  refused([](O& o) { o.include = nobody; }, "nobody");
  refused([](O& o) { o.exclude = broken; }, "regex '('");
  const auto weights = [](O& o) {
    o.mode = "weight-only";
    o.recipe = nullptr;
  };
  refused([](O& o) { o.sparsity = 1; }, "sparsity");
  refused([](O& o) { o.sparsity = std::nan(""); }, "sparsity");
  refused([](O& o) { o.nm = "4:4"; }, "4:4");
  refused([](O& o) { o.nm = "2:4", o.sparsity = 0.5; }, "no sparsity");
  refused([](O& o) { o.nm = "2:4", o.blocks = "16x4"; }, "no blocks");
  refused([](O& o) { o.blocks = "16by4"; }, "16by4");
  refused([&](O& o) { weights(o), o.bits = 3; }, "3");
  refused([&](O& o) { weights(o), o.block = 7; }, "7");
  refused([&](O& o) { weights(o), o.method = "guess"; }, "guess");
  refused([&](O& o) { weights(o), o.method = "gptq", o.calibration = nullptr; }, "data");
}

TEST(CApiQuantize, RefusesSamplesThatMakeNoSense) {
  static infer_samples s;
  static Images images(12);
  const auto refused = [](const std::function<void()>& change, infer_code code, const char* text) {
    s = images.callback();
    images.edit = nullptr;
    change();
    ExpectRefused([](infer_quantize_options& o) { o.calibration = &s; }, code, text);
  };
  const auto bad = [&](const std::function<int(infer_tensor&)>& edit, infer_code code,
                       const char* text) { refused([&] { images.edit = edit; }, code, text); };
  refused([] { s.size = 0; }, INFER_INVALID_ARGUMENT, "infer_samples.size");
  refused([] { s.count = 0; }, INFER_INVALID_ARGUMENT, "no samples");
  refused([] { s.count = SIZE_MAX; }, INFER_INVALID_ARGUMENT, "samples");
  refused([] { s.read = nullptr; }, INFER_INVALID_ARGUMENT, "neither inputs nor read");
  bad([](infer_tensor&) { return INFER_IO; }, INFER_IO, "sample 2: its callback failed");
  bad([](infer_tensor&) { return 99; }, INFER_INVALID_ARGUMENT, "sample 2");
  bad([](infer_tensor& t) { return t = {}, INFER_OK; }, INFER_INVALID_ARGUMENT, "sample 2");
  bad([](infer_tensor& t) { return t.data = nullptr, INFER_OK; }, INFER_INVALID_ARGUMENT, "NULL");
  bad([](infer_tensor& t) { return t.bytes = 8, INFER_OK; }, INFER_INVALID_ARGUMENT, "4096 bytes");
  bad([](infer_tensor& t) { return t.rank = 1 << 30, INFER_OK; }, INFER_INVALID_ARGUMENT, "rank");
  bad([](infer_tensor& t) { return t.dims = nullptr, INFER_OK; }, INFER_INVALID_ARGUMENT, "dims");
  bad([](infer_tensor& t) { return t.dtype = INFER_I32, INFER_OK; }, INFER_INVALID_ARGUMENT,
      "sample 2");
  bad([](infer_tensor& t) { return t.rank = 3, t.bytes = 128, INFER_OK; }, INFER_INVALID_ARGUMENT,
      "sample 2");
  EXPECT_EQ(infer_model_quantize(nullptr, nullptr, nullptr), INFER_INVALID_ARGUMENT);
  const Model model;
  EXPECT_EQ(infer_model_quantize(model.m, nullptr, nullptr), INFER_INVALID_ARGUMENT);
  infer_quantize_report report{};  // no size
  const infer_quantize_options o = Options("dynamic");
  EXPECT_EQ(infer_model_quantize(model.m, &o, &report), INFER_INVALID_ARGUMENT);
}

/// To a recipe a label that is no class counts as none; where accuracy is asked for it is an error.
TEST(CApiQuantize, LabelsThatNoClassHasAndModelsThatAreQuantized) {
  Images images;
  infer_samples samples = images.array();
  std::vector<int64_t> labels(images.images.size(), 1000);
  samples.labels = labels.data();
  const Model model, without;
  infer_quantize_options o = Options("static", &samples);
  o.recipe = "fast";
  Quantized(model, o);
  infer_comparison* c = nullptr;
  EXPECT_EQ(infer_model_compare(model.m, model.m, &samples, nullptr, &c), INFER_INVALID_MODEL);
  EXPECT_THAT(infer_last_error(), HasSubstr("1000"));
  EXPECT_EQ(infer_model_quantize(model.m, &o, nullptr), INFER_INVALID_ARGUMENT);
  EXPECT_THAT(infer_last_error(), HasSubstr("quantized already"));
  samples.labels = nullptr;
  Quantized(without, o);
  EXPECT_EQ(model.Saved(), without.Saved());
}

/// Counts calls, and says stop at the last of `calls`.
struct Steps {
  static int Tell(void* user, const char* step, int64_t, int64_t) {
    auto& s = *static_cast<Steps*>(user);
    EXPECT_STRNE(step, "");
    return ++s.calls == s.stop_at ? 1 : 0;
  }
  int calls = 0, stop_at = -1;
};

TEST(CApiQuantize, TellsProgressAndIsStopped) {
  Images images;
  const infer_samples samples = images.array();
  infer_quantize_options o = Options("static", &samples);
  Steps steps;
  o.progress = &Steps::Tell;
  o.user = &steps;
  o.recipe = "none";
  Quantized(Model(), o);
  EXPECT_GE(steps.calls, 24);
  for (const int at : {1, 20, steps.calls}) {
    const Model model;
    const size_t nodes = infer_model_nodes(model.m);
    steps = {0, at};
    EXPECT_EQ(infer_model_quantize(model.m, &o, nullptr), INFER_CANCELLED) << at;
    EXPECT_EQ(infer_model_nodes(model.m), nodes);
  }
}

}  // namespace
}  // namespace c_api_test
