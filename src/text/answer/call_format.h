// call_format.h: how families of models write calls of tools, by the names that SGLang and vLLM give them.
//
// A row says where calls begin and end and how names and arguments lie between; five ways of writing are read by five
// readers (call_reader.h), and the rows differ in marks only.
// Units:   UTF-8 text. Threads: constants.
// Fails:   call_format(): bad_request naming the known ones.
// Source:  SGLang's --tool-call-parser and vLLM's, and the chat templates of the models.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

// The ways of writing calls.
enum class CallFamily : std::uint8_t {
  json,      // objects {"name": f, "arguments": {...}}, alone or in an array
  named,     // f, a mark, and arguments as JSON
  tags,      // f and parameters in tags; values without quotes
  keywords,  // f(a=1) or call:f{a:1}
  harmony,   // channels of gpt-oss
};

// How a call looks when it must be one: begin NAME arguments_prefix ARGUMENTS end; `separator` stands for `end` and
// `begin` between two calls (empty: one call at a time).
struct CallWire {
  // What the arguments are: a JSON object; or members, each key_prefix KEY key_suffix VALUE value_suffix, with
  // `member_separator` between: values as text (tagged), as Python's or as Gemma's literals.
  enum class Arguments : std::uint8_t { json, tagged, python, gemma };

  std::string_view begin, arguments_prefix, end, separator;
  Arguments arguments = Arguments::json;
  std::string_view key_prefix = {}, key_suffix = {}, value_suffix = {}, member_separator = {};
  std::string_view key_suffix_other = {};  // where a value that is no string has another one
  bool numbered = false;                   // arguments_prefix begins ":0", which counts up with the calls
};

// One family of models.
struct CallFormat {
  using Texts = std::array<std::string_view, 3>;  // those that are empty do not count

  std::string_view name;
  CallFamily family;
  Texts opens = {};   // open one call or several, wherever they stand
  Texts ends = {};    // end them
  bool bare = false;  // the answer's first byte { or [ opens calls, too

  bool name_is_key = false;  // json: {"f": {...}}

  std::string_view call_begin = {}, call_end = {};  // named, tags: around each call within opens and ends
  std::string_view before_name = {};                // named
  Texts name_ends = {};                             // named, tags: stand behind a name
  std::string_view after_arguments = {};            // named: may stand behind the JSON
  std::string_view id_end = {};                     // named: stands behind an id that the model wrote behind the name
  bool name_is_id = false;                          // named: "functions.f:0" is name and id

  std::string_view key_begin = {}, value_begin = {}, value_end = {};  // tags: around the parts of a parameter
  Texts key_ends = {};       // tags; the second means a value of any type but string, the third one of type string
  bool line_around = false;  // tags: a line end on both sides of a value is not part of it
  bool cdata = false;        // tags: a value may stand in <![CDATA[ ]]>
  std::string_view behind_call = {};  // tags: stands behind call_end

  bool brackets = false;  // keywords: calls are a list [f(), g()]

  CallWire wire = {};
};

// A name of SGLang's, vLLM's or ours, in any case; "-" and "_" are the same.
Result<const CallFormat*> call_format(std::string_view name, std::string field);
std::string call_format_names();  // of all, for messages
// The format whose marks stand in a chat template; null where none is known.
const CallFormat* call_format_of(std::string_view template_source);
std::span<const CallFormat> call_formats();

// Whether both are the same name of a format, as people spell them.
bool same_format_name(std::string_view one, std::string_view other);

}  // namespace espalier
