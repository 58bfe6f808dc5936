#include "lib/tensor/shape.h"

#include <algorithm>
#include <limits>
#include <map>

#include "lib/support/strings.h"
#include "lib/tensor/equations.h"

namespace infer {

// So many that bytes of any type cannot overflow either.
constexpr int64_t kMaxElements = int64_t{1} << 56;

std::optional<int64_t> CheckedNumElements(const Dims& dims) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(n, d, &n) || n > kMaxElements) {
      return std::nullopt;
    }
  }
  return empty ? 0 : n;
}

std::optional<int64_t> CheckedTurns(const Dims& dims) {
  Dims turns = dims;
  std::replace(turns.begin(), turns.end(), int64_t{0}, int64_t{1});
  return CheckedNumElements(turns);
}

int64_t NumElements(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Dims Strides(const Dims& dims) {
  Dims s(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
  return s;
}

std::string ToString(const Dims& dims) { return Cat("[", Join(dims, ","), "]"); }

Dim Dim::Symbol(std::string name) {
  INFER_CHECK(!name.empty());
  return FromTerms({{{std::move(name)}, 1}});
}

Dim::Terms Dim::AsTerms() const {
  if (terms_) return *terms_;
  if (value_ == 0) return {};
  return {{{}, value_}};
}

Dim Dim::FromTerms(Terms terms) {
  if (terms.empty()) return Dim(0);
  if (terms.size() == 1 && terms[0].first.empty()) return Dim(terms[0].second);
  Dim d;
  d.terms_ = std::make_shared<const Terms>(std::move(terms));
  return d;
}

bool Dim::operator==(const Dim& o) const {
  if (is_symbolic() != o.is_symbolic()) return false;
  return is_symbolic() ? terms_ == o.terms_ || *terms_ == *o.terms_ : value_ == o.value_;
}

std::string Dim::ToString() const {
  if (is_unknown()) return "?";
  if (is_static()) return Cat(value_);
  std::string out;
  int64_t constant = 0;
  for (const auto& [monomial, c] : *terms_) {
    if (monomial.empty()) {
      constant = c;
      continue;
    }
    if (!out.empty() || c < 0) out += c < 0 ? "-" : "+";
    const int64_t a = c < 0 ? -c : c;
    if (a != 1) out += Cat(a, "*");
    out += Join(monomial, "*");
  }
  if (constant != 0) out += Cat(constant < 0 ? "" : "+", constant);
  return out;
}

Dim Dim::Replaced(const std::map<std::string, Dim>& symbols) const {
  if (!terms_) return *this;
  Dim sum = 0;
  for (const auto& [monomial, c] : *terms_) {
    Dim product = c;
    for (const std::string& name : monomial) {
      const auto it = symbols.find(name);
      product = product * (it == symbols.end() ? Symbol(name) : it->second);
    }
    sum = sum + product;
  }
  return sum;
}

std::string Dim::symbol() const {
  if (!is_symbolic() || terms_->size() != 1) return {};
  const auto& [monomial, c] = terms_->front();
  return monomial.size() == 1 && c == 1 ? monomial[0] : std::string();
}

// No model needs longer expressions; hostile ones grow exponentially.
constexpr size_t kMaxTerms = 128, kMaxDegree = 16;

// What overflows is unknown: models do write INT64_MAX for "to the end".
Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return {};
  if (a.is_static() && b.is_static()) {
    int64_t total = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &total)) return {};
    return total;
  }
  std::map<Dim::Monomial, int64_t> sum;
  for (const Dim* d : {&a, &b})
    for (const auto& [m, c] : d->AsTerms())
      if (int64_t& total = sum[m]; __builtin_add_overflow(total, c, &total)) return {};
  Dim::Terms terms;
  for (auto& [m, c] : sum)
    if (c != 0) terms.emplace_back(m, c);
  return Dim::FromTerms(std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.KnownEqual(0) || b.KnownEqual(0)) return 0;
  if (a.is_unknown() || b.is_unknown()) return {};
  if (a.is_static() && b.is_static()) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &product)) return {};
    return product;
  }
  const Dim::Terms ta = a.AsTerms(), tb = b.AsTerms();
  if (ta.size() * tb.size() > kMaxTerms) return {};
  std::map<Dim::Monomial, int64_t> sum;
  for (const auto& [ma, ca] : ta)
    for (const auto& [mb, cb] : tb) {
      if (ma.size() + mb.size() > kMaxDegree) return {};
      Dim::Monomial m = ma;
      m.insert(m.end(), mb.begin(), mb.end());
      std::sort(m.begin(), m.end());
      int64_t product = 0;
      int64_t& total = sum[m];
      if (__builtin_mul_overflow(ca, cb, &product) ||
          __builtin_add_overflow(total, product, &total))
        return {};
    }
  Dim::Terms terms;
  for (auto& [m, c] : sum)
    if (c != 0) terms.emplace_back(m, c);
  return Dim::FromTerms(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim Dim::FloorDiv(int64_t divisor) const {
  INFER_CHECK(divisor > 0);
  if (is_unknown() || divisor == 1) return *this;
  if (is_static()) {
    int64_t q = value_ / divisor;
    if (value_ % divisor < 0) --q;
    return q;
  }
  Terms quotient, rest;
  int64_t constant = 0;
  for (const auto& [m, c] : *terms_) {
    if (m.empty())
      constant = c;
    else if (c % divisor == 0)
      quotient.emplace_back(m, c / divisor);
    else
      rest.emplace_back(m, c);
  }
  const Dim whole = FromTerms(std::move(quotient));
  const Dim constant_part = Dim(constant).FloorDiv(divisor);
  if (rest.empty()) return whole + constant_part;
  int64_t remainder = constant % divisor;
  if (remainder < 0) remainder += divisor;
  const Dim inner = FromTerms(std::move(rest)) + Dim(remainder);
  return whole + constant_part + Symbol(Cat("floor((", inner.ToString(), ")/", divisor, ")"));
}

Dim Dim::CeilDiv(int64_t divisor) const { return (*this + Dim(divisor - 1)).FloorDiv(divisor); }

Dim Dim::ExactDiv(const Dim& o) const {
  if (is_unknown() || o.is_unknown() || o.KnownEqual(0)) return {};
  if (*this == o) return 1;
  if (o.KnownEqual(-1)) return *this * o;  // no quotient of INT64_MIN
  if (is_static() && o.is_static()) return value_ % o.value_ == 0 ? Dim(value_ / o.value_) : Dim();
  const Terms divisor = o.AsTerms();
  if (divisor.size() != 1) {
    // A polynomial divisor: only a single-term multiple of it can be recognised, term by term.
    const Terms mine = AsTerms();
    if (mine.size() != divisor.size()) return {};
    const Dim factor = FromTerms({mine[0]}).ExactDiv(FromTerms({divisor[0]}));
    return factor.is_unknown() || !(factor * o == *this) ? Dim() : factor;
  }
  Terms out;
  for (const auto& [m, c] : AsTerms()) {
    if (c == std::numeric_limits<int64_t>::min() || c % divisor[0].second != 0) return {};
    Monomial left = m;
    for (const std::string& s : divisor[0].first) {
      auto it = std::find(left.begin(), left.end(), s);
      if (it == left.end()) return {};
      left.erase(it);
    }
    out.emplace_back(std::move(left), c / divisor[0].second);
  }
  std::sort(out.begin(), out.end());
  return FromTerms(std::move(out));
}

bool Dim::Refines(const Dim& o) const {
  return o.is_unknown() || *this == o || (is_static() && o.is_symbolic());
}

Shape::Shape() = default;
Shape::Shape(const Shape&) = default;
Shape::Shape(Shape&&) noexcept = default;
Shape& Shape::operator=(const Shape&) = default;
Shape& Shape::operator=(Shape&&) noexcept = default;
Shape::~Shape() = default;
Shape::Shape(std::vector<Dim> dims) : has_rank_(true), dims_(std::move(dims)) {}
Shape::Shape(const Dims& dims) : has_rank_(true), dims_(dims.begin(), dims.end()) {}
bool Shape::operator==(const Shape&) const = default;

const Dim& Shape::operator[](int i) const {
  if (i < 0) i += rank();
  INFER_CHECK(i >= 0 && i < rank());
  return dims_[static_cast<size_t>(i)];
}

bool Shape::CanExist() const {
  Dims known;
  for (const Dim& d : dims_)
    if (d.is_static()) known.push_back(d.value());
  return CheckedTurns(known).has_value();
}

bool Shape::Admits(const Dims& dims) const {
  if (!has_rank_) return true;
  return dims_.size() == dims.size() &&
         std::equal(dims.begin(), dims.end(), dims_.begin(), [](int64_t extent, const Dim& d) {
           return !d.is_static() || d.value() == extent;
         });
}

bool Shape::is_static() const {
  return has_rank_ &&
         std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.is_static(); });
}

