/// Windows in which nothing moves, and windows in which something does: random rows with fixed
/// seeds.
#include "runtime/engine/drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lib/support/random.h"
#include "tests/runtime/engine/engine_fixture.h"
#include "tests/runtime/engine/from_environment.h"

namespace infer::engine {
namespace {

constexpr size_t kWindow = 500;

/// Of one channel: what happens to its values, each of standard deviation 1.
struct Moved {
  int64_t channel = -1;  ///< -1: all
  double mean = 0, gain = 1;
};

/// Columns that are normal, exponential, rounded and two-valued by turns.
Tensor Columns(Random& random, const Moved& moved, int64_t columns = 16) {
  Tensor t(DType::kF32, {1, columns});
  for (int64_t c = 0; c < columns; ++c) {
    double v = random.Normal();
    if (c % 4 == 1) v = -std::log(1 - random.Uniform()) - 1;
    if (c % 4 == 2) v = std::round(2 * v) / 2;
    if (c % 4 == 3) v = random.Uniform() < 0.5 ? -1 : 1;
    if (moved.channel < 0 || moved.channel == c) v = v * moved.gain + moved.mean;
    t.mutable_data<float>()[static_cast<size_t>(c)] = static_cast<float>(v);
  }
  return t;
}

/// An image of three channels whose rows have brightness and contrast of their own, so that its
/// pixels depend on each other.
Tensor Image(Random& random, const Moved& moved) {
  constexpr int64_t kSide = 8;
  Tensor t(DType::kF32, {1, 3, kSide, kSide});
  const double brightness = 0.7 * random.Normal(),
               contrast = std::exp(0.3 * random.Normal()) * 0.65;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    double v = brightness + contrast * random.Normal();
    if (moved.channel < 0 || moved.channel == i / (kSide * kSide)) v = v * moved.gain + moved.mean;
    t.mutable_data<float>()[static_cast<size_t>(i)] = static_cast<float>(v);
  }
  return t;
}

/// Scores of the row's brightest direction: an output that follows its input.
Tensor Scores(const Tensor& x) {
  Tensor y(DType::kF32, {1, 4});
  for (int64_t k = 0; k < 4; ++k) {
    double sum = 0;
    for (int64_t i = k; i < x.num_elements(); i += 4) sum += x.At(i);
    y.mutable_data<float>()[static_cast<size_t>(k)] = static_cast<float>(std::tanh(sum / 8));
  }
  return y;
}

using Draw = Tensor (*)(Random&, const Moved&);
Tensor DrawColumns(Random& random, const Moved& moved) { return Columns(random, moved); }

std::shared_ptr<DriftReference> ReferenceOf(Random& random, Draw draw, int rows) {
  auto reference = std::make_shared<DriftReference>(std::vector<std::string>{"x"},
                                                    std::vector<std::string>{"y"});
  for (int i = 0; i < rows; ++i) {
    const Datum x = draw(random, {}), y = Scores(x.tensor());
    reference->Add({&x, 1}, {&y, 1});
  }
  return reference;
}

/// Share of windows, each against a reference of its own, that tell something.
double Told(Draw draw, const Moved& moved, int reference_rows, int64_t windows, uint64_t seed) {
  int64_t told = 0;
  for (int64_t w = 0; w < windows; ++w) {
    Random random(seed + static_cast<uint64_t>(w));
    DriftWatch watch(ReferenceOf(random, draw, reference_rows));
    for (size_t i = 0; i < kWindow; ++i) {
      const Datum x = draw(random, moved), y = Scores(x.tensor());
      watch.See({&x, 1}, {&y, 1});
    }
    const DriftReport report = watch.Look();
    EXPECT_TRUE(report.judged);
    told += report.found.empty() ? 0 : 1;
  }
  return static_cast<double>(told) / static_cast<double>(windows);
}

/// By night the share is shown. Of a hundred windows four may tell: with a true share of 1 % more
/// do in 0.4 % of all hundreds.
TEST(Drift, SameDataTellsInOneWindowOfAHundred) {
  const int64_t windows = FromEnvironment("INFER_ENGINE_WINDOWS", 100);
  const double limit = windows < 1000 ? 0.04 : 0.01;
  for (const int rows : windows < 1000 ? std::vector{100} : std::vector{100, 500}) {
    const double columns = Told(DrawColumns, {}, rows, windows, 1);
    const double images = Told(Image, {}, rows, windows, 100'000);
    RecordProperty("told", std::to_string(columns) + " " + std::to_string(images));
    EXPECT_LE(columns, limit) << rows << " reference rows";
    EXPECT_LE(images, limit) << rows << " reference rows";
  }
}

/// Half a standard deviation more, or 1.5 times the values, of all channels or of one.
TEST(Drift, StepsAreTold) {
  const int64_t windows = std::max<int64_t>(10, FromEnvironment("INFER_ENGINE_WINDOWS", 0) / 10);
  for (const Moved moved :
       {Moved{.mean = 0.5}, Moved{.gain = 1.5}, Moved{.channel = 1, .mean = 0.5},
        Moved{.channel = 1, .gain = 1.5}, Moved{.channel = 2, .gain = 1.5}}) {
    EXPECT_EQ(Told(DrawColumns, moved, 500, windows, 7), 1) << moved.channel << " " << moved.mean;
    EXPECT_EQ(Told(Image, moved, 500, windows, 9), 1) << moved.channel << " " << moved.mean;
  }
}

TEST(Drift, NamesChannelFigureAndTest) {
  Random random(3);
  DriftWatch watch(ReferenceOf(random, Image, 500));
  for (size_t i = 0; i < kWindow; ++i) {
    const Datum x = Image(random, {.channel = 2, .gain = 2}), y = Scores(x.tensor());
    watch.See({&x, 1}, {&y, 1});
  }
  const DriftReport report = watch.Look();
  ASSERT_FALSE(report.found.empty());
  EXPECT_EQ(report.rows, 500);
  EXPECT_EQ(report.figures, 3 * 2 + 4);
  const Drift& first = report.found[0];
  EXPECT_EQ(first.tensor, "x");
  EXPECT_EQ(first.first_channel, 2);
  EXPECT_EQ(first.channels, 1);
  EXPECT_EQ(Name(first.figure), "contrast");
  EXPECT_NEAR(first.median - first.reference_median, std::log(2), 0.1);
  EXPECT_GT(first.psi, 0.25);
  EXPECT_LT(first.p, 1e-20);
  EXPECT_TRUE(std::all_of(report.found.begin(), report.found.end(),
                          [](const Drift& d) { return d.tensor == "y" || d.first_channel == 2; }));
}

TEST(Drift, AReferenceOfItsRowsIsTheSame) {
  Random random(5);
  const auto made = ReferenceOf(random, DrawColumns, 60);
  auto again = DriftReference::Of(made->tensors());
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto rows_of = [](const DriftReference& r) { return r.tensors()[0].rows; };
  EXPECT_EQ(rows_of(*again), rows_of(*made));
  for (const auto& spoil : std::vector<std::function<void(DriftRows&)>>{
           [](DriftRows& t) { t.rows.front().pop_back(); }, [](DriftRows& t) { t.parts.reset(); },
           [](DriftRows& t) { t.parts->groups = 1'000'000'000; },
           [](DriftRows& t) { t.parts->groups = 0; }, [](DriftRows& t) { t.parts->axis = -2; },
           [](DriftRows& t) { t.parts->dtype = DType::kString; }}) {
    auto tensors = made->tensors();
    spoil(tensors[0]);
    EXPECT_EQ(DriftReference::Of(tensors).status().code(), Code::kInvalidArgument);
  }
}

TEST(Drift, FewRowsAreNotJudged) {
  Random random(4);
  DriftWatch watch(ReferenceOf(random, Image, 500)), few(ReferenceOf(random, Image, 49));
  for (size_t i = 0; i < kWindow; ++i) {
    const Datum x = Image(random, {.mean = 5}), y = Scores(x.tensor());
    if (i > 0) watch.See({&x, 1}, {&y, 1});
    few.See({&x, 1}, {&y, 1});
  }
  EXPECT_FALSE(watch.Look().judged);
  EXPECT_EQ(watch.Look().rows, 499);
  EXPECT_FALSE(few.Look().judged);
  EXPECT_TRUE(few.Look().found.empty());
}

TEST(Drift, ValuesOfOtherPartsAreCounted) {
  Random random(5);
  DriftWatch watch(ReferenceOf(random, Image, 60), {.window = 50});
  const Datum wide(Tensor(DType::kF32, {1, 4, 8, 8})), empty(Tensor(DType::kF32, {0, 3, 8, 8})),
      whole(Tensor(DType::kI32, {1, 3, 8, 8})), none(SequenceDatum{}),
      y(Tensor(DType::kF32, {1, 4}));
  for (const Datum* x : {&wide, &empty, &whole, &none}) watch.See({x, 1}, {&y, 1});
  EXPECT_EQ(watch.Look().misfits, 4);
  EXPECT_EQ(watch.Look().rows, 0);
}

TEST(Drift, NumbersThatAreNoneAreToldApart) {
  Random random(6);
  const auto reference = ReferenceOf(random, Image, 100);
  DriftWatch watch(reference, {.window = 100});
  for (int i = 0; i < 100; ++i) {
    Datum x = Image(random, {}), y = Scores(x.tensor());
    const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()};
    x.tensor().mutable_data<float>()[0] = bad[i % 3];
    watch.See({&x, 1}, {&y, 1});
  }
  const DriftReport report = watch.Look();
  ASSERT_FALSE(report.found.empty());
  EXPECT_EQ(report.found[0].first_channel, 0);
}

TEST(RowFigures, OfAnImage) {
  const Tensor t = Tensor::Of<float>({2, 2, 1, 2}, {1, 3, 10, 10, -1, 1, 5, 9});
  const auto parts = RowPartsOf(t);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->axis, 1);
  const auto rows = FiguresOf(t, *parts);
  ASSERT_EQ(rows.size(), 2U);
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(rows[0], (std::vector<float>{2, 10, 0, low}));
  EXPECT_EQ(rows[1], (std::vector<float>{0, 7, 0, std::log(2.F)}));
}

TEST(RowFigures, OfLastAxisTokensAndColumns) {
  EXPECT_EQ(RowPartsOf(Tensor(DType::kU8, {1, 32, 32, 3}))->axis, 3);
  const Tensor tokens = Tensor::Of<int64_t>({1, 3}, {1, 2, 3});
  EXPECT_EQ(RowPartsOf(tokens)->channels, 1);
  EXPECT_EQ(FiguresOf(Tensor::Of<int64_t>({1, 5}, {1, 1, 1, 1, 6}), *RowPartsOf(tokens))[0][0], 2);
  const auto columns = RowPartsOf(Tensor(DType::kF32, {4, 1000}));
  EXPECT_EQ(columns->groups, 64);
  EXPECT_EQ(columns->FirstOf(0), 0);
  EXPECT_EQ(columns->FirstOf(64), 1000);
  EXPECT_FALSE(RowPartsOf(Tensor(DType::kF32, {4, 10}))->has_contrast);
  EXPECT_FALSE(RowPartsOf(Tensor(DType::kF32, {})).has_value());
  EXPECT_FALSE(RowPartsOf(Tensor::OfStrings({1}, {"a"})).has_value());
}

/// Each column is in one group, and its sum is found again.
TEST(RowFigures, GroupsCoverAllChannels) {
  for (const int64_t channels : {1, 63, 64, 65, 127, 1000}) {
    Tensor t(DType::kF32, {1, channels});
    for (int64_t c = 0; c < channels; ++c) t.Set(c, static_cast<double>(c));
    const auto parts = *RowPartsOf(t);
    const auto row = FiguresOf(t, parts)[0];
    double sum = 0;
    for (int64_t g = 0; g < parts.groups; ++g)
      sum += static_cast<double>(row[static_cast<size_t>(g)]) *
             static_cast<double>(parts.FirstOf(g + 1) - parts.FirstOf(g));
    EXPECT_NEAR(sum, static_cast<double>(channels * (channels - 1) / 2),
                1e-3 * static_cast<double>(channels));
  }
}

TEST(DriftInEngine, SeesWhatIsAnswered) {
  const auto engine = Made();
  Random random(8);
  auto reference = std::make_shared<DriftReference>(std::vector<std::string>{"x"},
                                                    std::vector<std::string>{"y"});
  const auto row = [&](double mean) {
    Tensor t(DType::kF32, {1, 4});
    for (int64_t i = 0; i < 4; ++i) t.Set(i, mean + random.Normal());
    return Datum(t);
  };
  const auto watch = [&] {
    return std::make_shared<DriftWatch>(reference, DriftWatch::Options{.window = 100});
  };
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel)).ok());
  for (int i = 0; i < 200; ++i) {
    const Datum x = row(0);
    const Outcome o = engine->Infer({.model = "m", .inputs = {x}});
    ASSERT_EQ(o.end, State::kSucceeded);
    reference->Add({&x, 1}, o.outputs);
  }
  for (const double mean : {0.0, 1.0}) {
    const auto seen = watch();
    ASSERT_TRUE(
        engine->Load("m", SourceOf(kRowsModel), {.batch = {.max_rows = 4}, .drift = seen}).ok());
    std::vector<std::future<Outcome>> outcomes;
    for (int i = 0; i < 100; ++i)
      outcomes.push_back(engine->Submit({.model = "m", .inputs = {row(mean)}}));
    for (auto& o : outcomes) EXPECT_EQ(o.get().end, State::kSucceeded);
    const DriftReport report = seen->Look();
    EXPECT_TRUE(report.judged);
    EXPECT_EQ(report.rows, 100);
    EXPECT_EQ(report.found.empty(), mean == 0);
  }
}

TEST(DriftInEngine, SeesNoRequestThatFails) {
  const auto engine = Made();
  const auto reference = std::make_shared<DriftReference>(std::vector<std::string>{"x"},
                                                          std::vector<std::string>{"y"});
  const Datum x = Filled(1);
  reference->Add({&x, 1}, {&x, 1});
  const auto seen = std::make_shared<DriftWatch>(reference);
  const RunHook fails = [](const auto&, const RunOptions&) { return Internal("on purpose"); };
  ASSERT_TRUE(engine->Load("m", SourceOf(kRowsModel, fails), {.drift = seen}).ok());
  EXPECT_EQ(engine->Infer(For(1)).end, State::kFailed);
  EXPECT_EQ(seen->Look().rows, 0);
}

}  // namespace
}  // namespace infer::engine
