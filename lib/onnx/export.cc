#include "lib/onnx/export.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "lib/onnx/graph_writer.h"
#include "lib/onnx/opset.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/onnx/type_proto.h"
#include "lib/support/folder.h"
#include "lib/support/path_parts.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// For graphs that were not imported: what every runtime of today takes.
constexpr int64_t kDefaultOpset = 17;
constexpr int64_t kFirstIrVersion = 3;  // that models in use have
constexpr int64_t kMinIrVersion = 4;    // since then initializers need not be graph inputs
constexpr int64_t kFunctionIrVersion = 8;
constexpr uint64_t kExternalAlignment = 64;
constexpr size_t kHashDigits = 16;  // of the SHA-256 in the names of data files

using Sink = std::function<Status(const void*, size_t)>;

Status ListInexpressible(const std::vector<Inexpressible>& list, int64_t opset) {
  constexpr size_t kShown = 12;
  std::set<std::string> lines;
  int64_t needed = 0;
  for (const Inexpressible& x : list) {
    lines.insert(Cat("\n  ", x.node, ": ", x.why));
    needed = std::max(needed, x.opset);
  }
  std::string out = Cat("opset ", opset, " cannot express ", lines.size(),
                        lines.size() == 1 ? " thing" : " things", "; opset ", needed, " can:");
  size_t shown = 0;
  for (const std::string& line : lines)
    if (++shown <= kShown) out += line;
  if (lines.size() > kShown) out += Cat("\n  and ", lines.size() - kShown, " more");
  return Unsupported(std::move(out));
}

/// Writes the graph at the opset asked for, or at the lowest that can, from the input's on.
Result<WrittenModel> WriteAtOpset(const Model& model, const ExportOptions& options,
                                  ExportReport& report) {
  INFER_TRY(CheckOpset(options.opset));
  const auto it = model.info.opsets.find("");
  const bool given = it != model.info.opsets.end();
  // A model whose nodes are all functions may say any opset.
  const int64_t from = given ? std::min<int64_t>(it->second, kNewestOpset) : kDefaultOpset;
  report.opset = options.opset > 0 ? options.opset : static_cast<int>(from);
  report.opset_reason = options.opset > 0 ? "asked for" : given ? "input's" : "default";
  bool fixed = options.opset > 0 || options.keep_versions;
  for (;;) {
    if (options.opset == 0 && options.max_opset > 0 && report.opset > options.max_opset) {
      fixed = true;
      report.opset = options.max_opset;
      report.opset_reason = "the target's newest";
    }
    // Only where somebody asks for an opset: else a higher one keeps what was fused.
    INFER_ASSIGN(WrittenModel written,
                 WriteGraph(model.graph, model.info.opsets, {report.opset, options.target, fixed}));
    if (written.inexpressible.empty()) return written;
    const auto worst = std::max_element(
        written.inexpressible.begin(), written.inexpressible.end(),
        [](const Inexpressible& a, const Inexpressible& b) { return a.opset < b.opset; });
    if (fixed || worst->opset <= report.opset)
      return ListInexpressible(written.inexpressible, report.opset);
    report.opset = static_cast<int>(worst->opset);
    report.opset_reason = worst->node;
  }
}

/// That of the input where the file is to stay below it and says no more than the input did.
int64_t IrVersionFor(const ModelInfo& info, const WrittenModel& written,
                     const ExportOptions& options) {
  const int64_t limit = options.max_ir_version;
  const int64_t given = limit > 0 ? std::min(info.ir_version, limit) : info.ir_version;
  const int64_t opset = written.opsets.at("");
  const auto it = info.opsets.find("");
  const bool is_newer = it == info.opsets.end() || opset > it->second;
  const int64_t functions = written.functions.empty() ? 0 : kFunctionIrVersion;
  const bool stays = options.keep_versions || options.opset > 0;
  if (stays && !is_newer && given >= kFirstIrVersion) return std::max(given, functions);
  return std::max({given, IrVersionOf(opset), kMinIrVersion, functions});
}

/// Before IR version 4 an initializer was the default of an input.
void AddInitializersToInputs(WrittenModel& written) {
  for (const PendingTensor& t : written.initializers) {
    onnx::TypeProto type;
    if (!ToTypeProto(t.tensor.type(), type)) continue;
    onnx::ValueInfoProto& input = *written.graph.add_input();
    input.set_name(t.name);
    *input.mutable_type() = std::move(type);
  }
}

