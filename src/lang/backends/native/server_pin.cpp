#include "lang/backends/native/server_pin.h"

#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/reply_reader.h"
#include "lang/backends/remote/wire/wire_text.h"

namespace espalier::lang::native {
namespace {

// A program that is killed lets go of nothing: the server does so then.
constexpr int kMostSeconds = 600;

class ServerPin final : public HeldPrefix {
 public:
  ServerPin(std::shared_ptr<RequestQueue> queue, std::string id) : queue_(std::move(queue)), id_(std::move(id)) {}
  ~ServerPin() override {
    queue_->send({queue_->request("/v1/cache/unpin", wire_text({{"id", id_}})),
                  {},
                  [](const Result<std::string>&) {},
                  false,
                  true});
  }
  ServerPin(const ServerPin&) = delete;
  ServerPin& operator=(const ServerPin&) = delete;

 private:
  const std::shared_ptr<RequestQueue> queue_;
  const std::string id_;
};

}  // namespace

std::shared_ptr<HeldPrefix> pin_at_server(const std::shared_ptr<RequestQueue>& queue, const std::string& text) {
  const auto answer =
      queue->ask(queue->request("/v1/cache/pin", wire_text({{"text", text}, {"seconds", kMostSeconds}})), true);
  if (!answer.ok()) return nullptr;
  const auto reply = read_reply_json("native", *answer);
  const Json* id = reply.ok() ? find_field(*reply, "id") : nullptr;
  if (id == nullptr || !id->is_string()) return nullptr;
  return std::make_shared<ServerPin>(queue, id->get<std::string>());
}

}  // namespace espalier::lang::native
