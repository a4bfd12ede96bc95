// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/name_table.hpp"

#include <functional>

namespace prism {

namespace {

std::uint32_t hash_of(std::string_view name) {
  const std::uint64_t hash = std::hash<std::string_view>{}(name);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

NameTable::NameTable() : slots_(64) {
  id({});
}

std::size_t NameTable::slot_of(std::string_view name, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].id != kNone && (slots_[at].hash != hash || names_[slots_[at].id] != name)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::uint32_t NameTable::find(std::string_view name) const {
  return slots_[slot_of(name, hash_of(name))].id;
}

std::uint32_t NameTable::id(std::string_view name) {
  const std::uint32_t hash = hash_of(name);
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.id != kNone) return slot.id;
  const auto id = static_cast<std::uint32_t>(names_.size());
  slot = {hash, id};
  names_.emplace_back(name);
  if (names_.size() * 2 > slots_.size()) grow();
  return id;
}

void NameTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    std::size_t at = slot.hash & mask;
    while (slots_[at].id != kNone) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace prism
