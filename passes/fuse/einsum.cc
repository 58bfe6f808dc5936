/// Einsum in terms of what every engine has a fast kernel for.
#include <algorithm>

#include "lib/support/strings.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

using Letters = std::string;

bool In(const Letters& term, char c) { return term.find(c) != Letters::npos; }
Letters Only(const Letters& term, const Letters& of) {
  Letters out;
  for (const char c : term)
    if (In(of, c)) out += c;
  return out;
}
Letters Without(const Letters& term, const Letters& of) {
  Letters out;
  for (const char c : term)
    if (!In(of, c)) out += c;
  return out;
}

struct Equation {
  std::vector<Letters> terms;
  Letters out;
};

/// Letters alone: "..." becomes capital letters that the equation does not use.
Result<Equation> Parsed(const Node& n) {
  std::string text = n.Attr<std::string>("equation");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  Equation e;
  e.terms = Split(text.substr(0, arrow), ',');
  if (e.terms.size() != n.inputs().size()) return InvalidModel("needs a term per operand");
  Letters free;
  for (char c = 'Z'; c >= 'A'; --c)
    if (!In(text, c)) free.insert(free.begin(), c);
  size_t most = 0;  // axes of an ellipsis
  const auto expand = [&](Letters& term, size_t count) {
    if (const size_t at = term.find("..."); at != Letters::npos)
      term.replace(at, 3, free.substr(free.size() - count));
  };
  for (size_t i = 0; i < e.terms.size(); ++i) {
    const int rank = RankOf(*n.input(i));
    if (rank < 0) return InvalidModel("needs operands of known rank");
    const bool dots = e.terms[i].find('.') != Letters::npos;
    const size_t letters = e.terms[i].size() - (dots ? 3 : 0);
    const size_t count = static_cast<size_t>(rank) - letters;
    if (letters > static_cast<size_t>(rank) || count > free.size())
      return InvalidModel("needs terms that fit their operands");
    if (dots) most = std::max(most, count);
    if (dots && arrow == std::string::npos)
      return InvalidModel("needs a result that is spelled out");
    expand(e.terms[i], count);
  }
  if (arrow != std::string::npos) {
    e.out = text.substr(arrow + 2);
    expand(e.out, most);
  } else {
    Letters all = Join(e.terms, "");
    std::sort(all.begin(), all.end());
    for (const char c : all)
      if (std::count(all.begin(), all.end(), c) == 1) e.out += c;
  }
  for (const Letters& term : e.terms)
    for (const char c : term)
      if (std::count(term.begin(), term.end(), c) > 1)
        return InvalidModel(
            Cat("needs no diagonal: '", std::string(1, c), "' stands twice in '", term, "'"));
  return e;
}

/// A value and the letters of its axes.
struct Lettered {
  Value* value;
  Letters axes;
};

class Builder {
 public:
  Builder(PatchBuilder& b, const Equation& e) : b_(b), e_(e) {}

  Result<Value*> One(Lettered x) {
    INFER_TRY(SumAway(x, e_.out));
    return Ordered(x, e_.out);
  }

