// schema_document.h: the schemas inside a JSON Schema document: where they are, what they are called, what a $ref
// means.
//
// Every schema gets a number when it is first reached; one that is reached through resources with different
// $dynamicAnchors (or $recursiveAnchors) gets several, because its $dynamicRefs mean different things. Nothing is ever
// fetched: a reference must lead to a place in the document itself.
// Threads: one at a time; the JSON value must outlive the document.
// Fails:   unsupported for references to other documents and unknown dialects; bad_request for references that lead
//          nowhere; both name the JSON pointer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/incremental_free.h"
#include "base/json/json.h"
#include "espalier/error.h"

namespace espalier::grammar {

// The versions of JSON Schema whose keywords differ.
enum class Draft { three, four, six, seven, of_2019, of_2020 };

using SchemaNumber = std::uint32_t;

// Numbers the schemas of a document and resolves references between them.
class SchemaDocument {
 public:
  // Reads on while goes_on() does; what it has not come to is not there then.
  static Result<SchemaDocument> open(const Json& root, const std::function<bool()>& goes_on);

  SchemaNumber number(const Json& schema, SchemaNumber parent, std::string_view keyword, std::string_view token = {});
  Result<SchemaNumber> resolve(SchemaNumber from, std::string_view reference);
  // Of $dynamicRef, or of $recursiveRef ("#").
  Result<SchemaNumber> resolve_dynamic(SchemaNumber from, std::string_view reference, bool recursive);

  const Json& schema(SchemaNumber number) const { return *schemas_[number].json; }
  Draft draft(SchemaNumber number) const { return resources_[schemas_[number].resource].draft; }
  const std::string& pointer(SchemaNumber number) const { return schemas_[number].pointer; }  // "#/properties/a"
  std::size_t size() const { return schemas_.size(); }
  // Whether several schemas may speak of one object, each of some of its members.
  bool combines() const { return combines_; }

 private:
  struct Resource {
    std::string base;  // absolute URI without fragment, as far as the document gives one
    const Json* root = nullptr;
    Draft draft = Draft::of_2020;
    std::string pointer;
    std::vector<std::pair<std::string, const Json*>> dynamic_anchors;  // "" = $recursiveAnchor
  };
  // The outermost anchor of each name among the resources that have been entered.
  using Scope = std::map<std::string, const Json*>;
  struct Schema {
    const Json* json = nullptr;
    std::uint32_t resource = 0;
    std::string pointer;
    std::uint32_t scope = 0;  // its resource entered
  };
  struct Visit {
    const Json* json;
    std::uint32_t resource;
    std::string pointer;
  };

  Result<> survey(const Json& root, const std::function<bool()>& goes_on);
  Result<> survey_schema(const Visit& visit, std::vector<Visit>& pending);
  void survey_anchors(const Visit& visit, std::uint32_t resource);
  Result<SchemaNumber> walk(std::uint32_t resource, std::string_view json_pointer, std::string_view reference,
                            std::uint32_t scope);
  SchemaNumber add(const Json& json, std::uint32_t resource, std::string pointer, std::uint32_t scope);
  std::uint32_t entered(std::uint32_t scope, std::uint32_t resource);

  bool combines_ = false;
  std::vector<Resource> resources_;
  IncrementallyFreed<std::vector<Schema>> schemas_;
  struct KeyHash {
    std::size_t operator()(const std::pair<const Json*, std::uint32_t>& key) const {
      return std::hash<const Json*>()(key.first) ^ (std::size_t{key.second} << 48);
    }
  };
  IncrementallyFreed<std::unordered_map<std::pair<const Json*, std::uint32_t>, SchemaNumber, KeyHash>>
      numbers_;  // by place and scope
  std::vector<Scope> scopes_;
  std::unordered_map<const Json*, std::uint32_t> resource_of_;  // of schemas that begin one
  std::unordered_map<std::string, std::uint32_t> resources_by_uri_;
  std::unordered_map<std::string, const Json*> anchors_;  // "base#name"
  struct Place {
    std::uint32_t resource = 0;
    std::string pointer;
  };
  std::unordered_map<const Json*, Place> anchor_places_;
};

std::string resolve_uri(std::string_view base, std::string_view reference);  // RFC 3986, 5.2
std::string pointer_token(std::string_view name);                            // "/" + name, escaped
// How the text of a schema, or of a structural tag, is read: numbers as they are written.
inline JsonLimits schema_text_limits(std::chrono::steady_clock::time_point until) {
  JsonLimits limits;
  limits.depth = 1000;
  limits.exact_numbers = true;
  limits.until = until;
  return limits;
}

}  // namespace espalier::grammar
