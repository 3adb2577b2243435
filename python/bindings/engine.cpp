// An engine in the Python process, behind the routes of a server without sockets.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "bindings.h"
#include "command/command.h"
#include "errors.h"
#include "espalier/backends.h"
#include "held_backend.h"
#include "lang/chat/chat_formats.h"
#include "lang/execute/waiting.h"
#include "serve/foreign_flags.h"
#include "serve/serve_options.h"
#include "server/in_process.h"
#include "waiting.h"

namespace espalier::python {
namespace {

// The flags of `espalier serve` as that reads them.
Result<std::unique_ptr<serve::ServeOptions>> read_flags(std::vector<std::string> words) {
  CLI::App app;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  auto options = std::make_unique<serve::ServeOptions>();
  serve::add_serve_flags(app, *options);
  words = serve::respelled(std::move(words));
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 wants a vector
  } catch (const CLI::ParseError& wrong) {
    return bad_request(wrong.what());
  }
  ESP_CHECK(options->read_config(app));
  ESP_CHECK(options->settle());
  if (!options->ranks.alone())
    return Error{
        Error::Kind::unsupported,
        "an engine inside of Python is one process: `espalier serve --tp-size` starts several, and a client uses them",
        "tp_size",
        {}};
  if (const std::string notice = options->notice(); !notice.empty()) log::warning("{}", notice);
  return options;
}

// A request to the engine; dropping it cancels it. Threads: one at a time.
class EngineCall {
 public:
  using Begin = std::function<net::InProcessCall(std::function<void()> wake)>;
  explicit EngineCall(const Begin& begin)
      : signal_(std::make_shared<WakeSignal>()), call_(begin([signal = signal_] { signal->raise(); })) {}

  void wait() {
    const nb::gil_scoped_release released;
    while (!call_.take(body_))
      if (!signal_->wait(lang::kInterruptCheck)) lang::check_interrupts();
  }
  void notify(PythonWaker& waker, std::int64_t key) {
    if (call_.take(body_) || call_.ended())
      (*waker)->wake(key);
    else
      signal_->notify(*waker, key);
  }
  void take() { call_.take(body_); }
  nb::bytes body() {
    const std::string taken = std::exchange(body_, {});
    return nb::bytes(taken.data(), taken.size());
  }
  int status() const { return call_.status(); }
  bool ended() const { return call_.ended(); }
  bool whole() const { return call_.whole(); }

 private:
  std::shared_ptr<WakeSignal> signal_;
  net::InProcessCall call_;
  std::string body_;
};

class PythonEngine {
 public:
  // `chat_format`: a name of lang/chat/chat_formats.h for programs; empty = the model's own.
  PythonEngine(std::vector<std::string> words, std::string chat_format) : chat_format_(std::move(chat_format)) {
    const nb::gil_scoped_release released;
    const auto options = value_of(read_flags(std::move(words)));
    value_of(command::find_models(options->model, options->engine));
    auto engine = value_of(Engine::open(options->engine));
    routes_ = value_of(server::InProcess::start(options->server, std::move(engine), options->model));
  }
  ~PythonEngine() { shutdown(); }

  std::unique_ptr<EngineCall> call(const std::string& method, const std::string& path, std::string body) {
    server::InProcess& routes = need_routes();
    const nb::gil_scoped_release released;
    return std::make_unique<EngineCall>([&](std::function<void()> wake) {
      return routes.call(net::method_from(method), path, std::move(body), std::move(wake));
    });
  }

  // `chat_format`: empty for the one that the engine was opened with.
  std::unique_ptr<PythonBackend> backend(const std::string& chat_format) {
    server::InProcess& routes = need_routes();
    const std::string& format = chat_format.empty() ? chat_format_ : chat_format;
    return held(unlocked([&] {
      return value_of(open_local({.engine = routes.engine(),
                                  .chat_template = format,
                                  .pictures = routes.pictures(),
                                  .routes = routes.routes()}));
    }));
  }

  // Back ends and states may outlive it; what they ask for from now on is refused.
  void shutdown() {
    if (!routes_) return;
    const nb::gil_scoped_release released;
    const std::shared_ptr<Engine> engine = routes_->engine();
    engine->drain();
    engine->abort("");
    routes_.reset();
  }

 private:
  server::InProcess& need_routes() const {
    if (!routes_) throw ProgramError({Error::Kind::unavailable, "the engine was shut down", {}, {}});
    return *routes_;
  }

  std::unique_ptr<server::InProcess> routes_;
  std::string chat_format_;
};

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<EngineCall>(m, "EngineCall")
      .def("wait", &EngineCall::wait)
      .def("notify", &EngineCall::notify)
      .def("take", &EngineCall::take)
      .def("body", &EngineCall::body)
      .def_prop_ro("status", &EngineCall::status)
      .def_prop_ro("ended", &EngineCall::ended)
      .def_prop_ro("whole", &EngineCall::whole);
  m.def("chat_format_names", &lang::chat_format_names);
  nb::class_<PythonEngine>(m, "Engine")
      .def(nb::init<std::vector<std::string>, std::string>())
      .def("call", &PythonEngine::call)
      .def("backend", &PythonEngine::backend)
      .def("shutdown", &PythonEngine::shutdown);
}

}  // namespace espalier::python
