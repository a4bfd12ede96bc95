// SPDX-License-Identifier: Apache-2.0
#include "prism/io/bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;

/// The file in chunks, with errors that name it.
class Source {
 public:
  explicit Source(const std::filesystem::path& path, std::size_t chunk_bytes = kChunkBytes)
      : name_(path == "-" ? "standard input" : path.string()), buffer_(chunk_bytes) {
    if (path == "-") return;
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) fail(errno);
  }
  ~Source() {
    if (fd_ > STDIN_FILENO) ::close(fd_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Full chunks, then a shorter one, then empty ones.
  std::span<char> next() {
    std::size_t size = 0;
    while (size < buffer_.size()) {
      const ssize_t got = ::read(fd_, buffer_.data() + size, buffer_.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(errno);
      if (got == 0) break;
      size += static_cast<std::size_t>(got);
    }
    end_ += size;
    return {buffer_.data(), size};
  }

  /// As next(), for the first chunk: throws if there is nothing.
  std::span<char> first() {
    const std::span<char> chunk = next();
    if (chunk.empty()) throw InputError(place(), "is empty", "check that the program that writes it has run");
    return chunk;
  }

  /// Bytes of the file up to the end of the last chunk.
  [[nodiscard]] std::uint64_t end() const { return end_; }

  /// Size of a regular file, 0 for pipes.
  [[nodiscard]] std::uint64_t size_hint() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    return static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] Place place(std::optional<std::uint64_t> byte = {}) const { return {name_, {}, byte}; }

 private:
  [[noreturn]] void fail(int code) const {
    switch (code) {
      case ENOENT:
      case ENOTDIR:
        throw InputError(place(), "does not exist", "check the path");
      case EISDIR:
        throw InputError(place(), "is a directory, not a file", "name a file in it");
      case EACCES:
      case EPERM:
        throw InputError(place(), "must not be read (permission denied)",
                         "ask its owner for read permission, or chmod +r");
      default:
        throw InputError(place(end_), "cannot be read (" + std::generic_category().message(code) + ")",
                         "check the disk or the network file system");
    }
  }

  std::string name_;
  std::vector<char> buffer_;
  int fd_ = STDIN_FILENO;
  std::uint64_t end_ = 0;
};

/// The content read so far, under the limit.
class Sink {
 public:
  Sink(Place place, std::uint64_t max_bytes) : place_(std::move(place)), max_bytes_(max_bytes) {}

  void reserve(std::uint64_t size) {
    check(size);
    bytes_.reserve(size);
  }

  void append(std::span<const char> part) {
    check(bytes_.size() + part.size());
    bytes_.append(part.data(), part.size());
  }

  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void check(std::uint64_t size) const {
    if (size <= max_bytes_) return;
    throw InputError(place_, "holds more than the limit of " + std::to_string(max_bytes_) + " bytes",
                     "raise the limit if the file is trusted, or give a shorter trace");
  }

  Place place_;
  std::uint64_t max_bytes_;
  std::string bytes_;
};

struct Damage {
  std::uint64_t byte = 0;  ///< in the compressed file
  std::string problem;
};

struct Inflater {
  Inflater() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void feed(std::span<char> chunk) {
    stream.next_in = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_in = static_cast<uInt>(chunk.size());
  }

  z_stream stream{};
};

/// Skips the zeros that tapes and block devices pad with; false if nothing follows.
bool next_member(Source& source, Inflater& inflater) {
  z_stream& z = inflater.stream;
  while (true) {
    if (z.avail_in == 0) inflater.feed(source.next());
    if (z.avail_in == 0) return false;
    if (*z.next_in != 0) return true;
    ++z.next_in;
    --z.avail_in;
  }
}

std::optional<Damage> read_gzip(Source& source, std::span<char> first, Sink& sink) {
  Inflater inflater;
  z_stream& z = inflater.stream;
  inflater.feed(first);
  std::vector<char> out(kChunkBytes);
  while (true) {
    if (z.avail_in == 0) inflater.feed(source.next());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&z, Z_NO_FLUSH);
    sink.append({out.data(), out.size() - z.avail_out});
    const std::uint64_t byte = source.end() - z.avail_in;
    if (code == Z_STREAM_END) {
      if (!next_member(source, inflater)) return std::nullopt;
      inflateReset(&z);
    } else if (code == Z_BUF_ERROR && z.avail_in == 0) {
      return Damage{byte, "gzip data ends too early"};
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK) {
      return Damage{byte, "gzip data is damaged (" + std::string(z.msg ? z.msg : "unknown error") + ")"};
    }
  }
}

