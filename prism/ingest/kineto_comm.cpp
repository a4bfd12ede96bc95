// SPDX-License-Identifier: Apache-2.0
#include "prism/ingest/kineto_comm.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "prism/ingest/kineto_numbers.hpp"

namespace prism {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostRanks = std::numeric_limits<std::int32_t>::max();

std::int64_t count_of(std::string_view text) {
  return kineto_int(text, 0, kMost).value_or(-1);
}

std::int32_t rank_of(std::string_view text) {
  return static_cast<std::int32_t>(kineto_int(text, 0, kMostRanks).value_or(-1));
}

/// The items of a positional record; no real one has more.
struct Inputs {
  static constexpr std::size_t kMostItems = 16;
  std::array<std::string_view, kMostItems> items;
  std::size_t size = 0;
};

/// `array` has been taken once, so it is sound.
Inputs split(std::string_view array) {
  Inputs inputs;
  JsonText text{array.data(), array.data() + array.size()};
  if (!text.take('[')) return inputs;
  while (inputs.size < Inputs::kMostItems && text.peek() != ']') {
    if (!text.value(inputs.items[inputs.size++])) return {};
    if (text.peek() != ',') break;
    ++text.p;
  }
  return inputs;
}

void read_positional(const KinetoArgs& args, CommRecord& comm,
                     const std::function<NameId(std::string_view)>& intern) {
  const Inputs inputs = split(args.inputs);
  // The two lists of splits are the only neighbours that are lists.
  constexpr std::size_t kBeforeSplits = 4;  // sequence, group, rank, name
  for (std::size_t i = kBeforeSplits; i + 2 < inputs.size; ++i) {
    if (!inputs.items[i].starts_with('[') || !inputs.items[i + 1].starts_with('[')) continue;
    const bool has_tensors = i > kBeforeSplits;
    if (comm.sequence < 0) comm.sequence = count_of(inputs.items[i - 4]);
    if (args.collective.empty()) {
      comm.group_pointer = kineto_id(inputs.items[i - 3]);
      comm.group_size = rank_of(inputs.items[inputs.size - 1]);
      if (!has_tensors) comm.collective = intern("wait");
    }
    return;
  }
}

/// Elements of the first input of "Input Dims": a list of sizes, or a list of tensors with such lists.
std::int64_t elements_of_first(std::string_view dims) {
  JsonText text{dims.data(), dims.data() + dims.size()};
  if (!text.take('[') || text.peek() != '[') return -1;
  const char* const begin = text.p;
  if (!text.skip_value()) return -1;
  std::string_view first(begin, static_cast<std::size_t>(text.p - begin));
  if (first.starts_with("[[")) first = first.substr(1, first.size() - 2);
  std::int64_t sum = 0;
  while (!first.empty()) {
    const std::size_t close = first.find(']');
    if (close == std::string_view::npos) return -1;
    const std::vector<std::int32_t> sizes = kineto_ranks(first.substr(0, close + 1));
    if (sizes.empty()) return -1;
    std::int64_t product = 1;
    for (const std::int32_t size : sizes) {
      if (__builtin_mul_overflow(product, std::int64_t{size}, &product)) return -1;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return -1;
    first = first.substr(close + 1);
    first.remove_prefix(std::min(first.size(), first.find_first_not_of(", \n\r\t")));
  }
  return sum;
}

}  // namespace

CommRecord kineto_comm(const KinetoArgs& args, const std::function<NameId(std::string_view)>& intern) {
  CommRecord comm;
  comm.collective = intern(args.collective);
  comm.dtype = intern(args.dtype);
  comm.group = intern(args.group);
  comm.group_description = intern(args.group_description);
  comm.in_elements = count_of(args.in_elements);
  comm.out_elements = count_of(args.out_elements);
  comm.group_size = rank_of(args.group_size);
  comm.source = rank_of(args.source);
  comm.destination = rank_of(args.destination);
  comm.sequence = count_of(args.sequence);
  comm.comms_id = kineto_id(args.comms_id);
  comm.members = kineto_ranks(args.group_ranks);
  if (!args.inputs.empty()) read_positional(args, comm, intern);
  if (args.collective.empty() && comm.in_elements < 0 && !args.input_dims.empty())
    comm.in_elements = elements_of_first(args.input_dims);
  return comm;
}

}  // namespace prism
