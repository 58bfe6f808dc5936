#include "quant/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "runtime/api/build_identity.h"
#include "runtime/reference/backend.h"

namespace infer {
namespace {

class CalibrateTest : public testing::Test {
 protected:
  CalibrateTest() : ops_(AllOps()), backend_(MakeReferenceBackend()) {}
  Graph Parse(std::string_view text) {
    auto g = ParseGraph(text, ops_);
    EXPECT_TRUE(g.ok()) << g.status().message();
    return *std::move(g);
  }
  OpRegistry ops_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(CalibrateTest, ObservesInputsInnerValuesAndOutputs) {
  const Graph g = Parse(R"(graph g(x: f32[3]) -> (z) {
  two = const f32[1] {2}
  y = Mul(x, two)
  z = Neg(y)
})");
  const Samples samples =
      InMemory({{Tensor::Of<float>({3}, {1, 2, 3})}, {Tensor::Of<float>({3}, {-4, 0, 1})}});
  const auto table = Calibrate(g, {"z", "x", "y"}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->at("x").seen, (Interval{-4, 3}));
  EXPECT_EQ(table->at("y").seen, (Interval{-8, 6}));
  EXPECT_EQ(table->at("z").range, (Interval{-6, 8}));
  EXPECT_EQ(table->at("y").count, 6);
  EXPECT_EQ(g.outputs().size(), 1u);
}

TEST_F(CalibrateTest, VariableShapes) {
  const Graph g = Parse("graph g(x: f32[N]) -> (y) { y = Neg(x) }");
  const Samples samples =
      InMemory({{Tensor::Of<float>({1}, {1})}, {Tensor::Of<float>({2}, {5, 6})}});
  const auto table = Calibrate(g, {"y"}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->at("y").seen, (Interval{-6, -1}));
}

/// An empty cache of keys and values is a valid input.
TEST_F(CalibrateTest, EmptyExtents) {
  const Graph g = Parse("graph g(x: f32[N,3], p: f32[M,3]) -> (y, z) { y = Neg(x)\n z = Neg(p) }");
  const Tensor none(DType::kF32, {0, 3}), row = Tensor::Of<float>({1, 3}, {1, 2, 3});
  const Samples samples = InMemory({{none, none}, {row, none}});
  const auto table = Calibrate(g, {"x", "y", "p", "z"}, samples, *backend_);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->at("y").seen, (Interval{-3, -1}));
  EXPECT_EQ(table->at("y").count, 3);
  EXPECT_EQ(table->at("p").count, 0);
  EXPECT_EQ(table->at("z").range, Interval{});
  // Numbers of which none is finite are a broken model, not an empty value.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Samples broken = InMemory({{Tensor::Of<float>({1, 3}, {nan, nan, nan}), none}});
  EXPECT_EQ(Calibrate(g, {"y"}, broken, *backend_).status().code(), Code::kInvalidModel);
}

constexpr char kNet[] = R"(graph g(x: f32[N, 3]) -> (z) {
  two = const f32[1] {2}
  y = Mul(x, two)
  z = Neg(y)
})";

/// Runs of one to four rows; `before` is called before each.
Samples RowsOfNormals(int64_t count, std::function<void(int64_t)> before = {}) {
  Samples s;
  s.count = count;
  s.get = [before](int64_t i) -> Result<std::vector<Datum>> {
    if (before) before(i);
    Random r(static_cast<uint64_t>(i) + 1);
    Tensor t(DType::kF32, {1 + i % 4, 3});
    for (float& x : t.mutable_data<float>()) x = static_cast<float>(r.Normal());
    return std::vector<Datum>{Datum(std::move(t))};
  };
  return s;
}

