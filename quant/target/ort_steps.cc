#include "quant/target/ort_steps.h"

#include <algorithm>
#include <set>

#include "lib/ir/body.h"
#include "lib/ir/roles.h"
#include "quant/target/checks.h"

namespace infer {
namespace {

using target::OrtForms;

constexpr std::string_view kFamilies[] = {
    "call",  // of a run as a whole
    "conv f32",
    "conv1x1 f32",
    "few-channel conv f32",
    "grouped conv f32",
    "depthwise f32",
    "conv 1-d f32",
    "depthwise 1-d f32",
    "transposed conv f32",
    "product f32",
    "elements f32",
    "functions f32",
    "pool f32",
    "global pool f32",
    "softmax f32",
    "rows f32",
    "conv int8",
    "conv1x1 int8",
    "few-channel conv int8",
    "grouped conv int8",
    "depthwise int8",
    "product int8",
    "elements int8",
    "table int8",
    "average pool int8",
    "max pool int8",
    "max pool last int8",
    "global pool int8",
    "softmax int8",
    "concat int8",
    "move",
    "view",
    "layout",
    "quantize",
    "dequantize",
};

constexpr double kMillion = 1e6, kThousand = 1e3;
/// Blocked convolutions read inputs of fewer channels as they are.
constexpr int64_t kFewChannels = 8;
/// The first ONNX Runtime 1.x that quantizes the weights of a layer between codes itself.
constexpr int kQuantizesWeights = 21;
/// Of an integer kernel: its sum in i32 is written, and read where it becomes a code.
constexpr double kSumBytes = 8;

/// The order of elements in which a kernel leaves a result of channels and spatial axes.
enum class Layout : uint8_t { kPlain, kBlocked, kLast };

double ElementsOf(const Value* v) {
  if (!v || !v->type().is_tensor() || !v->tensor_type().is_static()) return 0;
  double n = 1;
  for (const Dim& d : v->shape().dims()) n *= static_cast<double>(d.value());
  return n;
}
int64_t ExtentOf(const Value* v, size_t axis) {
  if (!v || !v->shape().has_rank() || v->shape().dims().size() <= axis) return 0;
  const Dim& d = v->shape().dims()[axis];
  return d.is_static() ? d.value() : 0;
}
size_t RankOf(const Value* v) { return v && v->shape().has_rank() ? v->shape().dims().size() : 0; }
/// All elements in one order whatever the layout: one channel, or one position.
bool HasOneOrder(const Value* v) {
  if (ExtentOf(v, 1) == 1) return true;
  for (size_t axis = 2; axis < RankOf(v); ++axis)
    if (ExtentOf(v, axis) != 1) return false;
  return true;
}

class StepWriter {
 public:
  StepWriter(const Graph& g, const FileVersions& file, const Target& target) : g_(g) {
    TargetReport unused;
    target::CheckOrtForms(g, file, target, unused, &forms_);
    for (const auto& n : g.nodes())
      if (target.minor >= kQuantizesWeights && QuantizesWeightsOf(*n))
        forms_.emplace(n.get(), n->Is("Gemm") ? "QGemm" : "QLinearConv");
    for (const auto& [node, kernel] : forms_)
      if (kernel == "QGemm" && IsMatrixProduct(*node) && !TakesBias(*node))
        biased_.insert(node->output(0)->uses()[0].user);
  }

  std::vector<OrtStep> Write() && {
    steps_.push_back({"call"});
    for (const auto& n : g_.nodes()) Visit(*n);
    for (const Value* v : g_.outputs())
      if (v->producer()) Convert(v, Layout::kPlain, *v->producer(), sizeof(float));
    return std::move(steps_);
  }

 private:
  /// A layer in f32 whose neighbours are codes: its constant weights become codes when the file is
  /// loaded (ONNX Runtime's WeightBiasQuantization), and it is computed in integers.
  static bool QuantizesWeightsOf(const Node& n) {
    if (!(n.Is("Conv") || n.Is("Gemm")) || !target::QuantizedBy(n.output(0))) return false;
    const Node* x = target::DequantizedBy(n.input(0));
    if (!x || x->input(0)->is_constant() || !target::Is8Bit(x->input(0)->dtype())) return false;
    const Value* w = n.input(1);
    return w && (w->is_constant() || (w->producer() && MakesStoredWeights(*w->producer())));
  }

