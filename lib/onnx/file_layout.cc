#include "lib/onnx/file_layout.h"

#include <algorithm>
#include <functional>

#include "lib/onnx/tensor_proto.h"
#include "lib/support/folder.h"
#include "lib/support/path_parts.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr uint64_t kExternalAlignment = 64;
constexpr size_t kHashDigits = 16;  // of the SHA-256 in the names of data files

using Sink = std::function<Status(const void*, size_t)>;

void AppendVarint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}
void AppendTag(std::string& out, uint32_t field) { AppendVarint(out, uint64_t{field} << 3 | 2); }

/// One initializer as it will stand in the file: protobuf bytes, then perhaps its data. protobuf
/// never sees the data: a message is the concatenation of its fields.
struct Entry {
  std::string bytes;          // tag and length of GraphProto.initializer, and the tensor's header
  const Tensor* inline_data;  // nullptr: none, or external
  uint64_t size() const {
    return bytes.size() + (inline_data ? static_cast<uint64_t>(inline_data->byte_size()) : 0);
  }
};

struct External {
  std::string location;
  uint64_t offset = 0;
};

Entry EntryOf(const PendingTensor& t, const External* external) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(t.extra)) proto.Clear();  // written by RestoreKeptFields
  const bool raw = !external && t.tensor.dtype() != DType::kString;
  if (t.tensor.dtype() == DType::kString)
    FillTensorProto(t.tensor, proto);
  else
    FillTensorHeader(t.tensor, proto);
  proto.set_name(t.name);
  if (external) {
    const std::pair<const char*, std::string> entries[] = {{"location", external->location},
                                                           {"offset", Cat(external->offset)},
                                                           {"length", Cat(t.tensor.byte_size())}};
    for (const auto& [key, value] : entries) {
      auto* e = proto.add_external_data();
      e->set_key(key);
      e->set_value(value);
    }
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
  }
  std::string header = proto.SerializeAsString();
  const auto data_bytes = raw ? static_cast<uint64_t>(t.tensor.byte_size()) : 0;
  if (raw) {
    AppendTag(header, onnx::TensorProto::kRawDataFieldNumber);
    AppendVarint(header, data_bytes);
  }
  Entry entry{"", raw ? &t.tensor : nullptr};
  AppendTag(entry.bytes, onnx::GraphProto::kInitializerFieldNumber);
  AppendVarint(entry.bytes, header.size() + data_bytes);
  entry.bytes += header;
  return entry;
}

/// The file, ready to be streamed.
struct Layout {
  std::string head;   // the model without its graph, then the graph's tag and length
  std::string graph;  // without initializers
  std::vector<Entry> entries;
  uint64_t size() const {
    uint64_t n = head.size() + graph.size();
    for (const Entry& e : entries) n += e.size();
    return n;
  }
  Status WriteTo(const Sink& sink) const {
    INFER_TRY(sink(head.data(), head.size()));
    INFER_TRY(sink(graph.data(), graph.size()));
    for (const Entry& e : entries) {
      INFER_TRY(sink(e.bytes.data(), e.bytes.size()));
      if (e.inline_data)
        INFER_TRY(sink(e.inline_data->raw(), static_cast<size_t>(e.inline_data->byte_size())));
    }
    return {};
  }
};

Layout LayoutOf(const onnx::ModelProto& header, const WrittenModel& written,
                const std::map<std::string, External>& external) {
  Layout out;
  out.graph = written.graph.SerializeAsString();
  uint64_t graph_size = out.graph.size();
  for (const PendingTensor& t : written.initializers) {
    auto it = external.find(t.name);
    out.entries.push_back(EntryOf(t, it == external.end() ? nullptr : &it->second));
    graph_size += out.entries.back().size();
  }
  out.head = header.SerializeAsString();
  AppendTag(out.head, onnx::ModelProto::kGraphFieldNumber);
  AppendVarint(out.head, graph_size);
  return out;
}