  Result<Value*> Two(Lettered x, Lettered y) {
    INFER_TRY(DropRepeated(x, y));
    INFER_TRY(DropRepeated(y, x));
    INFER_TRY(SumAway(x, y.axes + e_.out));
    INFER_TRY(SumAway(y, x.axes + e_.out));
    const Letters summed = Without(Only(x.axes, y.axes), e_.out);
    if (summed.empty()) return Products(x, y);
    // The operand whose own letters end the result comes second: no Transpose behind then.
    if (!e_.out.empty() && !In(y.axes, e_.out.back())) std::swap(x, y);
    const Letters batch = Only(Only(e_.out, x.axes), y.axes);
    const Letters rows = Without(Only(e_.out, x.axes), y.axes);
    const Letters columns = Without(Only(e_.out, y.axes), x.axes);
    if (rows.empty() && columns.empty()) {
      Lettered p{nullptr, batch + summed};
      INFER_ASSIGN(Value * a, Aligned(x, p.axes));
      INFER_ASSIGN(Value * c, Aligned(y, p.axes));
      INFER_ASSIGN(p.value, b_("Mul", {a, c}));
      return One(p);
    }
    for (const char c : summed)  // 1 would broadcast, as no MatMul does
      if (!ExtentOf(x, c).KnownEqual(ExtentOf(y, c)))
        return InvalidModel(
            Cat("needs extents of '", std::string(1, c), "' that are known to be equal"));
    const Letters m = rows.empty() ? "" : Letters(1, rows.back());
    const Letters n = columns.empty() ? "" : Letters(1, columns.back());
    const Letters more = Without(rows, m) + Without(columns, n);  // they broadcast
    // [batch, more, m, k] x [batch, more, k, n]; leading axes that the second one lacks need not
    // stand there.
    const Letters outer = batch + more;
    INFER_ASSIGN(Value * a, Aligned(x, outer + (m.empty() ? "-" : m) + summed));
    const bool plain = Only(outer, y.axes).empty();
    INFER_ASSIGN(Value * c, Aligned(y, (plain ? "" : outer) + summed + (n.empty() ? "-" : n)));
    if (summed.size() > 1) {
      // One axis of all that is summed over: last in the first operand, before n in the second.
      std::vector<int64_t> left(outer.size() + 1, 0), right(plain ? 0 : outer.size(), 0);
      const auto columns_of = StaticDim(*c, -1);
      if (!columns_of || *columns_of == 0)
        return InvalidModel("needs a known extent beside several letters that are summed over");
      left.push_back(-1);
      right.push_back(-1);
      right.push_back(*columns_of);
      INFER_ASSIGN(a, b_("Reshape", {a, b_.Ints(left)}));
      INFER_ASSIGN(c, b_("Reshape", {c, b_.Ints(right)}));
    }
    Lettered p{nullptr, outer + (m.empty() ? "-" : m) + (n.empty() ? "-" : n)};
    INFER_ASSIGN(p.value, b_("MatMul", {a, c}));
    if (const size_t at = p.axes.find('-'); at != Letters::npos) {
      INFER_ASSIGN(p.value, b_("Squeeze", {p.value, b_.Ints({static_cast<int64_t>(at)})}));
      p.axes.erase(at, 1);
    }
    return Ordered(p, e_.out);
  }

 private:
  static const Dim& ExtentOf(const Lettered& x, char c) {
    return x.value->shape()[static_cast<int>(x.axes.find(c))];
  }
  /// Takes axes of extent 1 from `x` along which it would be repeated for the sum with `y`.
  Status DropRepeated(Lettered& x, const Lettered& y) {
    std::vector<int64_t> axes;
    Letters dropped;
    for (const char c : Without(Only(x.axes, y.axes), e_.out))
      if (ExtentOf(x, c) == Dim(1) && !(ExtentOf(y, c) == Dim(1))) {
        axes.push_back(static_cast<int64_t>(x.axes.find(c)));
        dropped += c;
      }
    if (axes.empty()) return {};
    INFER_ASSIGN(x.value, b_("Squeeze", {x.value, b_.Ints(axes)}));
    x.axes = Without(x.axes, dropped);
    return {};
  }
  Result<Value*> Products(const Lettered& x, const Lettered& y) {
    INFER_ASSIGN(Value * a, Aligned(x, e_.out));
    INFER_ASSIGN(Value * c, Aligned(y, e_.out));
    return b_("Mul", {a, c});
  }
  /// Sums over the axes that no letter of `kept` names.
  Status SumAway(Lettered& x, const Letters& kept) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < x.axes.size(); ++i)
      if (!In(kept, x.axes[i])) axes.push_back(static_cast<int64_t>(i));
    if (axes.empty()) return {};
    INFER_ASSIGN(x.value, b_("ReduceSum", {x.value, b_.Ints(axes)}, {{"keepdims", int64_t{0}}}));
    x.axes = Only(x.axes, kept);
    return {};
  }
  /// The axes of x in the order of `letters`, all of which it has.
  Result<Value*> Ordered(const Lettered& x, const Letters& letters) {
    if (x.axes == letters) return x.value;
    std::vector<int64_t> perm;
    for (const char c : letters) perm.push_back(static_cast<int64_t>(x.axes.find(c)));
    return b_("Transpose", {x.value}, {{"perm", perm}});
  }
  /// As above, with axes of extent 1 for letters that it lacks.
  Result<Value*> Aligned(const Lettered& x, const Letters& letters) {
    INFER_ASSIGN(Value * v, Ordered(x, Only(letters, x.axes)));
    std::vector<int64_t> added;
    for (size_t i = 0; i < letters.size(); ++i)
      if (!In(x.axes, letters[i])) added.push_back(static_cast<int64_t>(i));
    // Leading ones come by broadcasting in Mul, but a MatMul of them must line up, too.
    return added.empty() ? v : b_("Unsqueeze", {v, b_.Ints(added)});
  }

  PatchBuilder& b_;
  const Equation& e_;
};

}  // namespace

