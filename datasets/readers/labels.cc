#include "datasets/readers/labels.h"

#include <algorithm>

#include "datasets/readers/npy.h"
#include "datasets/readers/records.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using Row = std::vector<std::string>;

/// Fields of one record beginning at `at`; quoted fields may hold commas, newlines and "".
std::optional<Row> NextRow(std::string_view text, size_t& at) {
  Row row(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"')
        row.back() += c;
      else if (at + 1 < text.size() && text[at + 1] == '"')
        row.back() += text[++at];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return row;
}

Result<LabelTable> FromArray(const StoredArray& a) {
  INFER_ASSIGN(const Tensor t, a.Load());
  const std::string& name = a.source->name();
  if (!IsInteger(t.dtype()) || t.rank() < 1 || t.num_elements() != t.dim(0))
    return InvalidModel(
        Cat(name, ": labels must be integers of shape [n], this is ", ToString(t.type())));
  LabelTable table{{}, t.ToInts()};
  for (const int64_t label : table.labels)
    if (label < 0) return InvalidModel(Cat(name, ": negative label ", label));
  return table;
}

}  // namespace

Result<LabelTable> ParseLabelCsv(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  LabelTable table;
  constexpr size_t kNone = std::string::npos;
  size_t label_column = 0, file_column = kNone, columns = 0;
  int64_t line = 0;
  for (size_t at = 0; at < text.size();) {
    std::optional<Row> row = NextRow(text, at);
    ++line;
    const auto fail = [&](std::string_view what) {
      return InvalidModel(Cat(name, ": row ", line, ": ", what));
    };
    if (!row) return fail("a quote that does not close");
    if (row->size() == 1 && Trim(row->front()).empty()) continue;
    const auto named = [&](std::string_view column) {
      const auto at_name = std::find_if(
          row->begin(), row->end(), [&](const Row::value_type& c) { return Trim(c) == column; });
      return at_name == row->end() ? kNone : static_cast<size_t>(at_name - row->begin());
    };
    if (columns == 0) {
      columns = row->size();
      label_column = columns - 1;
      if (!ParseInt(Trim(row->back()))) {  // a header
        if (const size_t c = named("label"); c != kNone) label_column = c;
        file_column = named("file");
        continue;
      }
    }
    if (table.labels.empty() && file_column == kNone && label_column > 0 &&
        !ParseInt(Trim(row->front())))
      file_column = 0;
    if (row->size() != columns) return fail(Cat(row->size(), " columns, expected ", columns));
    const std::optional<int64_t> label = ParseInt(Trim((*row)[label_column]));
    if (!label || *label < 0)
      return fail(Cat("'", (*row)[label_column], "' is no class index (an integer >= 0)"));
    table.labels.push_back(*label);
    if (file_column != kNone) table.files.push_back((*row)[file_column]);
  }
  if (table.labels.empty()) return InvalidModel(Cat(name, ": no labels"));
  return table;
}

Result<LabelTable> ReadLabels(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  if (path.ends_with(".csv") || path.ends_with(".txt")) {
    if (source->size() > limits.max_unpacked_bytes)
      return InvalidModel(Cat(path, ": ", HumanBytes(source->size()), " of labels"));
    INFER_ASSIGN(const std::string text, source->ReadString(0, source->size()));
    return ParseLabelCsv(text, path);
  }
  if (path.ends_with(".npy")) {
    INFER_ASSIGN(const StoredArray a, ParseNpy(source, 0, source->size(), limits));
    return FromArray(a);
  }
  INFER_ASSIGN(const StoredArray a, ParseIdx(source, limits));
  return FromArray(a);
}

}  // namespace infer
