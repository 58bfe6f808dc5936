#pragma once
/// A picture with some groups open: absolute places of boxes and lines. The script of the page does
/// the same (tools/graph/page/compose.js); the SVG and the tests take it from here.
#include <vector>

#include "tools/graph/picture.h"

namespace infer {

struct DrawnBox {
  Child::Kind kind;  ///< kNode or kGroup
  int index;
  double x, y, width, height;  ///< left and upper edge
  bool open = false;           ///< a group that shows what it holds
  int depth = 0;               ///< groups around it
};

/// From (x0, y0) down to (x1, y1), a curve whose ends are upright; straight where it passes a row.
struct DrawnLine {
  double x0, y0, x1, y1;
  int value;
  bool ends = false;    ///< at a box, with an arrow
  bool begins = false;  ///< at the box that makes the value: here its type can stand
};

struct Drawing {
  std::vector<DrawnBox> boxes;  ///< groups before what they hold
  std::vector<DrawnLine> lines;
  double width = 0, height = 0;
};

/// `open`: by group; 0 is open anyway.
Drawing Compose(const Picture& p, const std::vector<bool>& open);

/// The groups that are open at first: from outside inwards as long as no more than `most_boxes`
/// boxes are shown. Replaced nodes stay folded.
std::vector<bool> OpenAtFirst(const Picture& p, size_t most_boxes);

}  // namespace infer