  // ---- which nodes are steps --------------------------------------------------------------------

  void Visit(const Node& n) {
    if (IsFolded(n)) return;
    if (IsInteger(n)) return Turns(n) ? void() : Integer(n);
    if (n.Is(Trait::kQuantize) || n.Is(Trait::kDequantize)) return Codes(n);
    if (IsTakenIn(n)) return Pass(n);
    if (Turns(n)) return;
    if (IsConvolution(n) || IsTransposedConvolution(n) || n.Is("FusedConv", kMicrosoft))
      return Convolve(n);
    if (IsMatrixProduct(n)) return Multiply(n);
    Float(n);
  }

  /// Made of constants and extents: done when the file is loaded. DequantizeLinear is left.
  bool IsFolded(const Node& n) {
    if (n.Is(Trait::kDequantize)) return false;
    const auto is_known = [&](const Value* v) { return !v || v->known() || folded_.contains(v); };
    const bool all = std::all_of(n.inputs().begin(), n.inputs().end(), is_known);
    const bool results = std::all_of(n.outputs().begin(), n.outputs().end(), is_known);
    if (!all && !results) return false;
    for (const Value* v : n.outputs())
      if (v) folded_.insert(v);
    return true;
  }

  bool IsInteger(const Node& n) const { return forms_.contains(&n); }

  /// Part of the integer kernel before it, or of all that read it.
  bool IsInKernel(const Node& n) const {
    if (n.Is(Trait::kDequantize)) {
      const Value* v = n.output(0);
      return v && !v->is_output() &&
             std::all_of(v->uses().begin(), v->uses().end(), [&](const Use& u) {
               return IsInteger(*u.user) || biased_.contains(u.user);
             });
    }
    const Value* x = n.input(0);
    if (!x || !x->producer()) return false;
    if (IsInteger(*x->producer()) || biased_.contains(x->producer()))
      return target::QuantizedBy(x) != nullptr;
    const Node* bound = x->producer();  // between an integer kernel and its QuantizeLinear
    const Value* y = ClampOf(*bound) ? bound->input(0) : nullptr;
    return y && y->producer() && IsInteger(*y->producer()) && target::QuantizedBy(y) == &n;
  }

  void Codes(const Node& n) {
    if (IsInKernel(n)) return Pass(n);
    const Value* x = n.input(0);
    if (x->is_constant()) {
      Add(n, "dequantize", 0, 5 * ElementsOf(n.output(0)));
      return;
    }
    Layout layout = LayoutOf(x);
    if (layout == Layout::kBlocked) {
      layout = Layout::kLast;
      Convert(x, layout, n, sizeof(float));
    }
    Add(n, n.Is(Trait::kQuantize) ? "quantize" : "dequantize", 0, 5 * ElementsOf(x));
    Leave(n, layout);
  }

  /// Epilogue of a convolution or product before it: bounds, the bias of a MatMul, a sum with
  /// another blocked value. Also bounds before the codes of an integer kernel.
  bool IsTakenIn(const Node& n) {
    const Value* x = n.input(0);
    if (x && x->producer() && IsInteger(*x->producer()) && ClampOf(n) && target::QuantizedBy(x))
      return true;
    if (biased_.contains(&n)) return true;
    for (const Value* v : n.inputs()) {
      const auto open = v ? open_.find(v) : open_.end();
      if (open == open_.end() || !v->has_one_use()) continue;
      const bool ends = target::Lists(" Relu Clip LeakyRelu ", n.op());
      if (!ends && !(n.Is(Trait::kSum) && !open->second.summed && Sums(n, *v, open->second)))
        continue;
      Open rest = open->second;
      rest.summed = true;
      open_.erase(open);
      if (!ends && n.output(0)) open_.emplace(n.output(0), rest);
      return true;
    }
    return false;
  }

