// SPDX-License-Identifier: Apache-2.0
#include "prism/io/bytes.hpp"

#include <algorithm>
#include <random>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "prism/io/test_dir.hpp"
#include "prism/trace/error.hpp"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string gzip(std::string_view text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string input(text);
  std::string packed(deflateBound(&z, static_cast<uLong>(text.size())) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(input.data());
  z.avail_in = static_cast<uInt>(input.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

std::string zstd(std::string_view text) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

/// Text that packs about 3:1 and spans many chunks and zstd blocks.
std::string long_text(std::size_t size) {
  std::mt19937_64 random(7);
  std::string text;
  while (text.size() < size) text += std::to_string(random() % 100'000) + ",";
  text.resize(size);
  return text;
}

const std::string kText = "rank,step,start_ns,duration_ns\n0,0,0,1000\n0,1,1000,1010\n";

// Compares without printing megabytes.
void expect_same(const std::string& calculated, const std::string& expected) {
  const auto [at, other] =
      std::mismatch(calculated.begin(), calculated.end(), expected.begin(), expected.end());
  EXPECT_TRUE(calculated == expected)
      << "calculated " << calculated.size() << " bytes, expected " << expected.size()
      << ", first difference at " << at - calculated.begin();
}

std::string read_error(const std::filesystem::path& path, const ReadOptions& options = {}) {
  return thrown<InputError>([&] { (void)read_bytes(path, options); });
}

TEST(ReadBytes, PlainFileIsReturnedAsItIs) {
  const TestDir dir;
  const std::string text("a\0b\r\n\xff", 6);
  expect_same(read_bytes(dir.file("x.gz", text)), text);
  const std::string large = long_text(3'000'001);
  expect_same(read_bytes(dir.file("large", large)), large);
}

TEST(ReadBytes, PackedFilesAreKnownByTheirFirstBytes) {
  const TestDir dir;
  for (const std::string& text : {kText, long_text(2'000'003)}) {
    expect_same(read_bytes(dir.file("gzip.csv", gzip(text))), text);
    expect_same(read_bytes(dir.file("zstd.csv", zstd(text))), text);
  }
}

TEST(ReadBytes, MembersAndFramesAreJoined) {
  const TestDir dir;
  const std::string large = long_text(600'000);
  expect_same(read_bytes(dir.file("a", gzip("one,") + gzip("") + gzip(large) + gzip("end"))),
              "one," + large + "end");
  expect_same(read_bytes(dir.file("b", zstd("one,") + zstd("") + zstd(large) + zstd("end"))),
              "one," + large + "end");
  std::string many;
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    many += gzip("x");
    expected += "x";
  }
  expect_same(read_bytes(dir.file("c", many)), expected);
}

TEST(ReadBytes, ZstdMayStartWithASkippableFrame) {
  const TestDir dir;
  const std::string skippable("\x52\x2a\x4d\x18\x03\0\0\0abc", 11);
  expect_same(read_bytes(dir.file("a", skippable + zstd(kText))), kText);
}

TEST(ReadBytes, ZeroPaddingAfterGzipIsIgnored) {
  const TestDir dir;
  expect_same(read_bytes(dir.file("a", gzip(kText) + std::string(700'000, '\0'))), kText);
}

TEST(ReadBytes, HighlyPackedDataIsReadToItsEnd) {
  const TestDir dir;
  const std::string zeros(5'000'000, '0');
  expect_same(read_bytes(dir.file("a", gzip(zeros))), zeros);
  expect_same(read_bytes(dir.file("b", zstd(zeros))), zeros);
  const std::string one_chunk(256 * 1024, '0');
  expect_same(read_bytes(dir.file("c", gzip(one_chunk))), one_chunk);
  expect_same(read_bytes(dir.file("d", zstd(one_chunk))), one_chunk);
}

TEST(ReadBytes, DashReadsStandardInput) {
  const TestDir dir;
  const int saved = ::dup(STDIN_FILENO);
  const std::filesystem::path path = dir.file("in", gzip(kText));
  const auto redirect = [](const char* name) {
    const int fd = ::open(name, O_RDONLY);
    ::dup2(fd, STDIN_FILENO);
    ::close(fd);
  };
  redirect(path.c_str());
  expect_same(read_bytes("-"), kText);
  EXPECT_THAT(read_error("-"), HasSubstr("standard input: is empty"));
  redirect(path.c_str());
  expect_same(read_bytes("-"), kText);
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

TEST(ReadBytes, UnusableFilesAreNamedWithAFix) {
  const TestDir dir;
  EXPECT_EQ(read_error(dir.path("none")),
            dir.path("none").string() + ": does not exist\n  fix: check the path");
  EXPECT_THAT(read_error(dir.file("file", "x") / "below"), HasSubstr("does not exist"));
  EXPECT_THAT(read_error(dir.path()), AllOf(HasSubstr("is a directory"), HasSubstr("fix: ")));
  EXPECT_THAT(read_error(dir.file("empty", "")), AllOf(HasSubstr("is empty"), HasSubstr("fix: ")));
  EXPECT_THAT(read_error(dir.file("empty", gzip(""))), HasSubstr("is empty after unpacking"));
  EXPECT_THAT(read_error(dir.file("empty", zstd(""))), HasSubstr("is empty after unpacking"));
}

TEST(ReadBytes, FileWithoutPermissionIsNamed) {
  const TestDir dir;
  const std::filesystem::path path = dir.file("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
  // Root may read everything, so act as another user for the moment.
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  if (self == 0 && ::seteuid(kNobody) != 0) GTEST_SKIP() << "cannot act as another user";
  const std::string message = read_error(path);
  ASSERT_EQ(::seteuid(self), 0);
  EXPECT_THAT(message, AllOf(HasSubstr("permission denied"), HasSubstr("fix: ")));
}

TEST(ReadBytes, LimitIsNamed) {
  const TestDir dir;
  const std::string text(1'000'000, 'a');
  for (const std::string& content : {text, gzip(text), zstd(text)}) {
    const std::filesystem::path path = dir.file("a", content);
    EXPECT_THAT(read_error(path, {.max_bytes = 999'999}), HasSubstr("limit of 999999 bytes"));
    expect_same(read_bytes(path, {.max_bytes = 1'000'000}), text);
    EXPECT_THAT(thrown<InputError>([&] { (void)read_bytes_tolerant(path, {.max_bytes = 10}); }),
                HasSubstr("limit of 10 bytes"));
  }
}

// Every cut must be found, and what was read must be a beginning of the text.
void expect_every_cut_found(const TestDir& dir, const std::string& packed, std::size_t shortest,
                            const std::string& text) {
  for (std::size_t size = shortest; size < packed.size(); ++size) {
    SCOPED_TRACE("cut at byte " + std::to_string(size) + " of " + std::to_string(packed.size()));
    const std::filesystem::path path = dir.file("cut", packed.substr(0, size));
    EXPECT_THAT(read_error(path), AllOf(HasSubstr("ends too early"), HasSubstr("fix: "),
                                        HasSubstr("at byte " + std::to_string(size))));
    const BytesRead read = read_bytes_tolerant(path);
    EXPECT_TRUE(text.starts_with(read.bytes))
        << "calculated " << read.bytes << "\nexpected the start of " << text;
    EXPECT_THAT(read.damage.value_or("none"),
                HasSubstr(std::to_string(read.bytes.size()) + " bytes could be read"));
  }
}

TEST(ReadBytes, EveryCutOfGzipIsFound) {
  const TestDir dir;
  expect_every_cut_found(dir, gzip(kText), 1, kText);
  // Within the second member.
  const std::string first = gzip("first");
  expect_every_cut_found(dir, first + gzip(kText), first.size() + 1, "first" + kText);
}

TEST(ReadBytes, EveryCutOfZstdIsFound) {
  const TestDir dir;
  // The first byte alone is the text "(".
  expect_every_cut_found(dir, zstd(kText), 2, kText);
  const std::string first = zstd("first");
  expect_every_cut_found(dir, first + zstd(kText), first.size() + 1, "first" + kText);
}

TEST(ReadBytes, EveryDamagedByteIsFoundOrHarmless) {
  const TestDir dir;
  for (const std::string& packed : {gzip(kText), zstd(kText)}) {
    for (std::size_t at = 0; at < packed.size(); ++at) {
      SCOPED_TRACE("byte " + std::to_string(at));
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      const BytesRead read = read_bytes_tolerant(dir.file("damaged", damaged));
      const bool magic_gone = read.bytes == damaged;
      EXPECT_TRUE(read.damage || read.bytes == kText || magic_gone) << "calculated " << read.bytes;
    }
  }
}

TEST(ReadBytes, DamageKeepsWhatIsReadableBeforeIt) {
  const TestDir dir;
  const std::string text = long_text(2'000'000);
  for (std::string packed : {gzip(text), zstd(text)}) {
    packed.resize(packed.size() / 2);
    const BytesRead cut = read_bytes_tolerant(dir.file("cut", packed));
    EXPECT_GT(cut.bytes.size(), 800'000U);
    EXPECT_TRUE(text.starts_with(cut.bytes));
    packed.append(1000, '\x7f');
    const BytesRead garbage = read_bytes_tolerant(dir.file("garbage", packed));
    EXPECT_GT(garbage.bytes.size(), 800'000U);
    EXPECT_TRUE(garbage.damage.has_value());
  }
}

TEST(ReadBytes, WrongChecksumIsDamageAfterTheContent) {
  const TestDir dir;
  std::string packed = gzip(kText);
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
  const BytesRead read = read_bytes_tolerant(dir.file("a", packed));
  expect_same(read.bytes, kText);
  EXPECT_THAT(read.damage.value_or("none"), HasSubstr("incorrect data check"));
  packed = zstd(kText);
  packed.back() = static_cast<char>(packed.back() ^ 1);
  EXPECT_THAT(read_error(dir.file("b", packed)), HasSubstr("zstd data is damaged"));
}

TEST(ReadBytes, OtherDataAfterAMemberIsDamage) {
  const TestDir dir;
  EXPECT_THAT(read_error(dir.file("a", gzip(kText) + "more")), HasSubstr("gzip data is damaged"));
  EXPECT_THAT(read_error(dir.file("b", zstd(kText) + "more")), HasSubstr("zstd data is damaged"));
}

TEST(ReadFirstBytes, AreThoseOnDisk) {
  const TestDir dir;
  const std::string packed = gzip(kText);
  expect_same(read_first_bytes(dir.file("a", packed), 16), packed.substr(0, 16));
  expect_same(read_first_bytes(dir.file("b", "abc"), 16), "abc");
  EXPECT_THAT(thrown<InputError>([&] { (void)read_first_bytes(dir.path("none"), 16); }),
              HasSubstr("does not exist"));
}

// Test vectors of draft-eastlake-fnv, appendix C.
TEST(ContentDigest, IsFnv1a) {
  EXPECT_EQ(digest_text(content_digest("")), "cbf29ce484222325");
  EXPECT_EQ(digest_text(content_digest("a")), "af63dc4c8601ec8c");
  EXPECT_EQ(digest_text(content_digest("foobar")), "85944171f73967e8");
  EXPECT_EQ(digest_text(0xab), "00000000000000ab");
}

}  // namespace
}  // namespace prism
