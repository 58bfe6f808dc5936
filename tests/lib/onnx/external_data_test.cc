/// External data: what is read beside a model, and every path that is refused.
#include "lib/onnx/external_data.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "lib/support/file.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

/// A folder with a model whose only tensor lies in external data, and a secret outside of it.
class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest() {
    std::filesystem::create_directories(top_ / "model/sub");
    std::ofstream(top_ / "secret") << std::string(8, 'S');
    std::ofstream(top_ / "model/weights") << std::string(16, 'w');
    std::ofstream(top_ / "model/sub/weights") << std::string(16, 'w');
  }

  onnx::ModelProto ModelWith(const std::string& location) {
    onnx::TensorProto t = Floats({2}, 0);
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    auto* e = t.add_external_data();
    e->set_key("location");
    e->set_value(location);
    return WithTensor(t);
  }

  Status Load(const onnx::ModelProto& m, const ImportOptions& options = {},
              const std::string& at = "model/m.onnx") {
    std::ofstream(top_ / at, std::ios::binary) << m.SerializeAsString();
    return ImportModel(top_ / at, Ops(), options).status();
  }

  void Set(onnx::ModelProto& m, const std::string& key, const std::string& value) {
    auto* e = m.mutable_graph()->mutable_initializer(0)->add_external_data();
    e->set_key(key);
    e->set_value(value);
  }

  TempDir top_;
};

TEST_F(ExternalDataTest, ReadsBesideAndBelowTheModel) {
  for (const char* location : {"weights", "./weights", "sub/weights", "sub//weights"}) {
    const Status s = Load(ModelWith(location));
    EXPECT_TRUE(s.ok()) << location << ": " << s.message();
  }
}

TEST_F(ExternalDataTest, RefusesEveryPathOut) {
  std::filesystem::create_symlink("../secret", top_ / "model/link");
  std::filesystem::create_symlink("..", top_ / "model/up");
  std::filesystem::create_symlink(top_.path(), top_ / "model/absolute");
  std::filesystem::create_symlink("weights", top_ / "model/inner_link");
  std::filesystem::create_hard_link(top_ / "secret", top_ / "model/hard");
  for (const std::string& location :
       {std::string("../secret"),         // CVE-2022-25882
        std::string("sub/../../secret"),  // CVE-2024-27318
        std::string("./../secret"), std::string("sub/../weights"), std::string("..\\secret"),
        std::string("/etc/passwd"), std::string("C:\\secret"), top_ / "secret",
        std::string("link"),  // CVE-2026-27489
        std::string("up/secret"), std::string("absolute/secret"), std::string("inner_link"),
        std::string("hard"), std::string(""), std::string("weights\0x", 9)}) {
    const Status s = Load(ModelWith(location));
    EXPECT_EQ(s.code(), Code::kInvalidModel) << location << ": " << s.message();
    EXPECT_THAT(s.message(), HasSubstr("external data"));
  }
  for (const char* location : {"absent", "sub", "."})
    EXPECT_EQ(Load(ModelWith(location)).code(), Code::kIo) << location;
}

/// `n` initializers "w<i>", each f32[2] in the external data that `entries` says, and outputs.
onnx::ModelProto Many(
    int n, const std::function<std::vector<std::pair<std::string, std::string>>(int)>& entries,
    int64_t elements = 2) {
  onnx::ModelProto m = IdentityModel();
  for (int i = 0; i < n; ++i) {
    auto& t = *m.mutable_graph()->add_initializer();
    t.set_name("w" + std::to_string(i));
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_dims(elements);
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries(i)) {
      auto* e = t.add_external_data();
      e->set_key(key);
      e->set_value(value);
    }
    SetTensorType(*m.mutable_graph()->add_output(), t.name(), {elements});
  }
  return m;
}

