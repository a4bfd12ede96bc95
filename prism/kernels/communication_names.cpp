// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/communication_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "prism/trace/error.hpp"

namespace prism {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

/// Lower case, letters and digits only: names differ in underscores between versions.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) out += lower(c);
  }
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Longer words stand before the words they contain.
constexpr std::array<std::pair<std::string_view, CollectiveKind>, 14> kKindWords = {{
    {"allreduce", CollectiveKind::AllReduce},
    {"crossdevicereduce", CollectiveKind::AllReduce},
    {"allgather", CollectiveKind::AllGather},
    {"reducescatter", CollectiveKind::ReduceScatter},
    {"alltoall", CollectiveKind::AllToAll},
    {"sendrecv", CollectiveKind::SendRecv},
    {"isendirecv", CollectiveKind::SendRecv},
    {"broadcast", CollectiveKind::Broadcast},
    {"barrier", CollectiveKind::Barrier},
    {"gather", CollectiveKind::Gather},
    {"scatter", CollectiveKind::Scatter},
    {"reduce", CollectiveKind::Reduce},
    {"send", CollectiveKind::Send},
    {"recv", CollectiveKind::Recv},
}};

CollectiveKind kind_in(std::string_view plain_name) {
  for (const auto& [word, kind] : kKindWords) {
    if (plain_name.find(word) != std::string_view::npos) return kind;
  }
  return CollectiveKind::Unknown;
}

/// Whether `glob` matches all of `name`, both in lower case: its pieces between stars must follow each other.
bool matches(std::string_view glob, std::string_view name) {
  const std::size_t first_star = glob.find('*');
  if (first_star == std::string_view::npos) return glob == name;
  if (!name.starts_with(glob.substr(0, first_star))) return false;
  name.remove_prefix(first_star);
  glob.remove_prefix(first_star + 1);
  for (std::size_t star = glob.find('*'); star != std::string_view::npos; star = glob.find('*')) {
    const std::size_t found = name.find(glob.substr(0, star));
    if (found == std::string_view::npos) return false;
    name.remove_prefix(found + star);
    glob.remove_prefix(star + 1);
  }
  return name.ends_with(glob);
}

std::string_view base_of(std::string_view name) {
  constexpr std::string_view kReturn = "void ";
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  if (name.starts_with(kReturn)) name.remove_prefix(kReturn.size());
  std::size_t end = name.find_first_of("(<");
  while (end != std::string_view::npos && name.substr(end).starts_with(kAnonymous)) {
    end = name.find_first_of("(<", end + kAnonymous.size());
  }
  return name.substr(0, end);
}

constexpr std::string_view kDefaultPatterns = R"(
# NCCL and RCCL
*ncclKernel_*
*ncclDevKernel*
*ncclSym*Kernel*
*ncclDevFunc*
*rcclKernel*
# DeepEP
*deep_ep::*dispatch* = alltoall
*deep_ep::*combine*  = alltoall
*deep_ep::*
*dpsk::ep::*dispatch* = alltoall
*dpsk::ep::*combine*  = alltoall
*dpsk::ep::*
# all-reduce of inference engines
*cross_device_reduce_* = allreduce
*allreduce_fusion*     = allreduce
*all*reduce*oneshot*   = allreduce
*all*reduce*one_shot*  = allreduce
*all*reduce*twoshot*   = allreduce
*all*reduce*two_shot*  = allreduce
*oneshot*all*reduce*   = allreduce
*one_shot*all*reduce*  = allreduce
*twoshot*all*reduce*   = allreduce
*two_shot*all*reduce*  = allreduce
*multimem_*
# other libraries
*nvshmem*
*mscclpp*
*oneccl_*
hccl:*
# copies between devices
Memcpy PtoP* = copy
)";

}  // namespace

std::string_view collective_kind_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::Unknown:
      return "communication";
    case CollectiveKind::AllReduce:
      return "all-reduce";
    case CollectiveKind::AllGather:
      return "all-gather";
    case CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::Broadcast:
      return "broadcast";
    case CollectiveKind::Reduce:
      return "reduce";
    case CollectiveKind::AllToAll:
      return "all-to-all";
    case CollectiveKind::Gather:
      return "gather";
    case CollectiveKind::Scatter:
      return "scatter";
    case CollectiveKind::Barrier:
      return "barrier";
    case CollectiveKind::Send:
      return "send";
    case CollectiveKind::Recv:
      return "recv";
    case CollectiveKind::SendRecv:
      return "send/recv";
    case CollectiveKind::Copy:
      return "copy";
  }
  return "";
}

CollectiveKind kind_of_collective(std::string_view name) {
  const std::string text = plain(name);
  return text == "copy" ? CollectiveKind::Copy : kind_in(text);
}

bool is_barrier_like(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::AllGather ||
         kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::Barrier;
}

bool is_point_to_point(CollectiveKind kind) {
  return kind == CollectiveKind::Send || kind == CollectiveKind::Recv || kind == CollectiveKind::SendRecv;
}