  struct Open {
    size_t step = 0;
    bool blocked = false, summed = false;
  };
  /// Whether the kernel that makes `v` can add the other operand of `n`.
  bool Sums(const Node& n, const Value& v, const Open& open) {
    const Value* other = n.input(n.input(0) == &v ? 1 : 0);
    if (!other || other == &v) return false;
    if (!open.blocked) return other->is_constant() && !IsConvolution(*v.producer());
    if (LayoutOf(other) != Layout::kBlocked || ElementsOf(other) != ElementsOf(&v)) return false;
    steps_[open.step].kb += sizeof(float) * ElementsOf(other) / kThousand;
    return true;
  }

  // ---- f32 --------------------------------------------------------------------------------------

  void Convolve(const Node& n) {
    const Value *x = n.input(0), *w = n.input(1), *y = n.output(0);
    const bool planes = RankOf(x) == 4 && !IsTransposedConvolution(n);
    const std::string_view family = FloatConvFamily(n);
    if (planes && family != "few-channel conv f32" && family != "grouped conv f32")
      Convert(x, Layout::kBlocked, n, sizeof(float));
    else
      Convert(x, Layout::kPlain, n, sizeof(float));
    Add(n, family, FlopsOf(n), sizeof(float) * (ElementsOf(x) + ElementsOf(w) + ElementsOf(y)));
    const bool blocked = planes && family != "grouped conv f32";
    if (!blocked && !IsTransposedConvolution(n)) steps_.back().launches = GroupsOf(n);
    Leave(n, blocked ? Layout::kBlocked : Layout::kPlain);
    if (y) open_.emplace(y, Open{steps_.size() - 1, blocked, false});
  }

  static double GroupsOf(const Node& n) {
    return static_cast<double>(n.AttrOr<int64_t>("group", 1));
  }

  static std::string_view FloatConvFamily(const Node& n) {
    if (IsTransposedConvolution(n)) return "transposed conv f32";
    const Value *x = n.input(0), *w = n.input(1);
    const bool depthwise = ExtentOf(w, 1) == 1 && ExtentOf(x, 1) > 1;
    if (RankOf(x) != 4) return depthwise ? "depthwise 1-d f32" : "conv 1-d f32";
    if (depthwise) return "depthwise f32";
    if (n.Attr<int64_t>("group") > 1) return "grouped conv f32";
    if (ExtentOf(x, 1) < kFewChannels) return "few-channel conv f32";
    return IsPointwise(w) ? "conv1x1 f32" : "conv f32";
  }

  static bool IsPointwise(const Value* w) {
    for (size_t axis = 2; axis < RankOf(w); ++axis)
      if (ExtentOf(w, axis) != 1) return false;
    return true;
  }

  void Multiply(const Node& n) {
    ConvertAll(n, Layout::kPlain, sizeof(float));
    Add(n, "product f32", FlopsOf(n), sizeof(float) * Touched(n));
    Leave(n, Layout::kPlain);
    if (n.output(0)) open_.emplace(n.output(0), Open{steps_.size() - 1, false, false});
  }

  void Float(const Node& n) {
    const std::string_view family = FloatFamily(n);
    const Layout layout = IsTransparent(n) ? LayoutOfInputs(n) : Layout::kPlain;
    ConvertAll(n, layout, sizeof(float));
    if (family == "view")
      Add(n, family, 0, 0);
    else
      Add(n, family, IsPool(family) ? WindowsOf(n) : FlopsOf(n), sizeof(float) * Touched(n));
    Leave(n, layout);
  }

  static bool IsPool(std::string_view family) { return family.find("pool") != family.npos; }

  static std::string_view FloatFamily(const Node& n) {
    if (n.Is(Trait::kView)) return "view";
    if (n.Is(Trait::kPooling))
      return n.def().FindAttr("kernel_shape") ? "pool f32" : "global pool f32";
    if (n.IsAny(Trait::kContraction | Trait::kRecurrent)) return "product f32";
    if (n.Is(Trait::kSoftmax)) return "softmax f32";
    if (n.Is(Trait::kElementwise) || ClampOf(n) || IsCast(n)) return "elements f32";
    if (n.Is(Trait::kUnary)) return "functions f32";
    return n.IsAny(Trait::kMove | Trait::kStrided | Trait::kLookup | Trait::kSliceLookup)
               ? "move"
               : "rows f32";
  }