void ExpectSame(const CalibrationTable& a, const CalibrationTable& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, v] : a) {
    const CalibratedValue& w = b.at(name);
    EXPECT_EQ(v.range, w.range) << name;
    EXPECT_EQ(v.seen, w.seen) << name;
    EXPECT_EQ(v.count, w.count) << name;
    EXPECT_EQ(v.error, w.error) << name;
    EXPECT_EQ(v.observer, w.observer) << name;
  }
}

class CacheTest : public CalibrateTest {
 protected:
  // Tests run beside each other: a name of its own for each process.
  CacheTest() : path_(Cat(testing::TempDir(), "/infer_calibration_cache_", ::getpid())) {
    std::filesystem::remove(path_);
    options_.cache = path_;
    options_.checkpoint_seconds = 0;
    options_.threads = 1;  // a forked process has no other threads
    options_.observer = AutoObserver();
    options_.tell = [this](const std::string& line) { told_ += line + "\n"; };
  }
  ~CacheTest() override { std::filesystem::remove(path_); }
  Result<CalibrationTable> Run(const Samples& samples, std::string_view net = kNet) {
    told_.clear();
    return Calibrate(Parse(net), {"x", "y", "z"}, samples, *backend_, options_);
  }
  CalibrationTable Plain(const Samples& samples) {
    CalibrationOptions plain = options_;
    plain.cache.clear();
    plain.progress = nullptr;
    return *Calibrate(Parse(kNet), {"x", "y", "z"}, samples, *backend_, plain);
  }
  std::string path_, told_;
  CalibrationOptions options_;
};

TEST_F(CacheTest, OfAnotherBuildIsNotUsed) {
  const auto first = Run(RowsOfNormals(9));
  ASSERT_TRUE(first.ok()) << first.status().message();
  auto saved = ReadCalibration(path_);
  ASSERT_TRUE(saved.ok() && *saved);
  EXPECT_EQ((*saved)->key.build, BuildIdentity());
  const std::string folder = testing::TempDir();
  const std::string of_this = CachePath(folder, (*saved)->key);
  (*saved)->key.build = "0123456789abcdef";
  EXPECT_NE(CachePath(folder, (*saved)->key), of_this);
  ASSERT_TRUE(WriteCalibration(path_, **saved).ok());
  const auto second = Run(RowsOfNormals(9));
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_THAT(told_, testing::HasSubstr("is of another build; calibrating anew"));
}

TEST_F(CacheTest, IsUsedAgainWithoutARun) {
  const auto first = Run(RowsOfNormals(9));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(told_, "");
  int64_t runs = 0;
  options_.progress = [&](int64_t, int64_t) { ++runs; };
  const auto second = Run(RowsOfNormals(9));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(runs, 0);
  EXPECT_THAT(told_, testing::HasSubstr("nothing is run again"));
  ExpectSame(*first, *second);
  ExpectSame(*first, Plain(RowsOfNormals(9)));
  // What was seen serves another grid and another observer of the same state.
  options_.grid = {DType::kI8, true};
  options_.observer = PercentileObserver(99);
  ASSERT_TRUE(Run(RowsOfNormals(9)).ok());
  EXPECT_EQ(runs, 0);
}

TEST_F(CacheTest, OtherModelsDataAndObserversAreNotMistaken) {
  ASSERT_TRUE(Run(RowsOfNormals(9)).ok());
  const auto other_data = Run(RowsOfNormals(8));
  EXPECT_THAT(told_, testing::HasSubstr("of another data"));
  ExpectSame(*other_data, Plain(RowsOfNormals(8)));
  std::string net = kNet;
  net.replace(net.find("{2}"), 3, "{3}");
  ASSERT_TRUE(Run(RowsOfNormals(8), net).ok());
  EXPECT_THAT(told_, testing::HasSubstr("of another model"));
  ASSERT_TRUE(Run(RowsOfNormals(8), net).ok());
  EXPECT_THAT(told_, testing::HasSubstr("nothing is run again"));
  options_.observer = MinMaxObserver();
  ASSERT_TRUE(Run(RowsOfNormals(8), net).ok());
  EXPECT_THAT(told_, testing::HasSubstr("of another observer"));
}

