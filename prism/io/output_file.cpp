// SPDX-License-Identifier: Apache-2.0
#include "prism/io/output_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include <isa-l/igzip_lib.h>

#include "prism/io/atomic_file.hpp"

namespace prism {

namespace {

constexpr std::size_t kPackedBytes = std::size_t{1} << 16;

/// gzip, a piece at a time. The header holds no time: equal content gives equal files.
class Packer {
 public:
  Packer() : level_memory_(ISAL_DEF_LVL2_DEFAULT) {
    isal_deflate_init(&stream_);
    stream_.level = 2;
    stream_.level_buf = level_memory_.data();
    stream_.level_buf_size = static_cast<std::uint32_t>(level_memory_.size());
    stream_.gzip_flag = IGZIP_GZIP;
  }

  /// Hands packed bytes to write(pointer, size).
  template <class Write>
  void pack(std::string_view bytes, bool last, Write write) {
    constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;
    do {
      const std::size_t size = std::min(bytes.size(), kMost);
      stream_.next_in = const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(bytes.data()));
      stream_.avail_in = static_cast<std::uint32_t>(size);
      bytes.remove_prefix(size);
      stream_.end_of_stream = last && bytes.empty() ? 1 : 0;
      do {
        stream_.next_out = packed_.data();
        stream_.avail_out = static_cast<std::uint32_t>(packed_.size());
        isal_deflate(&stream_);
        write(packed_.data(), packed_.size() - stream_.avail_out);
      } while (stream_.avail_out == 0);
    } while (!bytes.empty());
  }

 private:
  isal_zstream stream_{};
  std::vector<std::uint8_t> level_memory_;
  std::array<std::uint8_t, kPackedBytes> packed_{};
};

}  // namespace

struct OutputFile::State {
  std::filesystem::path path;
  AtomicFile atomic;
  std::ofstream out;
  std::optional<Packer> packer;

  explicit State(const std::filesystem::path& target)
      : path(target), atomic(target), out(atomic.temporary(), std::ios::binary) {
    if (path.extension() == ".gz") packer.emplace();
    check();
  }

  void write(std::string_view bytes, bool last) {
    errno = 0;
    if (packer) {
      packer->pack(bytes, last, [&](const std::uint8_t* packed, std::size_t size) {
        out.write(reinterpret_cast<const char*>(packed), static_cast<std::streamsize>(size));
      });
    } else {
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    if (last) out.close();
    check();
  }

  void check() const {
    if (out) return;
    const int code = errno == 0 ? EIO : errno;
    throw std::system_error(code, std::generic_category(), path.string() + ": cannot be written");
  }
};

OutputFile::OutputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view bytes) {
  state_->write(bytes, false);
}

void OutputFile::commit() {
  state_->write({}, true);
  state_->atomic.commit();
}

}  // namespace prism