  // ---- integers ---------------------------------------------------------------------------------

  void Integer(const Node& n) {
    const std::string& kernel = forms_.find(&n)->second;
    const auto layout = n.Is(Trait::kContraction) && WeightLayoutOf(n);
    if (layout && WeightLayoutOf(n)->is_window) return ConvolveCodes(n);
    if (layout || n.Is(Trait::kContraction)) {
      ConvertAll(n, Layout::kPlain, 1);
      Add(n, kernel == "MatMulNBits" ? "product f32" : "product int8", FlopsOf(n),
          Touched(n) + kSumBytes * ElementsOf(n.output(0)));
      return Leave(n, Layout::kPlain);
    }
    const std::string_view family = IntegerFamily(n);
    const Layout kept = IsTransparent(n) ? LayoutOfInputs(n) : Layout::kPlain;
    ConvertAll(n, kept, 1);
    if (family == "max pool int8" && kept == Layout::kLast) {
      // Channels of a position lie together: an operation is the whole of them.
      const double channels = static_cast<double>(std::max<int64_t>(ExtentOf(n.input(0), 1), 1));
      Add(n, "max pool last int8", WindowsOf(n) / channels, WindowsOf(n));
    } else if (family == "view")
      Add(n, family, 0, 0);
    else
      Add(n, family, IsPool(family) ? WindowsOf(n) : FlopsOf(n), Touched(n));
    Leave(n, kept);
  }

  /// Columns of windows are copied first, but of depthwise ones.
  void ConvolveCodes(const Node& n) {
    const Value *x = n.input(0), *w = n.input(1), *y = n.output(0);
    const bool depthwise = ExtentOf(w, 1) == 1 && ExtentOf(x, 1) > 1;
    const bool pointwise = IsPointwise(w), few = ExtentOf(x, 1) < kFewChannels;
    const double groups = GroupsOf(n);
    Convert(x, Layout::kLast, n, 1);
    const double outs = static_cast<double>(std::max<int64_t>(ExtentOf(w, 0), 1));
    const double columns =
        pointwise || depthwise ? 0 : 2 * ElementsOf(y) / outs * ElementsOf(w) / outs * groups;
    Add(n,
        depthwise    ? "depthwise int8"
        : groups > 1 ? "grouped conv int8"
        : pointwise  ? "conv1x1 int8"
        : few        ? "few-channel conv int8"
                     : "conv int8",
        FlopsOf(n), ElementsOf(x) + ElementsOf(w) + columns + (1 + kSumBytes) * ElementsOf(y));
    if (groups > 1 && !depthwise) steps_.back().launches = groups;
    Leave(n, Layout::kLast);
  }

  static std::string_view IntegerFamily(const Node& n) {
    if (n.Is(Trait::kView)) return "view";
    if (n.Is(Trait::kConcatenation)) return "concat int8";
    if (n.Is(Trait::kSoftmax)) return "softmax int8";
    if (n.Is(Trait::kElementwise)) return "elements int8";
    if (n.Is(Trait::kPooling) && !n.def().FindAttr("kernel_shape")) return "global pool int8";
    if (n.Is(Trait::kPooling))
      return n.Is(Trait::kAdditive) ? "average pool int8" : "max pool int8";
    return n.Is(Trait::kUnary) ? "table int8" : "move";
  }

  // ---- amounts and layouts ----------------------------------------------------------------------

  void Add(const Node& n, std::string_view family, double operations, double bytes) {
    steps_.push_back({family, operations / kMillion, bytes / kThousand, 1, &n});
  }

