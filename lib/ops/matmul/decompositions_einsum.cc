/// Einsum in terms of MatMul, Mul, ReduceSum and moves: what every backend has a fast kernel for.
#include <algorithm>
#include <optional>

#include "lib/ops/common.h"
#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/matmul/einsum.h"

namespace infer {
namespace {

using Letters = std::string;

bool IsIn(char c, const Letters& letters) { return letters.find(c) != Letters::npos; }
Letters Common(const Letters& term, const Letters& of) {
  Letters out;
  for (const char c : term)
    if (IsIn(c, of)) out += c;
  return out;
}
Letters Without(const Letters& term, const Letters& of) {
  Letters out;
  for (const char c : term)
    if (!IsIn(c, of)) out += c;
  return out;
}

/// A value of the body, the letters of its axes and their extents.
struct Lettered {
  std::string name;
  Letters axes;
  std::vector<Dim> dims;

  const Dim& extent(char c) const { return dims[axes.find(c)]; }
};

/// The extent of a letter of one or both: what is 1 broadcasts.
Dim Joined(const Lettered& x, const Lettered& y, char c) {
  if (!IsIn(c, y.axes)) return x.extent(c);
  if (!IsIn(c, x.axes) || x.extent(c) == Dim(1)) return y.extent(c);
  return y.extent(c) == Dim(1) || x.extent(c).is_static() ? x.extent(c) : y.extent(c);
}

class EinsumText {
 public:
  EinsumText(const OpCall& call, EinsumEquation e) : body_(call), out_(std::move(e.out)) {
    for (size_t i = 0; i < e.terms.size(); ++i)
      operands_.push_back({Cat("x", i), std::move(e.terms[i]), call.shape(i).dims()});
  }

  Result<std::string> Text() {
    while (operands_.size() > 1) INFER_TRY(Join());
    Lettered& y = operands_.front();
    SumAway(y, out_);
    Arrange(y, out_);
    if (y.name.starts_with('x')) y.name = Add("Identity", {y.name});  // has a name of its own
    return body_.Graph(y.name);
  }

 private:
  /// Two operands become one: those whose product is smallest, the first of equals.
  Status Join() {
    size_t left = 0, right = 1;
    double least = 0;
    for (size_t i = 0; i < operands_.size(); ++i)
      for (size_t j = i + 1; j < operands_.size(); ++j) {
        const double size = SizeOf(operands_[i], operands_[j], Kept(i, j));
        if (i + j > 1 && size >= least) continue;
        least = size;
        left = i;
        right = j;
      }
    const Letters kept = Kept(left, right);
    INFER_ASSIGN(Lettered joined, Product(operands_[left], operands_[right], kept));
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(right));
    operands_[left] = std::move(joined);
    return {};
  }

  /// Letters of operands i and j that the result or another operand has, in the result's order.
  Letters Kept(size_t i, size_t j) const {
    Letters wanted = out_;
    for (size_t k = 0; k < operands_.size(); ++k)
      if (k != i && k != j) wanted += Without(operands_[k].axes, wanted);
    return Common(wanted, operands_[i].axes + operands_[j].axes);
  }
  static double SizeOf(const Lettered& x, const Lettered& y, const Letters& kept) {
    constexpr double kGuess = 64;  // of an extent that is not known
    double size = 1;
    for (const char c : kept) {
      const Dim d = Joined(x, y, c);
      size *= d.is_static() ? static_cast<double>(d.value()) : kGuess;
    }
    return size;
  }

  /// The sum of products of x and y over all letters but `kept`, whose order the result has.
  Result<Lettered> Product(Lettered x, Lettered y, const Letters& kept) {
    DropRepeated(x, y, kept);
    DropRepeated(y, x, kept);
    SumAway(x, y.axes + kept);
    SumAway(y, x.axes + kept);
    Lettered p{"", kept, {}};
    for (const char c : kept) p.dims.push_back(Joined(x, y, c));
    const Letters summed = Without(Common(x.axes, y.axes), kept);
    if (summed.empty()) {
      Align(x, kept);
      Align(y, kept);
      p.name = Add("Mul", {x.name, y.name});
      return p;
    }
    // The operand whose own letters end the result comes second: no Transpose behind then.
    if (!kept.empty() && !IsIn(kept.back(), y.axes)) std::swap(x, y);
    if (Without(kept, x.axes).empty() && Without(kept, y.axes).empty()) {
      Lettered all{"", kept + summed, p.dims};
      for (const char c : summed) all.dims.push_back(Joined(x, y, c));
      Align(x, all.axes);
      Align(y, all.axes);
      all.name = Add("Mul", {x.name, y.name});
      SumAway(all, kept);
      return all;
    }
    for (const char c : summed)  // 1 would broadcast, as no MatMul does
      if (!x.extent(c).KnownEqual(y.extent(c)))
        return Unsupported("it needs extents of a summed letter that are known to be equal");
    INFER_ASSIGN(Lettered m, Matrices(std::move(x), std::move(y), kept, summed));
    Arrange(m, kept);
    p.name = m.name;
    return p;
  }

