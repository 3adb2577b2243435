// `espalier pull MODEL`, `espalier list` and `espalier rm MODEL`: the caches of models.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "command/command.h"
#include "command/output.h"
#include "espalier/json.h"
#include "store/remove.h"
#include "store/store.h"
#include "tensor/describe.h"

namespace espalier::command {

Run add_pull(CLI::App& app) {
  struct Arguments {
    std::string model, progress = "auto";
    bool offline = false;
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("pull", "download a model and print where it is");
  verb->add_option("model", a->model, "smollm2-135m, or a hub repository org/name[:quant][@revision]")->required();
  verb->add_option("--progress", a->progress, "auto, bar, plain, json or none")->capture_default_str();
  verb->add_flag("--offline", a->offline, "open no connection: only what is in the cache (as HF_HUB_OFFLINE=1)");
  return [a] {
    const auto style = store::progress_style(a->progress);
    if (!style.ok()) return fail(style.error());
    auto settings = store::Settings::from_environment();
    settings.offline |= a->offline;
    store::Store models(std::move(settings));
    const auto progress = store::make_progress(*style, STDERR_FILENO);
    const auto model = models.pull(a->model, *progress);
    if (!model.ok()) return fail(model.error());
    std::printf("%s\n", model->path.c_str());
    return 0;
  };
}

Run add_list(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto* verb = app.add_subcommand("list", "the models in the caches of this machine");
  verb->add_flag("--json", *json, "one JSON object a line");
  return [json] {
    const auto models = store::Store().list();
    if (!models.ok()) return fail(models.error());
    for (const auto& model : *models) {
      if (*json) {
        const Json line = {{"name", model.name},
                           {"path", model.path.string()},
                           {"bytes", model.bytes},
                           {"revision", model.revision},
                           {"format", model.form == store::ModelForm::gguf ? "gguf" : "safetensors"}};
        put(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
      } else {
        put(fmt::format("{:<48} {:>10}  {}\n", printable(model.name), shown_bytes(model.bytes),
                        printable(model.path.string())));
      }
    }
    return 0;
  };
}

Run add_remove(CLI::App& app) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto* verb = app.add_subcommand("rm", "remove models from the caches of this machine");
  verb->add_option("model", *names, "as `espalier list` names them; org/name without more is all of the repository")
      ->required()
      ->take_all();
  return [names] {
    const store::Store models;
    for (const std::string& name : *names) {
      const auto meant = models.meaning(name);
      if (!meant.ok()) return fail(meant.error());
      const auto removed = store::remove_model(models.settings(), *meant, name);
      if (!removed.ok()) return fail(removed.error());
      fmt::print(stderr, "removed {}: {} files, {}\n", printable(name), removed->files, shown_bytes(removed->bytes));
    }
    return 0;
  };
}

}  // namespace espalier::command
