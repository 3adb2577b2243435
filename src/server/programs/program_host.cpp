#include "server/programs/program_host.h"

#include <vector>

#include "lang/backends/local/local_backend.h"
#include "server/media/program_pictures.h"
#include "server/programs/program_delivery.h"
#include "server/served_model.h"

namespace espalier::server {

ProgramHost::ProgramHost(std::shared_ptr<Budget> media_memory) : media_memory_(std::move(media_memory)) {}
ProgramHost::~ProgramHost() = default;

Result<ProgramHost::Opened> ProgramHost::open(const std::shared_ptr<ServedModel>& model) {
  ESP_CHECK(model->need_tokenizer("program"));
  const std::lock_guard lock(mutex_);
  if (!model->program_service) {
    ESP_TRY(ChatFormat format, lang::local_chat_format(*model->engine, {}, model->own_template.get()));
    model->program_format = std::make_shared<const ChatFormat>(std::move(format));
    model->program_service = std::make_shared<lang::LocalService>(model->engine);
    model->program_service->pictures = program_pictures(*model, media_memory_);
    std::erase_if(opened_, [](const auto& service) { return service.expired(); });
    opened_.push_back(model->program_service);
  }
  return Opened{model->program_service, model->program_format};
}

void ProgramHost::stop() {
  std::vector<std::shared_ptr<lang::LocalService>> services;  // stopped without the lock: their last words come back
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : opened_)
      if (auto service = weak.lock()) services.push_back(std::move(service));
  }
  for (const auto& service : services) service->stop();
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
