/// Router policies in files.
#include "tools/common/route_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

class RouteFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              Cat("route_files_", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Result<RouteFile> Read(const std::string& text, const std::string& device = "cpu") {
    return ReadRouteFile(Write("r", text), device);
  }
  std::string Why(const std::string& text) {
    const auto r = Read(text);
    if (r.ok()) return "ok";
    EXPECT_EQ(r.status().code(), Code::kInvalidModel) << r.status().message();
    EXPECT_EQ(r.status().message().find('\n'), std::string::npos);
    return r.status().message();
  }
  std::filesystem::path folder_;
};

constexpr const char* kTwo =
    "[[variants]]\nname = 'a'\n[[variants]]\nname = 'b'\npath = 'b.onnx'\n";

TEST_F(RouteFiles, TomlAndJsonSayTheSame) {
  const auto toml =
      Read(Cat("mode = 'canary'\nsalt = 's'\nsteps = [0.1, 0.5]\ninterval_s = 2\n"
               "least_samples = 7\nmost_error_rate = 0.02\nmost_slowdown = 1.5\n"
               "failures_to_roll_back = 2\n[breaker]\nfailures = 3\nopen_s = 0.5\n",
               kTwo));
  const auto json = Read(R"({"mode": "canary", "salt": "s", "steps": [0.1, 0.5], "interval_s": 2,
    "least_samples": 7, "most_error_rate": 0.02, "most_slowdown": 1.5, "failures_to_roll_back": 2,
    "breaker": {"failures": 3, "open_s": 0.5},
    "variants": [{"name": "a"}, {"name": "b", "path": "b.onnx"}]})");
  for (const auto* r : {&toml, &json}) {
    ASSERT_TRUE(r->ok()) << r->status().message();
    const auto& canary = std::get<engine::CanaryRoute>((*r)->policy.mode);
    EXPECT_EQ(canary.salt, "s");
    EXPECT_EQ(canary.rules.steps, (std::vector<double>{0.1, 0.5}));
    EXPECT_EQ(canary.rules.interval_ns, 2'000'000'000);
    EXPECT_EQ(canary.rules.least_samples, 7);
    EXPECT_EQ(canary.rules.most_error_rate, 0.02);
    EXPECT_EQ(canary.rules.most_slowdown, 1.5);
    EXPECT_EQ(canary.rules.failures_to_roll_back, 2);
    EXPECT_EQ((*r)->policy.breaker.failures, 3);
    EXPECT_EQ((*r)->policy.breaker.open_ns, 500'000'000);
    EXPECT_EQ((*r)->policy.variants[1].model, "b");
    EXPECT_EQ((*r)->paths, (std::vector<std::string>{"", (folder_ / "b.onnx").string()}));
  }
}

