/// Einsum and Det.
#include "lib/ops/matmul/einsum.h"

#include <algorithm>
#include <cmath>

#include "lib/ops/decompositions.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Replaces the ellipsis of a term by `count` axis characters ending at `all`.
Status ReplaceEllipsis(std::string& term, int count, int all) {
  const size_t at = term.find("...");
  if (at == std::string::npos) return {};
  std::string axes;
  for (int i = all - count; i < all; ++i) axes += static_cast<char>(1 + i);
  term.replace(at, 3, axes);
  if (term.find('.') != std::string::npos) return InvalidModel("a term has more than one ellipsis");
  return {};
}

/// For messages: an equation may have any length and any bytes.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out = Cat("'", text.substr(0, kMost), text.size() > kMost ? "..." : "", "'");
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
  return out;
}

}  // namespace

Result<EinsumEquation> ParseEinsum(std::string text, const std::vector<int>& ranks) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  EinsumEquation e;
  e.terms = Split(text.substr(0, arrow), ',');
  if (e.terms.size() != ranks.size())
    return InvalidModel(Cat("equation ", Shown(text), " has ", e.terms.size(), " terms for ",
                            ranks.size(), " operands"));
  const auto letters = [](std::string_view t) {
    return static_cast<int>(
        std::count_if(t.begin(), t.end(), [](char c) { return std::isalpha(c) != 0; }));
  };
  const auto is_valid = [&](std::string_view t) {
    const auto dots = static_cast<int>(std::count(t.begin(), t.end(), '.'));
    return letters(t) + dots == static_cast<int>(t.size()) &&
           (dots == 0 || (dots == 3 && t.find("...") != std::string_view::npos));
  };
  int broadcast = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!is_valid(e.terms[i])) return InvalidModel(Cat("equation ", Shown(text), " is not valid"));
    const bool has_dots = e.terms[i].find('.') != std::string::npos;
    const int rest = ranks[i] - letters(e.terms[i]);
    if (rest < 0 || (rest > 0 && !has_dots) || rest > 32)
      return InvalidModel(
          Cat("term ", Shown(e.terms[i]), " does not fit an operand of rank ", ranks[i]));
    if (has_dots) broadcast = std::max(broadcast, rest);
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    INFER_TRY(ReplaceEllipsis(e.terms[i], ranks[i] - letters(e.terms[i]), broadcast));
  if (arrow != std::string::npos) {
    e.out = text.substr(arrow + 2);
    if (!is_valid(e.out)) return InvalidModel(Cat("equation ", Shown(text), " is not valid"));
    INFER_TRY(ReplaceEllipsis(e.out, broadcast, broadcast));
  } else {
    // Axes of the ellipsis, then letters that stand once, in ASCII order; so the codes sort right.
    std::string all = Join(e.terms, "");
    std::sort(all.begin(), all.end());
    for (char c : all)
      if (c <= 32 ? e.out.find(c) == std::string::npos : std::count(all.begin(), all.end(), c) == 1)
        e.out += c;
  }
  std::string sorted = e.out;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return InvalidModel(Cat("equation ", Shown(text), " repeats a letter in its result"));
  const std::string all = Join(e.terms, "");
  for (char c : e.out)
    if (all.find(c) == std::string::npos)
      return InvalidModel(Cat("equation ", Shown(text), " has a result letter that no term has"));
  return e;
}

namespace {

Status InferEinsum(OpCall& call) {
  std::vector<int> ranks;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.shape(i).has_rank()) {
      call.SetOut(0, call.dtype(0), Shape());
      return {};
    }
    ranks.push_back(call.shape(i).rank());
  }
  INFER_ASSIGN(const EinsumEquation e, ParseEinsum(call.Str("equation"), ranks));
  std::map<char, Shape> extents;  // of one axis each
  for (size_t i = 0; i < ranks.size(); ++i)
    for (int k = 0; k < ranks[i]; ++k) {
      const Shape s(std::vector<Dim>{call.shape(i)[k]});
      auto [it, fresh] = extents.emplace(e.terms[i][static_cast<size_t>(k)], s);
      if (!fresh) {
        INFER_ASSIGN(it->second, Broadcast(it->second, s));
      }
    }
  std::vector<Dim> dims;
  for (char c : e.out) dims.push_back(extents.at(c)[0]);
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// The loops of an Einsum: kept axes, then summed ones, with each operand's stride (0: broadcast).
struct EinsumLoops {
  std::string axes;  // kept, then summed
  Dims extents;
  std::vector<Dims> strides;  // [operand][axis]
  int64_t kept = 1, summed = 1;
};

