// SPDX-License-Identifier: Apache-2.0
// Typed 32-bit ids, and vectors that only their own id type can index.
//
// A node index and a rank index are both small integers; mixing them compiles with plain integers and is
// found weeks later. Id<Tag> makes the mix a compile error at no run-time cost (tests/compile_fail holds the
// proof).
#pragma once

#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace prism {

/// Index of one kind of thing. Explicit to make from a number; `.value` to get the number back.
template <class Tag>
struct Id {
  std::uint32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : value(static_cast<std::uint32_t>(index)) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using NodeId = Id<struct NodeTag>;      ///< a node of a step graph's template
using ClassId = Id<struct ClassTag>;    ///< a class of nodes that share a duration pool
using FactorId = Id<struct FactorTag>;  ///< a factor that ops of a step model share
using OpId = Id<struct OpTag>;          ///< an op of a recorded job's template
using GroupId = Id<struct GroupTag>;    ///< ops that start their transfer together

/// std::vector indexed by `Key` only.
template <class Key, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t n, const T& value = T()) : items_(n, value) {}

  T& operator[](Key key) {
    assert(key.value < items_.size());
    return items_[key.value];
  }
  const T& operator[](Key key) const {
    assert(key.value < items_.size());
    return items_[key.value];
  }
  /// Appends and returns the new element's id.
  Key push_back(T item) {
    items_.push_back(std::move(item));
    return Key(items_.size() - 1);
  }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  std::vector<T> items_;
};

}  // namespace prism

template <class Tag>
struct std::hash<prism::Id<Tag>> {
  std::size_t operator()(prism::Id<Tag> id) const noexcept { return id.value; }
};
