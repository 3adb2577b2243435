#include "grammar/json_schema/reading/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace espalier::grammar {
namespace {

enum class Holds { schema, map, list, schema_or_list, schema_or_names };

struct Applicator {
  std::string_view keyword;
  Holds holds;
};
constexpr std::array kApplicators{
    Applicator{"$defs", Holds::map},
    Applicator{"definitions", Holds::map},
    Applicator{"properties", Holds::map},
    Applicator{"patternProperties", Holds::map},
    Applicator{"dependentSchemas", Holds::map},
    Applicator{"dependencies", Holds::map},
    Applicator{"allOf", Holds::list},
    Applicator{"anyOf", Holds::list},
    Applicator{"oneOf", Holds::list},
    Applicator{"prefixItems", Holds::list},
    Applicator{"items", Holds::schema_or_list},
    Applicator{"additionalItems", Holds::schema},
    Applicator{"additionalProperties", Holds::schema},
    Applicator{"unevaluatedItems", Holds::schema},
    Applicator{"unevaluatedProperties", Holds::schema},
    Applicator{"propertyNames", Holds::schema},
    Applicator{"contains", Holds::schema},
    Applicator{"contentSchema", Holds::schema},
    Applicator{"not", Holds::schema},
    Applicator{"if", Holds::schema},
    Applicator{"then", Holds::schema},
    Applicator{"else", Holds::schema},
};

// Whether a schema's members are the business of other schemas too.
bool speaks_with_others(const Json& schema) {
  const auto has = [&](const char* keyword) { return schema.contains(keyword); };
  const auto all_of = schema.find("allOf");
  const bool several = all_of != schema.end() && all_of->is_array() && all_of->size() > 1;
  const bool beside = has("properties") && (has("allOf") || has("anyOf") || has("oneOf") || has("$ref"));
  return several || beside || has("if") || has("not") || has("dependentSchemas") || has("dependencies");
}

const std::string* string_at(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found != schema.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

std::string_view without_fragment(std::string_view uri) {
  return uri.substr(0, uri.find('#'));
}

struct UriParts {
  std::string_view scheme, authority, path, query;  // with their marks: "http:", "//host", "?q"
};

UriParts split_uri(std::string_view uri) {
  UriParts parts;
  const std::size_t colon = uri.find_first_of(":/?#");
  if (colon != std::string_view::npos && uri[colon] == ':' && colon > 0) {
    parts.scheme = uri.substr(0, colon + 1);
    uri.remove_prefix(colon + 1);
  }
  if (uri.starts_with("//")) {
    parts.authority = uri.substr(0, uri.find_first_of("/?#", 2));
    uri.remove_prefix(parts.authority.size());
  }
  parts.path = uri.substr(0, uri.find_first_of("?#"));
  uri.remove_prefix(parts.path.size());
  parts.query = uri.substr(0, uri.find('#'));
  return parts;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> segments;
  const bool absolute = path.starts_with('/');
  bool folder = false;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    folder = segment == "." || segment == ".." || slash != std::string_view::npos;
    if (segment == "..") {
      if (!segments.empty()) segments.pop_back();
    } else if (segment != "." && !(segment.empty() && segments.empty())) {
      segments.push_back(segment);
    }
  }
  std::string result = absolute ? "/" : "";
  for (std::size_t i = 0; i < segments.size(); ++i) {
    result += segments[i];
    if (i + 1 < segments.size() || folder) result += '/';
  }
  return result;
}

// "%25" is "%".
std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      result += static_cast<char>(value);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string pointer_decoded(std::string_view token) {
  std::string result;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      result += token[++i] == '0' ? '~' : '/';
    } else {
      result += token[i];
    }
  }
  return result;
}

std::optional<Draft> draft_named(std::string_view uri) {
  if (uri.ends_with('#')) uri.remove_suffix(1);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (uri.starts_with(scheme)) uri.remove_prefix(scheme.size());
  }
  if (uri == "json-schema.org/draft-03/schema") return Draft::three;
  if (uri == "json-schema.org/draft-04/schema") return Draft::four;
  if (uri == "json-schema.org/draft-06/schema") return Draft::six;
  if (uri == "json-schema.org/draft-07/schema") return Draft::seven;
  if (uri == "json-schema.org/draft/2019-09/schema") return Draft::of_2019;
  if (uri == "json-schema.org/draft/2020-12/schema" || uri == "json-schema.org/schema") return Draft::of_2020;
  return std::nullopt;
}

}  // namespace