Result<EinsumLoops> PlanEinsum(const OpRun& run, const EinsumEquation& e) {
  EinsumLoops l;
  l.axes = e.out;
  for (char c : Join(e.terms, ""))
    if (l.axes.find(c) == std::string::npos) l.axes += c;
  l.extents.assign(l.axes.size(), 1);
  for (size_t i = 0; i < e.terms.size(); ++i) {
    const Dims dims = run.in(i).dims(), steps = Strides(dims);
    Dims strides(l.axes.size(), 0);
    for (size_t k = 0; k < dims.size(); ++k) {
      const size_t at = l.axes.find(e.terms[i][k]);
      if (dims[k] != 1 && l.extents[at] != 1 && dims[k] != l.extents[at])
        return InvalidModel(Cat("equation ", Shown(run.Str("equation")), ": extents ", dims[k],
                                " and ", l.extents[at], " of one letter"));
      if (dims[k] == 1) continue;
      l.extents[at] = dims[k];
      strides[at] += steps[k];  // a repeated letter walks the diagonal
    }
    l.strides.push_back(std::move(strides));
  }
  const auto out_rank = static_cast<int>(e.out.size());
  l.kept = Product(l.extents, 0, out_rank);
  l.summed = Product(l.extents, out_rank, static_cast<int>(l.axes.size()));
  return l;
}

/// Offsets of every operand for flat index i over axes [begin, end).
void Locate(const EinsumLoops& l, int64_t i, size_t begin, size_t end, std::vector<int64_t>& at) {
  for (size_t k = end; k-- > begin;) {
    const int64_t index = i % l.extents[k];
    i /= l.extents[k];
    for (size_t o = 0; o < at.size(); ++o) at[o] += index * l.strides[o][k];
  }
}

template <typename T, typename A>
void SumProducts(const std::vector<const T*>& in, const EinsumLoops& l, size_t out_rank,
                 Tensor& y) {
  const size_t rank = l.axes.size();
  const int64_t inner = rank > out_rank ? l.extents[rank - 1] : 1;
  const int64_t outer = inner == 0 ? 0 : l.summed / inner;
  ParallelFor(l.kept, std::max<int64_t>(1, 16384 / std::max<int64_t>(l.summed, 1)),
              [&](int64_t begin, int64_t end) {
                std::vector<int64_t> base(in.size()), at(in.size());
                for (int64_t i = begin; i < end; ++i) {
                  std::fill(base.begin(), base.end(), 0);
                  Locate(l, i, 0, out_rank, base);
                  A sum = 0;
                  for (int64_t s = 0; s < outer; ++s) {
                    at = base;
                    if (rank > out_rank) Locate(l, s, out_rank, rank - 1, at);
                    for (int64_t k = 0; k < inner; ++k) {
                      A product = 1;
                      for (size_t o = 0; o < in.size(); ++o) {
                        product *= static_cast<A>(in[o][at[o]]);
                        if (rank > out_rank) at[o] += l.strides[o][rank - 1];
                      }
                      sum += product;
                    }
                  }
                  if constexpr (std::is_integral_v<A>)
                    y.SetInt(i, static_cast<int64_t>(sum));
                  else
                    y.Set(i, sum);
                }
              });
}

Status RunEinsum(OpRun& run) {
  std::vector<int> ranks;
  for (size_t i = 0; i < run.num_inputs(); ++i) ranks.push_back(run.in(i).rank());
  INFER_ASSIGN(const EinsumEquation e, ParseEinsum(run.Str("equation"), ranks));
  INFER_ASSIGN(const EinsumLoops l, PlanEinsum(run, e));
  const Dims dims(l.extents.begin(), l.extents.begin() + static_cast<std::ptrdiff_t>(e.out.size()));
  const DType type = run.in(0).dtype();
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, type, dims));
  const bool ok = DispatchReal(type, [&]<typename T>(T) {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    std::vector<const T*> in;
    for (size_t i = 0; i < run.num_inputs(); ++i) in.push_back(run.in(i).data<T>().data());
    SumProducts<T, A>(in, l, e.out.size(), *y);
  });
  return ok ? Status() : Unsupported(Cat("no product of ", Name(type)));
}

