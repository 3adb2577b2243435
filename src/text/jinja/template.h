// template.h: a Jinja template, parsed once and rendered often.
//
// The language is Jinja 3.1 as Hugging Face uses it for chat templates: trim_blocks, lstrip_blocks, loop controls, the
// tag `generation`, tojson without HTML escapes, raise_exception, strftime_now; undefined variables are empty text.
// Values are Python's. There is no way out: no attributes of the host, no other templates, no random numbers; and every
// rendering keeps to Limits, whatever the template does.
// Threads: immutable after parse(); any number of threads may render one.
// Fails:   parse(): bad_file with the line. render(): bad_request with code "template_error"; the message of a
//          raise_exception() comes unchanged.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"
#include "text/jinja/limits.h"

namespace espalier::jinja {

struct Ast;

// A parsed template.
class Template {
 public:
  static Result<Template> parse(std::string_view source);

  // Variables by name. They must outlive the call.
  using Context = std::vector<std::pair<std::string_view, const Json*>>;
  Result<std::string> render(const Context& context, std::time_t now, const Limits& limits = {}) const;

  struct Traced {
    std::string text;
    std::string own;  // for each byte of the text 1 where the template wrote it, 0 where the conversation may have
  };
  // The same text, traced (heap.h). As the template's count also the variables named in `own`, and the roles of
  // messages where they are words that everybody knows.
  Result<Traced> render_traced(const Context& context, std::span<const std::string_view> own, std::time_t now,
                               const Limits& limits = {}) const;

 private:
  explicit Template(std::shared_ptr<const Ast> ast) : ast_(std::move(ast)) {}

  std::shared_ptr<const Ast> ast_;
};

}  // namespace espalier::jinja
