#include "tests/judge/shapes/libonnx.h"

#include <onnx/shape_inference/implementation.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/judge/shapes/facts.h"

namespace infer::judge {
namespace {

using Elements = std::unordered_map<std::string, onnx::TensorShapeProto>;

/// The answer as a graph: types are value_info, elements inputs; the name tells whether strictly.
onnx::GraphProto Infer(onnx::ModelProto model) {
  const auto* schemas = onnx::OpSchemaRegistry::Instance();
  const onnx::ModelProto before = model;
  onnx::GraphProto answer;
  Elements elements;
  try {
    onnx::shape_inference::InferShapes(model, schemas, {true, 1, true}, &elements);
    answer.set_name("strict");
  } catch (const std::exception& e) {
    model = before;
    elements.clear();
    try {
      onnx::shape_inference::InferShapes(model, schemas, {false, 0, true}, &elements);
    } catch (const std::exception&) {
      model = before;
    }
  }
  for (auto& [name, type] : TypesOf(model.graph())) {
    auto* v = answer.add_value_info();
    v->set_name(name);
    *v->mutable_type() = type;
  }
  for (auto& [name, shape] : elements) {
    auto* v = answer.add_input();
    v->set_name(name);
    *v->mutable_type()->mutable_tensor_type()->mutable_shape() = shape;
  }
  return answer;
}

}  // namespace

Theirs InferTheirs(const onnx::ModelProto& model) {
  Theirs out;
  int fds[2];
  if (pipe(fds) != 0) return out;
  const pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    const bool written = Infer(model).SerializeToFileDescriptor(fds[1]);
    _exit(written ? 0 : 1);
  }
  close(fds[1]);
  onnx::GraphProto answer;
  const bool read = child > 0 && answer.ParseFromFileDescriptor(fds[0]);
  close(fds[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  out.crashed = !read || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (out.crashed) return out;
  out.strict = answer.name() == "strict";
  for (const auto& v : answer.value_info()) out.types[v.name()] = v.type();
  for (const auto& v : answer.input()) out.elements[v.name()] = v.type().tensor_type().shape();
  return out;
}

}  // namespace infer::judge