  /// [outer, m, k] x [outer, k, n], where m and n are the last letters that one operand has alone
  /// (extent 1 where it has none), k all that is summed over, and outer what is left of `kept`.
  Result<Lettered> Matrices(Lettered x, Lettered y, const Letters& kept, const Letters& summed) {
    const Letters rows = Without(Common(kept, x.axes), y.axes),
                  columns = Without(Common(kept, y.axes), x.axes);
    if (const auto width = WidthOf(y, columns);
        width && columns.size() > 1 &&
        (rows.size() <= 1 || Common(Common(kept, x.axes), y.axes).empty()))
      return OneProduct(std::move(x), std::move(y), kept, summed, *width);
    const Letters m = rows.empty() ? "" : Letters(1, rows.back()),
                  n = columns.empty() ? "" : Letters(1, columns.back());
    const Letters outer = Common(Common(kept, x.axes), y.axes) + Without(rows, m) +
                          Without(columns, n);  // what one of them lacks broadcasts
    // Leading axes that the second operand lacks, all of them, need not stand there.
    const Letters outer_of_y = Common(outer, y.axes).empty() ? "" : outer;
    INFER_ASSIGN(const std::optional<int64_t> depth, DepthOf(x, summed));
    const Dim width = n.empty() ? Dim(1) : y.extent(n[0]);
    Lettered p{"", outer, {}};
    for (const char c : outer) p.dims.push_back(Joined(x, y, c));
    Align(x, outer + (m.empty() ? kOne : m) + summed);
    std::string b;
    if (summed.size() == 1) {
      Align(y, outer_of_y + summed + (n.empty() ? kOne : n));
      b = y.name;
    } else {
      // The letters that are summed over become one axis.
      x.name = Merged(x.name, outer.size() + 1, depth);
      if (width.is_static() && width.value() > 0) {
        Align(y, outer_of_y + summed + (n.empty() ? kOne : n));
        b = Merged(y.name, outer_of_y.size(), depth, width.value());
      } else {
        Align(y, outer_of_y + (n.empty() ? kOne : n) + summed);
        b = Merged(y.name, outer_of_y.size() + 1, depth);
        std::vector<int64_t> perm(outer_of_y.size() + 2);
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
        b = Add("Transpose", {b}, Cat("perm=[", infer::Join(perm, ", "), "]"));
      }
    }
    p.name = Add("MatMul", {x.name, b});
    std::vector<int64_t> ones;
    const auto last = static_cast<int64_t>(outer.size());
    if (m.empty()) ones.push_back(last);
    if (n.empty()) ones.push_back(last + 1);
    if (!ones.empty()) p.name = Add("Squeeze", {p.name, Ints(ones)});
    if (!m.empty()) p.dims.push_back(x.extent(m[0]));
    if (!n.empty()) p.dims.push_back(width);
    p.axes += m + n;
    return p;
  }

  /// Elements of the axes `letters` of y, where they are known and there are any.
  static std::optional<int64_t> WidthOf(const Lettered& y, const Letters& letters) {
    int64_t width = 1;
    for (const char c : letters) {
      const Dim& d = y.extent(c);
      if (!d.is_static() || d.value() <= 0) return std::nullopt;
      width *= d.value();
    }
    return width;
  }

  /// As Matrices, where y alone has several letters: they become the columns of one product, such
  /// as heads and their width of a projection, which is a product of two matrices.
  Result<Lettered> OneProduct(Lettered x, Lettered y, const Letters& kept, const Letters& summed,
                              int64_t width) {
    const Letters both = Common(Common(kept, x.axes), y.axes),
                  rows = Without(Common(kept, x.axes), y.axes),
                  columns = Without(Common(kept, y.axes), x.axes);
    INFER_ASSIGN(const std::optional<int64_t> depth, DepthOf(x, summed));
    Lettered p{"", both + rows + columns, {}};
    for (const char c : p.axes) p.dims.push_back(Joined(x, y, c));
    Align(x, both + (rows.empty() ? kOne : rows) + summed);
    Align(y, both + summed + columns);
    if (summed.size() > 1)
      x.name = Merged(x.name, both.size() + std::max<size_t>(rows.size(), 1), depth);
    // One letter that is summed over keeps its extent, whatever it is.
    y.name = Merged(y.name, both.size(), summed.size() > 1 ? depth : 0, width);
    std::vector<int64_t> extents(both.size() + rows.size(), 0);
    for (const char c : columns) extents.push_back(y.extent(c).value());
    p.name = Add("Reshape", {Add("MatMul", {x.name, y.name}), Ints(extents)});
    return p;
  }

