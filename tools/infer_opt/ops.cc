/// infer-opt ops: the operators that we know, or everything about one.
#include <algorithm>

#include "lib/ir/op_name.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

std::string NameOf(const OpDef& def) { return FullOpName(def.domain, def.name); }

std::string_view KindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return "int";
    case AttrKind::kFloat: return "float";
    case AttrKind::kString: return "string";
    case AttrKind::kTensor: return "tensor";
    case AttrKind::kGraph: return "graph";
    case AttrKind::kInts: return "ints";
    case AttrKind::kFloats: return "floats";
    case AttrKind::kStrings: return "strings";
    case AttrKind::kType: return "type";
  }
  return "?";
}

std::string_view ArityName(Arity arity) {
  return arity == Arity::kOne ? "one" : arity == Arity::kOptional ? "optional" : "variadic";
}

std::string TypesText(TypeSet types) {
  std::vector<std::string> names;
  for (int i = 1; i < kNumDTypes; ++i)
    if (types.Has(static_cast<DType>(i))) names.emplace_back(Name(static_cast<DType>(i)));
  return Join(names, " ");
}

Json ParamsJson(const std::vector<ParamDef>& params) {
  Json out = Json::array();
  for (const ParamDef& p : params)
    out.push_back(
        {{"name", p.name}, {"type", p.type}, {"arity", ArityName(p.arity)}, {"since", p.since}});
  return out;
}

/// "default", for the kinds that JSON can say.
void AddDefault(const AttrValue& value, Json& attr) {
  std::visit(
      [&]<typename T>(const T& v) {
        if constexpr (!std::is_same_v<T, std::monostate> && !std::is_same_v<T, Tensor> &&
                      !std::is_same_v<T, ValueType>)
          attr["default"] = v;
      },
      value);
}

using Backends = std::vector<std::unique_ptr<Backend>>;

/// The devices that have kernels of their own for the operator.
std::vector<std::string_view> FastOn(const OpDef& def, const Backends& backends) {
  std::vector<std::string_view> out;
  for (const auto& b : backends)
    if (b->HasKernelFor(def)) out.push_back(b->name());
  return out;
}

Json OpJson(const OpDef& def, const Backends& backends) {
  Json attrs = Json::array();
  for (const AttrDef& a : def.attrs) {
    attrs.push_back({{"name", a.name},
                     {"kind", KindName(a.kind)},
                     {"required", a.required},
                     {"since", a.since}});
    AddDefault(a.default_value, attrs.back());
  }
  Json constraints = Json::object();
  for (const TypeConstraint& c : def.constraints)
    constraints[std::string(c.var)] = TypesText(c.types);
  return {{"name", def.name},
          {"domain", def.domain},
          {"doc", def.doc},
          {"since", def.since},
          {"versions", def.versions},
          {"retired", def.retired()},
          {"fused", !def.body.empty()},
          {"inputs", ParamsJson(def.inputs)},
          {"outputs", ParamsJson(def.outputs)},
          {"attributes", attrs},
          {"types", constraints},
          {"fast", FastOn(def, backends)}};
}

class OpsCommand : public Command {
 public:
  std::string_view name() const override { return "ops"; }
  std::string_view help() const override { return "List the operators, or show one"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt ops\n"
           "  infer-opt ops Conv\n"
           "  infer-opt ops Conv MatMul\n"
           "  infer-opt ops 'Reduce*' --json -\n";
  }
  void Declare(Options& o) override {
    o.Positional("pattern", &patterns_, "Names or globs; com.microsoft::* for other domains",
                 false);
  }

  Result<ExitCode> Run(Context& context) override {
    std::vector<const OpDef*> found;
    if (patterns_.empty()) patterns_ = {"*"};
    for (const std::string& pattern : patterns_) {
      bool matched = false;
      for (const OpDef* def : context.ops().all()) {
        if (!GlobMatch(pattern, NameOf(*def))) continue;
        matched = true;
        if (std::find(found.begin(), found.end(), def) == found.end()) found.push_back(def);
      }
      if (!matched) {
        std::vector<std::string> names;
        for (const OpDef* def : context.ops().all()) names.push_back(NameOf(*def));
        return InvalidArgument(
            Cat("no operator matches '", pattern, "'", DidYouMean(pattern, names)));
      }
    }
    std::sort(found.begin(), found.end(),
              [](const OpDef* a, const OpDef* b) { return NameOf(*a) < NameOf(*b); });
    Backends backends;
    for (const std::string& device : DeviceNames()) {
      INFER_ASSIGN(auto backend, UncheckedBackend(device));
      backends.push_back(std::move(backend));
    }
    if (found.size() == 1) {
      Show(context, *found[0], backends);
    } else {
      std::vector<std::vector<std::string>> rows = {{"operator", "versions", "what it does"}};
      for (const OpDef* def : found)
        rows.push_back({NameOf(*def), Cat(def->versions.front(), "..", def->versions.back()),
                        std::string(def->doc)});
      context.Print(TextTable(rows));
      context.PrintLine(Cat(found.size(), " operators"));
    }
    Json report = NewReport(context, "infer-opt/ops@1");
    report["operators"] = Json::array();
    for (const OpDef* def : found) report["operators"].push_back(OpJson(*def, backends));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  static void Show(Context& context, const OpDef& def, const Backends& backends) {
    context.PrintLine(Cat(NameOf(def), ": ", def.doc));
    context.PrintLine(
        Cat("versions    ", Join(def.versions, " "), "  (canonical form since ", def.since, ")"));
    const auto params = [&](std::string_view what, const std::vector<ParamDef>& list) {
      for (const ParamDef& p : list)
        context.PrintLine(Cat(what, p.name, ": ", p.type,
                              p.arity == Arity::kOne ? "" : Cat("  (", ArityName(p.arity), ")")));
    };
    params("input       ", def.inputs);
    params("output      ", def.outputs);
    for (const AttrDef& a : def.attrs)
      context.PrintLine(
          Cat("attribute   ", a.name, ": ", KindName(a.kind), a.required ? "  (required)" : ""));
    for (const TypeConstraint& c : def.constraints)
      context.PrintLine(Cat("type        ", c.var, " = ", TypesText(c.types)));
    const auto fast = FastOn(def, backends);
    context.PrintLine(Cat("fast on     ", fast.empty() ? "no device: the reference kernel runs it"
                                                       : Join(fast, ", ")));
    if (!def.body.empty()) context.PrintLine(Cat("body\n", def.body));
    if (!def.example.empty()) context.PrintLine(Cat("example\n", def.example));
  }

  std::vector<std::string> patterns_;
};

}  // namespace

std::unique_ptr<Command> MakeOpsCommand() { return std::make_unique<OpsCommand>(); }

}  // namespace infer