Dims Shape::static_dims() const {
  INFER_CHECK(has_rank_);
  Dims out;
  out.reserve(dims_.size());
  for (const Dim& d : dims_) out.push_back(d.value());
  return out;
}

Dim Shape::num_elements() const {
  if (!has_rank_) return {};
  Dim n = 1;
  for (const Dim& d : dims_)
    if (d.KnownEqual(0)) return 0;
  for (const Dim& d : dims_) n = n * d;
  return n;
}

bool Shape::Refines(const Shape& o) const {
  if (!o.has_rank_) return true;
  if (!has_rank_ || dims_.size() != o.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (!dims_[i].Refines(o.dims_[i])) return false;
  return true;
}

std::string Shape::ToString() const {
  if (!has_rank_) return "[*]";
  std::string out = "[";
  for (size_t i = 0; i < dims_.size(); ++i) out += (i ? "," : "") + dims_[i].ToString();
  return out + "]";
}

Result<Dim> Meet(const Dim& a, const Dim& b) {
  if (a.is_unknown()) return b;
  if (b.is_unknown() || a == b) return a;
  if (a.is_static() && b.is_static())
    return InvalidModel(Cat("extents ", a.ToString(), " and ", b.ToString(), " contradict"));
  StateEqual(a, b);
  return b.is_static() ? b : a;
}

Result<Shape> Meet(const Shape& a, const Shape& b) {
  if (!a.has_rank()) return b;
  if (!b.has_rank()) return a;
  if (a.rank() != b.rank())
    return InvalidModel(Cat("shapes ", a.ToString(), " and ", b.ToString(), " contradict"));
  std::vector<Dim> dims;
  for (int i = 0; i < a.rank(); ++i) {
    auto d = Meet(a[i], b[i]);
    if (!d.ok())
      return InvalidModel(Cat("shapes ", a.ToString(), " and ", b.ToString(), " contradict"));
    dims.push_back(*std::move(d));
  }
  return Shape(std::move(dims));
}

Dim JoinFacts(const Dim& a, const Dim& b) { return a == b ? a : Dim(); }

Shape JoinFacts(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return {};
  std::vector<Dim> dims;
  for (int i = 0; i < a.rank(); ++i) dims.push_back(JoinFacts(a[i], b[i]));
  return Shape(std::move(dims));
}

Result<Shape> Broadcast(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank()) return Shape();
  std::vector<Dim> out(static_cast<size_t>(std::max(a.rank(), b.rank())));
  for (int i = 1; i <= static_cast<int>(out.size()); ++i) {
    const Dim da = i <= a.rank() ? a[-i] : Dim(1), db = i <= b.rank() ? b[-i] : Dim(1);
    Dim& d = out[out.size() - static_cast<size_t>(i)];
    if (da.KnownEqual(1)) {
      d = db;
    } else if (db.KnownEqual(1) || da == db) {
      d = da;
    } else if (da.is_static() && db.is_static()) {
      return InvalidModel(Cat("cannot broadcast ", a.ToString(), " with ", b.ToString()));
    } else {
      const bool as_if_equal = StateBroadcast(da, db);
      if (da.is_static() || db.is_static())
        d = da.is_static() ? da : db;  // the other is 1 or it
      else if (as_if_equal)
        d = da.is_unknown() ? db : da;
    }
  }
  return Shape(std::move(out));
}

Result<Dims> Broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= out.size(); ++i) {
    const int64_t da = i <= a.size() ? a[a.size() - i] : 1,
                  db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1)
      return InvalidModel(Cat("cannot broadcast ", ToString(a), " with ", ToString(b)));
    out[out.size() - i] = da == 1 ? db : da;
  }
  return out;
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    return InvalidModel(Cat("axis ", axis, " is out of range for rank ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace infer