  /// Elements of the axes that are summed over, nothing where they are not known.
  static Result<std::optional<int64_t>> DepthOf(const Lettered& x, const Letters& summed) {
    std::optional<int64_t> depth = 1;
    for (const char c : summed) {
      const Dim& d = x.extent(c);
      if (d == Dim(0)) return Unsupported("it needs extents above 0");
      depth = depth && d.is_static() ? std::optional(*depth * d.value()) : std::nullopt;
    }
    return depth;
  }

  /// `leading` axes stay, the others become one of `depth` (unknown: what is left), before `width`.
  std::string Merged(const std::string& from, size_t leading, std::optional<int64_t> depth,
                     std::optional<int64_t> width = std::nullopt) {
    std::vector<int64_t> extents(leading, 0);
    extents.push_back(depth.value_or(-1));
    if (width) extents.push_back(*width);
    return Add("Reshape", {from, Ints(extents)});
  }

  /// Takes axes of extent 1 from `x` along which it would be repeated for the sum with `y`.
  void DropRepeated(Lettered& x, const Lettered& y, const Letters& kept) {
    Letters dropped;
    for (const char c : Without(Common(x.axes, y.axes), kept))
      if (x.extent(c) == Dim(1) && !(y.extent(c) == Dim(1))) dropped += c;
    Remove(x, dropped, "Squeeze", "");
  }
  /// Sums over the axes that no letter of `kept` names.
  void SumAway(Lettered& x, const Letters& kept) {
    Remove(x, Without(x.axes, kept), "ReduceSum", "keepdims=0");
  }
  void Remove(Lettered& x, const Letters& letters, std::string_view op, std::string_view attrs) {
    if (letters.empty()) return;
    std::vector<int64_t> axes;
    Lettered left{"", "", {}};
    for (size_t i = 0; i < x.axes.size(); ++i) {
      if (IsIn(x.axes[i], letters)) {
        axes.push_back(static_cast<int64_t>(i));
        continue;
      }
      left.axes += x.axes[i];
      left.dims.push_back(x.dims[i]);
    }
    left.name = Add(op, {x.name, Ints(axes)}, attrs);
    x = std::move(left);
  }

  /// The axes of x in the order of `letters`, which are the same ones.
  void Arrange(Lettered& x, const Letters& letters) {
    if (x.axes == letters) return;
    std::vector<int64_t> perm;
    std::vector<Dim> dims;
    for (const char c : letters) {
      perm.push_back(static_cast<int64_t>(x.axes.find(c)));
      dims.push_back(x.extent(c));
    }
    x = {Add("Transpose", {x.name}, Cat("perm=[", infer::Join(perm, ", "), "]")), letters,
         std::move(dims)};
  }
  /// As above, with axes of extent 1 for letters that it lacks.
  void Align(Lettered& x, const Letters& letters) {
    Arrange(x, Common(letters, x.axes));
    std::vector<int64_t> added;
    std::vector<Dim> dims;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (!IsIn(letters[i], x.axes)) added.push_back(static_cast<int64_t>(i));
      dims.push_back(IsIn(letters[i], x.axes) ? x.extent(letters[i]) : Dim(1));
    }
    if (added.empty()) return;
    x = {Add("Unsqueeze", {x.name, Ints(added)}), letters, std::move(dims)};
  }

  std::string Add(std::string_view op, const std::vector<std::string>& operands,
                  std::string_view attrs = "") {
    std::string name = Cat("t", next_++);
    body_.Line(Cat(name, " = ", op, "(", infer::Join(operands, ", "), ")",
                   attrs.empty() ? "" : Cat(" {", attrs, "}")));
    return name;
  }
  std::string Ints(const std::vector<int64_t>& values) {
    std::string name = Cat("i", next_++);
    body_.Ints(name, values);
    return name;
  }

  /// Stands for an axis of extent 1 that no letter of an equation names.
  inline static const Letters kOne = "-";

  BodyText body_;
  Letters out_;
  std::vector<Lettered> operands_;
  int next_ = 0;
};

}  // namespace

Result<std::string> DecomposeEinsum(const OpCall& call) {
  constexpr size_t kMostOperands = 16;
  if (call.num_inputs() > kMostOperands) return Unsupported("it has more than 16 operands");
  std::vector<int> ranks;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!IsFloat(call.dtype(i))) return Unsupported("it needs floating point numbers");
    if (!call.shape(i).has_rank()) return Unsupported("it needs operands of known rank");
    ranks.push_back(call.shape(i).rank());
  }
  INFER_ASSIGN(EinsumEquation e, ParseEinsum(call.Str("equation"), ranks));
  for (Letters term : e.terms) {
    std::sort(term.begin(), term.end());
    if (std::adjacent_find(term.begin(), term.end()) != term.end())
      return Unsupported("it needs no diagonal: a letter stands twice in a term");
  }
  return EinsumText(call, std::move(e)).Text();
}

}  // namespace infer