  double FlopsOf(const Node& n) const {
    const auto is_static = [](const Value* v) {
      return !v || (v->type().is_tensor() && v->tensor_type().is_static());
    };
    if (!n.subgraphs().empty() || !std::all_of(n.inputs().begin(), n.inputs().end(), is_static) ||
        !std::all_of(n.outputs().begin(), n.outputs().end(), is_static))
      return 0;
    return static_cast<double>(CostOfNode(n, g_.ops()).flops);
  }
  static double Touched(const Node& n) {
    double all = 0;
    for (const Value* v : n.inputs()) all += ElementsOf(v);
    for (const Value* v : n.outputs()) all += ElementsOf(v);
    return all;
  }
  /// Elements that the windows of a pool read.
  static double WindowsOf(const Node& n) {
    if (!n.def().FindAttr("kernel_shape")) return ElementsOf(n.input(0));
    double window = 1;
    for (const int64_t k : n.AttrOr<std::vector<int64_t>>("kernel_shape", {}))
      window *= static_cast<double>(k);
    return window * ElementsOf(n.output(0));
  }

  /// Takes operands in any layout, where all have the same.
  static bool IsTransparent(const Node& n) {
    return RankOf(n.output(0)) > 2 && !n.Is(Trait::kView) &&
           (n.IsAny(Trait::kElementwise | Trait::kUnary | Trait::kPooling | Trait::kConcatenation));
  }
  Layout LayoutOf(const Value* v) const {
    const auto it = layouts_.find(v);
    return it == layouts_.end() ? Layout::kPlain : it->second;
  }
  Layout LayoutOfInputs(const Node& n) const {
    for (const Value* v : n.inputs())
      if (v && LayoutOf(v) != Layout::kPlain) return LayoutOf(v);
    return Layout::kPlain;
  }
  /// A permutation between channels first and channels last is a copy between layouts, or none.
  bool Turns(const Node& n) {
    const Value* x = n.input(0);
    if (!n.Is(Trait::kPermutation) || RankOf(x) < 3) return false;
    std::vector<int64_t> to_last = {0}, to_first = {0, static_cast<int64_t>(RankOf(x)) - 1};
    for (size_t axis = 2; axis < RankOf(x); ++axis) to_last.push_back(static_cast<int64_t>(axis));
    to_last.push_back(1);
    for (size_t axis = 1; axis + 1 < RankOf(x); ++axis)
      to_first.push_back(static_cast<int64_t>(axis));
    const std::vector<int64_t> perm = PermOf(n);
    if (perm == to_first && LayoutOf(x) == Layout::kPlain) {
      Leave(n, Layout::kLast);
      return true;
    }
    if (perm != to_last || LayoutOf(x) == Layout::kPlain) return false;
    Convert(x, Layout::kLast, n, IsInteger(n) ? 1 : sizeof(float));
    return true;
  }
  void Leave(const Node& n, Layout layout) {
    for (const Value* v : n.outputs())
      if (v && layout != Layout::kPlain) layouts_[v] = layout;
  }
  void Pass(const Node& n) { Leave(n, LayoutOfInputs(n)); }
  void ConvertAll(const Node& n, Layout to, double element_bytes) {
    for (const Value* v : n.inputs())
      if (v && !v->is_constant()) Convert(v, to, n, element_bytes);
  }
  void Convert(const Value* v, Layout to, const Node& reader, double element_bytes) {
    if (LayoutOf(v) == to || RankOf(v) < 3 || HasOneOrder(v)) return;
    if (!copies_.insert({v, to}).second) return;
    Add(reader, "layout", 0, 2 * element_bytes * ElementsOf(v));
  }

  const Graph& g_;
  OrtForms forms_;
  std::set<const Value*> folded_;
  std::set<const Node*> biased_;  ///< Adds that are the bias of an integer kernel
  std::map<const Value*, Open> open_;
  std::map<const Value*, Layout> layouts_;
  std::set<std::pair<const Value*, Layout>> copies_;
  std::vector<OrtStep> steps_;
};

}  // namespace

std::span<const std::string_view> OrtFamilies() { return kFamilies; }

std::vector<OrtStep> OrtStepsOf(const Graph& g, const FileVersions& file, const Target& target) {
  return StepWriter(g, file, target).Write();
}

}  // namespace infer