std::string pointer_token(std::string_view name) {
  std::string token = "/";
  for (const char c : name) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

std::string resolve_uri(std::string_view base, std::string_view reference) {
  const UriParts b = split_uri(base), r = split_uri(reference);
  if (!r.scheme.empty()) return fmt::format("{}{}{}{}", r.scheme, r.authority, without_dots(r.path), r.query);
  if (!r.authority.empty()) return fmt::format("{}{}{}{}", b.scheme, r.authority, without_dots(r.path), r.query);
  if (r.path.empty()) {
    return fmt::format("{}{}{}{}", b.scheme, b.authority, b.path, r.query.empty() ? b.query : r.query);
  }
  std::string path(r.path);
  if (!path.starts_with('/')) {
    const std::size_t slash = b.path.rfind('/');
    const bool rootless = b.path.empty() && !b.authority.empty();
    path = (rootless ? "/" : std::string(b.path.substr(0, slash == std::string_view::npos ? 0 : slash + 1))) + path;
  }
  return fmt::format("{}{}{}{}", b.scheme, b.authority, without_dots(path), r.query);
}

Result<SchemaDocument> SchemaDocument::open(const Json& root, const std::function<bool()>& goes_on) {
  SchemaDocument document;
  document.resources_.push_back({"", &root, Draft::of_2020, "#", {}});
  document.resources_by_uri_[""] = 0;
  ESP_CHECK(document.survey(root, goes_on));
  document.scopes_.emplace_back();
  document.add(root, 0, "#", 0);
  return document;
}

Result<> SchemaDocument::survey(const Json& root, const std::function<bool()>& goes_on) {
  std::vector<Visit> pending{{&root, 0, "#"}};
  while (!pending.empty() && goes_on()) {
    const Visit visit = std::move(pending.back());
    pending.pop_back();
    if (visit.json->is_object()) ESP_CHECK(survey_schema(visit, pending));
  }
  return success();
}

Result<> SchemaDocument::survey_schema(const Visit& visit, std::vector<Visit>& pending) {
  const Json& schema = *visit.json;
  combines_ = combines_ || speaks_with_others(schema);
  std::uint32_t resource = visit.resource;
  const std::string* id = string_at(schema, "$id");
  const bool root = visit.pointer == "#";
  if (id == nullptr && (root || resources_[resource].draft <= Draft::four)) id = string_at(schema, "id");
  const std::string* dialect = string_at(schema, "$schema");
  std::optional<Draft> draft;
  if (dialect != nullptr) draft = draft_named(*dialect);
  const bool ref_hides = schema.contains("$ref") && resources_[resource].draft <= Draft::seven && !root;
  if (id != nullptr && !id->starts_with('#') && !ref_hides) {
    const std::string uri = resolve_uri(resources_[resource].base, without_fragment(*id));
    if (root) {
      resources_[0].base = uri;
    } else {
      resources_.push_back({uri, &schema, resources_[resource].draft, visit.pointer, {}});
      resource = static_cast<std::uint32_t>(resources_.size() - 1);
      resource_of_[&schema] = resource;
    }
    resources_by_uri_.try_emplace(uri, resource);
  }
  if (id != nullptr && id->starts_with('#') && id->size() > 1 && !ref_hides) {
    anchors_[resources_[resource].base + *id] = &schema;
    anchor_places_[&schema] = {resource, visit.pointer};
  }
  if (draft && (root || id != nullptr)) resources_[resource].draft = *draft;
  survey_anchors(visit, resource);
  for (const Applicator& applicator : kApplicators) {
    const auto found = schema.find(applicator.keyword);
    if (found == schema.end()) continue;
    const std::string place = visit.pointer + pointer_token(applicator.keyword);
    if (found->is_array() && (applicator.holds == Holds::list || applicator.holds == Holds::schema_or_list)) {
      for (std::size_t i = 0; i < found->size(); ++i)
        pending.push_back({&(*found)[i], resource, fmt::format("{}/{}", place, i)});
    } else if (applicator.holds == Holds::map && found->is_object()) {
      for (const auto& [name, value] : found->items())
        pending.push_back({&value, resource, place + pointer_token(name)});
    } else if (found->is_object()) {
      pending.push_back({&*found, resource, place});
    }
  }
  return success();
}

void SchemaDocument::survey_anchors(const Visit& visit, std::uint32_t resource) {
  const Json& schema = *visit.json;
  Resource& of = resources_[resource];
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    const std::string* name = string_at(schema, key);
    if (name == nullptr) continue;
    anchors_[of.base + "#" + *name] = &schema;
    anchor_places_[&schema] = {resource, visit.pointer};
    if (key == std::string_view("$dynamicAnchor")) of.dynamic_anchors.emplace_back(*name, &schema);
  }
  const auto recursive = schema.find("$recursiveAnchor");
  if (&schema == of.root && recursive != schema.end() && *recursive == true) {
    of.dynamic_anchors.emplace_back("", &schema);
    anchor_places_[&schema] = {resource, visit.pointer};
  }
}

// The scope behind entering a resource.
std::uint32_t SchemaDocument::entered(std::uint32_t scope, std::uint32_t resource) {
  if (resources_[resource].dynamic_anchors.empty()) return scope;
  Scope larger = scopes_[scope];
  for (const auto& [name, anchor] : resources_[resource].dynamic_anchors) larger.try_emplace(name, anchor);
  if (larger.size() == scopes_[scope].size()) return scope;
  const auto known = std::ranges::find(scopes_, larger);
  if (known != scopes_.end()) return static_cast<std::uint32_t>(known - scopes_.begin());
  scopes_.push_back(std::move(larger));
  return static_cast<std::uint32_t>(scopes_.size() - 1);
}

