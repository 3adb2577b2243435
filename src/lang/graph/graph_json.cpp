#include <fmt/format.h>

#include "base/base64.h"
#include "base/json/json_fields.h"
#include "espalier/graph.h"
#include "lang/backends/media_type.h"
#include "lang/choices/choices.h"
#include "lang/gen_options.h"
#include "lang/graph/options_json.h"
#include "lang/graph/score_json.h"

namespace espalier {
namespace {

using lang::options_from_json;
using lang::options_to_json;
using Content = Graph::Content;

// ---- To JSON --------------------------------------------------------------------------------------------------------

struct Writer {
  Json& out;

  void operator()(const node::Text& text) { out["text"] = text.text; }
  void operator()(const node::Argument& argument) { out["name"] = argument.name; }
  void operator()(const node::Gen& gen) {
    out["name"] = gen.name;
    out["options"] = options_to_json(gen.options);
  }
  void operator()(const node::Select& select) {
    out["name"] = select.name;
    out["choices"] = select.choices;
    out["choices_method"] = select.method->name();
    out["temperature"] = select.temperature;
    if (select.way != SelectWay::scoring) out["way"] = lang::name_of(select.way);
  }
  void operator()(const node::ScoredText& text) {
    if (text.each) out["each"] = true;
  }
  void operator()(const node::Score& score) {
    out["name"] = score.name;
    out["of"] = lang::name_of(score.kind);
    out["texts"] = score.texts;
    out["list"] = score.list;
    out["options"] = lang::score_options_to_json(score.options);
  }
  void operator()(const node::RoleBegin& role) { out["role"] = role.role; }
  void operator()(const node::RoleEnd& role) { out["role"] = role.role; }
  void operator()(const node::Media& media) {
    const bool video = media.picture->kind == Picture::Kind::video;
    out["media"] = video ? "video" : "image";
    out["media_type"] = media.picture->media_type;
    if (video) out["frames"] = media.picture->frames;
    out["data"] = base64(media.picture->bytes);
  }
  void operator()(const Graph::Variable& variable) {
    out["name"] = variable.name;
    out["of"] = variable.stream;
  }
  void operator()(const node::ScopeBegin& scope) { out["name"] = scope.name; }
  void operator()(const node::ScopeEnd& scope) { out["name"] = scope.name; }
  void operator()(const Graph::ReasoningEnd& end) {
    out["model_type"] = end.model_type;
    out["names"] = end.names;
  }
  void operator()(const node::MovableBegin&) {}
  void operator()(const node::MovableEnd&) {}
  void operator()(const Graph::Set& set) {
    out["name"] = set.name;
    out["value"] = set.list ? Json(set.values) : Json(set.values.front());
  }
  void operator()(const Graph::Sample& sample) {
    out["group"] = sample.group;
    out["index"] = sample.index;
    out["of"] = sample.of;
    (*this)(sample.gen);
  }
  void operator()(const Graph::Chain& chain) { out["nodes"] = chain.nodes; }
  void operator()(const Graph::Fork& fork) { out["children"] = fork.children; }
  void operator()(const Graph::Join& join) {
    out["children"] = join.children;
    out["mode"] = join.mode == JoinMode::gather_variable ? "gather_variable" : "concate_and_append";
  }
};

// ---- From JSON ------------------------------------------------------------------------------------------------------

Result<std::vector<int>> streams_at(const Json& node, const std::string& place) {
  ESP_TRY(const Json* list, get_array(node, {"children", place}));
  std::vector<int> streams;
  for (const Json& one : *list) {
    ESP_TRY(const auto stream, as_integer(one, place + ".children", {0, Graph::kMostStreams}));
    streams.push_back(static_cast<int>(stream));
  }
  return streams;
}

Result<std::vector<std::string>> strings_at(const Json& node, const char* name, const std::string& place) {
  ESP_TRY(const Json* list, get_array(node, {name, place}));
  std::vector<std::string> strings;
  for (const Json& one : *list) {
    ESP_TRY(std::string text, as_string(one, fmt::format("{}.{}", place, name)));
    strings.push_back(std::move(text));
  }
  return strings;
}

Result<node::Gen> read_gen(const Json& node, const std::string& place) {
  node::Gen gen;
  ESP_TRY(gen.name, get_string(node, {"name", place}));
  ESP_TRY(const Json* options, get_object(node, {"options", place}));
  ESP_TRY(gen.options, options_from_json(*options, place + ".options"));
  if (auto fine = lang::check(gen.options); !fine.ok()) {
    Error error = std::move(fine).error();
    error.field = fmt::format("{}.options.{}", place, error.field);
    return error;
  }
  return gen;
}

Result<Content> read_sample(const Json& node, const std::string& place) {
  Graph::Sample sample;
  constexpr std::int64_t kMost = SamplingLimits::n;
  ESP_TRY(const auto group, get_integer(node, {"group", place}, {0, Graph::kMostNodes}));
  ESP_TRY(const auto index, get_integer(node, {"index", place}, {0, kMost - 1}));
  ESP_TRY(const auto of, get_integer(node, {"of", place}, {2, kMost}));
  sample.group = static_cast<int>(group);
  sample.index = static_cast<int>(index);
  sample.of = static_cast<int>(of);
  ESP_TRY(sample.gen, read_gen(node, place));
  return Content(std::move(sample));
}

Result<Content> read_chain(const Json& node, const std::string& place) {
  ESP_TRY(const auto nodes, get_integer(node, {"nodes", place}, {2, Graph::kMostNodes}));
  return Content(Graph::Chain{static_cast<int>(nodes)});
}

Result<Content> read_select(const Json& node, const std::string& place) {
  node::Select select;
  ESP_TRY(select.name, get_string(node, {"name", place}));
  ESP_TRY(select.choices, strings_at(node, "choices", place));
  if (select.choices.empty()) return bad_request(place + ".choices is empty", place + ".choices");
  ESP_TRY(const auto temperature, find_number(node, {"temperature", place}, {0, SamplingLimits::temperature}));
  select.temperature = temperature.value_or(0);
  ESP_TRY(const auto method, find_string(node, {"choices_method", place}));
  auto named = choices_method_named(method.value_or("token_length_normalized"));
  if (!named.ok()) {
    Error error = std::move(named).error();
    error.field = place + ".choices_method";
    return error;
  }
  select.method = std::move(named).value();
  ESP_TRY(const auto way, find_string(node, {"way", place}));
  if (way && !lang::select_way_named(*way))
    return bad_request(place + ".way must be scoring, path or grammar", place + ".way");
  if (way) select.way = *lang::select_way_named(*way);
  return Content(std::move(select));
}

Result<Content> read_scored_text(const Json& node, const std::string& place) {
  ESP_TRY(const auto each, find_boolean(node, {"each", place}));
  return Content(node::ScoredText{each.value_or(false)});
}

Result<Content> read_score(const Json& node, const std::string& place) {
  node::Score score;
  ESP_TRY(const std::string of, get_string(node, {"of", place}));
  const auto kind = lang::score_kind_named(of);
  if (!kind) return bad_request(place + ".of must be score, rerank or embed", place + ".of");
  score.kind = *kind;
  ESP_TRY(score.name, get_string(node, {"name", place}));
  ESP_TRY(const auto texts, get_integer(node, {"texts", place}, {1, Graph::kMostNodes}));
  score.texts = static_cast<int>(texts);
  ESP_TRY(const auto list, find_boolean(node, {"list", place}));
  score.list = list.value_or(false);
  if (find_field(node, "options") != nullptr) {
    ESP_TRY(const Json* options, get_object(node, {"options", place}));
    ESP_TRY(score.options, lang::score_options_from_json(*options, place + ".options"));
  }
  return Content(std::move(score));
}

Result<Content> read_set(const Json& node, const std::string& place) {
  Graph::Set set;
  ESP_TRY(set.name, get_string(node, {"name", place}));
  const Json* value = find_field(node, "value");
  set.list = value != nullptr && value->is_array();
  if (set.list) {
    ESP_TRY(set.values, strings_at(node, "value", place));
    return Content(std::move(set));
  }
  ESP_TRY(std::string text, get_string(node, {"value", place}));
  set.values.push_back(std::move(text));
  return Content(std::move(set));
}

Result<Content> read_variable(const Json& node, const std::string& place) {
  Graph::Variable variable;
  ESP_TRY(variable.name, get_string(node, {"name", place}));
  ESP_TRY(const auto stream, get_integer(node, {"of", place}, {0, Graph::kMostStreams}));
  variable.stream = static_cast<int>(stream);
  return Content(std::move(variable));
}

Result<Content> read_join(const Json& node, const std::string& place) {
  Graph::Join join;
  ESP_TRY(join.children, streams_at(node, place));
  ESP_TRY(const std::string mode, get_string(node, {"mode", place}));
  if (mode != "gather_variable" && mode != "concate_and_append")
    return bad_request(place + ".mode must be gather_variable or concate_and_append", place + ".mode");
  join.mode = mode == "gather_variable" ? JoinMode::gather_variable : JoinMode::concate_and_append;
  return Content(std::move(join));
}

Result<Content> read_reasoning(const Json& node, const std::string& place) {
  Graph::ReasoningEnd end;
  ESP_TRY(end.model_type, get_string(node, {"model_type", place}));
  ESP_TRY(end.names, strings_at(node, "names", place));
  return Content(std::move(end));
}

template <class T>
Result<Content> named(const Json& node, const char* field, const std::string& place) {
  ESP_TRY(std::string value, get_string(node, {field, place}));
  return Content(T{std::move(value)});
}

// The bytes of a file, in base64.
Result<Content> read_media(const Json& node, const std::string& place) {
  ESP_TRY(const auto kind, find_string(node, {"media", place}));
  ESP_TRY(const std::string data, get_string(node, {"data", place}));
  ESP_TRY(const auto frames, find_integer(node, {"frames", place}, {0, 1 << 20}));
  const bool video = kind.value_or("image") == "video";
  if (!video && kind.value_or("image") != "image")
    return bad_request(place + ".media must be image or video", place + ".media");
  auto bytes = from_base64(data);
  if (!bytes || bytes->empty()) return bad_request(place + ".data is no base64", place + ".data");
  std::string type(lang::media_type_of(*bytes));
  if (!video && type.empty())
    return bad_request(place + ".data is no PNG, JPEG, WebP, GIF or BMP file", place + ".data");
  Picture picture{video ? Picture::Kind::video : Picture::Kind::image, *std::move(bytes),
                  type.empty() ? "video/mp4" : std::move(type), static_cast<int>(frames.value_or(0))};
  return Content(node::Media{std::make_shared<const Picture>(std::move(picture))});
}

Result<Content> read_content(const Json& node, const std::string& place) {
  ESP_TRY(const std::string kind, get_string(node, {"kind", place}));
  if (kind == "text") return named<node::Text>(node, "text", place);
  if (kind == "argument") return named<node::Argument>(node, "name", place);
  if (kind == "gen") {
    ESP_TRY(node::Gen gen, read_gen(node, place));
    return Content(std::move(gen));
  }
  if (kind == "sample") return read_sample(node, place);
  if (kind == "chain") return read_chain(node, place);
  if (kind == "movable_begin") return Content(node::MovableBegin());
  if (kind == "movable_end") return Content(node::MovableEnd());
  if (kind == "select") return read_select(node, place);
  if (kind == "scored_text") return read_scored_text(node, place);
  if (kind == "score") return read_score(node, place);
  if (kind == "role_begin") return named<node::RoleBegin>(node, "role", place);
  if (kind == "role_end") return named<node::RoleEnd>(node, "role", place);
  if (kind == "variable") return read_variable(node, place);
  if (kind == "scope_begin") return named<node::ScopeBegin>(node, "name", place);
  if (kind == "scope_end") return named<node::ScopeEnd>(node, "name", place);
  if (kind == "set") return read_set(node, place);
  if (kind == "reasoning_end") return read_reasoning(node, place);
  if (kind == "join") return read_join(node, place);
  if (kind == "fork") {
    ESP_TRY(std::vector<int> children, streams_at(node, place));
    return Content(Graph::Fork{std::move(children)});
  }
  if (kind == "media") return read_media(node, place);
  return bad_request(fmt::format("{}.kind {} is not known", place, in_quotes(kind, 40)), place + ".kind");
}

}  // namespace

Json Graph::to_json() const {
  Json list = Json::array();
  for (const Node& one : nodes) {
    Json node{{"stream", one.stream}, {"kind", kind_of(one.content)}};
    std::visit(Writer{node}, one.content);
    list.push_back(std::move(node));
  }
  Json out{{"version", kVersion}, {"name", name}, {"parameters", parameters}, {"streams", streams}};
  out["nodes"] = std::move(list);
  if (!ends_because.empty()) out["ends_because"] = ends_because;
  return out;
}

Result<Graph> Graph::from_json(const Json& json) {
  if (!json.is_object()) return bad_request("a program is an object with version, streams and nodes", "program");
  Graph graph;
  ESP_TRY(const auto version, get_integer(json, {"version"}));
  if (version != kVersion)
    return bad_request(fmt::format("version is {}; this build reads version {}", version, kVersion), "version");
  ESP_TRY(const auto name, find_string(json, {"name"}));
  graph.name = name.value_or("");
  ESP_TRY(const auto streams, get_integer(json, {"streams"}, {1, kMostStreams}));
  graph.streams = static_cast<int>(streams);
  if (find_field(json, "parameters") != nullptr) {
    ESP_TRY(graph.parameters, strings_at(json, "parameters", ""));
  }
  ESP_TRY(const auto because, find_string(json, {"ends_because"}));
  graph.ends_because = because.value_or("");
  ESP_TRY(const Json* nodes, get_array(json, {"nodes"}));
  if (nodes->size() > kMostNodes)
    return bad_request(fmt::format("nodes has {} entries, {} are allowed", nodes->size(), kMostNodes), "nodes");
  for (const Json& one : *nodes) {
    const std::string place = fmt::format("nodes[{}]", graph.nodes.size());
    if (!one.is_object()) return bad_request(place + " must be an object", place);
    ESP_TRY(const auto stream, get_integer(one, {"stream", place}, {0, streams - 1}));
    ESP_TRY(Content content, read_content(one, place));
    graph.nodes.push_back({static_cast<int>(stream), std::move(content)});
  }
  ESP_CHECK(graph.check());
  return graph;
}

}  // namespace espalier
