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
  const bool both = text.find("forward") != std::string::npos && text.find("backward") != std::string::npos;
  if (text.starts_with("forward") && !both) said.phase = Phase::Forward;
  if (text.starts_with("backward") && !both) said.phase = Phase::Backward;
  return said;
}

/// [GPU op] the innermost annotation around its launch that says something of one kind.
template <class Says>
std::vector<std::optional<std::uint32_t>> saying(const RankTrace& trace, const Launches& launches,
                                                 const std::vector<Said>& said_of, const Says& says) {
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t a = 0; a < trace.annotations.size(); ++a) {
    if (says(said_of[trace.annotations[a].name.value])) chosen.push_back(a);
  }
  return annotations_around_launches(trace, launches, chosen);
}

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
  const auto phases =
      saying(trace, launches, said_of, [](const Said& said) { return said.phase != Phase::Unknown; });
  const auto microbatches =
      saying(trace, launches, said_of, [](const Said& said) { return said.microbatch >= 0; });
  const auto stages = saying(trace, launches, said_of, [](const Said& said) { return said.stage >= 0; });
  const auto said = [&](std::uint32_t annotation) -> const Said& {
    return said_of[trace.annotations[annotation].name.value];
  };
  // Threads on which autograd's operators run; the main thread too if it calls the engine itself.
  std::vector<bool> autograd_thread(trace.threads.size(), false);
  for (const CpuOp& op : trace.cpu_ops) {
    if (is_autograd[op.name.value]) autograd_thread[op.thread.value] = true;
  }
  const auto main = annotated_thread(trace);
  std::vector<OpPlace> places(trace.gpu_ops.size());
  for (std::uint32_t i = 0; i < trace.gpu_ops.size(); ++i) {
    if (!launches.call_of[i]) continue;
    const ThreadId thread = trace.calls[*launches.call_of[i]].thread;
    OpPlace& place = places[i];
    if (microbatches[i]) place.microbatch = said(*microbatches[i]).microbatch;
    if (stages[i]) place.stage = said(*stages[i]).stage;
    if (phases[i]) {
      place.phase = said(*phases[i]).phase;
    } else if (main && thread != *main && autograd_thread[thread.value]) {
      place.phase = Phase::Backward;
    } else if (main && thread == *main && launches.operator_of[i]) {
      place.phase =
          is_autograd[trace.cpu_ops[*launches.operator_of[i]].name.value] ? Phase::Backward : Phase::Forward;
    }
  }
  for (const CommunicationOp& comm : communication.ops) places[comm.gpu_op].phase = Phase::Communication;
  return places;
}

}  // namespace prism