TEST_F(RouteFiles, EveryModeHasItsSettings) {
  using namespace engine;  // NOLINT(google-build-using-namespace)
  const auto read = [&](const std::string& settings, const std::string& variants) {
    auto r = Read(Cat(settings, variants));
    EXPECT_TRUE(r.ok()) << r.status().message();
    return r.ok() ? r->policy : RoutePolicy();
  };
  const auto split =
      read("mode = 'split'\n[experiment]\nalpha = 0.01\neffect = 0.02\nleast_samples = 9\n",
           "[[variants]]\nname = 'a'\nweight = 3\n[[variants]]\nname = 'b'\npath = 'b'\n");
  EXPECT_EQ(std::get<SplitRoute>(split.mode).experiment->alpha, 0.01);
  EXPECT_EQ(std::get<SplitRoute>(split.mode).experiment->effect, 0.02);
  EXPECT_EQ(std::get<SplitRoute>(split.mode).experiment->least_samples, 9);
  EXPECT_EQ(split.variants[0].weight, 3);
  EXPECT_EQ(std::get<AffinityRoute>(read("mode = 'affinity'\nsalt = 'x'\n", kTwo).mode).salt, "x");
  const auto device = read("mode = 'affinity'\nby = 'device'\nseed = 4\n",
                           "[[variants]]\nname = 'a'\ndevice = 'cpu'\n"
                           "[[variants]]\nname = 'b'\npath = 'b'\ndevice = 'vulkan'\n");
  EXPECT_EQ(std::get<AffinityRoute>(device.mode).by, AffinityRoute::By::kDevice);
  EXPECT_EQ(std::get<AffinityRoute>(device.mode).seed, 4u);
  EXPECT_EQ(device.variants[1].device, "vulkan");
  EXPECT_EQ(std::get<BalanceRoute>(read("mode = 'balance'\nseed = 6\n", kTwo).mode).seed, 6u);
  const auto shadow = std::get<ShadowRoute>(
      read("mode = 'shadow'\nshare = 0.5\nmost_waiting = 2\ntimeout_s = 3\nseed = 1\n", kTwo).mode);
  EXPECT_EQ(shadow.share, 0.5);
  EXPECT_EQ(shadow.most_waiting, 2);
  EXPECT_EQ(shadow.timeout_ns, 3'000'000'000);
  const auto cascade = std::get<CascadeRoute>(
      read("mode = 'cascade'\nmin_confidence = 0.7\nlogits = true\noutput = 1\n", kTwo).mode);
  EXPECT_EQ(cascade.min_confidence, 0.7);
  EXPECT_TRUE(cascade.logits);
  EXPECT_EQ(cascade.output, 1u);
  const auto slo = read("mode = 'slo'\nmargin = 1.5\n",
                        "[[variants]]\nname = 'a'\naccuracy = 0.9\nrun_ms = 1.5\n"
                        "[[variants]]\nname = 'b'\npath = 'b'\naccuracy = 0.8\n");
  EXPECT_EQ(std::get<SloRoute>(slo.mode).margin, 1.5);
  EXPECT_EQ(slo.variants[0].run_ns, 1'500'000);
}

TEST_F(RouteFiles, WhatIsWrongIsSaidInOneLine) {
  EXPECT_EQ(Why(Cat("mode = 'split'\n", kTwo)), "ok");
  EXPECT_THAT(Why("mode = "), HasSubstr("line 1"));
  EXPECT_THAT(Why("{"), HasSubstr("no JSON"));
  EXPECT_THAT(Why(R"({"mode": "split", "mode": "balance"})"),
              HasSubstr("key 'mode' is there twice"));
  EXPECT_THAT(Why("mode = 2020-01-01\n"), HasSubstr("date"));
  EXPECT_THAT(Why(kTwo), HasSubstr("'mode' is missing: split, canary"));
  EXPECT_THAT(Why(Cat("mode = 'b'\n", kTwo)), HasSubstr("no mode 'b'"));
  EXPECT_THAT(Why(Cat("mode = 'balance'\nsalt = 's'\n", kTwo)),
              HasSubstr("'salt' is no setting of mode balance; it has: mode, seed"));
  EXPECT_THAT(Why(Cat("mode = 'split'\n[breaker]\nopen = 1\n", kTwo)),
              HasSubstr("'open' is no setting of a breaker"));
  EXPECT_THAT(Why(Cat("mode = 'split'\n", kTwo, "weigth = 2\n")),
              HasSubstr("'weigth' is no setting of a variant of mode split"));
  EXPECT_THAT(Why(Cat("mode = 'cascade'\n", kTwo, "weight = 2\n")),
              HasSubstr("weight has no effect in mode cascade"));
  EXPECT_THAT(Why(Cat("mode = 'slo'\n", kTwo)), HasSubstr("needs its accuracy"));
  EXPECT_THAT(Why(Cat("mode = 'canary'\nsteps = ['a']\n", kTwo)), HasSubstr("list of numbers"));
  EXPECT_THAT(Why(Cat("mode = 'canary'\ninterval_s = 0\n", kTwo)), HasSubstr("more than 0"));
  EXPECT_THAT(Why(Cat("mode = 'canary'\nleast_samples = -1\n", kTwo)), HasSubstr("whole number"));
  EXPECT_THAT(Why(Cat("mode = 'cascade'\nlogits = 1\n", kTwo)), HasSubstr("true or false"));
  EXPECT_THAT(Why(Cat("mode = 'affinity'\nby = 'x'\n", kTwo)), HasSubstr("key or device"));
  EXPECT_THAT(Why("mode = 'split'\nvariants = 3\n"), HasSubstr("list of tables"));
  EXPECT_THAT(Why("mode = 'split'\nvariants = [3, 4]\n"), HasSubstr("table of settings"));
  EXPECT_THAT(Why("mode = 'split'\n[[variants]]\nname = 'a'\n[[variants]]\nname = 'b'\n"),
              HasSubstr("more than one variant has no 'path'"));
  EXPECT_THAT(Why("mode = 'split'\n[[variants]]\npath = 'a'\n"), HasSubstr("no 'name'"));
  EXPECT_EQ(ReadRouteFile((folder_ / "none").string(), "cpu").status().code(), Code::kIo);
}

TEST_F(RouteFiles, ASweepsVariantsAreTaken) {
  const auto listed = [&](const char* id, const char* quantization, double accuracy, double ms) {
    const std::string path = Write(Cat(id, ".onnx"), id);
    const auto file = InputFile::Open(path);
    return Cat(R"({"id": ")", id, R"(", "path": "elsewhere/)", id, R"(.onnx", "quantization": ")",
               quantization, R"(", "latency_ms": )", ms, R"(, "accuracy_score": )", accuracy,
               R"(, "accuracy_metric": "top-1", "model_sha256": "0", "sha256": ")",
               *Sha256Of(**file), R"("})");
  };
  Write("variants.json",
        Cat("[", listed("fp32", "none", 0.9, 2), ",", listed("int8", "full", 0.88, 1), "]"));
  const auto slo = Read("mode = 'slo'\nvariants_json = 'variants.json'\n");
  ASSERT_TRUE(slo.ok()) << slo.status().message();
  ASSERT_EQ(slo->policy.variants.size(), 2u);
  EXPECT_EQ(slo->policy.variants[1].model, "int8");
  EXPECT_EQ(slo->policy.variants[1].accuracy, 0.88);
  EXPECT_EQ(slo->policy.variants[1].run_ns, 1'000'000);
  EXPECT_EQ(slo->paths[1], (folder_ / "int8.onnx").string());
  const auto named = Read(
      "mode = 'split'\nvariants_json = 'variants.json'\n[[variants]]\nname = 'int8'\n"
      "[[variants]]\nname = 'fp32'\nweight = 2\n");
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named->paths[0], (folder_ / "int8.onnx").string());
  EXPECT_FALSE(named->policy.variants[0].accuracy);
  EXPECT_THAT(Why("mode = 'split'\nvariants_json = 'variants.json'\n[[variants]]\nname = 'x'\n"),
              HasSubstr("has no variant 'x'"));
  Write("int8.onnx", "changed");
  EXPECT_THAT(Why("mode = 'slo'\nvariants_json = 'variants.json'\n"),
              HasSubstr("not the file that was measured"));
}

