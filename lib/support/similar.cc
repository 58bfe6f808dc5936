#include "lib/support/similar.h"

#include <algorithm>
#include <cctype>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// Longer names cost time and are no misspelling.
constexpr size_t kLongest = 200;

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool Begins(std::string_view name, std::string_view start) {
  return start.size() >= 3 && name.size() > start.size() &&
         std::equal(start.begin(), start.end(), name.begin(),
                    [](char a, char b) { return Lower(a) == Lower(b); });
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
          Lower(a[i - 2]) == Lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::vector<std::string> SimilarNames(std::string_view given, std::span<const std::string> names,
                                      size_t most) {
  std::vector<std::pair<size_t, std::string>> near;
  if (given.empty() || given.size() > kLongest) return {};
  const size_t limit = std::max<size_t>(1, given.size() / 3);
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const size_t distance = EditDistance(given, name);
    if (distance <= limit || Begins(name, given)) near.emplace_back(distance, name);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> found;
  for (const auto& [distance, name] : near)
    if (found.size() < most && std::find(found.begin(), found.end(), name) == found.end())
      found.push_back(name);
  return found;
}

std::string DidYouMean(std::string_view given, std::span<const std::string> names) {
  if (std::ranges::find(names, given) != names.end()) return "";  // the name is not what is wrong
  const auto similar = SimilarNames(given, names);
  return similar.empty() ? "" : Cat("; did you mean ", Join(similar, " or "), "?");
}

}  // namespace infer
