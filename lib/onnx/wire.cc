#include "lib/onnx/wire.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

/// Which field of which message holds which message. TrainingInfoProto is not followed: it is kept
/// as it is, data included.
struct Edge {
  Message parent;
  uint32_t field;
  Message child;
};
constexpr Edge kEdges[] = {
    {Message::kModel, 7, Message::kGraph},
    {Message::kModel, 25, Message::kFunction},
    {Message::kGraph, 1, Message::kNode},
    {Message::kGraph, 5, Message::kTensor},
    {Message::kGraph, 15, Message::kSparseTensor},
    {Message::kNode, 5, Message::kAttribute},
    {Message::kAttribute, 5, Message::kTensor},
    {Message::kAttribute, 6, Message::kGraph},
    {Message::kAttribute, 10, Message::kTensor},
    {Message::kAttribute, 11, Message::kGraph},
    {Message::kAttribute, 22, Message::kSparseTensor},
    {Message::kAttribute, 23, Message::kSparseTensor},
    {Message::kSparseTensor, 1, Message::kTensor},
    {Message::kSparseTensor, 2, Message::kTensor},
    {Message::kFunction, 7, Message::kNode},
    {Message::kFunction, 11, Message::kAttribute},
    {Message::kSequence, 3, Message::kTensor},
    {Message::kSequence, 4, Message::kSparseTensor},
    {Message::kSequence, 5, Message::kSequence},
    {Message::kSequence, 6, Message::kMap},
    {Message::kSequence, 7, Message::kOptional},
    {Message::kOptional, 3, Message::kTensor},
    {Message::kOptional, 4, Message::kSparseTensor},
    {Message::kOptional, 5, Message::kSequence},
    {Message::kOptional, 6, Message::kMap},
    {Message::kOptional, 7, Message::kOptional},
    {Message::kMap, 5, Message::kSequence},
};

const Edge* FindEdge(Message parent, uint32_t field) {
  for (const Edge& e : kEdges)
    if (e.parent == parent && e.field == field) return &e;
  return nullptr;
}

constexpr uint32_t kRawData = 9;
constexpr int kMaxDepth = 100;  // protobuf's own limit on nesting
constexpr uint64_t kLargeField = 4096;

/// The TensorProto fields that hold elements in packed form.
std::optional<Blob::Kind> PackedField(uint32_t field) {
  switch (field) {
    case 4:
    case 10: return Blob::Kind::kRaw;
    case 5:
    case 7:
    case 11: return Blob::Kind::kVarints;
    default: return std::nullopt;
  }
}

struct Field {
  uint32_t number = 0;
  int wire_type = 0;
  uint64_t begin = 0;    ///< of the tag
  uint64_t payload = 0;  ///< of the value
  uint64_t size = 0;     ///< of the value
};

class Scanner {
 public:
  Scanner(const ByteSource& source, const ScanLimits& limits) : source_(source), limits_(limits) {}

  Status Walk(Message kind, uint64_t begin, uint64_t end, int depth, int graphs) {
    if (depth > kMaxDepth) return InvalidModel("messages nest more than 100 deep");
    if (++messages_ > limits_.max_messages)
      return InvalidModel(Cat("more than ", limits_.max_messages, " messages"));
    if (kind == Message::kGraph && ++graphs > limits_.max_graph_depth + 1)
      return InvalidModel(Cat("subgraphs nest more than ", limits_.max_graph_depth, " deep"));
    if (kind == Message::kNode && ++nodes_ > limits_.max_nodes)
      return InvalidModel(Cat("more than ", limits_.max_nodes, " nodes"));
    if (kind == Message::kFunction && ++functions_ > limits_.max_functions)
      return InvalidModel(Cat("more than ", limits_.max_functions, " functions"));
    const uint32_t moved = kind == Message::kTensor ? MovableField(begin, end) : 0;
    for (uint64_t at = begin; at < end;) {
      Field f;
      INFER_TRY(Next(at, end, f));
      at = f.payload + f.size;
      const Edge* edge = f.wire_type == 2 ? FindEdge(kind, f.number) : nullptr;
      if (edge) {
        AppendVarint(uint64_t{f.number} << 3 | 2);
        const size_t length_at = out_.bytes.size();
        out_.bytes.append(5, '\0');
        INFER_TRY(Walk(edge->child, f.payload, at, depth + 1, graphs));
        PatchLength(length_at);
      } else if (kind == Message::kTensor && f.wire_type == 2 &&
                 (f.number == kRawData || f.number == moved)) {
        AppendBlob(f);
      } else {
        INFER_TRY(Copy(f.begin, at));
      }
    }
    return {};
  }

  SlimMessage Take() { return std::move(out_); }

 private:
  static Status Broken(uint64_t at, std::string_view why) {
    return InvalidModel(Cat("not a valid protobuf message: ", why, " at byte ", at));
  }

