/// Tensors beside the model's file, and those of many zeros.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lib/ir/editor.h"
#include "lib/support/file.h"
#include "tests/lib/onnx/exported.h"

namespace infer {
namespace {

TEST(Export, MovesTensorsToExternalData) {
  const Model m = FromText(R"(graph g() -> (a, b, c) {
    w = const f32[1000] ~1
    v = const f64[301] {)" +
                           [] {
                             std::string s = "0";
                             for (int i = 1; i < 301; ++i) s += ", " + std::to_string(i);
                             return s;
                           }() +
                           R"(}
    small = const f32[2] {1, 2}
    a = Identity(w)
    b = Identity(v)
    c = Identity(small)
  })");
  TempDir dir;
  ExportOptions options;
  options.force_external = true;
  auto report = ExportModel(m, dir / "m.onnx", options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->external_bytes, 4032 + 301 * 8);
  EXPECT_EQ(report->file_bytes, static_cast<int64_t>(std::filesystem::file_size(dir / "m.onnx")));
  EXPECT_LT(report->file_bytes, 1000);
  auto again = ImportModel(dir / "m.onnx", Ops());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Fingerprint(again->graph), Fingerprint(m.graph));
  EXPECT_EQ(again->info.source_files.size(), 2u);
  EXPECT_EQ(again->info.sha256.size(), 64u);
  // The same model in the same place has the same name; nothing is left behind.
  ASSERT_TRUE(ExportModel(m, dir / "m.onnx", options).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 2);
}

/// A place costs 8 bytes: 2 of 3 elements of f32 and 8 of 9 of 8 bits have to be zero. A constant
/// that the graph returns stays whole. What is read back is what was written, to the bit.
TEST(Export, ConstantsOfManyZerosAsValuesAndPlaces) {
  const auto floats = [](int64_t count, int64_t every) {
    std::vector<float> v(static_cast<size_t>(count), 0.0f);
    for (int64_t i = 0; i < count; i += every)
      v[static_cast<size_t>(i)] = i % 2 == 0 ? -0.0f : 0.1f * static_cast<float>(i);
    return Tensor::Of<float>({count / 40, 40}, v);
  };
  const auto codes = [](int64_t count, int64_t every) {
    std::vector<int8_t> v(static_cast<size_t>(count), 0);
    for (int64_t i = 0; i < count; i += every)
      v[static_cast<size_t>(i)] = static_cast<int8_t>(i % 127 + 1);
    return Tensor::Of<int8_t>({count / 40, 40}, v);
  };
  Model m = FromText("graph g(x: f32[1]) -> (y) { y = Relu(x) }");
  const std::vector<Tensor> constants = {floats(4000, 4), floats(4000, 2),
                                         codes(4000, 10), codes(4000, 5),
                                         floats(40, 1),   Tensor::Zeros(DType::kF32, {50, 40})};
  {
    GraphEditor editor(m.graph);
    for (const Tensor& t : constants)
      editor.MarkOutput(*editor.Add("Identity", {editor.AddConstant(t)}));
    editor.MarkOutput(editor.AddConstant(floats(8000, 4)));
  }
  m.info.ir_version = 4;
  m.info.opsets[""] = 9;
  const ExportOptions sparse{.keep_versions = true, .sparse_constants = true};
  const onnx::ModelProto p = ProtoOf(m, sparse), whole = ProtoOf(m, {.keep_versions = true});
  EXPECT_EQ(p.graph().sparse_initializer_size(), 2);
  EXPECT_EQ(p.graph().initializer_size(), 5);
  EXPECT_EQ(p.ir_version(), 5);
  EXPECT_EQ(whole.graph().sparse_initializer_size(), 0);
  const auto plan = PlanExport(m, sparse);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->sparse.sparse, 2);
  EXPECT_EQ(plan->sparse.dense, 2);
  EXPECT_NEAR(static_cast<double>(whole.ByteSizeLong() - p.ByteSizeLong()),
              static_cast<double>(plan->sparse.saved_bytes), 2 * 64);
  const auto again = ImportModelBytes(p.SerializeAsString(), Ops());
  ASSERT_TRUE(again.ok()) << again.status().message();
  for (size_t i = 0; i < constants.size(); ++i) {
    const Node* const reads = again->graph.outputs()[i + 1]->producer();
    ASSERT_TRUE(reads);
    const Tensor* t = reads->input(0)->constant();
    ASSERT_TRUE(t);
    ASSERT_EQ(t->dims(), constants[i].dims());
    EXPECT_EQ(std::memcmp(t->raw(), constants[i].raw(), static_cast<size_t>(t->byte_size())), 0)
        << i;
  }
}

TEST(Export, NeverWritesOverAnInput) {
  TempDir dir;
  const std::string bytes = IdentityModel().SerializeAsString();
  std::ofstream(dir / "m.onnx", std::ios::binary) << bytes;
  std::filesystem::create_symlink("m.onnx", dir / "link.onnx");
  auto m = ImportModel(dir / "link.onnx", Ops());
  ASSERT_TRUE(m.ok()) << m.status().message();
  for (const char* name : {"m.onnx", "link.onnx", "./m.onnx"})
    EXPECT_EQ(ExportModel(*m, dir / name).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(*ReadFile(dir / "m.onnx"), bytes);
  EXPECT_TRUE(ExportModel(*m, dir / "other.onnx").ok());
}

}  // namespace
}  // namespace infer
