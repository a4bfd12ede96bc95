// SPDX-License-Identifier: Apache-2.0
// Interned text: every distinct name is kept once, and has a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace prism {

class NameTable {
 public:
  /// Number 0 is the empty name.
  NameTable();

  /// The number of `name`; it is added if it is new.
  std::uint32_t id(std::string_view name);

  /// The number of `name`, or kNone.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  [[nodiscard]] std::uint32_t find(std::string_view name) const;

  /// All names, by number; the table is empty afterwards.
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  /// Open addressing; at most half full.
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t id = kNone;
  };
  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void grow();

  std::vector<std::string> names_;
  std::vector<Slot> slots_;
};

}  // namespace prism
