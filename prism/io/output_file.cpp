// SPDX-License-Identifier: Apache-2.0
#include "prism/io/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include <zlib.h>

#include "prism/io/atomic_file.hpp"

namespace prism {

struct OutputFile::State {
  std::filesystem::path path;
  AtomicFile atomic;
  gzFile file = nullptr;

  explicit State(const std::filesystem::path& target) : path(target), atomic(target) {
    // "T" writes the bytes as they are. The header holds no time: equal content gives equal files.
    file = gzopen(atomic.temporary().c_str(), path.extension() == ".gz" ? "wb6" : "wbT");
    if (file == nullptr) fail();
  }
  ~State() {
    if (file != nullptr) gzclose(file);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[noreturn]] void fail() const {
    const int code = errno == 0 ? EIO : errno;
    throw std::system_error(code, std::generic_category(), path.string() + ": cannot be written");
  }
};

OutputFile::OutputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto size = static_cast<unsigned>(
        std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(std::numeric_limits<int>::max())));
    errno = 0;
    if (gzwrite(state_->file, bytes.data(), size) != static_cast<int>(size)) state_->fail();
    bytes.remove_prefix(size);
  }
}

void OutputFile::commit() {
  errno = 0;
  if (gzclose(std::exchange(state_->file, nullptr)) != Z_OK) state_->fail();
  state_->atomic.commit();
}

}  // namespace prism
