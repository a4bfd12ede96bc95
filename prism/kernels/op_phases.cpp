// SPDX-License-Identifier: Apache-2.0
#include "prism/kernels/op_phases.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace prism {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// The number after a word: "microbatch 3", "mb=3", "stage_1". -1 if there is none.
std::int32_t number_after(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at > 0 && std::isalpha(static_cast<unsigned char>(text[at - 1])) != 0) continue;
    std::size_t digit = at + word.size();
    while (digit < text.size() && std::string_view(" _-=:#").find(text[digit]) != std::string_view::npos)
      ++digit;
    std::int32_t number = -1;
    const auto parsed = std::from_chars(text.data() + digit, text.data() + text.size(), number);
    if (parsed.ec == std::errc() && number >= 0) return number;
  }
  return -1;
}

/// What the name of an annotation says about what runs inside.
struct Said {
  Phase phase = Phase::Unknown;
  std::int32_t microbatch = -1;
  std::int32_t stage = -1;
  [[nodiscard]] bool anything() const { return phase != Phase::Unknown || microbatch >= 0 || stage >= 0; }
};

Said said_by(const std::string& name) {
  const std::string text = lower(name);
  Said said;
  for (const std::string_view word : {"microbatch", "micro_batch", "micro-batch", "mb"}) {
    if (said.microbatch < 0) said.microbatch = number_after(text, word);
  }
  for (const std::string_view word : {"stage", "pp_rank"}) {
    if (said.stage < 0) said.stage = number_after(text, word);
  }
  if (text.starts_with("optimizer.step") || text.starts_with("optimizer step")) said.phase = Phase::Optimizer;
  if (text.starts_with("forward")) said.phase = Phase::Forward;
  if (text.starts_with("backward")) said.phase = Phase::Backward;
  return said;
}

/// Annotations of one thread that say something, and those that are open at a time.
class OpenRanges {
 public:
  void add(std::int64_t start_ns, std::int64_t end_ns, const Said& said) {
    ranges_.push_back({start_ns, end_ns, said});
  }
  /// What the ranges around a time say, inner ones first. Times of calls must not decrease.
  [[nodiscard]] Said at(std::int64_t time_ns) {
    for (; next_ < ranges_.size() && ranges_[next_].start_ns <= time_ns; ++next_) open_.push_back(next_);
    std::erase_if(open_, [&](std::size_t r) { return ranges_[r].end_ns < time_ns; });
    Said said;
    for (const std::size_t r : open_) {  // opened later, so inner: overrides
      if (ranges_[r].said.phase != Phase::Unknown) said.phase = ranges_[r].said.phase;
      if (ranges_[r].said.microbatch >= 0) said.microbatch = ranges_[r].said.microbatch;
      if (ranges_[r].said.stage >= 0) said.stage = ranges_[r].said.stage;
    }
    return said;
  }

 private:
  struct Range {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    Said said;
  };
  std::vector<Range> ranges_;
  std::vector<std::size_t> open_;
  std::size_t next_ = 0;
};

std::optional<ThreadId> annotated_thread(const RankTrace& trace) {
  for (const Annotation& a : trace.annotations) {
    if (trace.name(a.name).starts_with("ProfilerStep#")) return a.thread;
  }
  return std::nullopt;
}

}  // namespace

std::vector<OpPlace> find_op_places(const RankTrace& trace, const Launches& launches,
                                    const RankCommunication& communication) {
  std::vector<Said> said_of(trace.names.size());
  std::vector<bool> is_autograd(trace.names.size(), false);
  for (std::size_t n = 0; n < trace.names.size(); ++n) {
    said_of[n] = said_by(trace.names[n]);
    is_autograd[n] = trace.names[n].starts_with("autograd::engine") ||
                     trace.names[n].ends_with("Backward0") || trace.names[n].ends_with("Backward");
  }
  // Threads on which autograd's operators run; the main thread too if it calls the engine itself.
  std::vector<OpenRanges> ranges(trace.threads.size());
  for (const Annotation& a : trace.annotations) {
    if (said_of[a.name.value].anything())
      ranges[a.thread.value].add(a.start_ns, a.end_ns(), said_of[a.name.value]);
  }
  std::vector<bool> autograd_thread(trace.threads.size(), false);
  for (const CpuOp& op : trace.cpu_ops) {
    if (is_autograd[op.name.value]) autograd_thread[op.thread.value] = true;
  }
  const auto main = annotated_thread(trace);
  std::vector<std::uint32_t> by_launch;
  for (std::uint32_t i = 0; i < trace.gpu_ops.size(); ++i) {
    if (launches.call_of[i]) by_launch.push_back(i);
  }
  std::ranges::stable_sort(by_launch, {},
                           [&](std::uint32_t i) { return trace.calls[*launches.call_of[i]].start_ns; });
  std::vector<OpPlace> places(trace.gpu_ops.size());
  for (const std::uint32_t i : by_launch) {
    const HostCall& call = trace.calls[*launches.call_of[i]];
    const Said said = ranges[call.thread.value].at(call.start_ns);
    OpPlace& place = places[i];
    place.microbatch = said.microbatch;
    place.stage = said.stage;
    if (said.phase != Phase::Unknown) {
      place.phase = said.phase;
    } else if (main && call.thread != *main && autograd_thread[call.thread.value]) {
      place.phase = Phase::Backward;
    } else if (main && call.thread == *main && launches.operator_of[i]) {
      place.phase =
          is_autograd[trace.cpu_ops[*launches.operator_of[i]].name.value] ? Phase::Backward : Phase::Forward;
    }
  }
  for (const CommunicationOp& comm : communication.ops) places[comm.gpu_op].phase = Phase::Communication;
  return places;
}

}  // namespace prism
