// The back ends and how they are opened.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "espalier/backends.h"
#include "held_backend.h"
#include "lang/backends/compute_prefix.h"
#include "lang/chat/chat_formats.h"
#include "python_json.h"

namespace espalier::python {
namespace {

template <class Open, class Options>
std::unique_ptr<PythonBackend> opened(Open* open, Options options) {
  return held(unlocked([&] { return value_of(open(std::move(options))); }));
}

ConnectionOptions connection(std::optional<int> milliseconds, std::optional<int> tries,
                             std::map<std::string, std::string> headers) {
  ConnectionOptions options;
  if (milliseconds) options.timeout = std::chrono::milliseconds(*milliseconds);
  if (tries) options.retry.tries = *tries;
  options.headers = std::move(headers);
  return options;
}

nb::dict usage(PythonBackend& self) {
  const BackendUsage used = unlocked([&] { return (*self)->usage(); });
  nb::dict told;
  told["prompt_tokens"] = used.prompt_tokens;
  told["completion_tokens"] = used.completion_tokens;
  told["calls"] = used.calls;
  told["retries"] = used.retries;
  told["calls_saved"] = used.calls_saved;
  told["tokens_unused"] = used.tokens_unused;
  return told;
}

nb::object server_info(PythonBackend& self) {
  return python_of(unlocked([&] { return value_of((*self)->server_info()); }));
}

void cache_prefix(PythonBackend& self, std::string text) {
  value_of(unlocked([&] { return lang::compute_prefix(**self, std::move(text)); }));
}

void bind_options(nb::module_& m) {
  nb::class_<ConnectionOptions>(m, "ConnectionOptions")
      .def(
          "__init__",
          [](ConnectionOptions* self, std::optional<int> milliseconds, std::optional<int> tries,
             std::map<std::string, std::string> headers) {
            new (self) ConnectionOptions(connection(milliseconds, tries, std::move(headers)));
          },
          nb::arg("milliseconds").none(), nb::arg("tries").none(), nb::arg("headers"));
  nb::class_<OpenAiOptions>(m, "OpenAiOptions")
      .def(nb::init<>())
      .def_rw("model", &OpenAiOptions::model)
      .def_rw("chat", &OpenAiOptions::chat, nb::arg().none())
      .def_rw("base_url", &OpenAiOptions::base_url)
      .def_rw("api_key", &OpenAiOptions::api_key)
      .def_rw("organization", &OpenAiOptions::organization)
      .def_rw("chat_template", &OpenAiOptions::chat_template)
      .def_rw("azure", &OpenAiOptions::azure)
      .def_rw("azure_api_version", &OpenAiOptions::azure_api_version)
      .def_rw("text_is_turn", &OpenAiOptions::text_is_turn)
      .def_rw("constraint_tries", &OpenAiOptions::constraint_tries)
      .def_rw("connection", &OpenAiOptions::connection);
  nb::class_<AnthropicOptions>(m, "AnthropicOptions")
      .def(nb::init<>())
      .def_rw("model", &AnthropicOptions::model)
      .def_rw("base_url", &AnthropicOptions::base_url)
      .def_rw("api_key", &AnthropicOptions::api_key)
      .def_rw("chat_template", &AnthropicOptions::chat_template)
      .def_rw("constraint_tries", &AnthropicOptions::constraint_tries)
      .def_rw("connection", &AnthropicOptions::connection);
  nb::class_<GeminiOptions>(m, "GeminiOptions")
      .def(nb::init<>())
      .def_rw("model", &GeminiOptions::model)
      .def_rw("base_url", &GeminiOptions::base_url)
      .def_rw("api_key", &GeminiOptions::api_key)
      .def_rw("vertex", &GeminiOptions::vertex)
      .def_rw("project", &GeminiOptions::project)
      .def_rw("location", &GeminiOptions::location)
      .def_rw("bearer_token", &GeminiOptions::bearer_token)
      .def_rw("safety_settings", &GeminiOptions::safety_settings)
      .def_rw("chat_template", &GeminiOptions::chat_template)
      .def_rw("constraint_tries", &GeminiOptions::constraint_tries)
      .def_rw("connection", &GeminiOptions::connection);
}

void bind_chat_format(nb::module_& m) {
  m.def("chat_format_named", [](const std::string& name) { return value_of(lang::chat_format_named(name)); });
  nb::class_<ChatFormat>(m, "ChatFormat", "What stands around the turns of a conversation.")
      .def_ro("name", &ChatFormat::name)
      .def_ro("image_token", &ChatFormat::image_token)
      .def_ro("default_system_prompt", &ChatFormat::default_system)
      .def_ro("stop_str", &ChatFormat::stop)
      .def("get_prefix_and_suffix", [](const ChatFormat& self, const std::string& role, nb::list turns) {
        const bool system_first = turns.size() > 0 && nb::cast<std::string>(nb::object(turns[0])["role"]) == "system";
        const ChatFormat::Turn turn = self.turn(role, turns.size(), system_first);
        return nb::make_tuple(text_of(turn.begin), text_of(turn.end));
      });
}

}  // namespace

void bind_backends(nb::module_& m) {
  bind_options(m);
  bind_chat_format(m);
  nb::class_<PythonBackend>(m, "Backend")
      .def_prop_ro("name", [](PythonBackend& self) { return (*self)->traits().name; })
      .def("chat_format", [](PythonBackend& self) { return ChatFormat((*self)->chat_format()); })
      .def("usage", &usage)
      .def("flush_cache", [](PythonBackend& self) { unlocked([&] { value_of((*self)->flush_cache()); }); })
      .def("server_info", &server_info)
      .def("cache_prefix", &cache_prefix)
      // A prefix that was computed is worth a call of its own: it is not computed again, and nobody else sees to it.
      .def("keeps_prefixes", [](PythonBackend& self) { return (*self)->traits().prefix_cache; });
  m.def(
      "set_default_backend",
      [](PythonBackend* backend) { set_default_backend(backend != nullptr ? **backend : nullptr); },
      nb::arg("backend").none());
  m.def("open_native", [](std::string url, std::string key, std::string chat_template, ConnectionOptions connection) {
    return opened(&open_native,
                  NativeOptions{std::move(url), std::move(key), std::move(chat_template), std::move(connection)});
  });
  m.def("open_openai", [](OpenAiOptions options) { return opened(&open_openai, std::move(options)); });
  m.def("open_anthropic", [](AnthropicOptions options) { return opened(&open_anthropic, std::move(options)); });
  m.def("open_gemini", [](GeminiOptions options) { return opened(&open_gemini, std::move(options)); });
}

}  // namespace espalier::python
