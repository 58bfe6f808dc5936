/// Models above 2 GiB: external data in and out. Needs 2.5 GB of memory and of disk.
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include "lib/ir/editor.h"
#include "lib/onnx/export.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

constexpr int64_t kElements = 600'000'000;  // 2.4 GB of f32

TEST(LargeModel, ExternalDataInAndOut) {
  TempDir dir;
  onnx::ModelProto proto = EmptyModel();
  auto& t = *proto.mutable_graph()->add_initializer();
  t.set_name("w");
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(kElements);
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* e = t.add_external_data();
  e->set_key("location");
  e->set_value("weights");
  AddNode(*proto.mutable_graph(), "Identity", {"w"}, {"y"});
  proto.mutable_graph()->mutable_output(0)->clear_type();
  std::ofstream(dir / "weights") << "x";
  std::filesystem::resize_file(dir / "weights", kElements * 4);
  std::ofstream(dir / "m.onnx", std::ios::binary) << proto.SerializeAsString();

  auto m = ImportModel(dir / "m.onnx", Ops());
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_FALSE(ExportModelBytes(*m).ok());
  auto report = ExportModel(*m, dir / "out.onnx");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->external_bytes, kElements * 4);
  ImportOptions light;
  light.load_external_data = false;
  auto again = ImportModel(dir / "out.onnx", Ops(), light);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->graph.FindValue("w")->constant()->num_elements(), kElements);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 4);
}

}  // namespace
}  // namespace infer