TEST_F(RouteFiles, VariantsAreOfTheDeviceTheyWereMeasuredOn) {
  const auto listed = [&](const char* id, const char* quantization, const char* device) {
    const std::string path = Write(Cat(id, ".onnx"), id);
    const auto file = InputFile::Open(path);
    return Cat(R"({"id": ")", id, R"(", "path": ")", id, R"(.onnx", "quantization": ")",
               quantization, R"(", "device": )", device,
               R"(, "latency_ms": 1, "accuracy_score": 0.9, "accuracy_metric": "top-1", )",
               R"("model_sha256": "0", "sha256": ")", *Sha256Of(**file), R"("})");
  };
  Write("variants.json",
        Cat("[", listed("a", "none", R"("cpu")"), ",", listed("b", "full", R"("vulkan")"), "]"));
  const std::string by_device = "mode = 'affinity'\nby = 'device'\n";
  const std::string of = "variants_json = 'variants.json'\n";
  const auto all = Read(by_device + of);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->policy.variants[0].device, "cpu");
  EXPECT_EQ(all->policy.variants[1].device, "vulkan");
  const auto named = Read(by_device + of +
                          "[[variants]]\nname = 'a'\ndevice = 'vulkan:1'\n"
                          "[[variants]]\nname = 'b'\n");
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named->policy.variants[0].device, "vulkan:1");
  // Times are of one device; those of another are learnt from its first runs.
  for (const auto& [device, mine, other] : {std::tuple("cpu", 0, 1), {"vulkan", 1, 0}}) {
    const auto slo = Read("mode = 'slo'\n" + of, device);
    ASSERT_TRUE(slo.ok()) << slo.status().message();
    EXPECT_EQ(slo->policy.variants[static_cast<size_t>(mine)].run_ns, 1'000'000);
    EXPECT_FALSE(slo->policy.variants[static_cast<size_t>(other)].run_ns);
  }
  Write("variants.json", Cat("[", listed("a", "none", "7"), "]"));
  EXPECT_THAT(Why(by_device + of), HasSubstr("no variants.json"));
}

}  // namespace
}  // namespace infer
