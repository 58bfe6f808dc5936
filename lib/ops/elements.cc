#include "lib/ops/elements.h"

namespace infer {
namespace {

/// Sign of a - b where it is certain.
std::optional<int> Compare(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return std::nullopt;
  if (a.KnownEqual(b)) return 0;
  const Dim d = a - b;
  if (d.is_static()) return d.value() < 0 ? -1 : 1;
  if (a.is_static() && a.value() < 0 && IsNonNegative(b)) return -1;
  if (b.is_static() && b.value() < 0 && IsNonNegative(a)) return 1;
  return std::nullopt;
}

Dim Truth(std::optional<bool> v) { return v ? Dim(int64_t{*v}) : Dim(); }

}  // namespace

bool IsNonNegative(const Dim& d) {
  if (d.is_static()) return d.value() >= 0;
  return d.is_symbolic() && d.ToString().find('-') == std::string::npos;
}

Dim AddDims(const Dim& a, const Dim& b) { return a + b; }
Dim SubDims(const Dim& a, const Dim& b) { return a - b; }
Dim MulDims(const Dim& a, const Dim& b) { return a * b; }

Dim DivDims(const Dim& a, const Dim& b) {
  if (b.KnownEqual(0)) return {};
  if (a.is_static() && b.is_static())
    return b.value() == -1 ? Dim(0) - a : Dim(a.value() / b.value());
  if (Dim exact = a.ExactDiv(b); !exact.is_unknown()) return exact;
  if (b.is_static() && b.value() > 0 && IsNonNegative(a)) return a.FloorDiv(b.value());
  return {};
}

Dim ModDims(const Dim& a, const Dim& b) {
  if (b.KnownEqual(0) || a.is_unknown() || b.is_unknown()) return {};
  if (a.is_static() && b.is_static()) {
    if (b.value() == -1) return 0;
    const int64_t r = a.value() % b.value();
    return r != 0 && ((r < 0) != (b.value() < 0)) ? r + b.value() : r;
  }
  const Dim quotient = a.ExactDiv(b);
  return quotient.is_unknown() ? Dim() : Dim(0);
}

Dim MinDims(const Dim& a, const Dim& b) {
  const auto c = Compare(a, b);
  return c ? (*c <= 0 ? a : b) : Dim();
}
Dim MaxDims(const Dim& a, const Dim& b) {
  const auto c = Compare(a, b);
  return c ? (*c >= 0 ? a : b) : Dim();
}

Dim EqualDims(const Dim& a, const Dim& b) {
  const auto c = Compare(a, b);
  return Truth(c ? std::optional(*c == 0) : std::nullopt);
}
Dim LessDims(const Dim& a, const Dim& b) {
  const auto c = Compare(a, b);
  return Truth(c ? std::optional(*c < 0) : std::nullopt);
}
Dim GreaterDims(const Dim& a, const Dim& b) { return LessDims(b, a); }
Dim LessOrEqualDims(const Dim& a, const Dim& b) {
  const auto c = Compare(a, b);
  return Truth(c ? std::optional(*c <= 0) : std::nullopt);
}
Dim GreaterOrEqualDims(const Dim& a, const Dim& b) { return LessOrEqualDims(b, a); }

Dim AndDims(const Dim& a, const Dim& b) {
  if (a.KnownEqual(0) || b.KnownEqual(0)) return 0;
  return a.KnownEqual(1) && b.KnownEqual(1) ? Dim(1) : Dim();
}
Dim OrDims(const Dim& a, const Dim& b) {
  if (a.KnownEqual(1) || b.KnownEqual(1)) return 1;
  return a.KnownEqual(0) && b.KnownEqual(0) ? Dim(0) : Dim();
}

std::optional<std::vector<Dim>> KnownElements(const OpCall& call, size_t i) {
  if (auto e = call.elements(i)) return e;
  const Tensor* t = call.constant(i);
  if (!t || t->dtype() != DType::kBool || t->rank() > 1 || t->num_elements() > 1024)
    return std::nullopt;
  return ElementsOf(*t);
}

std::optional<std::vector<Dim>> ZipElements(const std::vector<Dim>& a, const std::vector<Dim>& b,
                                            DimFn f) {
  const size_t n = a.size() == 1 ? b.size() : a.size();
  if (b.size() != n && b.size() != 1) return std::nullopt;
  std::vector<Dim> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return out;
}

void PropagateElements(OpCall& call, DimFn f) {
  const Shape& shape = call.out(0).shape;
  if (!shape.has_rank() || shape.rank() > 1) return;
  if (call.num_inputs() == 0) return;
  std::optional<std::vector<Dim>> all = KnownElements(call, 0);
  for (size_t i = 1; all && i < call.num_inputs(); ++i) {
    const auto e = KnownElements(call, i);
    all = e ? ZipElements(*all, *e, f) : std::nullopt;
  }
  if (!all) return;
  const DType out = call.out(0).dtype;  // what does not fit wraps: say nothing then
  for (Dim& d : *all)
    if (IsInteger(out) && d.is_static() &&
        (d.value() < IntegerMin(out) || d.value() > IntegerMax(out)))
      d = Dim();
  call.SetElements(0, *std::move(all));
}

}  // namespace infer
