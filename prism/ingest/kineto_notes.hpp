// SPDX-License-Identifier: Apache-2.0
// What a profiler trace was found to be guilty of while it was read: counted here, since some things happen
// once per event, and put into the import report at the end. Internal to the reader of such traces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "prism/trace/import_report.hpp"

namespace prism {

enum class KinetoNote : std::uint8_t {
  // About the text; refused by strict reading.
  DamagedPacking,
  FileEndsEarly,
  BrokenEvent,
  LongEvent,
  BrokenBlock,
  TrailingComma,
  ControlCharacter,
  BareBackslash,
  NotUtf8,
  RepeatedKey,
  // About what it says.
  NoStart,
  NoDuration,
  LostStart,
  LostDuration,
  TooLong,
  ZeroLength,
  CutAtNext,
  JoinedPair,
  BeginWithoutEnd,
  EndWithoutBegin,
  FlowLink,
  UnknownName,
  UnknownSync,
  MtiaDevice,
  BaseIgnored,
  RelativeTime,
  RankFromName,
  RankAssumed,
  NoGpuWork,
  kCount,
};

class KinetoNotes {
 public:
  KinetoNotes(std::string file, bool strict) : file_(std::move(file)), strict_(strict) {}

  /// Counts one. Throws InputError if strict reading refuses it.
  void add(KinetoNote note, std::optional<std::uint64_t> byte = {}, std::string_view detail = {});

  [[nodiscard]] std::size_t count(KinetoNote note) const { return at(note).count; }

  /// Adds everything counted to `report`.
  void put_into(ImportReport& report) const;

 private:
  struct Tally {
    std::size_t count = 0;
    std::array<std::string, ImportReport::kMaxPlaces> places;
  };
  [[nodiscard]] const Tally& at(KinetoNote note) const { return tallies_[static_cast<std::size_t>(note)]; }

  std::string file_;
  bool strict_;
  std::array<Tally, static_cast<std::size_t>(KinetoNote::kCount)> tallies_;
};

}  // namespace prism
