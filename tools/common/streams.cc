#include "tools/common/streams.h"

#include <cerrno>
#include <csignal>

#include "tools/common/signals.h"

namespace infer {

Status WriteStream(std::FILE* stream, std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0 &&
      std::ferror(stream) == 0)
    return {};
  if (errno == EPIPE) NoteSignal(SIGPIPE);
  return IoError(stream == stdout ? "cannot write to standard output"
                                  : "cannot write to standard error");
}

}  // namespace infer