struct FreeZstd {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

std::optional<Damage> read_zstd(Source& source, std::span<char> first, Sink& sink) {
  const std::unique_ptr<ZSTD_DCtx, FreeZstd> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  // Twice the default, for files packed with zstd --long (window 2^27) and a little more; a frame of a few
  // bytes may claim 2 GiB, and zstd allocates what it claims.
  constexpr int kWindowLogMax = 28;
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  constexpr std::size_t kFrameHeaderBytes =
      18;  // RFC 8878: magic 4, descriptor 1, window 1, dictionary 4, size 8
  std::vector<char> out(kChunkBytes);
  // What zstd wants next: 0 after a frame. Giving it just that, block by block, keeps all blocks before a
  // damaged one.
  std::size_t wanted = kFrameHeaderBytes;
  for (std::span<char> chunk = first; !chunk.empty(); chunk = source.next()) {
    ZSTD_inBuffer input{chunk.data(), 0, 0};
    bool full = false;
    do {
      input.size = std::min(chunk.size(), input.pos + (wanted == 0 ? kFrameHeaderBytes : wanted));
      ZSTD_outBuffer output{out.data(), out.size(), 0};
      wanted = ZSTD_decompressStream(context.get(), &output, &input);
      sink.append({out.data(), output.pos});
      if (ZSTD_isError(wanted)) {
        if (ZSTD_getErrorCode(wanted) == ZSTD_error_memory_allocation) throw std::bad_alloc();
        return Damage{source.end() - (chunk.size() - input.pos),
                      "zstd data is damaged (" + std::string(ZSTD_getErrorName(wanted)) + ")"};
      }
      full = output.pos == output.size;
    } while (input.pos < chunk.size() || (full && wanted != 0));
  }
  if (wanted != 0) return Damage{source.end(), "zstd data ends too early"};
  return std::nullopt;
}

std::optional<Damage> read_plain(Source& source, std::span<char> first, Sink& sink) {
  sink.reserve(source.size_hint());
  for (std::span<char> chunk = first; !chunk.empty(); chunk = source.next()) sink.append(chunk);
  return std::nullopt;
}

/// A file cut within its first bytes still counts as compressed; a single 0x28 is text, "(".
bool is_gzip(std::string_view start) {
  return start.substr(0, 2) == "\x1f\x8b" || start == "\x1f";
}

bool is_zstd(std::string_view start) {
  constexpr std::string_view kFrame = "\x28\xb5\x2f\xfd";
  // RFC 8878 3.1.2: skippable frames have the sixteen magic numbers 0x184D2A50 to 0x184D2A5F.
  const bool skippable =
      start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  const bool cut = start.size() >= 2 && start.size() < 4 && kFrame.starts_with(start);
  return start.starts_with(kFrame) || skippable || cut;
}

struct Content {
  std::string bytes;
  std::optional<Damage> damage;
  Place place;  ///< of the damage, else of the file
};

Content read_content(const std::filesystem::path& path, const ReadOptions& options) {
  Source source(path);
  Sink sink(source.place(), options.max_bytes);
  const std::span<char> first = source.first();
  const std::string_view start(first.data(), std::min<std::size_t>(first.size(), 4));
  const auto read = is_gzip(start) ? read_gzip : is_zstd(start) ? read_zstd : read_plain;
  std::optional<Damage> damage = read(source, first, sink);
  Content content{sink.take(), std::move(damage), source.place()};
  if (content.damage) {
    content.place.byte = content.damage->byte;
    content.damage->problem += "; " + std::to_string(content.bytes.size()) + " bytes could be read";
  } else if (content.bytes.empty()) {
    throw InputError(content.place, "is empty after unpacking",
                     "check that the program that writes it has run");
  }
  return content;
}

}  // namespace

std::string read_bytes(const std::filesystem::path& path, const ReadOptions& options) {
  Content content = read_content(path, options);
  if (content.damage) {
    throw InputError(content.place, content.damage->problem,
                     "copy the file again, or let the program that writes it finish");
  }
  return std::move(content.bytes);
}

BytesRead read_bytes_tolerant(const std::filesystem::path& path, const ReadOptions& options) {
  Content content = read_content(path, options);
  BytesRead result{std::move(content.bytes), std::nullopt};
  if (content.damage) {
    result.damage = "at byte " + std::to_string(content.damage->byte) + ": " + content.damage->problem;
  }
  return result;
}

std::string read_first_bytes(const std::filesystem::path& path, std::size_t count) {
  Source source(path, count);
  const std::span<char> bytes = source.first();
  return {bytes.data(), bytes.size()};
}

std::uint64_t content_digest(std::string_view bytes) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const char byte : bytes) {
    digest ^= static_cast<unsigned char>(byte);
    digest *= 0x100000001b3U;
  }
  return digest;
}

std::string digest_text(std::uint64_t digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; digest >>= 4) text[i] = kDigits[digest & 0xf];
  return text;
}

}  // namespace prism
