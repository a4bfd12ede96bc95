// SPDX-License-Identifier: Apache-2.0
#include "prism/io/unpack.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <isa-l/igzip_lib.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace prism {

namespace {

class PlainUnpacker : public Unpacker {
 public:
  PlainUnpacker(FileChunks& chunks, std::span<const char> first) : chunks_(chunks), rest_(first) {}

  std::size_t read(std::span<char> into) override {
    std::size_t size = 0;
    while (size < into.size() && !rest_.empty()) {
      const std::size_t part = std::min(rest_.size(), into.size() - size);
      std::ranges::copy(rest_.first(part), into.begin() + static_cast<std::ptrdiff_t>(size));
      size += part;
      rest_ = rest_.subspan(part);
      if (rest_.empty()) rest_ = chunks_.next();
    }
    return size;
  }

 private:
  FileChunks& chunks_;
  std::span<const char> rest_;
};

/// ISA-L, because it inflates more than twice as fast as zlib (bench/README.md) and, unlike libdeflate, in
/// pieces.
class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker(FileChunks& chunks, std::span<const char> first)
      : chunks_(chunks), state_(std::make_unique<inflate_state>()) {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    feed(first);
  }

  std::size_t read(std::span<char> into) override {
    std::size_t size = 0;
    while (size < into.size() && !done_) size += step(into.subspan(size));
    return size;
  }

 private:
  // What one call may write: its counters have 32 bits.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  void feed(std::span<const char> chunk) {
    // The library only reads through this pointer.
    state_->next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(chunk.data()));
    state_->avail_in = static_cast<std::uint32_t>(chunk.size());
  }

  std::size_t step(std::span<char> into) {
    if (state_->avail_in == 0) feed(chunks_.next());
    const bool at_end = state_->avail_in == 0;
    const std::size_t room = std::min(into.size(), kMostBytes);
    state_->next_out = reinterpret_cast<std::uint8_t*>(into.data());
    state_->avail_out = static_cast<std::uint32_t>(room);
    const int code = isal_inflate(state_.get());
    const std::size_t written = room - state_->avail_out;
    if (code < 0) {
      stop(std::string("gzip data is damaged (") + problem(code) + ")");
    } else if (state_->block_state == ISAL_BLOCK_FINISH) {
      next_member();
    } else if (at_end && written == 0) {
      stop("gzip data ends too early");
    }
    return written;
  }

  /// Skips the zeros that tapes and block devices pad with.
  void next_member() {
    while (true) {
      if (state_->avail_in == 0) feed(chunks_.next());
      if (state_->avail_in == 0) {
        done_ = true;
        return;
      }
      if (*state_->next_in != 0) break;
      ++state_->next_in;
      --state_->avail_in;
    }
    constexpr std::uint8_t kMagic = 0x1f;  // RFC 1952
    if (*state_->next_in != kMagic) return stop("gzip data is damaged (other data after a member)");
    isal_inflate_reset(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  void stop(std::string problem) {
    done_ = true;
    damaged(chunks_.end() - state_->avail_in, std::move(problem));
  }

  static const char* problem(int code) {
    switch (code) {
      case ISAL_INVALID_BLOCK:
        return "invalid block";
      case ISAL_INVALID_SYMBOL:
        return "invalid code";
      case ISAL_INVALID_LOOKBACK:
        return "invalid distance";
      case ISAL_INVALID_WRAPPER:
        return "incorrect header";
      case ISAL_UNSUPPORTED_METHOD:
        return "unknown compression method";
      case ISAL_INCORRECT_CHECKSUM:
        return "incorrect data check";
      default:
        return "unknown error";
    }
  }

  FileChunks& chunks_;
  std::unique_ptr<inflate_state> state_;
  bool done_ = false;
};

class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker(FileChunks& chunks, std::span<const char> first)
      : chunks_(chunks), chunk_(first), context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
    // Twice the default, for files packed with zstd --long (window 2^27) and a little more; a frame of a few
    // bytes may claim 2 GiB, and zstd allocates what it claims.
    constexpr int kWindowLogMax = 28;
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  }

  std::size_t read(std::span<char> into) override {
    ZSTD_outBuffer output{into.data(), into.size(), 0};
    while (output.pos < output.size && !done_) step(output);
    return output.pos;
  }

 private:
  // RFC 8878: magic 4, descriptor 1, window 1, dictionary 4, size 8.
  static constexpr std::size_t kFrameHeaderBytes = 18;

  void step(ZSTD_outBuffer& output) {
    if (position_ == chunk_.size()) {
      chunk_ = chunks_.next();
      position_ = 0;
    }
    const bool at_end = chunk_.empty();
    if (at_end && wanted_ == 0) {
      done_ = true;
      return;
    }
    // Giving it just what it wants, block by block, keeps all blocks before a damaged one.
    const std::size_t end = std::min(chunk_.size(), position_ + (wanted_ == 0 ? kFrameHeaderBytes : wanted_));
    ZSTD_inBuffer input{chunk_.data(), end, position_};
    const std::size_t before = output.pos;
    wanted_ = ZSTD_decompressStream(context_.get(), &output, &input);
    position_ = input.pos;
    if (ZSTD_isError(wanted_)) {
      if (ZSTD_getErrorCode(wanted_) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      stop("zstd data is damaged (" + std::string(ZSTD_getErrorName(wanted_)) + ")");
    } else if (at_end && wanted_ != 0 && output.pos == before) {
      stop("zstd data ends too early");
    }
  }

  void stop(std::string problem) {
    done_ = true;
    damaged(chunks_.end() - (chunk_.size() - position_), std::move(problem));
  }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  FileChunks& chunks_;
  std::span<const char> chunk_;
  std::size_t position_ = 0;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  std::size_t wanted_ = kFrameHeaderBytes;  ///< bytes of input that zstd wants next; 0 after a frame
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Unpacker> make_plain_unpacker(FileChunks& chunks, std::span<const char> first) {
  return std::make_unique<PlainUnpacker>(chunks, first);
}

std::unique_ptr<Unpacker> make_gzip_unpacker(FileChunks& chunks, std::span<const char> first) {
  return std::make_unique<GzipUnpacker>(chunks, first);
}

std::unique_ptr<Unpacker> make_zstd_unpacker(FileChunks& chunks, std::span<const char> first) {
  return std::make_unique<ZstdUnpacker>(chunks, first);
}

}  // namespace prism