/// A multiplication per operand and an addition for every combination of letters.
Cost EinsumCost(const OpCall& call) {
  Cost c = TrafficOf(call);
  std::vector<int> ranks;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.shape(i).is_static()) return c;
    ranks.push_back(call.shape(i).rank());
  }
  const auto e = ParseEinsum(call.Str("equation"), ranks);
  if (!e.ok()) return c;
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < ranks.size(); ++i)
    for (int k = 0; k < ranks[i]; ++k) {
      int64_t& n = extents[e->terms[i][static_cast<size_t>(k)]];
      n = std::max(n, call.shape(i)[k].value());
    }
  int64_t work = static_cast<int64_t>(ranks.size());
  for (const auto& [letter, n] : extents)
    if (__builtin_mul_overflow(work, n, &work)) return c;
  c.flops = work;
  return c;
}

Status InferDet(OpCall& call) {
  const Shape& s = call.shape(0);
  INFER_TRY(CheckRank(call, 0, 2));
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  INFER_TRY(Meet(s[-1], s[-2]).status());
  call.SetOut(0, call.dtype(0), Shape(std::vector<Dim>(s.dims().begin(), s.dims().end() - 2)));
  return {};
}

/// Gaussian elimination with row pivoting.
double Determinant(std::vector<double> a, int64_t n) {
  double det = 1;
  const auto at = [&](int64_t i, int64_t j) -> double& {
    return a[static_cast<size_t>(i * n + j)];
  };
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(at(i, k)) > std::abs(at(pivot, k))) pivot = i;
    if (at(pivot, k) == 0) return 0;
    if (pivot != k) {
      for (int64_t j = 0; j < n; ++j) std::swap(at(k, j), at(pivot, j));
      det = -det;
    }
    det *= at(k, k);
    for (int64_t i = k + 1; i < n; ++i) {
      const double f = at(i, k) / at(k, k);
      for (int64_t j = k; j < n; ++j) at(i, j) -= f * at(k, j);
    }
  }
  return det;
}

Status RunDet(OpRun& run) {
  const Tensor& x = run.in(0);
  if (x.rank() < 2 || x.dim(-1) != x.dim(-2))
    return InvalidModel(Cat(ToString(x.dims()), " are no square matrices"));
  const int64_t n = x.dim(-1);
  Tensor& y = run.Out(0, x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2));
  for (int64_t m = 0; m < y.num_elements(); ++m) {
    std::vector<double> a(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n * n; ++i) a[static_cast<size_t>(i)] = x.At(m * n * n + i);
    y.Set(m, Determinant(std::move(a), n));
  }
  return {};
}

/// Letters of one operand that stands twice in its term (a diagonal) have no link.
void EinsumAxes(const OpCall& call, AxisLinks& links) {
  std::vector<int> ranks;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!call.has_input(i) || !call.shape(i).has_rank()) return;
    ranks.push_back(call.shape(i).rank());
  }
  const auto e = ParseEinsum(call.Str("equation"), ranks);
  if (!e.ok()) return;
  const auto axis_of = [](const std::string& term, char c) {
    const size_t at = term.find(c);
    return at == term.npos || term.find(c, at + 1) != term.npos ? -1 : static_cast<int>(at);
  };
  for (size_t i = 0; i < e->terms.size(); ++i)
    for (const char c : e->terms[i]) {
      const int a = axis_of(e->terms[i], c), out = axis_of(e->out, c);
      if (a < 0) continue;
      if (out >= 0) LinkSame(call, i, a, 0, out, links);
      for (size_t k = i + 1; out < 0 && k < e->terms.size(); ++k)
        if (const int b = axis_of(e->terms[k], c); b >= 0) LinkContracted(call, i, a, k, b, links);
    }
}

}  // namespace

std::span<const OpDef> EinsumOps() {
  static const OpDef ops[] = {
      {
          .name = "Einsum",
          .doc = "Sums of products over lettered axes.",
          .traits = Trait::kContraction,
          .axes = EinsumAxes,
          .since = 12,
          .versions = {12, 28},
          .inputs = {{"Inputs", "T", Arity::kVariadic}},
          .outputs = {{"Output", "T"}},
          .attrs = {{"equation", AttrKind::kString, {}, true}},
          .constraints = {{"T", kNumeric}},
          .infer = InferEinsum,
          .reference = RunEinsum,
          .cost = EinsumCost,
          .decompose = DecomposeEinsum,
          .example = R"(graph g(x: f32[2,3,4], y: f32[2,5,4]) -> (z) {
            z = Einsum(x, y) {equation="bij,bkj->bik"} })",
      },
      {
          .name = "Det",
          .doc = "Determinants of square matrices.",
          .traits = Trait::kSignal,
          .since = 11,
          .versions = {11, 22},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferDet,
          .reference = RunDet,
          .example = "graph g(x: f32[2,3,3]) -> (y) { y = Det(x) }",
      },
  };
  return ops;
}

}  // namespace infer
