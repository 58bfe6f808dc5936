#include "datasets/readers/npz.h"

#include <algorithm>
#include <set>

#include "datasets/readers/inflate.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Little-endian fields of a byte string. Pre of Get: in range, which callers have checked.
struct Fields {
  std::string_view bytes;
  uint64_t Get(size_t at, size_t n) const {
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;) v = v << 8 | static_cast<unsigned char>(bytes[at + i]);
    return v;
  }
};

struct Entry {
  std::string name;
  uint64_t method = 0, crc = 0, packed_bytes = 0, unpacked_bytes = 0, local_offset = 0;
};

struct Directory {
  uint64_t offset = 0, size = 0, entries = 0;
};

constexpr uint64_t k32 = 0xFFFFFFFFu;

class Archive {
 public:
  Archive(DataBytesPtr source, const ReadLimits& limits)
      : source_(std::move(source)), limits_(limits) {}

  Result<std::vector<StoredArray>> Arrays() {
    INFER_ASSIGN(const Directory dir, FindDirectory());
    INFER_ASSIGN(const std::vector<Entry> entries, ReadDirectory(dir));
    std::vector<StoredArray> arrays;
    for (const Entry& e : entries) {
      INFER_ASSIGN(StoredArray a, Open(e));
      a.name = e.name;
      arrays.push_back(std::move(a));
    }
    return arrays;
  }

 private:
  Status Fail(std::string_view what) const {
    return InvalidModel(Cat(source_->name(), ": not a sound .npz file: ", what));
  }

  /// The end-of-central-directory record (4.3.16) and, where its fields overflow, ZIP64's (4.3.14).
  Result<Directory> FindDirectory() const {
    const int64_t tail_bytes = std::min<int64_t>(source_->size(), 22 + 65535);
    const int64_t tail_at = source_->size() - tail_bytes;
    INFER_ASSIGN(const std::string tail, source_->ReadString(tail_at, tail_bytes));
    const size_t at = tail.rfind("PK\5\6");
    if (at == tail.npos || tail.size() - at < 22) return Fail("no end record");
    const Fields end{std::string_view(tail).substr(at)};
    Directory d{end.Get(16, 4), end.Get(12, 4), end.Get(10, 2)};
    if (end.Get(4, 2) != end.Get(6, 2)) return Fail("split over several files");
    if (d.offset == k32 || d.size == k32 || d.entries == 0xFFFF) {
      const int64_t locator_at = tail_at + static_cast<int64_t>(at) - 20;
      INFER_ASSIGN(const std::string locator, source_->ReadString(locator_at, 20));
      if (!locator.starts_with("PK\6\7")) return Fail("no ZIP64 locator");
      INFER_ASSIGN(const int64_t at64, Offset(Fields{locator}.Get(8, 8)));
      INFER_ASSIGN(const std::string end64, source_->ReadString(at64, 56));
      if (!end64.starts_with("PK\6\6")) return Fail("no ZIP64 end record");
      d = {Fields{end64}.Get(48, 8), Fields{end64}.Get(40, 8), Fields{end64}.Get(32, 8)};
    }
    if (d.entries > static_cast<uint64_t>(limits_.max_entries))
      return Fail(Cat(d.entries, " arrays, the limit is ", limits_.max_entries));
    return d;
  }

  Result<int64_t> Offset(uint64_t v) const {
    if (v > static_cast<uint64_t>(source_->size())) return Fail("an offset beyond the end");
    return static_cast<int64_t>(v);
  }

