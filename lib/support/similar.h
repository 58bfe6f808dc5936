#pragma once
/// What somebody may have meant who misspelt a name.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace infer {

/// Insertions, deletions, changes of a letter and swaps of neighbours that make `b` of `a` (optimal
/// string alignment; Damerau 1964), upper and lower case being one.
size_t EditDistance(std::string_view a, std::string_view b);

/// Of `names` those that differ from `given` in at most a third of its letters, or that it begins,
/// nearest first, at most `most`.
std::vector<std::string> SimilarNames(std::string_view given, std::span<const std::string> names,
                                      size_t most = 3);

/// "; did you mean --output?", or "" where no name is similar.
std::string DidYouMean(std::string_view given, std::span<const std::string> names);

}  // namespace infer
