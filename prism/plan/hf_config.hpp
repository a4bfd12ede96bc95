// SPDX-License-Identifier: Apache-2.0
// A Hugging Face config.json -> Transformer.
#pragma once

#include <string>
#include <string_view>

#include "prism/plan/transformer.hpp"

namespace prism {

/// Knows model_type llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, gpt_neox
/// and gpt2. Sizes must be there; other absent keys have that format's default values. Sliding windows are taken as full
/// attention. Throws InputError (place: `source`) for text that is
/// no JSON object, an unknown model_type (names the known ones), a missing key without default, or an impossible
/// shape.
Transformer parse_hf_config(std::string_view json, const std::string& source);

}  // namespace prism
