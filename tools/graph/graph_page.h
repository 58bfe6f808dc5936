#pragma once
/// A model, or a model before and after, as a picture for people: one HTML page that needs nothing
/// else (page/graph.html), or one SVG.
#include <string>

#include "tools/common/command.h"
#include "tools/common/open_extents.h"
#include "tools/graph/facts.h"

namespace infer {

struct GraphPage {
  std::string title;   ///< the model's name
  const Graph& graph;  ///< of two the later one
  const Graph* before = nullptr;
  std::string before_title = {};
  Overlay overlay = {}, before_overlay = {};
};

std::string ToHtml(const GraphPage& page);
/// As the page shows it at first, with more groups open.
std::string ToSvg(const GraphPage& page);

/// InvalidArgument unless the name ends in .html or .svg. Before any work.
Status CheckGraphPath(const std::string& path);
/// The image where the name ends in .svg, else the page. Io.
Status WriteGraph(const std::string& path, const GraphPage& page);

}  // namespace infer
