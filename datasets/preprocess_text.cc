#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "datasets/preprocess.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using P = Preprocess;

/// Each value reader returns "" or what it expects.
using Read = std::string (*)(std::string_view value, P& p);
using Write = std::string (*)(const P& p);  // "" when the key is not set

/// Largest extent that a declaration may ask for.
constexpr int64_t kMaxExtent = 1 << 16;

template <typename E>
struct Word {
  std::string_view text;
  E value;
};
constexpr Word<P::Layout> kSources[] = {{"hwc", P::Layout::kHwc}, {"chw", P::Layout::kChw}};
constexpr Word<P::Layout> kLayouts[] = {{"nhwc", P::Layout::kHwc}, {"nchw", P::Layout::kChw}};
constexpr Word<P::Interp> kInterps[] = {{"bilinear", P::Interp::kBilinear},
                                        {"bicubic", P::Interp::kBicubic},
                                        {"nearest", P::Interp::kNearest}};
constexpr Word<P::Order> kOrders[] = {
    {"rgb", P::Order::kRgb}, {"bgr", P::Order::kBgr}, {"grey", P::Order::kGrey}};

template <typename E, size_t N>
std::string ReadWord(const Word<E> (&words)[N], std::string_view value, E& out) {
  std::vector<std::string_view> texts;
  for (const Word<E>& w : words) {
    if (w.text == value) {
      out = w.value;
      return "";
    }
    texts.push_back(w.text);
  }
  return Cat("one of ", Join(texts, ", "));
}

template <typename E, size_t N>
std::string WriteWord(const Word<E> (&words)[N], E value) {
  for (const Word<E>& w : words)
    if (w.value == value) return std::string(w.text);
  return "";
}

std::string ReadExtents(std::string_view value, size_t max_rank, Dims& out) {
  out.clear();
  for (const std::string& piece : Split(value, 'x')) {
    const std::optional<int64_t> d = ParseInt(piece);
    if (!d || *d < 1 || *d > kMaxExtent || out.size() == max_rank) return "bad";
    out.push_back(*d);
  }
  return "";
}

std::string ReadSize(std::string_view value, std::optional<P::Size>& out) {
  Dims d;
  if (!ReadExtents(value, 2, d).empty()) return "S or HxW, each 1 to 65536";
  out = P::Size{d[0], d.size() == 2 ? d[1] : 0};
  return "";
}

std::string WriteSize(const std::optional<P::Size>& s) {
  if (!s) return "";
  return s->width ? Cat(s->height, "x", s->width) : Cat(s->height);
}

/// "0.5", "1/255". nullopt for anything that is no finite number.
std::optional<double> ReadNumber(std::string_view text) {
  const size_t slash = text.find('/');
  std::optional<double> v = ParseDouble(text.substr(0, slash));
  if (v && slash != text.npos) {
    const std::optional<double> d = ParseDouble(text.substr(slash + 1));
    v = d ? std::optional(*v / *d) : std::nullopt;
  }
  return v && std::isfinite(*v) ? v : std::nullopt;
}

std::string ReadNumbers(std::string_view value, bool allow_zero, std::vector<double>& out) {
  for (const std::string& piece : Split(value, ':')) {
    const std::optional<double> v = ReadNumber(piece);
    if (!v || (*v == 0 && !allow_zero) || out.size() == 4096)
      return allow_zero ? "numbers joined by ':'" : "numbers other than 0 joined by ':'";
    out.push_back(*v);
  }
  return "";
}

struct Key {
  std::string_view name, values, help;
  Read read;
  Write write;
};