TEST_F(ExternalDataTest, ReadsATensorPerFileOfAnyNumber) {
  constexpr int kFiles = 2000;  // more than a process may usually have open
  for (int i = 0; i < kFiles; ++i) {
    const float values[] = {static_cast<float>(i), 0};
    std::ofstream(top_ / ("model/t" + std::to_string(i)), std::ios::binary)
        .write(reinterpret_cast<const char*>(values), sizeof values);
  }
  const onnx::ModelProto m = Many(kFiles, [](int i) {
    return std::vector<std::pair<std::string, std::string>>{
        {"location", "t" + std::to_string(i % 7 == 3 ? i / 2 : i)}};  // some come again
  });
  std::ofstream(top_ / "model/m.onnx", std::ios::binary) << m.SerializeAsString();
  const auto model = ImportModel(top_ / "model/m.onnx", Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (const Value* v : model->graph.outputs()) {
    if (v->name() == "y") continue;
    const int i = std::stoi(v->name().substr(1));
    ASSERT_TRUE(v->constant()) << v->name();
    EXPECT_EQ(v->constant()->At(0), i % 7 == 3 ? i / 2 : i);
  }
}

TEST_F(ExternalDataTest, TensorsOnOneRegionShareABuffer) {
  const onnx::ModelProto m = Many(3, [](int i) {
    return std::vector<std::pair<std::string, std::string>>{
        {"location", i == 1 ? "./weights" : "weights"}, {"offset", i == 2 ? "8" : "0"}};
  });
  std::ofstream(top_ / "model/m.onnx", std::ios::binary) << m.SerializeAsString();
  const auto model = ImportModel(top_ / "model/m.onnx", Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto data = [&](const char* name) {
    const Value* v = model->graph.FindValue(name);
    return v && v->constant() ? v->constant()->raw() : nullptr;
  };
  ASSERT_NE(data("w0"), nullptr);
  EXPECT_EQ(data("w0"), data("w1"));
  EXPECT_NE(data("w0"), data("w2"));
}

TEST_F(ExternalDataTest, RegionsThatOverlapDoNotGrowWithoutBound) {
  constexpr int64_t kElements = int64_t{1} << 20;
  std::ofstream(top_ / "model/big", std::ios::binary) << std::string(kElements * 4 + 4096, 'w');
  const auto overlapping = [&](int n, bool renamed) {
    const auto entries = [renamed](int i) {
      std::string name;  // ././big is the same file
      for (int k = 0; renamed && k < i; ++k) name += "./";
      return std::vector<std::pair<std::string, std::string>>{{"location", name + "big"},
                                                              {"offset", std::to_string(4 * i)}};
    };
    return Load(Many(n, entries, kElements));
  };
  const Status few = overlapping(4, false);
  EXPECT_TRUE(few.ok()) << few.message();
  for (const bool renamed : {false, true}) {
    const Status s = overlapping(100, renamed);
    EXPECT_EQ(s.code(), Code::kInvalidModel);
    EXPECT_THAT(s.message(), HasSubstr("overlap"));
  }
}

TEST_F(ExternalDataTest, RefusesTheModelItself) {
  EXPECT_THAT(Load(ModelWith("m.onnx")).message(), HasSubstr("it is the model file itself"));
}

TEST_F(ExternalDataTest, RefusesBadNumbers) {
  for (const char* offset : {"-1", "9", "1e3", "99999999999999999999", "0x1", " 1"}) {
    onnx::ModelProto m = ModelWith("weights");
    Set(m, "offset", offset);
    EXPECT_EQ(Load(m).code(), Code::kInvalidModel) << offset;
  }
  for (const char* length : {"-1", "7", "9", "9223372036854775807"}) {  // CVE-2026-34445
    onnx::ModelProto m = ModelWith("weights");
    Set(m, "length", length);
    EXPECT_EQ(Load(m).code(), Code::kInvalidModel) << length;
  }
  onnx::ModelProto m = ModelWith("weights");
  Set(m, "location", "sub/weights");
  EXPECT_EQ(Load(m).code(), Code::kInvalidModel);
  m = ModelWith("weights");
  Set(m, "offset", "8");
  Set(m, "length", "8");
  Set(m, "__class__", "anything");
  EXPECT_TRUE(Load(m).ok());
}

TEST_F(ExternalDataTest, ReadsAHuggingFaceCacheButNothingElseThroughIt) {
  std::filesystem::create_directories(top_ / "hub/blobs");
  std::filesystem::create_directories(top_ / "hub/snapshots/1");
  std::ofstream(top_ / "hub/blobs/bbb") << std::string(8, 'w');
  std::filesystem::create_symlink("../../blobs/aaa", top_ / "hub/snapshots/1/m.onnx");
  std::filesystem::create_symlink("../../blobs/bbb", top_ / "hub/snapshots/1/data");
  std::filesystem::create_symlink("../../../secret", top_ / "hub/snapshots/1/evil");
  auto load = [&](const std::string& location) {
    std::ofstream(top_ / "hub/blobs/aaa", std::ios::binary)
        << ModelWith(location).SerializeAsString();
    return ImportModel(top_ / "hub/snapshots/1/m.onnx", Ops()).status();
  };
  const Status s = load("data");
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(load("evil").code(), Code::kInvalidModel);
}

TEST_F(ExternalDataTest, TheUserMayNameOneMoreFolder) {
  std::filesystem::create_directories(top_ / "shared");
  std::ofstream(top_ / "shared/far") << std::string(8, 'w');
  EXPECT_EQ(Load(ModelWith("far")).code(), Code::kIo);
  ImportOptions options;
  options.external_root = top_ / "shared";
  const Status s = Load(ModelWith("far"), options);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(Load(ModelWith("../secret"), options).code(), Code::kInvalidModel);
}

TEST_F(ExternalDataTest, AModelInMemoryHasNone) {
  EXPECT_THAT(Refusal(ModelWith("weights")), HasSubstr("in memory"));
}

TEST_F(ExternalDataTest, WithoutLoadingNothingIsReadOrTaken) {
  onnx::ModelProto m = ModelWith("absent");
  m.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 36);  // 256 GiB
  ImportOptions options;
  options.load_external_data = false;
  const Status s = Load(m, options);
  EXPECT_TRUE(s.ok()) << s.message();
}

}  // namespace
}  // namespace infer