Result<onnx::ModelProto> HeaderOf(const ModelInfo& info, const WrittenModel& written,
                                  int64_t ir_version) {
  onnx::ModelProto m;
  if (!m.ParseFromString(info.extra)) return InvalidModel("the model's kept fields do not parse");
  m.set_ir_version(ir_version);
  for (const auto& [domain, version] : written.opsets) {
    auto* o = m.add_opset_import();
    o->set_domain(domain);
    o->set_version(version);
  }
  if (!info.producer_name.empty()) m.set_producer_name(info.producer_name);
  if (!info.producer_version.empty()) m.set_producer_version(info.producer_version);
  if (!info.domain.empty()) m.set_domain(info.domain);
  if (!info.doc_string.empty()) m.set_doc_string(info.doc_string);
  if (info.model_version != 0) m.set_model_version(info.model_version);
  for (const auto& [key, value] : info.metadata) {
    auto* e = m.add_metadata_props();
    e->set_key(key);
    e->set_value(value);
  }
  for (const onnx::FunctionProto& f : written.functions) *m.add_functions() = f;
  return m;
}

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

struct Prepared {
  WrittenModel written;
  onnx::ModelProto header;
  ExportReport report;
};

Result<Prepared> Prepare(const Model& model, const ExportOptions& options) {
  Prepared p;
  INFER_ASSIGN(p.written, WriteAtOpset(model, options, p.report));
  p.report.ir_version = IrVersionFor(model.info, p.written, options);
  if (p.report.ir_version < kMinIrVersion) AddInitializersToInputs(p.written);
  INFER_ASSIGN(p.header, HeaderOf(model.info, p.written, p.report.ir_version));
  for (const std::string& op : p.written.decomposed) ++p.report.decomposed[op];
  for (const std::string& op : p.written.expanded) ++p.report.expanded[op];
  p.report.whole_opset = p.written.whole_opset;
  for (const auto& f : p.written.functions)
    p.report.functions.push_back(Cat(f.domain(), "::", f.name()));
  return p;
}

}  // namespace

Status CheckOpset(int opset) {
  if (opset >= 0 && opset <= kNewestOpset) return {};
  return InvalidArgument(Cat("opset ", opset, ": there are 1 to ", kNewestOpset,
                             " (0: the input's, or what the nodes need)"));
}

Result<ExportReport> ExportModel(const Model& model, const std::string& given,
                                 const ExportOptions& options) {
  // Data lie beside the file, not beside a link to it.
  INFER_ASSIGN(const std::string path, OutputPath(given));
  const std::vector<FileId>& inputs = model.info.source_files;
  INFER_ASSIGN(Prepared p, Prepare(model, options));
  Layout layout = LayoutOf(p.header, p.written, {});
  // Refused before any data is written when the output is an input.
  INFER_ASSIGN(auto file, AtomicFile::Create(path, inputs));
  std::string data_file;
  if (options.force_external || layout.size() > static_cast<uint64_t>(options.max_inline_bytes)) {
    auto external = PlaceExternal(p.written, options, p.report.external_bytes);
    INFER_TRY(WriteExternal(path, inputs, p.written, p.report.external_bytes, external));
    if (!external.empty()) data_file = external.begin()->second.location;
    layout = LayoutOf(p.header, p.written, external);
    if (layout.size() > INT32_MAX)
      return Unsupported(
          Cat(path, ": more than 2 GiB beside external data; lower ", "external_threshold_bytes"));
  }
  INFER_TRY(layout.WriteTo([&](const void* data, size_t n) { return file->Write(data, n); }));
  INFER_TRY(file->Commit());
  p.report.stale_data = OtherData(path, data_file);
  p.report.file_bytes = static_cast<int64_t>(layout.size());
  return std::move(p.report);
}

Result<ExportReport> PlanExport(const Model& model, const ExportOptions& options) {
  INFER_ASSIGN(Prepared p, Prepare(model, options));
  return std::move(p.report);
}

Result<std::string> ExportModelBytes(const Model& model, const ExportOptions& options) {
  INFER_ASSIGN(const Prepared p, Prepare(model, options));
  const Layout layout = LayoutOf(p.header, p.written, {});
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

}  // namespace infer
