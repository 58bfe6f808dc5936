#pragma once
/// OpDef: everything the project knows about one operator, in one constant. No graph here.
///
/// An operator has one *canonical* form, the one that inference, kernels and passes see: the newest
/// form in which what later opsets made an input is an input. Import lifts older forms to it
/// (`lift`), export lowers it where an older opset is asked for (`lower`).
#include <atomic>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/ops/axes.h"
#include "lib/ops/clamp.h"
#include "lib/ops/traits.h"
#include "lib/ops/weight_layout.h"
#include "lib/tensor/datum.h"

namespace infer {

/// FLOAT attributes are float in ONNX, so they are float here: export writes the same bits.
using AttrVariant =
    std::variant<std::monostate, int64_t, float, std::string, Tensor, ValueType,
                 std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;
/// The variant with its copies compiled once, as they are made in thousands of places.
class AttrValue : public AttrVariant {
 public:
  using AttrVariant::AttrVariant;
  AttrValue();
  AttrValue(const AttrValue&);
  AttrValue(AttrValue&&) noexcept;
  AttrValue& operator=(const AttrValue&);
  AttrValue& operator=(AttrValue&&) noexcept;
  ~AttrValue();
};
/// Attributes by name; the map with its copies compiled once.
class AttrMap : public std::map<std::string, AttrValue, std::less<>> {
 public:
  AttrMap();
  AttrMap(std::initializer_list<value_type> values);
  AttrMap(const AttrMap&);
  AttrMap(AttrMap&&) noexcept;
  AttrMap& operator=(const AttrMap&);
  AttrMap& operator=(AttrMap&&) noexcept;
  ~AttrMap();
};
bool operator==(const AttrMap& a, const AttrMap& b);  ///< tensors are compared bit by bit
uint64_t HashOf(const AttrMap& attrs);

struct OpDef;
struct PermutedCall;

/// The elements of an integer or bool tensor as Dims. Those that int64 cannot hold (u64 from 2^63
/// on) are unknown.
std::vector<Dim> ElementsOf(const Tensor& t);

/// What OpDef::prepare made of a node's attributes; empty until somebody asks. Thread-safe.
using PreparedSlot = std::atomic<std::shared_ptr<const void>>;

/// One application of an operator, seen without a graph: what inference, cost and kernels get.
/// In inference the outputs are written; everywhere else they are final.
class OpCall {
 public:
  OpCall(const OpDef& def, const AttrMap& attrs, size_t num_inputs, size_t num_outputs)
      : def_(&def), attrs_(&attrs), in_(num_inputs), out_(num_outputs) {}

  const OpDef& def() const { return *def_; }
  const AttrMap& attrs() const { return *attrs_; }
  bool HasAttr(std::string_view name) const { return attrs_->find(name) != attrs_->end(); }
  /// Attribute `name`, or the schema's default. Pre: one of the two exists with kind T.
  template <typename T>
  const T& Attr(std::string_view name) const;
  int64_t Int(std::string_view name) const { return Attr<int64_t>(name); }
  float Float(std::string_view name) const { return Attr<float>(name); }
  const std::string& Str(std::string_view name) const { return Attr<std::string>(name); }
  const std::vector<int64_t>& Ints(std::string_view name) const {
    return Attr<std::vector<int64_t>>(name);
  }

  size_t num_inputs() const { return in_.size(); }    ///< as written, omitted ones included
  size_t num_outputs() const { return out_.size(); }  ///< as written, omitted ones included
  bool has_input(size_t i) const { return i < in_.size() && in_[i].type; }
  /// Type of input i. Pre: has_input(i).
  const ValueType& type(size_t i) const {
    INFER_CHECK(has_input(i));
    return *in_[i].type;
  }
  const TensorType& in(size_t i) const { return type(i).tensor(); }  ///< Pre: a tensor
  const Shape& shape(size_t i) const { return in(i).shape; }
  DType dtype(size_t i) const { return in(i).dtype; }
  /// The value of input i where it is known before the run; nullptr else.
  const Tensor* constant(size_t i) const { return i < in_.size() ? in_[i].constant : nullptr; }
  /// Elements of a small integer tensor (rank <= 1) as far as they are known; from a constant or
  /// propagated through Shape, Gather, Concat, ... Empty optional: nothing known.
  std::optional<std::vector<Dim>> elements(size_t i) const;