TEST_F(CacheTest, DamagedAndForeignFilesAreRefused) {
  ASSERT_TRUE(Run(RowsOfNormals(5)).ok());
  std::ifstream in(path_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  const auto with = [&](const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return Run(RowsOfNormals(5)).status();
  };
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 40) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    EXPECT_EQ(with(bad).code(), Code::kInvalidArgument) << at;
    EXPECT_EQ(with(good.substr(0, at)).code(), Code::kInvalidArgument) << at;
  }
  EXPECT_TRUE(with(good).ok());
}

TEST_F(CacheTest, ContinuesAfterAStop) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  const auto stopped = Run(RowsOfNormals(20, [&, calls = 0](int64_t i) mutable {
    // The first 20 calls read the data for the key.
    if (++calls > 20 && i == 7) stop.request_stop();
  }));
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);
  options_.stop = {};
  int64_t runs = 0;
  options_.progress = [&](int64_t, int64_t) { ++runs; };
  const auto table = Run(RowsOfNormals(20));
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_THAT(told_, testing::HasSubstr("continues after"));
  EXPECT_LT(runs, 20);
  EXPECT_GE(runs, 12);
  ExpectSame(*table, Plain(RowsOfNormals(20)));
}

TEST_F(CacheTest, ContinuesAfterKill) {
  for (const int64_t at : {1, 6, 13}) {
    std::filesystem::remove(path_);
    const pid_t child = fork();
    if (child == 0) {
      options_.progress = [&](int64_t done, int64_t) {
        if (done == at) raise(SIGKILL);
      };
      (void)Run(RowsOfNormals(20));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    int64_t runs = 0;
    options_.progress = [&](int64_t, int64_t) { ++runs; };
    const auto table = Run(RowsOfNormals(20));
    ASSERT_TRUE(table.ok()) << table.status().message();
    EXPECT_EQ(runs, 20 - at);
    ExpectSame(*table, Plain(RowsOfNormals(20)));
  }
}

TEST_F(CacheTest, AFolderHoldsOneFilePerKey) {
  const std::string folder = path_ + "_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  options_.cache = folder;
  for (const int64_t n : {4, 5, 4}) ASSERT_TRUE(Run(RowsOfNormals(n)).ok());
  EXPECT_THAT(told_, testing::HasSubstr("nothing is run again"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

TEST_F(CalibrateTest, StatesHoldAtMost64KilobytesOfCounts) {
  for (const char* name : {"auto", "mse", "entropy", "percentile"}) {
    const auto o = (*ParseObserver(name))();
    for (int64_t i = 0; i < 50; ++i) o->See((*RowsOfNormals(50).get(i))[0].tensor().data<float>());
    EXPECT_LE(o->memory_bytes(), 64 * 1024 + 256) << name;
  }
}

TEST_F(CalibrateTest, Errors) {
  const Graph g = Parse("graph g(x: f32[1], i: i64[1]) -> (y, j) { y = Neg(x)\n j = Neg(i) }");
  const Samples one = InMemory({{Tensor::Of<float>({1}, {1}), Tensor::Of<int64_t>({1}, {1})}});
  EXPECT_EQ(Calibrate(g, {"nope"}, one, *backend_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Calibrate(g, {"j"}, one, *backend_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Calibrate(g, {"y"}, InMemory({}), *backend_).status().code(), Code::kInvalidArgument);
  const Samples wrong = InMemory({{Tensor::Of<float>({2}, {1, 2}), Tensor::Of<int64_t>({1}, {1})}});
  const auto bad = Calibrate(g, {"y"}, wrong, *backend_);
  EXPECT_FALSE(bad.ok());
  EXPECT_THAT(bad.status().message(), testing::HasSubstr("sample 0"));
}

}  // namespace
}  // namespace infer