SchemaNumber SchemaDocument::add(const Json& json, std::uint32_t resource, std::string pointer, std::uint32_t scope) {
  scope = entered(scope, resource);
  const auto [place, fresh] = numbers_.try_emplace({&json, scope}, static_cast<SchemaNumber>(schemas_.size()));
  if (fresh) schemas_.push_back({&json, resource, std::move(pointer), scope});
  return place->second;
}

SchemaNumber SchemaDocument::number(const Json& schema, SchemaNumber parent, std::string_view keyword,
                                    std::string_view token) {
  const auto own = resource_of_.find(&schema);
  const std::uint32_t resource = own != resource_of_.end() ? own->second : schemas_[parent].resource;
  const std::uint32_t scope = entered(schemas_[parent].scope, resource);
  if (const auto known = numbers_.find({&schema, scope}); known != numbers_.end()) return known->second;
  std::string pointer = schemas_[parent].pointer + pointer_token(keyword);
  if (!token.empty() || keyword == "properties") pointer += pointer_token(token);
  return add(schema, resource, std::move(pointer), scope);
}

Result<SchemaNumber> SchemaDocument::resolve(SchemaNumber from, std::string_view reference) {
  const Resource& here = resources_[schemas_[from].resource];
  const std::size_t hash = reference.find('#');
  const std::string fragment = hash == std::string_view::npos ? "" : percent_decoded(reference.substr(hash + 1));
  const std::string_view address = reference.substr(0, hash);
  const std::string uri = address.empty() ? here.base : resolve_uri(here.base, address);
  const auto resource = address.empty() ? resources_by_uri_.end() : resources_by_uri_.find(uri);
  if (!address.empty() && resource == resources_by_uri_.end()) {
    return Error{Error::Kind::unsupported,
                 fmt::format("$ref {} at {} leads out of the schema; nothing is fetched, so put what it means under "
                             "$defs and refer to it there",
                             in_quotes(reference), schemas_[from].pointer),
                 schemas_[from].pointer,
                 {}};
  }
  const std::uint32_t number = address.empty() ? schemas_[from].resource : resource->second;
  const std::uint32_t scope = schemas_[from].scope;
  if (fragment.empty() || fragment[0] == '/') return walk(number, fragment, reference, scope);
  if (const auto anchor = anchors_.find(uri + "#" + fragment); anchor != anchors_.end()) {
    return add(*anchor->second, number, anchor_places_[anchor->second].pointer, scope);
  }
  return bad_request(fmt::format("$ref {} names an anchor that is not there", in_quotes(reference)),
                     schemas_[from].pointer, "grammar_invalid");
}

// Where the reference leads by itself, unless that is a dynamic anchor: then to the outermost one of its name.
Result<SchemaNumber> SchemaDocument::resolve_dynamic(SchemaNumber from, std::string_view reference, bool recursive) {
  ESP_TRY(const SchemaNumber target, resolve(from, reference));
  const std::size_t hash = reference.find('#');
  const std::string name =
      recursive || hash == std::string_view::npos ? "" : percent_decoded(reference.substr(hash + 1));
  const auto& anchors = resources_[schemas_[target].resource].dynamic_anchors;
  const bool dynamic = (recursive || !name.empty()) &&
                       std::ranges::find(anchors, std::pair(name, schemas_[target].json)) != anchors.end();
  if (!dynamic) return target;
  const std::uint32_t scope = schemas_[from].scope;
  const auto outermost = scopes_[scope].find(name);
  if (outermost == scopes_[scope].end()) return target;
  const Place& place = anchor_places_[outermost->second];
  return add(*outermost->second, place.resource, place.pointer, scope);
}

Result<SchemaNumber> SchemaDocument::walk(std::uint32_t resource, std::string_view json_pointer,
                                          std::string_view reference, std::uint32_t scope) {
  const Json* at = resources_[resource].root;
  std::string pointer = resources_[resource].pointer;
  while (!json_pointer.empty()) {
    json_pointer.remove_prefix(1);
    const std::size_t slash = std::min(json_pointer.find('/'), json_pointer.size());
    const std::string token = pointer_decoded(json_pointer.substr(0, slash));
    json_pointer.remove_prefix(slash);
    const Json* next = nullptr;
    if (at->is_object()) {
      if (const auto found = at->find(token); found != at->end()) next = &*found;
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
      if (error == std::errc() && end == token.data() + token.size() && index < at->size()) next = &(*at)[index];
    }
    if (next == nullptr) {
      return bad_request(fmt::format("$ref {} leads nowhere: there is no {} under {}", in_quotes(reference),
                                     in_quotes(token), pointer),
                         "$ref", "grammar_invalid");
    }
    at = next;
    pointer += pointer_token(token);
    if (const auto own = resource_of_.find(at); own != resource_of_.end()) resource = own->second;
  }
  return add(*at, resource, std::move(pointer), scope);
}

}  // namespace espalier::grammar