  /// Output side.
  const ValueType& out_type(size_t i) const { return out_[i].type; }
  const TensorType& out(size_t i) const { return out_[i].type.tensor(); }
  void SetOut(size_t i, ValueType t) {  ///< ignored when output i is not wanted
    if (i < out_.size()) out_[i].type = std::move(t);
  }
  void SetOut(size_t i, DType dtype, Shape shape) {
    SetOut(i, TensorType{dtype, std::move(shape)});
  }
  /// Data propagation: the elements of integer output i (rank <= 1), unknown ones as Dim().
  void SetElements(size_t i, std::vector<Dim> elements) {
    if (i < out_.size()) out_[i].elements = std::move(elements);
  }
  const std::optional<std::vector<Dim>>& out_elements(size_t i) const { return out_[i].elements; }

  /// What OpDef::prepare makes of the attributes, of the type that it makes; once for a node, where
  /// the call is of one. Errors: those of `prepare`. Pre: the operator has it, and the attributes
  /// are of the schema's kinds.
  template <typename T>
  Result<std::shared_ptr<const T>> Prepared() const {
    INFER_ASSIGN(std::shared_ptr<const void> made, PreparedOnce());
    return std::static_pointer_cast<const T>(std::move(made));
  }

  /// For whoever builds the call.
  void BindInput(size_t i, const ValueType* type, const Tensor* constant = nullptr,
                 const std::vector<Dim>* elements = nullptr) {
    in_[i] = {type, constant, elements};
  }
  void BindPrepared(PreparedSlot& slot) { prepared_ = &slot; }  ///< outlives the call

 private:
  struct In {
    const ValueType* type = nullptr;
    const Tensor* constant = nullptr;
    const std::vector<Dim>* elements = nullptr;
  };
  struct Out {
    ValueType type;
    std::optional<std::vector<Dim>> elements;
  };
  Result<std::shared_ptr<const void>> PreparedOnce() const;

  const OpDef* def_;
  const AttrMap* attrs_;
  std::vector<In> in_;
  std::vector<Out> out_;
  PreparedSlot* prepared_ = nullptr;
};

/// One run of a reference kernel: inputs in, outputs made by the kernel.
class OpRun {
 public:
  OpRun(const OpCall& call, std::span<const Datum* const> inputs, size_t num_outputs)
      : call_(call), inputs_(inputs), outputs_(num_outputs) {}
  const OpCall& call() const { return call_; }
  template <typename T>
  const T& Attr(std::string_view name) const {
    return call_.Attr<T>(name);
  }
  int64_t Int(std::string_view name) const { return call_.Int(name); }
  float Float(std::string_view name) const { return call_.Float(name); }
  const std::string& Str(std::string_view name) const { return call_.Str(name); }
  const std::vector<int64_t>& Ints(std::string_view name) const { return call_.Ints(name); }

  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  const Tensor& in(size_t i) const {  ///< Pre: has(i), a tensor
    INFER_CHECK(has(i));
    return inputs_[i]->tensor();
  }
  const Tensor* in_or_null(size_t i) const { return has(i) ? &inputs_[i]->tensor() : nullptr; }
  const Datum& datum(size_t i) const {
    INFER_CHECK(has(i));
    return *inputs_[i];
  }
  /// Makes output i, uninitialised. The reference is valid until the next Out/Set of the same i.
  Tensor& Out(size_t i, DType dtype, Dims dims);
  void Set(size_t i, Datum value) {
    if (i < outputs_.size()) outputs_[i] = std::move(value);
  }
  std::vector<Datum>& outputs() { return outputs_; }