Rule ExpandEinsum() {
  Pattern root = Op("Einsum", {}).MoreInputs();
  return {
      .name = "expand-einsum",
      .doc = "Einsum(a, b) => MatMul, Mul, ReduceSum, Transpose",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        if (n.inputs().size() > 2) return InvalidModel("needs one or two operands");
        if (m[root]->dtype() != DType::kF32 && m[root]->dtype() != DType::kF64 &&
            m[root]->dtype() != DType::kF16 && m[root]->dtype() != DType::kBF16)
          return InvalidModel("needs floating point numbers");
        INFER_ASSIGN(const Equation e, Parsed(n));
        Builder builder(b, e);
        if (n.inputs().size() == 1) return builder.One({n.input(0), e.terms[0]});
        return builder.Two({n.input(0), e.terms[0]}, {n.input(1), e.terms[1]});
      },
      .fires_on = {R"(graph g(x: f32[N,S,2,3], z: f32[2,3,5]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,hdo->bqo"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[4,3,5]) -> (y) {
               y = Einsum(x, z) {equation="ijk,kjl->il"} })",
                   R"(graph g(x: f32[2,4,3,5], z: f32[2,6,3,5]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,bkhd->bqk"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="bij,jk->bik"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="bij,jk"} })",
                   R"(graph g(x: f32[2,3,5,4], z: f32[2,3,6,4]) -> (y) {
               y = Einsum(x, z) {equation="bhid,bhjd->bhij"} })",
                   R"(graph g(x: f32[2,3,5,4], z: f32[2,3,4,6]) -> (y) {
               y = Einsum(x, z) {equation="bhij,bhjd->bhid"} })",
                   R"(graph g(x: f32[2,5,3,4], z: f32[2,6,3,4]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,bkhd->bhqk"} })",
                   R"(graph g(x: f32[2,3,5,6], z: f32[2,6,3,4]) -> (y) {
               y = Einsum(x, z) {equation="bhqk,bkhd->bqhd"} })",
                   R"(graph g(x: f32[N,3], z: f32[3,4]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
                   R"(graph g(x: f32[3], z: f32[4]) -> (y) {
               y = Einsum(x, z) {equation="i,j->ij"} })",
                   R"(graph g(x: f32[3], z: f32[3]) -> (y) {
               y = Einsum(x, z) {equation="i,i->"} })",
                   R"(graph g(x: f32[N,3], z: f32[N,3]) -> (y) {
               y = Einsum(x, z) {equation="bi,bi->b"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[N,4]) -> (y) {
               y = Einsum(x, z) {equation="bij,bj->bi"} })",
                   R"(graph g(x: f32[N,4], z: f32[N,4,3]) -> (y) {
               y = Einsum(x, z) {equation="bj,bjk->bk"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[5,4]) -> (y) {
               y = Einsum(x, z) {equation="bij,kj->bik"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[3,5,4]) -> (y) {
               y = Einsum(x, z) {equation="bhd,hed->bhe"} })",
                   R"(graph g(x: f32[N,2,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="...ij,jk->...ik"} })",
                   R"(graph g(x: f32[2,3], z: f32[2,3]) -> (y) {
               y = Einsum(x, z) {equation="ij,ij->ij"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[3]) -> (y) {
               y = Einsum(x, z) {equation="ijk,j->ik"} })",
                   R"(graph g(x: f32[4,3], z: f32[2,4,5]) -> (y) {
               y = Einsum(x, z) {equation="kn,bkm->bmn"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[2,5,4]) -> (y) {
               y = Einsum(x, z) {equation="bid,bjd->bji"} })",
                   R"(graph g(x: f32[3,1], z: f32[N,4]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
                   R"(graph g(x: f32[2,3]) -> (y) { y = Einsum(x) {equation="ij->ji"} })",
                   R"(graph g(x: f32[N,3,4]) -> (y) { y = Einsum(x) {equation="bij->b"} })",
                   R"(graph g(x: f32[2,3,4]) -> (y) { y = Einsum(x) {equation="ijk->ki"} })"},
      .silent_on =
          {{R"(graph g(x: f32[3,3]) -> (y) { y = Einsum(x) {equation="ii->i"} })",
            "needs no diagonal"},
           {R"(graph g(x: f32[3,3]) -> (y) { y = Einsum(x, x, x) {equation="ij,jk,kl->il"} })",
            "one or two operands"},
           {R"(graph g(x: f32[2,3,4], z: f32[4,3,N]) -> (y) {
               y = Einsum(x, z) {equation="ijk,kjl->il"} })",
            "a known extent beside several letters"},
           {R"(graph g(x: f32[3,N], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
            "extents of 'j' that are known to be equal"},
           {R"(graph g(x: i32[3,3]) -> (y) { y = Einsum(x) {equation="ij->ji"} })",
            "floating point numbers"},
           {R"(graph g(x: f32[*]) -> (y) { y = Einsum(x) {equation="...ij->...ji"} })",
            "operands of known rank"}},
  };
}

}  // namespace infer
