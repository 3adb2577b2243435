#include "server/in_process.h"

#include "base/made_up_id.h"
#include "server/attach_model.h"
#include "server/delivery/dialect.h"
#include "server/media/program_pictures.h"
#include "server/programs/own_routes.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

net::ErrorFormatter error_shape() {
  return [](const net::HttpError& error, std::string_view path) { return error_response(dialect_of(path, ""), error); };
}

}  // namespace

struct InProcess::Parts {
  net::Router router{"", error_shape()};  // must outlive the service's threads
  std::shared_ptr<RouteDoor> door = std::make_shared<RouteDoor>(router);
  std::unique_ptr<Service> service;
};

InProcess::InProcess(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
InProcess::~InProcess() {
  parts_->door->close();
}

Result<std::unique_ptr<InProcess>> InProcess::start(ServerOptions options, std::unique_ptr<Engine> engine,
                                                    const std::string& name) {
  options.log_requests = false;
  options.api_prefix.clear();
  ESP_TRY(auto keys, KeyRing::load({}, {}, {}));
  auto parts = std::make_unique<Parts>();
  ESP_TRY(parts->service, Service::make(std::move(options), std::move(keys)));
  parts->service->in_process = true;
  ESP_CHECK(add_all_routes(parts->router, *parts->service));
  ESP_CHECK(attach_model(*parts->service, std::move(engine), name));
  return std::unique_ptr<InProcess>(new InProcess(std::move(parts)));  // the constructor is private
}

net::InProcessCall InProcess::call(net::Method method, std::string_view path, std::string body,
                                   std::function<void()> wake) {
  net::InProcessCall call(std::move(wake));
  parts_->router.dispatch(own_request(method, path, std::move(body), made_up_id()), call.responder());
  return call;
}

std::shared_ptr<Engine> InProcess::engine() const {
  auto model = parts_->service->model();
  Engine* engine = model->engine.get();
  return {std::move(model), engine};
}

std::shared_ptr<lang::LocalPictures> InProcess::pictures() const {
  return program_pictures(*parts_->service->model(), parts_->service->media_memory);
}

std::shared_ptr<lang::LocalRoutes> InProcess::routes() const {
  return std::make_shared<OwnRoutes>(parts_->door, "", Json::object());
}

const std::string& InProcess::name() const {
  return parts_->service->model()->name();
}

}  // namespace espalier::server
