// SPDX-License-Identifier: Apache-2.0
// Bytes as a saved model: an InputError, or a model that survives saving and loading.
#include "prism/model/saved_model.hpp"
#include "prism/trace/error.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/fuzz/temporary_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const prism::fuzz::TemporaryInput input;
  const auto path = input.write("model.prism", reinterpret_cast<const char*>(data), size);
  try {
    const prism::StepModel model = prism::load_model(path);
    const auto again = input.folder() / "again.prism";
    prism::save_model(model, again);
    const prism::StepModel reread = prism::load_model(again);
    prism::fuzz::require(reread.graph == model.graph && reread.nodes == model.nodes &&
                             reread.pools == model.pools && reread.step_kinds == model.step_kinds &&
                             reread.rank_factors == model.rank_factors && reread.activity == model.activity &&
                             reread.lead_ns == model.lead_ns,
                         "save and load is not the identity");
  } catch (const prism::InputError&) {
    return 0;
  }
  return 0;
}