constexpr Key kKeys[] = {
    {"source", "hwc|chw", "how a stored image lies; default: as its extents say",
     [](std::string_view v, P& p) { return ReadWord(kSources, v, p.source); },
     [](const P& p) { return WriteWord(kSources, p.source); }},
    {"resize", "S|HxW", "the shorter side becomes S, or exactly HxW; 8-bit images only",
     [](std::string_view v, P& p) { return ReadSize(v, p.resize); },
     [](const P& p) { return WriteSize(p.resize); }},
    {"interp", "bilinear|bicubic|nearest", "how resize interpolates; default: bilinear",
     [](std::string_view v, P& p) { return ReadWord(kInterps, v, p.interp); },
     [](const P& p) {
       return p.interp == P::Interp::kBilinear ? "" : WriteWord(kInterps, p.interp);
     }},
    {"crop", "S|HxW", "this much from the centre",
     [](std::string_view v, P& p) { return ReadSize(v, p.crop); },
     [](const P& p) { return WriteSize(p.crop); }},
    {"order", "rgb|bgr|grey", "order of the channels; default: as stored",
     [](std::string_view v, P& p) { return ReadWord(kOrders, v, p.order); },
     [](const P& p) { return WriteWord(kOrders, p.order); }},
    {"scale", "K", "(x * scale - mean) / std; a fraction may stand: 1/255",
     [](std::string_view v, P& p) -> std::string {
       const std::optional<double> scale = ReadNumber(v);
       if (!scale || *scale == 0) return "a number or a fraction, e.g. 1/255";
       p.scale = *scale;
       p.normalise = true;
       return "";
     },
     [](const P& p) {
       return p.normalise && (p.scale != 1 || (p.mean.empty() && p.std.empty()))
                  ? FormatDouble(p.scale)
                  : "";
     }},
    {"mean", "A:B:C", "one number for all channels, or one each",
     [](std::string_view v, P& p) {
       p.normalise = true;
       return ReadNumbers(v, true, p.mean);
     },
     [](const P& p) { return Join(p.mean, ":"); }},
    {"std", "A:B:C", "one number for all channels, or one each",
     [](std::string_view v, P& p) {
       p.normalise = true;
       return ReadNumbers(v, false, p.std);
     },
     [](const P& p) { return Join(p.std, ":"); }},
    {"layout", "nhwc|nchw", "of the model input; default: as stored",
     [](std::string_view v, P& p) { return ReadWord(kLayouts, v, p.layout); },
     [](const P& p) { return WriteWord(kLayouts, p.layout); }},
    {"dtype", "f32|u8|...", "default: f32 with scale, mean or std, else as stored",
     [](std::string_view v, P& p) -> std::string {
       const std::optional<DType> t = ParseDType(v);
       if (!t || BitWidth(*t) < 8 || kComplex.Has(*t)) return "an element type, e.g. f32 or u8";
       p.dtype = *t;
       return "";
     },
     [](const P& p) {
       return p.dtype == DType::kUndefined ? std::string() : std::string(Name(p.dtype));
     }},
    {"shape", "AxBxC", "of one sample, without the batch axis",
     [](std::string_view v, P& p) -> std::string {
       return ReadExtents(v, 32, p.shape).empty() ? "" : "extents joined by 'x', e.g. 784x1";
     },
     [](const P& p) { return Join(p.shape, "x"); }},
};

}  // namespace

std::string PreprocessHelp() {
  std::string out;
  const auto add = [&](const std::string& what, std::string_view help) {
    constexpr size_t kColumn = 34;
    out += Cat("  ", what, std::string(kColumn - what.size(), ' '), help, "\n");
  };
  for (const Key& k : kKeys) add(Cat(k.name, "=", k.values), k.help);
  add("flatten", "shape=<all elements>");
  return out;
}

Result<Preprocess> ParsePreprocess(std::string_view text) {
  P p;
  std::vector<std::string> seen;
  if (Trim(text).empty()) return p;
  for (const std::string& piece : Split(text, ',')) {
    const std::string_view item = Trim(piece);
    const size_t equals = item.find('=');
    const std::string name(Trim(item.substr(0, equals)));
    const auto fail = [&](std::string_view why) {
      return InvalidArgument(Cat("preprocess: '", item, "': ", why));
    };
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) return fail("given twice");
    seen.push_back(name);
    if (name == "flatten") {
      if (equals != item.npos) return fail("takes no value");
      p.flatten = true;
      continue;
    }
    const auto key = std::find_if(std::begin(kKeys), std::end(kKeys),
                                  [&](const Key& k) { return k.name == name; });
    if (key == std::end(kKeys)) {
      std::vector<std::string_view> names;
      for (const Key& k : kKeys) names.push_back(k.name);
      return fail(Cat("unknown key; the keys are ", Join(names, ", "), " and flatten"));
    }
    if (equals == item.npos) return fail(Cat("write ", name, "=VALUE"));
    if (const std::string expected = key->read(Trim(item.substr(equals + 1)), p); !expected.empty())
      return fail(Cat("expected ", expected));
  }
  if (p.flatten && !p.shape.empty())
    return InvalidArgument("preprocess: 'flatten' and 'shape' exclude each other");
  return p;
}

std::string Preprocess::ToString() const {
  std::vector<std::string> items;
  for (const Key& k : kKeys)
    if (std::string value = k.write(*this); !value.empty())
      items.push_back(Cat(k.name, "=", value));
  if (flatten) items.emplace_back("flatten");
  return Join(items, ",");
}

}  // namespace infer