  Result<std::vector<Entry>> ReadDirectory(const Directory& d) const {
    INFER_ASSIGN(const int64_t begin, Offset(d.offset));
    INFER_ASSIGN(const int64_t size, Offset(d.size));
    INFER_ASSIGN(const std::string bytes, source_->ReadString(begin, size));
    std::vector<Entry> entries;
    std::set<std::string> names;
    uint64_t unpacked = 0;
    size_t at = 0;
    for (uint64_t i = 0; i < d.entries; ++i) {
      if (bytes.size() - at < 46 || bytes.compare(at, 4, "PK\1\2") != 0)
        return Fail("broken directory");
      const Fields f{std::string_view(bytes).substr(at)};
      const size_t name = f.Get(28, 2), extra = f.Get(30, 2), comment = f.Get(32, 2);
      if (f.bytes.size() - 46 < name + extra + comment) return Fail("broken directory");
      Entry e{std::string(f.bytes.substr(46, name)),
              f.Get(10, 2),
              f.Get(16, 4),
              f.Get(20, 4),
              f.Get(24, 4),
              f.Get(42, 4)};
      if (f.Get(8, 2) & 1) return Fail(Cat("'", e.name, "' is encrypted"));
      INFER_TRY(ApplyZip64(Fields{f.bytes.substr(46 + name, extra)}, e));
      INFER_TRY(CheckName(e.name));
      if (!names.insert(e.name).second) return Fail(Cat("two arrays named '", e.name, "'"));
      const std::string where = Cat(source_->name(), ": array ", e.name);
      if (e.unpacked_bytes > INT64_MAX || e.packed_bytes > INT64_MAX)
        return Fail("impossible sizes");
      INFER_TRY(CheckUnpacked(static_cast<int64_t>(e.packed_bytes),
                              static_cast<int64_t>(e.unpacked_bytes), where, limits_));
      if (e.method != 0) unpacked += e.unpacked_bytes;
      if (unpacked > static_cast<uint64_t>(limits_.max_unpacked_bytes))
        return Fail(Cat("unpacks to more than ", HumanBytes(limits_.max_unpacked_bytes)));
      entries.push_back(std::move(e));
      at += 46 + name + extra + comment;
    }
    return entries;
  }

  /// Extra field 0x0001 (4.5.3): 64-bit values for exactly those fields that overflow, in order.
  Status ApplyZip64(const Fields& extra, Entry& e) const {
    for (size_t at = 0; at + 4 <= extra.bytes.size();) {
      const size_t size = extra.Get(at + 2, 2);
      if (extra.bytes.size() - at - 4 < size) return Fail("broken extra field");
      if (extra.Get(at, 2) == 1) {
        size_t field = at + 4;
        const size_t end = field + size;
        for (uint64_t* v : {&e.unpacked_bytes, &e.packed_bytes, &e.local_offset})
          if (*v == k32) {
            if (end - field < 8) return Fail("broken ZIP64 field");
            *v = extra.Get(field, 8);
            field += 8;
          }
      }
      at += 4 + size;
    }
    return {};
  }

  /// "x.npy" -> "x".
  Status CheckName(std::string& name) const {
    const bool path = name.find_first_of("/\\") != name.npos || name.starts_with(".") ||
                      name.find('\0') != name.npos;
    if (path || !name.ends_with(".npy") || name.size() == 4)
      return Fail(Cat("entry '", name, "' is no array name (NAME.npy)"));
    name.resize(name.size() - 4);
    return {};
  }

  Result<StoredArray> Open(const Entry& e) const {
    INFER_ASSIGN(const int64_t at, Offset(e.local_offset));
    INFER_ASSIGN(const std::string head, source_->ReadString(at, 30));
    if (!head.starts_with("PK\3\4")) return Fail(Cat("no local header of '", e.name, "'"));
    const int64_t data_at =
        at + 30 + static_cast<int64_t>(Fields{head}.Get(26, 2) + Fields{head}.Get(28, 2));
    const auto packed = static_cast<int64_t>(e.packed_bytes);
    if (data_at > source_->size() || packed > source_->size() - data_at)
      return Fail(Cat("'", e.name, "' is truncated"));
    if (e.method == 0) {
      if (e.packed_bytes != e.unpacked_bytes) return Fail(Cat("sizes of '", e.name, "' differ"));
      return ParseNpy(source_, data_at, packed, limits_);
    }
    const std::string where = Cat(source_->name(), ": array ", e.name);
    if (e.method != 8)
      return Unsupported(Cat(where, ": compression method ", e.method, " (0 and 8 are known)"));
    INFER_ASSIGN(const std::string bytes, source_->ReadString(data_at, packed));
    INFER_ASSIGN(std::string npy,
                 InflateRaw(bytes, static_cast<int64_t>(e.unpacked_bytes), where, limits_));
    if (Crc32(npy) != e.crc) return InvalidModel(Cat(where, ": checksum differs"));
    DataBytesPtr memory = DataBytes::OfMemory(std::move(npy), where);
    return ParseNpy(memory, 0, memory->size(), limits_);
  }

  DataBytesPtr source_;
  const ReadLimits& limits_;
};

}  // namespace

Result<std::vector<StoredArray>> ParseNpz(DataBytesPtr source, const ReadLimits& limits) {
  return Archive(std::move(source), limits).Arrays();
}

Result<std::vector<StoredArray>> OpenNpz(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  return ParseNpz(source, limits);
}

}  // namespace infer