  /// Bytes [at, at + n) in the window; fewer at the end of the source.
  Result<std::string_view> Peek(uint64_t at, size_t n) {
    if (at < window_at_ || at + n > window_at_ + window_.size()) {
      const uint64_t left = source_.size() - std::min(at, source_.size());
      window_.resize(static_cast<size_t>(std::min<uint64_t>(left, size_t{1} << 16)));
      window_at_ = at;
      INFER_TRY(source_.Read(at, window_.data(), window_.size()));
    }
    return std::string_view(window_).substr(static_cast<size_t>(at - window_at_), n);
  }

  Status Varint(uint64_t& at, uint64_t end, uint64_t& value) {
    INFER_ASSIGN(const std::string_view bytes,
                 Peek(at, static_cast<size_t>(std::min<uint64_t>(10, end - at))));
    value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        at += i + 1;
        return {};
      }
    }
    return Broken(at, "a number that does not end");
  }

  Status Next(uint64_t at, uint64_t end, Field& f) {
    f.begin = at;
    uint64_t tag = 0;
    INFER_TRY(Varint(at, end, tag));
    if (tag >> 3 == 0 || tag >> 32 != 0) return Broken(f.begin, "a bad tag");
    f.number = static_cast<uint32_t>(tag >> 3);
    f.wire_type = static_cast<int>(tag & 7);
    uint64_t value = 0;
    f.payload = at;
    switch (f.wire_type) {
      case 0:
        INFER_TRY(Varint(at, end, value));
        f.size = at - f.payload;
        break;
      case 1: f.size = 8; break;
      case 2:
        INFER_TRY(Varint(at, end, f.size));
        f.payload = at;
        break;
      case 5: f.size = 4; break;
      default: return Broken(f.begin, "a group or an unknown wire type");
    }
    if (f.size > end - f.payload) return Broken(f.begin, "a field that is longer than its message");
    return {};
  }

  /// The large packed field of a tensor that can be left in the source: the only field with
  /// elements, standing once. 0: none.
  uint32_t MovableField(uint64_t begin, uint64_t end) {
    uint32_t found = 0;
    for (uint64_t at = begin; at < end;) {
      Field f;
      if (!Next(at, end, f).ok()) return 0;
      at = f.payload + f.size;
      const bool data = f.number == kRawData || f.number == 6 || PackedField(f.number);
      if (!data) continue;
      if (found || f.number == kRawData || f.number == 6 || f.wire_type != 2 ||
          f.size < kLargeField)
        return 0;
      found = f.number;
    }
    return found;
  }

  void AppendVarint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.bytes += static_cast<char>(v | 0x80);
    out_.bytes += static_cast<char>(v);
  }

  /// Lengths are written as 5-byte varints (not the shortest form, but valid), so that nested
  /// messages need one pass.
  void PatchLength(size_t at) {
    uint64_t v = out_.bytes.size() - at - 5;
    for (size_t i = 0; i < 5; ++i, v >>= 7)
      out_.bytes[at + i] = static_cast<char>((v & 0x7f) | (i < 4 ? 0x80 : 0));
  }

  void AppendBlob(const Field& f) {
    const uint64_t index = out_.blobs.size();
    out_.blobs.push_back({f.number == kRawData ? Blob::Kind::kRaw : *PackedField(f.number),
                          f.number, f.payload, f.size});
    AppendVarint(uint64_t{kRawData} << 3 | 2);
    AppendVarint(8);
    for (int i = 0; i < 8; ++i) out_.bytes += static_cast<char>(index >> (8 * i));
  }

  Status Copy(uint64_t begin, uint64_t end) {
    if (end - begin > uint64_t{INT32_MAX} - std::min<uint64_t>(INT32_MAX, out_.bytes.size()))
      return InvalidModel("more than 2 GiB beside tensor data");
    const size_t old = out_.bytes.size();
    const auto n = static_cast<size_t>(end - begin);
    if (n <= 4096) {
      INFER_ASSIGN(const std::string_view bytes, Peek(begin, n));
      out_.bytes += bytes;
      return {};
    }
    out_.bytes.resize(old + n);
    return source_.Read(begin, out_.bytes.data() + old, n);
  }

  const ByteSource& source_;
  const ScanLimits& limits_;
  SlimMessage out_;
  std::string window_;
  uint64_t window_at_ = 0;
  int64_t messages_ = 0, nodes_ = 0, functions_ = 0;
};

}  // namespace

Result<SlimMessage> Scan(const ByteSource& source, Message root, const ScanLimits& limits) {
  Scanner scanner(source, limits);
  INFER_TRY(scanner.Walk(root, 0, source.size(), 0, 0));
  return scanner.Take();
}

}  // namespace infer::onnx_io
