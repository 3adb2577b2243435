// named_adapters.h: which adapters a body names, in `model` or in lora_path, and how a request gets its own.
//
// `model` may be an adapter's name or "model:adapter"; lora_path is a name, or a list with one or null for each prompt; of
// llama.cpp `lora` is [{"id": N, "scale": 1}], N being a place in the list of adapters. lora_path counts before `lora`, and
// that before `model`.
// Threads: values and const calls; load() may take as long as reading files. Fails: not_found and bad_request naming
// lora_path; what loading fails with.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fields.h"
#include "server/adapters/adapter_set.h"

namespace espalier::server {

// What a route does with adapters.
enum class AdapterUse {
  none,   // it reads nothing about them
  named,  // they tell which model is meant, and are not read
  one,    // one for all of the body
  each,   // one for each prompt of the body
};

// The adapters of one call, which it keeps in memory.
class NamedAdapters {
 public:
  // The model that the call is for, and whether an adapter of it was meant.
  struct Target {
    int place = 0;
    std::string adapter;  // of `model`; empty: none
  };
  // `named`: what the body or the query call the model; empty: nothing.
  static Result<Target> target(AdapterSet& adapters, const ModelSet& models, std::string_view named, const Json& body);
  // The same for who must not wait: --lora-dir is as it was when somebody looked.
  static Result<Target> known_target(AdapterSet& adapters, const ModelSet& models, std::string_view named);

  NamedAdapters() = default;
  // Of a call that is for `target`. Fails: an adapter of another model, or none.
  static Result<NamedAdapters> of(AdapterSet& adapters, const Target& target, std::string_view named, const Json& body,
                                  AdapterUse use);

  bool take_loaded(AdapterSet& adapters, const ServedModel& model);  // false: load() has to read some
  Result<> load(AdapterSet& adapters, const ServedModel& model);

  // Fails: lora_path is a list of another length.
  Result<> check_count(std::size_t prompts) const;
  // Of prompt i of the body; null: none is meant.
  std::shared_ptr<const LoraAdapter> get(std::size_t i = 0) const;
  const std::string& by_model() const { return by_model_; }  // its name; empty: `model` named none
  const std::string& named() const { return named_; }        // as `model` named it

 private:
  Result<> add(AdapterSet& adapters, int place, const std::string& name);
  Result<> add_numbered(AdapterSet& adapters, int place, const Json& body);

  std::string named_, by_model_, by_number_;
  std::vector<std::string> by_path_;                       // one for all, or one for each prompt; "": none
  std::map<std::string, std::string, std::less<>> names_;  // what bodies call them -> their own
  std::map<std::string, std::shared_ptr<const LoraAdapter>, std::less<>> taken_;
};

}  // namespace espalier::server
