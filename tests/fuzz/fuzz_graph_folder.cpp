// SPDX-License-Identifier: Apache-2.0
// Bytes as a user's graph: the three files one after the other, separated by a line "---". An InputError, or
// a graph that the fast sweep and the plain reference evaluate alike.
#include <string_view>

#include "prism/engine/reference.hpp"
#include "prism/engine/simulate.hpp"
#include "prism/model/graph_folder.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/fuzz/temporary_input.hpp"

namespace {

constexpr std::size_t kMaxWork = 1 << 14;  // nodes x replicas

std::string_view next_part(std::string_view& text) {
  constexpr std::string_view kSeparator = "\n---\n";
  const std::size_t at = text.find(kSeparator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + kSeparator.size());
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const prism::fuzz::TemporaryInput input;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"nodes.csv", "edges.csv", "pools.csv", "mesh.csv"}) {
    const std::string_view part = next_part(text);
    if (std::string_view(name) == "mesh.csv" && part.empty()) {
      std::filesystem::remove(input.folder() / name);
    } else {
      input.write(name, part.data(), part.size());
    }
  }
  try {
    const prism::StepModel model = prism::read_graph_folder(input.folder());
    if (model.graph.size() * model.replicas > kMaxWork) return 0;
    const prism::Simulation simulation(model, prism::Sampling::Iid, {});
    const prism::StepEffects effects;
    const prism::Draws draws(model, prism::Sampling::Iid, effects);
    const auto fast = simulation.step_times_ns(1, 0, 3, {.threads = 1});
    for (std::uint32_t sample = 0; sample < 3; ++sample) {
      prism::fuzz::require(prism::reference_times(model, draws, 1, sample).step_ns == fast[sample],
                           "sweep and reference differ");
    }
  } catch (const prism::InputError&) {
    return 0;
  }
  return 0;
}
