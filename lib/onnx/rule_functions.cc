#include "lib/onnx/rule_functions.h"

#include <onnx/onnx-data_pb.h>

#include <algorithm>
#include <map>

#include "lib/ir/op_name.h"
#include "lib/ir/text_literals.h"
#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/functions.h"
#include "lib/onnx/wire.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: this file is one of its public faces

struct FunctionPair {
  std::string doc;
  std::map<std::string, std::string> matches;  // by the function's name
  std::string replacement;
};

/// Writes functions as graphs in text form.
class FunctionPrinter {
 public:
  FunctionPrinter(const OpRegistry& ops, const TensorReader& tensors, Opsets model_opsets)
      : ops_(ops), tensors_(tensors), model_opsets_(std::move(model_opsets)) {}

  Result<std::string> operator()(const onnx::FunctionProto& f) const {
    Opsets opsets = OpsetsOf(f.opset_import());
    opsets.insert(model_opsets_.begin(), model_opsets_.end());
    std::string text = Cat("graph g(", Names(f.input()), ") -> (", Names(f.output()), ") {\n");
    for (const onnx::NodeProto& n : f.node()) {
      INFER_ASSIGN(const std::string line, Line(n, opsets));
      text += Cat("    ", line, "\n");
    }
    return text + "  }";
  }

 private:
  static std::string Names(const google::protobuf::RepeatedPtrField<std::string>& names) {
    std::vector<std::string> printed;
    for (const std::string& name : names) printed.push_back(name.empty() ? "_" : PrintName(name));
    return Join(printed, ", ");
  }

  Result<std::string> Line(const onnx::NodeProto& n, const Opsets& opsets) const {
    const std::string domain = CanonicalDomain(n.domain());
    const std::string results = Names(n.output());
    if (domain.empty() && n.op_type() == "Constant") {
      if (n.attribute_size() != 1) return InvalidModel("a Constant has one attribute");
      INFER_ASSIGN(const AttrValue value, FromAttribute(n.attribute(0), tensors_, kMaxRank));
      const Tensor t = ConstantOf(value);
      if (!t.defined()) return Unsupported("a Constant that is no tensor");
      return Cat(results, " = ", PrintConstant(t));
    }
    const OpDef* def = ops_.Find(domain, n.op_type());
    if (!def) return Unsupported(Cat("no operator ", FullOpName(domain, n.op_type())));
    const auto opset = opsets.find(domain);
    if (domain.empty() && (opset == opsets.end() || opset->second < def->since))
      return Unsupported(Cat(n.op_type(), " has had another form before opset ", def->since,
                             ": write the function for that opset or a newer one"));
    std::vector<std::string> attributes;
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (!a.ref_attr_name().empty()) {
        attributes.push_back(Cat(PrintName(a.name()), "=$", PrintName(a.ref_attr_name())));
        continue;
      }
      if (a.has_g() || a.graphs_size() > 0) return Unsupported("subgraphs in a rule");
      INFER_ASSIGN(const AttrValue value, FromAttribute(a, tensors_, kMaxRank));
      attributes.push_back(Cat(PrintName(a.name()), "=", PrintAttribute(value)));
    }
    return Cat(
        results, " = ", domain.empty() ? "" : PrintName(domain) + "::", PrintName(n.op_type()), "(",
        Names(n.input()), ")", attributes.empty() ? "" : Cat(" {", Join(attributes, ", "), "}"));
  }

  static constexpr int64_t kMaxRank = 32;
  const OpRegistry& ops_;
  const TensorReader& tensors_;
  const Opsets model_opsets_;
};

std::string Print(const std::map<std::string, FunctionPair>& rules) {
  std::string text;
  for (const auto& [name, rule] : rules) {
    text += Cat("rule ", name, " ", rule.doc.empty() ? "" : PrintAttribute(rule.doc), " {\n");
    for (const auto& [function, match] : rule.matches) text += Cat("  match ", match, "\n");
    text += Cat("  replace ", rule.replacement, "\n}\n");
  }
  return text;
}

}  // namespace

Result<std::string> RulesFromFunctions(const std::string& path, const OpRegistry& ops) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  INFER_ASSIGN(const SlimMessage slim, Scan(*file, onnx_io::Message::kModel, ScanLimits()));
  onnx::ModelProto model;
  if (!model.ParseFromArray(slim.bytes.data(), static_cast<int>(slim.bytes.size())))
    return InvalidModel(Cat(path, ": not an ONNX model"));
  ExternalData external;
  const ImportOptions options;
  const TensorReader tensors(*file, slim, external, options);
  const FunctionPrinter print(ops, tensors, OpsetsOf(model.opset_import()));
  std::map<std::string, FunctionPair> rules;
  for (const onnx::FunctionProto& f : model.functions()) {
    const size_t at = f.name().rfind("__");
    if (at == std::string::npos) continue;
    const std::string role = f.name().substr(at + 2);
    const bool is_match = role.starts_with("match");
    if (!is_match && role != "replace") continue;
    auto text = print(f);
    if (!text.ok()) return text.status().In(Cat(path, ": function '", f.name(), "'"));
    FunctionPair& rule = rules[f.name().substr(0, at)];
    if (is_match && rule.doc.empty()) rule.doc = f.doc_string();
    (is_match ? rule.matches[role] : rule.replacement) = *std::move(text);
  }
  if (rules.empty())
    return InvalidModel(Cat(path, ": there are no functions NAME__match and NAME__replace"));
  for (const auto& [name, rule] : rules)
    if (rule.matches.empty() || rule.replacement.empty())
      return InvalidModel(Cat(path, ": '", name, "' has no function ", name,
                              rule.matches.empty() ? "__match" : "__replace"));
  return Print(rules);
}

}  // namespace infer
