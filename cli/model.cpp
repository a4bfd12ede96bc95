// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "prism/model/saved_model.hpp"
#include "prism/report/json.hpp"
#include "prism/report/text.hpp"

namespace prism::cli {

int run_model_save(const ModelSaveOptions& options) {
  const CommonOptions& common = options.common;
  if (common.output == "-") {
    throw UsageError("a saved model is a database and cannot be written to a pipe; name a file");
  }
  const StepModel model = open_input(common);
  common.control.check_cancelled();
  try {
    save_model(model, common.output, {.anonymise = options.anonymise});
  } catch (const std::system_error& error) {
    throw UsageError(error.what());
  }
  CommonOptions to_stdout = common;
  to_stdout.output.clear();
  const StepModel saved = load_model(common.output);
  emit(to_stdout, common.format == Format::Json ? model_json(saved, "model.save", {})
                                                : "saved " + common.output + "\n" + model_text(saved));
  return kDone;
}

int run_model_show(const CommonOptions& options) {
  const StepModel model = open_input(options);
  emit(options, options.format == Format::Json ? model_json(model, "model.show", {}) : model_text(model));
  return kDone;
}

}  // namespace prism::cli