 private:
  const OpCall& call_;
  std::span<const Datum* const> inputs_;
  std::vector<Datum> outputs_;
  Tensor spare_;  // what a kernel writes when nobody wants the output
};

/// Work and traffic of one call. Time is the executor's business, not the operator's.
struct Cost {
  int64_t flops = 0;  ///< multiply and add count as two; comparisons, copies as none
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

/// An operator application by names only, as files have it. Subgraphs are not here: control flow
/// has no older forms that differ.
struct NodeSpec {
  std::string domain, op, name;
  std::vector<std::string> inputs, outputs;  ///< "" = omitted
  AttrMap attrs;
};

/// What a lift or lower function may ask for and make.
class LiftContext {
 public:
  virtual ~LiftContext() = default;
  /// Adds a node; it is itself final (not lifted again).
  virtual void Emit(NodeSpec node) = 0;
  /// A new constant's name.
  virtual std::string Constant(Tensor t) = 0;
  /// A value name that is not taken, starting with `hint`.
  virtual std::string Fresh(std::string_view hint) = 0;
  /// The value of `name` where it is constant; nullptr else.
  virtual const Tensor* ConstantValue(const std::string& name) = 0;
  /// What is known of the type of `name` so far; nullptr for nothing.
  virtual const ValueType* Type(const std::string& name) = 0;
};

/// How often a parameter may stand.
enum class Arity : uint8_t { kOne, kOptional, kVariadic };
struct ParamDef {
  std::string_view name;
  std::string_view type;  ///< a variable of `constraints` ("T") or a type string ("i64", "seq(T)")
  Arity arity = Arity::kOne;
  int since = 1;               ///< the opset that introduced it, if later than the operator
  bool heterogeneous = false;  ///< variadic, and each operand has a type of its own
};
enum class AttrKind : uint8_t {
  kInt,
  kFloat,
  kString,
  kTensor,
  kGraph,
  kInts,
  kFloats,
  kStrings,
  kType
};
struct AttrDef {
  std::string_view name;
  AttrKind kind;
  AttrValue default_value = {};  ///< monostate: none
  bool required = false;
  int since = 1;  ///< the opset that introduced it, for the exporter's choice of opset
};
struct TypeConstraint {
  std::string_view var;
  TypeSet types;          ///< element types, where the value is a tensor
  bool any_kind = false;  ///< sequences, optionals and maps as well, not tensors alone
};

/// Domain of ONNX Runtime's own operators.
inline constexpr std::string_view kMicrosoft = "com.microsoft";

struct OpDef {
  using InferFn = Status (*)(OpCall&);
  using ReferenceFn = Status (*)(OpRun&);
  using PrepareFn = Result<std::shared_ptr<const void>> (*)(const OpCall&);
  using CostFn = Cost (*)(const OpCall&);
  using LiftFn = Status (*)(NodeSpec node, int opset, LiftContext& out);
  using DecomposeFn = Result<std::string> (*)(const OpCall& call);
  using AxesFn = void (*)(const OpCall& call, AxisLinks& links);
  using PermuteFn = std::optional<PermutedCall> (*)(const OpCall& call,
                                                    const std::vector<int64_t>& perm,
                                                    PermutedCall to);
  using WeightsFn = WeightLayout (*)(const OpCall& call);
  using ClampFn = std::optional<Clamp> (*)(const OpCall& call);
  using LowerFn = Result<NodeSpec> (*)(NodeSpec node, int opset, LiftContext& out);

