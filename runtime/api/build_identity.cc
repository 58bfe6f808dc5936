#include "runtime/api/build_identity.h"

#include <infer_build_sources.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/support/hash.h"
#include "lib/support/path_parts.h"

namespace infer {
namespace {

constexpr std::array<std::string_view, 5> kComputing = {"libdnnl.", "libm.", "libc.", "libstdc++.",
                                                        "libgomp."};

/// The note that the linker leaves in an object, all of it; "" where there is none.
std::string_view BuildIdOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    size_t left = segment.p_memsz;
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
      std::memcpy(&note, at, sizeof note);
      const auto padded = [](size_t n) { return (n + 3) / 4 * 4; };
      const size_t size = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
      if (size > left) break;
      if (note.n_type == NT_GNU_BUILD_ID) return {at, size};
      at += size;
      left -= size;
    }
  }
  return {};
}

int Visit(dl_phdr_info* object, size_t, void* out) {
  const std::string name = BaseName(object->dlpi_name ? object->dlpi_name : "");
  if (std::any_of(kComputing.begin(), kComputing.end(),
                  [&](std::string_view prefix) { return name.starts_with(prefix); }))
    static_cast<std::vector<std::string>*>(out)->push_back(name + std::string(BuildIdOf(*object)));
  return 0;
}

std::string Identity() {
  std::vector<std::string> libraries;
  ::dl_iterate_phdr(Visit, &libraries);
  std::sort(libraries.begin(), libraries.end());
  Hasher h;
  h.Add(std::string_view(kBuildSources));
  for (const std::string& library : libraries) h.Add(library);
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(h.value() >> shift) & 15];
  return out;
}

}  // namespace

const std::string& BuildIdentity() {
  static const std::string identity = Identity();
  return identity;
}

}  // namespace infer
