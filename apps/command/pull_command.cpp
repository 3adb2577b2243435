// `espalier pull MODEL` and `espalier list`: the caches of models.
#include <unistd.h>

#include <cstdio>

#include "command/command.h"
#include "store/store.h"
#include "tensor/describe.h"

namespace espalier::command {

Run add_pull(CLI::App& app) {
  struct Arguments {
    std::string model, progress = "auto";
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("pull", "download a model and print where it is");
  verb->add_option("model", a->model, "smollm2-135m, or a hub repository org/name[:quant][@revision]")->required();
  verb->add_option("--progress", a->progress, "auto, bar, plain, json or none")->capture_default_str();
  return [a] {
    const auto style = store::progress_style(a->progress);
    if (!style.ok()) return fail(style.error());
    store::Store models;
    const auto progress = store::make_progress(*style, STDERR_FILENO);
    const auto model = models.pull(a->model, *progress);
    if (!model.ok()) return fail(model.error());
    std::printf("%s\n", model->path.c_str());
    return 0;
  };
}

Run add_list(CLI::App& app) {
  app.add_subcommand("list", "the models in the caches of this machine");
  return [] {
    const auto models = store::Store().list();
    if (!models.ok()) return fail(models.error());
    for (const auto& model : *models)
      std::printf("%-48s %10s  %s\n", model.name.c_str(), shown_bytes(model.bytes).c_str(), model.path.c_str());
    return 0;
  };
}

}  // namespace espalier::command
