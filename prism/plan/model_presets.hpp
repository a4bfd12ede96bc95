// SPDX-License-Identifier: Apache-2.0
// Shapes of well-known models.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "prism/plan/transformer.hpp"

namespace prism {

struct ModelPreset {
  Transformer model;          ///< its name is the preset's
  std::int64_t sequence = 0;  ///< length it was pre-trained with
  std::string source;
};

std::span<const ModelPreset> model_presets();
/// Nothing if there is none of that name.
const ModelPreset* find_model_preset(std::string_view name);

}  // namespace prism
