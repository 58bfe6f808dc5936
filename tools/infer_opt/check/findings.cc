#include "tools/infer_opt/check/findings.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer::lint {
namespace {

constexpr ListedFinding kRules[] = {
    {"invalid", "the file breaks the format or a rule of its operators"},
    {"unsupported", "an operator, type or opset that infer-opt does not know"},
    {"import", "something that import left out or did not believe"},
    {"unread-initializer", "weights that nothing reads"},
    {"unread-input", "an input that nothing reads"},
    {"input-initializer",
     "weights that are inputs, too, so that readers take no constant for them"},
    {"repeated-node-name", "several nodes of one name"},
    {"unnamed-node", "nodes without a name"},
    {"unsorted-nodes", "a node that stands before the one that it reads"},
    {"uncalled-function", "a model-local function that no node calls"},
    {"not-finite", "NaN or infinity in weights"},
    {"denormal", "weights below the smallest normal number, which some processors multiply slowly"},
    {"double-precision", "weights or inputs in 64-bit floating point"},
    {"broken-rule", "a law of graphs that the model breaks"},
    {"unknown-rank", "a value whose number of axes inference does not know"},
    {"open-extents", "inputs with open dimensions, for which no extents were found"},
    {"fusable", "nodes that fuse would do without"},
    {"near-miss", "a region that almost is one that fuse knows"},
    {"reader", "something that a runtime refuses, computes differently or slowly"},
};

Finding FileFinding(const char* rule, Level level, std::string what, std::string remedy) {
  return {rule, level, "", "", std::move(what), std::move(remedy)};
}

/// The text with nothing between single quotes, where names stand.
std::string WithoutNames(std::string_view text) {
  std::string out;
  bool is_name = false;
  for (const char c : text) {
    if (c == '\'') is_name = !is_name;
    if (!is_name) out += c;
  }
  return out;
}

/// Whether two findings say the same of several places. Of weights each has its own numbers; what
/// import says has the names in it.
bool SaysTheSame(const Finding& a, const Finding& b) {
  if (a.rule != b.rule || a.level != b.level || a.reader != b.reader || a.remedy != b.remedy)
    return false;
  if (b.node.empty() && !b.value.empty()) return true;
  return a.what == b.what || (a.rule == "import" && WithoutNames(a.what) == WithoutNames(b.what));
}

}  // namespace

const char* Name(Level level) {
  switch (level) {
    case Level::kError: return "error";
    case Level::kWarning: return "warning";
    case Level::kNote: break;
  }
  return "note";
}

std::span<const ListedFinding> ListedFindings() { return kRules; }

void AddImportFailure(const Status& s, Findings& out) {
  constexpr std::string_view kPlaces = "    at ";
  if (s.code() != Code::kUnsupported) {
    out.push_back(FileFinding("invalid", Level::kError, s.message(), "another export"));
    return;
  }
  // A line for each thing, then one with the nodes.
  const size_t before = out.size();
  for (const std::string& line : Split(s.message(), '\n')) {
    if (line.starts_with(kPlaces) && out.size() > before)
      out.back().node = line.substr(kPlaces.size());
    else if (line.starts_with("  ") && !line.starts_with(kPlaces))
      out.push_back(FileFinding("unsupported", Level::kError, std::string(Trim(line)),
                                "an export with standard operators"));
  }
  if (out.size() == before)
    out.push_back(
        FileFinding("unsupported", Level::kError, s.message(), "an export for an older version"));
}

void AddImportWarnings(const Model& model, Findings& out) {
  for (const std::string& text : model.info.warnings)
    out.push_back(FileFinding("import", Level::kWarning, text,
                              "infer-opt fuse --rewrites none, which writes the model without it"));
}

void AddFileFacts(const FileFacts& facts, Findings& out) {
  const auto add = [&](const char* rule, Level level, std::string node, std::string value,
                       std::string what, std::string remedy) {
    out.push_back(
        {rule, level, std::move(node), std::move(value), std::move(what), std::move(remedy)});
  };
  for (const auto& [name, bytes] : facts.unread_initializers)
    add("unread-initializer", Level::kWarning, "", name,
        Cat("nothing reads these ", HumanBytes(bytes)),
        "infer-opt extract --to with the outputs, or fuse");
  for (const std::string& name : facts.unread_inputs)
    add("unread-input", Level::kWarning, "", name, "nothing reads this input",
        "infer-opt extract --to with the outputs");
  for (const std::string& name : facts.input_initializers)
    add("input-initializer", Level::kWarning, "", name,
        "an initializer that is an input, too: readers cannot fold what a caller may override",
        "infer-opt extract --to with the outputs, which makes it a constant");
  for (const std::string& name : facts.repeated_node_names)
    add("repeated-node-name", Level::kWarning, name, "", "several nodes have this name",
        "infer-opt fuse --rewrites none, which writes distinct names");
  for (const std::string& node : facts.early_nodes)
    add("unsorted-nodes", Level::kError, node, "",
        "the node stands before one that it reads, which the standard forbids",
        "infer-opt fuse --rewrites none, which writes them in order");
  for (const std::string& name : facts.uncalled_functions)
    add("uncalled-function", Level::kNote, name, "", "no node calls this function",
        "infer-opt extract --to with the outputs");
  if (facts.unnamed_nodes > 0)
    out.push_back(
        FileFinding("unnamed-node", Level::kNote,
                    Cat(facts.unnamed_nodes,
                        facts.unnamed_nodes == 1 ? " node has no name" : " nodes have no name"),
                    "infer-opt edit --rename-node OUTPUT=NAME"));
}

std::string ToText(const Findings& findings) {
  struct Kind {
    const Finding* first;
    int64_t count;
  };
  std::vector<Kind> kinds;
  for (const Finding& f : findings) {
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const Kind& k) { return SaysTheSame(*k.first, f); });
    if (same == kinds.end())
      kinds.push_back({&f, 1});
    else
      ++same->count;
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.first->level < b.first->level; });
  std::string out;
  for (const Kind& k : kinds) {
    const Finding& f = *k.first;
    const std::string place = f.node.empty() || f.rule == "near-miss" ? f.value : f.node;
    out += Cat("  ", Name(f.level), ": [", f.reader.empty() ? f.rule : f.reader, "] ",
               place.empty() ? "" : Cat(Printable(place), ": "), Printable(f.what),
               k.count > 1 ? Cat(" (", k.count, " places)") : "", "; try ", f.remedy, "\n");
  }
  return out;
}

Json ToJson(const Findings& findings) {
  Json j = Json::array();
  for (const Finding& f : findings)
    j.push_back({{"rule", f.rule},
                 {"severity", Name(f.level)},
                 {"node", f.node},
                 {"value", f.value},
                 {"what", f.what},
                 {"remedy", f.remedy},
                 {"reader", f.reader}});
  return j;
}

}  // namespace infer::lint
