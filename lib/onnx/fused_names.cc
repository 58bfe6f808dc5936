#include "lib/onnx/fused_names.h"

#include "lib/support/strings.h"

namespace infer::onnx_io {

std::string FunctionName(const OpDef& def, const AttrMap& attrs) {
  if (attrs.empty()) return std::string(def.name);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hash;
  for (uint64_t h = HashOf(attrs), i = 0; i < 16; ++i, h >>= 4) hash += kDigits[h & 15];
  return Cat(def.name, "__", hash);
}

std::string FusedName(const std::string& function_name) {
  return function_name.substr(0, function_name.find("__"));
}

}  // namespace infer::onnx_io