/// Offsets in the external file for every tensor that goes there. The location is still open.
std::map<std::string, External> PlaceExternal(const WrittenModel& written,
                                              const ExportOptions& options, int64_t& total) {
  std::map<std::string, External> out;
  uint64_t at = 0;
  for (const PendingTensor& t : written.initializers) {
    if (t.tensor.dtype() == DType::kString ||
        t.tensor.byte_size() < options.external_threshold_bytes)
      continue;
    at = (at + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
    out[t.name].offset = at;
    at += static_cast<uint64_t>(t.tensor.byte_size());
  }
  total = static_cast<int64_t>(at);
  return out;
}

/// Writes NAME.HASH.data beside the model. The hash of the contents in the name keeps a model that
/// is already there whole, whatever happens before the new one is.
Status WriteExternal(const std::string& path, const std::vector<FileId>& inputs,
                     const WrittenModel& written, int64_t total,
                     std::map<std::string, External>& external) {
  if (external.empty()) return {};
  INFER_ASSIGN(auto file, AtomicFile::Create(Cat(path, ".data"), inputs, total));
  Sha256 hash;
  auto put = [&](const void* data, size_t size) -> Status {
    hash.Add(data, size);
    return file->Write(data, size);
  };
  const std::string zeros(kExternalAlignment, '\0');
  for (const PendingTensor& t : written.initializers) {
    auto it = external.find(t.name);
    if (it == external.end()) continue;
    INFER_TRY(put(zeros.data(), it->second.offset - static_cast<uint64_t>(file->size())));
    INFER_TRY(put(t.tensor.raw(), static_cast<size_t>(t.tensor.byte_size())));
  }
  const std::string name = Cat(BaseName(path), ".", hash.Hex().substr(0, kHashDigits), ".data");
  for (auto& [tensor, where] : external) where.location = name;
  file->SetName(name);
  return file->Commit();
}

/// Files NAME.HASH.data beside the model other than `current`.
std::vector<std::string> OtherData(const std::string& path, const std::string& current) {
  const size_t slash = path.rfind('/') + 1;
  const std::string prefix = path.substr(slash) + ".", suffix = ".data";
  std::vector<std::string> found;
  const std::string folder = slash > 0 ? path.substr(0, slash) : "./";
  const auto entries = EntriesOf(folder);
  if (!entries.ok()) return found;
  for (const std::string& name : *entries) {
    if (name == current || name.size() != prefix.size() + kHashDigits + suffix.size() ||
        !name.starts_with(prefix) || !name.ends_with(suffix))
      continue;
    const auto hash = std::string_view(name).substr(prefix.size(), kHashDigits);
    if (hash.find_first_not_of("0123456789abcdef") == std::string_view::npos)
      found.push_back((slash > 0 ? folder : "") + name);
  }
  return found;
}

}  // namespace

Status WriteFileOf(const FileParts& parts, const std::string& given,
                   const std::vector<FileId>& inputs, const ExportOptions& options,
                   ExportReport& report) {
  // Data lie beside the file, not beside a link to it.
  INFER_ASSIGN(const std::string path, OutputPath(given));
  Layout layout = LayoutOf(parts.header, parts.written, {});
  // Refused before any data is written when the output is an input.
  INFER_ASSIGN(auto file, AtomicFile::Create(path, inputs));
  std::string data_file;
  if (options.force_external || layout.size() > static_cast<uint64_t>(options.max_inline_bytes)) {
    auto external = PlaceExternal(parts.written, options, report.external_bytes);
    INFER_TRY(WriteExternal(path, inputs, parts.written, report.external_bytes, external));
    if (!external.empty()) data_file = external.begin()->second.location;
    layout = LayoutOf(parts.header, parts.written, external);
    if (layout.size() > INT32_MAX)
      return Unsupported(
          Cat(path, ": more than 2 GiB beside external data; lower ", "external_threshold_bytes"));
  }
  INFER_TRY(layout.WriteTo([&](const void* data, size_t n) { return file->Write(data, n); }));
  // Memory is taken before the file has its name, so that a failure leaves no file.
  report.stale_data = OtherData(path, data_file);
  report.file_bytes = static_cast<int64_t>(layout.size());
  return file->Commit();
}

Result<std::string> BytesOfFile(const FileParts& parts) {
  const Layout layout = LayoutOf(parts.header, parts.written, {});
  if (layout.size() > INT32_MAX)
    return Unsupported("a model over 2 GiB fits into files only (external data)");
  std::string out;
  out.reserve(layout.size());
  INFER_TRY(layout.WriteTo([&](const void* data, size_t n) -> Status {
    out.append(static_cast<const char*>(data), n);
    return {};
  }));
  return out;
}

}  // namespace infer::onnx_io