  std::string_view name;
  std::string_view domain = "";  ///< "" is ai.onnx; "com.microsoft", "ai.onnx.ml", "infer"
  std::string_view doc;          ///< one line; docs/operators.md is generated from it
  Traits traits = {};            ///< what the operator is; every one has some
  /// The links between axes of a call (AxesOf); nullptr: those of its traits, where it is unary,
  /// element-wise or a view, else none.
  AxesFn axes = nullptr;
  /// The call with its operands in another order of axes (lib/ops/move/permute.h), where the
  /// operator names axes; nullptr where it does not, or works in one order only.
  PermuteFn permute = nullptr;
  int since = 1;  ///< lowest opset of `domain` in which the canonical form is valid
  /// Every schema version of the operator that import accepts, ascending; what older ones lack or
  /// do otherwise is `lift`'s business.
  std::vector<int> versions = {1};
  std::vector<ParamDef> inputs = {};
  std::vector<ParamDef> outputs = {};
  std::vector<AttrDef> attrs = {};
  std::vector<TypeConstraint> constraints = {};
  bool commutative = false;   ///< inputs 0 and 1 may be swapped
  bool deterministic = true;  ///< false: random, never folded or merged
  double tolerance = 1e-5;    ///< allowed max|d| / max|ref| of a fast f32 kernel or rewrite
  /// Sets the output types (and elements) from the inputs. InvalidModel when ill-typed. Shapes may
  /// be unknown; what cannot be said is left out.
  InferFn infer = nullptr;
  /// The plain, obviously right kernel: the oracle of every other one and the fall-back. Sums in
  /// double where the result is f32. Runs only after `infer` accepted the actual types.
  ReferenceFn reference = nullptr;
  /// Of operators whose attributes are a model of their own, which must not be read in each run:
  /// what `infer` and `reference` work with (OpCall::Prepared). Looks at attributes alone.
  PrepareFn prepare = nullptr;
  CostFn cost = nullptr;  ///< nullptr: no FLOPs, reads inputs and writes outputs once
  WeightsFn weights =
      nullptr;  ///< of operators that multiply input 0 by weights, input 1; from attributes alone
  /// Of operators that hold input 0 within bounds: these; nullopt where one comes with the run.
  ClampFn clamp = nullptr;
  LiftFn lift = nullptr;
  LowerFn lower = nullptr;
  /// A fused operator's meaning as a graph in text form (ir/text.h); @name stands for an attribute.
  /// With a body, infer and reference may be nullptr: they follow from it (ir/body.h).
  std::string_view body = "";
  /// The standard's definition of the operator as a function: a graph in text form over older
  /// operators, for this call's attributes, operands (those that are there, in order) and types.
  /// Export writes it for an opset that lacks the operator; tests hold `reference` against it.
  /// Unsupported where too little is known, or for a case that has no such form.
  DecomposeFn decompose = nullptr;
  /// A text graph that uses the operator; every backend runs it.
  std::string_view example = "";

  bool retired() const { return !infer && body.empty() && lift; }  ///< exists only to be lifted
  const AttrDef* FindAttr(std::string_view attr) const;
  size_t min_inputs() const;
  size_t max_inputs() const;  ///< SIZE_MAX when variadic
  size_t min_outputs() const;
  size_t max_outputs() const;
};

/// `def`, of which more holds.
inline OpDef Also(Traits more, OpDef def) {
  def.traits = def.traits | more;
  return def;
}

/// FLOPs and bytes of a call whose types are static; the default traffic when def.cost is null.
Cost CostOf(const OpCall& call);
/// Bytes of all inputs and outputs; 0 where unknown.
Cost TrafficOf(const OpCall& call);
/// Checks arity, attribute names and kinds, and type constraints. InvalidModel names the breach.
Status CheckSchema(const OpCall& call);

template <typename T>
const T& OpCall::Attr(std::string_view name) const {
  const AttrValue* value = nullptr;
  if (auto it = attrs_->find(name); it != attrs_->end()) {
    value = &it->second;
  } else if (const AttrDef* a = def_->FindAttr(name)) {
    value = &a->default_value;
  }
  INFER_CHECK(value && std::holds_alternative<T>(*value));
  return std::get<T>(*value);
}

/// An immutable set of OpDefs. Built once by the tool and passed down; there is no global one.
class OpRegistry {
 public:
  explicit OpRegistry(std::span<const std::span<const OpDef>> families);
  const OpDef* Find(std::string_view domain, std::string_view name) const;
  const OpDef* Find(std::string_view name) const { return Find("", name); }
  std::span<const OpDef* const> all() const { return ordered_; }

 private:
  std::map<std::pair<std::string_view, std::string_view>, const OpDef*> by_name_;
  std::vector<const OpDef*> ordered_;
};

}  // namespace infer
