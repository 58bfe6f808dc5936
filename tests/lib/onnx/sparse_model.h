#pragma once
/// Large models that take no disk space: the data of their tensors is a hole in the file.
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/lib/onnx/models.h"

namespace infer {

inline void PutVarint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}

/// A model x -> Identity -> y with one f32 initializer per entry of `elements`, each an output
/// "w<i>", its raw_data in the file. Zeros.
inline void WriteSparseModel(const std::string& path, const std::vector<int64_t>& elements) {
  onnx::ModelProto m = IdentityModel();
  std::vector<std::string> heads;  // tag, length and header of each initializer
  uint64_t graph_bytes = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::string name = "w" + std::to_string(i);
    SetTensorType(*m.mutable_graph()->add_output(), name, {elements[i]});
    onnx::TensorProto t;
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_dims(elements[i]);
    std::string header = t.SerializeAsString();
    const uint64_t data = static_cast<uint64_t>(elements[i]) * 4;
    PutVarint(header, 9 << 3 | 2);
    PutVarint(header, data);
    std::string head;
    PutVarint(head, 5 << 3 | 2);
    PutVarint(head, header.size() + data);
    heads.push_back(head + header);
    graph_bytes += heads.back().size() + data;
  }
  const std::string graph = m.graph().SerializeAsString();
  m.clear_graph();
  std::string bytes = m.SerializeAsString();
  PutVarint(bytes, 7 << 3 | 2);
  PutVarint(bytes, graph.size() + graph_bytes);
  bytes += graph;
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  auto at = static_cast<int64_t>(bytes.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    out.seekp(at);
    out << heads[i];
    at += static_cast<int64_t>(heads[i].size()) + elements[i] * 4;
  }
  out.close();
  ASSERT_EQ(truncate(path.c_str(), at), 0);
}

}  // namespace infer