bool has_equal_sizes(CollectiveKind kind, std::string_view collective_name) {
  switch (kind) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
    case CollectiveKind::Barrier:
      return true;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      return plain(collective_name).ends_with("base");
    default:
      return false;
  }
}

std::optional<int> element_bytes(std::string_view dtype) {
  if (dtype.starts_with("c10::")) dtype.remove_prefix(5);
  const std::string text = plain(dtype);
  constexpr auto kSizes = std::to_array<std::pair<std::string_view, int>>({
      {"float", 4},
      {"double", 8},
      {"half", 2},
      {"bfloat16", 2},
      {"byte", 1},
      {"char", 1},
      {"short", 2},
      {"int", 4},
      {"long", 8},
      {"longint", 8},
      {"bool", 1},
      {"complexhalf", 4},
      {"complexfloat", 8},
      {"complexdouble", 16},
      {"uint16", 2},
      {"uint32", 4},
      {"uint64", 8},
      {"unsignedchar", 1},
      {"signedchar", 1},
      {"f16", 2},
      {"f32", 4},
      {"f64", 8},
      {"bf16", 2},
      {"u8", 1},
      {"i8", 1},
      {"u32", 4},
      {"i32", 4},
      {"u64", 8},
      {"i64", 8},
      {"int8t", 1},
      {"uint8t", 1},
      {"int32t", 4},
      {"uint32t", 4},
      {"int64t", 8},
      {"uint64t", 8},
      {"f8e4m3", 1},
      {"f8e5m2", 1},
      {"fp8e4m3", 1},
      {"fp8e5m2", 1},
      {"float8e4m3fn", 1},
      {"float8e5m2", 1},
      {"float8e4m3fnuz", 1},
      {"float8e5m2fnuz", 1},
      {"qint8", 1},
      {"quint8", 1},
  });
  const auto found = std::ranges::find(kSizes, text, &std::pair<std::string_view, int>::first);
  if (found == kSizes.end()) return std::nullopt;
  return found->second;
}

KernelName parse_kernel_name(std::string_view name) {
  KernelName parsed;
  const std::string_view base = base_of(name);
  parsed.base = std::string(base);
  parsed.kind = kind_in(plain(base));
  if (plain(base).find("nccl") == std::string::npos) return parsed;
  // Compound algorithms are one token each in meaning but hold the separator.
  constexpr auto kAlgorithms = std::to_array<std::string_view>(
      {"COLLNET_DIRECT", "COLLNET_CHAIN", "COLLNET", "NVLS_TREE", "NVLS", "RING", "TREE", "PAT"});
  constexpr auto kProtocols = std::to_array<std::string_view>({"LL128", "LL", "SIMPLE"});
  const std::string tokens = "_" + parsed.base + "_";
  const auto first_of = [&](const auto& words) -> std::string {
    for (const std::string_view word : words) {
      if (tokens.find("_" + std::string(word) + "_") != std::string::npos) return std::string(word);
    }
    return {};
  };
  parsed.algorithm = first_of(kAlgorithms);
  parsed.protocol = first_of(kProtocols);
  for (std::size_t begin = 0; begin < parsed.base.size();) {
    // "int8_t" holds the separator too.
    std::size_t end = std::min(parsed.base.find('_', begin), parsed.base.size());
    if (end + 2 == parsed.base.size() && parsed.base.ends_with("_t")) end = parsed.base.size();
    const std::string token = parsed.base.substr(begin, end - begin);
    if (element_bytes(token)) parsed.dtype = token;
    begin = end + 1;
  }
  return parsed;
}

const std::vector<CommunicationPattern>& default_communication_patterns() {
  static const std::vector<CommunicationPattern> patterns =
      parse_communication_patterns(kDefaultPatterns, "built-in list");
  return patterns;
}

std::vector<CommunicationPattern> parse_communication_patterns(std::string_view text,
                                                               const std::string& file) {
  std::vector<CommunicationPattern> patterns;
  std::uint64_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    // Kernel names may hold "=", so only one with white space before it separates.
    const std::size_t equals = std::min(line.rfind(" ="), line.rfind("\t="));
    CommunicationPattern pattern{lower(trim(line.substr(0, equals))), CollectiveKind::Unknown};
    if (equals != std::string_view::npos) {
      const std::string_view kind = trim(line.substr(equals + 2));
      pattern.kind = kind_of_collective(kind);
      if (pattern.kind == CollectiveKind::Unknown) {
        throw InputError(
            {file, line_number, {}}, "unknown kind of communication \"" + std::string(kind) + "\"",
            "write one of allreduce, allgather, reducescatter, broadcast, reduce, alltoall, gather, "
            "scatter, barrier, send, recv, sendrecv, copy");
      }
    }
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

const CommunicationPattern* find_pattern(const std::vector<CommunicationPattern>& patterns,
                                         std::string_view name) {
  const std::string text = lower(name);
  const auto found =
      std::ranges::find_if(patterns, [&](const CommunicationPattern& p) { return matches(p.glob, text); });
  return found == patterns.end() ? nullptr : &*found;
}

}  // namespace prism
