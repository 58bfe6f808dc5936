#pragma once
/// Models of text, and the protobuf that export writes.
#include "lib/ir/text.h"
#include "lib/onnx/export.h"
#include "tests/lib/onnx/models.h"

namespace infer {

inline Model FromText(std::string_view text, const OpRegistry& ops = Ops()) {
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? Model(*std::move(g)) : Model(Graph(ops));
}

inline onnx::ModelProto ProtoOf(const Model& m, const ExportOptions& options = {}) {
  auto bytes = ExportModelBytes(m, options);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  onnx::ModelProto proto;
  if (bytes.ok()) {
    EXPECT_TRUE(proto.ParseFromString(*bytes));
  }
  return proto;
}

}  // namespace infer
