// schema_document.h: the schemas inside a JSON Schema document: where they are, what they are called, what a $ref
// means.
//
// Every schema gets a number when it is first reached. Nothing is ever fetched: a reference must lead to a place in the
// document itself.
// Threads: one at a time; the JSON value must outlive the document.
// Fails:   unsupported for references to other documents and unknown dialects; bad_request for references that lead
//          nowhere; both name the JSON pointer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "espalier/error.h"

namespace espalier::grammar {

enum class Draft { four, six, seven, of_2019, of_2020 };

using SchemaNumber = std::uint32_t;

class SchemaDocument {
 public:
  static Result<SchemaDocument> open(const Json& root);

  SchemaNumber number(const Json& schema, SchemaNumber parent, std::string_view keyword, std::string_view token = {});
  Result<SchemaNumber> resolve(SchemaNumber from, std::string_view reference);

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
  };
  struct Schema {
    const Json* json = nullptr;
    std::uint32_t resource = 0;
    std::string pointer;
  };
  struct Visit {
    const Json* json;
    std::uint32_t resource;
    std::string pointer;
  };

  Result<> survey(const Json& root);
  Result<> survey_schema(const Visit& visit, std::vector<Visit>& pending);
  Result<SchemaNumber> walk(std::uint32_t resource, std::string_view json_pointer, std::string_view reference);
  SchemaNumber add(const Json& json, std::uint32_t resource, std::string pointer);

  bool combines_ = false;
  std::vector<Resource> resources_;
  std::vector<Schema> schemas_;
  std::unordered_map<const Json*, SchemaNumber> numbers_;
  std::unordered_map<const Json*, std::uint32_t> resource_of_;  // of schemas that begin one
  std::unordered_map<std::string, std::uint32_t> resources_by_uri_;
  std::unordered_map<std::string, const Json*> anchors_;  // "base#name"
  std::unordered_map<const Json*, std::string> anchor_pointers_;
};

std::string resolve_uri(std::string_view base, std::string_view reference);  // RFC 3986, 5.2
std::string pointer_token(std::string_view name);                            // "/" + name, escaped

}  // namespace espalier::grammar
