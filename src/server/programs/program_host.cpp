#include "server/programs/program_host.h"

#include <vector>

#include "lang/backends/local/local_backend.h"
#include "server/programs/program_delivery.h"
#include "server/served_model.h"

namespace espalier::server {

ProgramHost::ProgramHost() = default;
ProgramHost::~ProgramHost() = default;

Result<ProgramHost::Opened> ProgramHost::open(const std::shared_ptr<ServedModel>& model) {
  ESP_CHECK(model->need_tokenizer("program"));
  const std::lock_guard lock(mutex_);
  if (!opened_.service) {
    ESP_TRY(ChatFormat format, lang::local_chat_format(*model->engine, {}, model->own_template.get()));
    opened_.format = std::make_shared<const ChatFormat>(std::move(format));
    opened_.service = std::make_shared<lang::LocalService>(std::shared_ptr<Engine>(model, model->engine.get()));
  }
  return opened_;
}

void ProgramHost::stop() {
  if (opened_.service) opened_.service->stop();
}

void ProgramHost::add(const std::string& id, const std::shared_ptr<ProgramDelivery>& program) {
  const std::lock_guard lock(mutex_);
  running_[program.get()] = {id, program};
}

void ProgramHost::remove(const ProgramDelivery* program) {
  const std::lock_guard lock(mutex_);
  running_.erase(program);
}

void ProgramHost::abort(std::string_view beginning) {
  std::vector<std::shared_ptr<ProgramDelivery>> meant;  // told without the lock: their ends come back here
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, running] : running_)
      if (running.id.starts_with(beginning))
        if (auto program = running.program.lock()) meant.push_back(std::move(program));
  }
  for (const auto& program : meant) program->abort();
}

}  // namespace espalier::server
