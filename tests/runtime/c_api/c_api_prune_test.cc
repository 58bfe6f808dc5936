/// Pruning and comparison through the C API; outputs as DLPack.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/runtime/c_api/images.h"

namespace c_api_test {
namespace {

using testing::HasSubstr;

infer_prune_options PruneBy(const infer_samples* samples, double sparsity) {
  infer_prune_options o{};
  o.size = sizeof(o);
  o.calibration = samples;
  o.threads = 1;
  o.sparsity = sparsity;
  return o;
}

TEST(CApiPrune, ZerosAndChannels) {
  Images images;
  const infer_samples samples = images.array();
  for (const infer_samples* given : {static_cast<const infer_samples*>(nullptr), &samples}) {
    const Model model(Small());
    infer_prune_report r{};
    r.size = sizeof(r);
    infer_prune_options o = PruneBy(given, 0.5);
    ASSERT_EQ(infer_model_prune(model.m, &o, &r), INFER_OK) << infer_last_error();
    EXPECT_NEAR(static_cast<double>(r.zeros), 0.5 * static_cast<double>(r.weights),
                0.02 * static_cast<double>(r.weights));
    EXPECT_EQ(r.calibration_samples, given ? 24 : 0);
    EXPECT_TRUE(std::isfinite(Compared(Model(Small()), model, samples).sqnr_db));

    const Model smaller(Small());
    o = PruneBy(given, 0);
    o.flops = 0.7;
    ASSERT_EQ(infer_model_prune(smaller.m, &o, &r), INFER_OK) << infer_last_error();
    EXPECT_GT(r.channels_removed, 0);
    EXPECT_LT(r.parameters_after, r.parameters_before);
    EXPECT_LE(static_cast<double>(r.flops_after), 0.7 * static_cast<double>(r.flops_before));
    EXPECT_LT(smaller.Saved().size(), Model(Small()).Saved().size());
  }
  const Model pairs(Small());
  infer_prune_options o = PruneBy(&samples, 0);
  o.nm = "2:4";
  EXPECT_EQ(infer_model_prune(pairs.m, &o, nullptr), INFER_OK) << infer_last_error();
}

TEST(CApiPrune, ProductsInTwo) {
  Images images;
  const infer_samples samples = images.array();
  const auto split = [&](double rank, double low_rank) {
    const Model model(Small());
    infer_prune_options o = PruneBy(&samples, 0);
    o.rank = rank;
    o.low_rank = low_rank;
    infer_prune_report r{};
    r.size = sizeof(r);
    EXPECT_EQ(infer_model_prune(model.m, &o, &r), INFER_OK) << infer_last_error();
    EXPECT_GT(r.products_split, 0);
    EXPECT_EQ(r.channels_removed, 0);
    EXPECT_EQ(r.calibration_samples, 24);
    EXPECT_LT(r.parameters_after, r.parameters_before);
    EXPECT_LT(r.flops_after, r.flops_before);
    EXPECT_GT(Compared(Model(Small()), model, samples).sqnr_db, 10);
    return static_cast<double>(model.Saved().size()) /
           static_cast<double>(Model(Small()).Saved().size());
  };
  EXPECT_LT(split(0.125, 0), split(0.25, 0));
  EXPECT_LE(split(0, 0.85), 0.87);  // 2 % of the file are no constants
}

TEST(CApiPrune, OlderCallersKnowNoRank) {
  const Model model;
  infer_prune_options o = PruneBy(nullptr, 0.5);
  o.rank = 0.25;  // behind what the caller's header has
  o.size = offsetof(infer_prune_options, rank);
  EXPECT_EQ(infer_model_prune(model.m, &o, nullptr), INFER_OK) << infer_last_error();
}

TEST(CApiPrune, RefusesWhatMakesNoSense) {
  Images images(12);
  const infer_samples samples = images.array();
  using O = infer_prune_options;
  const auto refused = [&](const std::function<void(O&)>& change, const char* text) {
    SCOPED_TRACE(text);
    const Model model;
    const size_t nodes = infer_model_nodes(model.m);
    O o = PruneBy(&samples, 0.5);
    change(o);
    EXPECT_EQ(infer_model_prune(model.m, &o, nullptr), INFER_INVALID_ARGUMENT);
    EXPECT_THAT(infer_last_error(), HasSubstr(text));
    EXPECT_EQ(infer_model_nodes(model.m), nodes);
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  refused([](O& o) { o.size = 4; }, "size is not set");
  refused([](O& o) { o.sparsity = 0; }, "is missing");
  refused([](O& o) { o.sparsity = 1.5; }, "sparsity");
  refused([](O& o) { o.sparsity = -0.1; }, "sparsity");
  refused([](O& o) { o.sparsity = kNan; }, "sparsity");
  refused([](O& o) { o.flops = 0.7; }, "single weights");
  refused([](O& o) { o.sparsity = 0, o.flops = 2; }, "FLOP");
  refused([](O& o) { o.sparsity = 0, o.flops = kNan; }, "FLOP");
  refused([](O& o) { o.rank = 0.25; }, "single weights");
  refused([](O& o) { o.sparsity = 0, o.rank = 1.5; }, "rank");
  refused([](O& o) { o.sparsity = 0, o.rank = kNan; }, "rank");
  refused([](O& o) { o.sparsity = 0, o.low_rank = 1; }, "low_rank");
  refused([](O& o) { o.sparsity = 0, o.low_rank = kNan; }, "low_rank");
  refused([](O& o) { o.sparsity = 0, o.low_rank = o.rank = 0.5; }, "one of them");
  refused([](O& o) { o.sparsity = 0, o.flops = o.rank = 0.5; }, "one of them");
  refused([](O& o) { o.sparsity = 0, o.rank = 0.5, o.calibration = nullptr; }, "data");
  refused([](O& o) { o.nm = "2:4"; }, "nm");
  refused([](O& o) { o.sparsity = 0, o.nm = "many"; }, "many");
  refused([](O& o) { o.blocks = "0x0"; }, "0x0");
  refused([](O& o) { o.method = "guess"; }, "method 'guess'");
  refused([](O& o) { o.allocation = "guess"; }, "allocation 'guess'");
  refused([](O& o) { o.method = "wanda", o.calibration = nullptr; }, "data");
  refused([](O& o) { o.threads = -1; }, "not negative");
  const infer_prune_options o = PruneBy(nullptr, 0.5);
  EXPECT_EQ(infer_model_prune(nullptr, &o, nullptr), INFER_INVALID_ARGUMENT);
  const Model model;
  EXPECT_EQ(infer_model_prune(model.m, nullptr, nullptr), INFER_INVALID_ARGUMENT);
}

TEST(CApiCompare, TheSameModelAndLabels) {
  const Images images;
  infer_samples samples = images.array();
  const Model model;
  Session session(model);
  std::vector<int64_t> labels;
  for (const Image& image : images.images) {
    const std::vector<float> scores = RunSession(session.s, image.tensor());
    labels.push_back(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  samples.labels = labels.data();
  const infer_accuracy a = Compared(model, model, samples);
  EXPECT_GT(a.sqnr_db, 80);
  EXPECT_LT(a.max_abs_error, 1e-3);
  EXPECT_EQ(a.top1_agreement, 1);
  EXPECT_EQ(a.golden_top1, 1);
  EXPECT_EQ(a.candidate_top1, 1);
  EXPECT_EQ(a.elements, 240);
}

TEST(CApiCompare, RefusesWhatMakesNoSense) {
  const Model model;
  Images images(3);
  infer_samples samples = images.callback();
  infer_comparison* c = nullptr;
  EXPECT_EQ(infer_model_compare(model.m, nullptr, &samples, nullptr, &c), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(infer_model_compare(model.m, model.m, nullptr, nullptr, &c), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(infer_model_compare(model.m, model.m, &samples, nullptr, nullptr),
            INFER_INVALID_ARGUMENT);
  infer_compare_options o{};
  EXPECT_EQ(infer_model_compare(model.m, model.m, &samples, &o, &c), INFER_INVALID_ARGUMENT);
  images.edit = [](infer_tensor&) { return INFER_CANCELLED; };
  EXPECT_EQ(infer_model_compare(model.m, model.m, &samples, nullptr, &c), INFER_CANCELLED);
  EXPECT_EQ(c, nullptr);
  images.edit = nullptr;
  ASSERT_EQ(infer_model_compare(model.m, model.m, &samples, nullptr, &c), INFER_OK);
  infer_accuracy a{};
  EXPECT_EQ(infer_comparison_output(c, 0, &a), INFER_INVALID_ARGUMENT);  // no size
  a.size = sizeof(a);
  EXPECT_EQ(infer_comparison_output(c, 1, &a), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(infer_comparison_output(nullptr, 0, &a), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(infer_comparison_outputs(nullptr), 0U);
  infer_comparison_free(c);
  infer_comparison_free(nullptr);
}

/// The structures of DLPack, as a receiver of another library has them.
struct DlReceived {
  void* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void* context;
  void (*deleter)(DlReceived*);
};

TEST(CApi, OutputsAsDlPackOutliveTheResult) {
  const Model model;
  const Session session(model);
  const Image image;
  const infer_tensor input = image.tensor();
  infer_result* result = nullptr;
  ASSERT_EQ(infer_session_run(session.s, &input, 1, &result), INFER_OK);
  const std::vector<float> want = Floats(result);
  DLManagedTensor* managed = nullptr;
  EXPECT_EQ(infer_result_dlpack(result, 1, &managed), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(infer_result_dlpack(nullptr, 0, &managed), INFER_INVALID_ARGUMENT);
  ASSERT_EQ(infer_result_dlpack(result, 0, &managed), INFER_OK);
  infer_tensor output{};
  ASSERT_EQ(infer_result_output(result, 0, &output), INFER_OK);
  auto* t = reinterpret_cast<DlReceived*>(managed);
  EXPECT_EQ(t->data, output.data);
  infer_result_free(result);
  EXPECT_EQ(t->device_type, 1);
  EXPECT_EQ(t->code, 2);
  EXPECT_EQ(t->bits, 32);
  EXPECT_EQ(t->lanes, 1);
  ASSERT_EQ(t->rank, 2);
  EXPECT_EQ(t->shape[1], 10);
  EXPECT_EQ(t->strides[0], 10);
  EXPECT_EQ(t->strides[1], 1);
  const auto* numbers = static_cast<const float*>(t->data);
  EXPECT_EQ(std::vector<float>(numbers, numbers + 10), want);
  t->deleter(t);
}

}  // namespace
}  // namespace c_api_test
