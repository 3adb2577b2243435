// fields.h: a checkpoint's hyperparameters by name, from config.json or from GGUF metadata, each checked as it is read.
//
// A field has a name of either kind, several spellings apart by '|'. A problem (missing, wrong type, out of range) is
// kept, the first one, and something harmless is returned: whoever reads a whole configuration asks for problem() at
// the end. Values that an architecture computes with lie in their ranges even then.
// Threads: one. Fails: problem(): bad_file naming file, field, value and limit.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_fields.h"
#include "espalier/error.h"
#include "model/weights/names.h"

namespace espalier {

// What config.json and GGUF files (behind the architecture's prefix) call a field; an empty name: it is not there.
struct FieldName {
  std::string_view hf, gguf = {};
};

// Limits of every hyperparameter, checked before anything is allocated by them.
struct ConfigLimits {
  static constexpr std::int64_t vocabulary = 16'777'216, hidden = 1 << 18, inner = 1 << 20, layers = 1024;
  static constexpr std::int64_t heads = 4096, head_dim = 4096, attention_width = 1 << 20;  // heads * head_dim
  static constexpr std::int64_t taps = 16, state_keys = 512, scan_states = 256;  // of convolutions and recurrences
  static constexpr std::int64_t key_dim = 576, value_dim = 512;                  // of attention, index keys among them
  static constexpr std::size_t matrices = 1 << 18;                               // of all layers and experts
  static constexpr std::int64_t experts = 4096, positions = std::int64_t{1} << 30, window = positions, labels = 1 << 20;
};

// The fields of one object of a configuration.
class Fields {
 public:
  // The fields of one object; `prefix` stands before names in messages ("llama.", "rope_parameters.").
  Fields(Json object, Naming naming, std::string prefix);

  bool is_gguf() const { return naming_ == Naming::gguf; }
  const Json& object() const { return object_; }
  std::string path(FieldName name) const;  // as messages call it: the spelling that is there, else the first
  const Json* find(FieldName name) const;  // null when absent or null
  bool has(FieldName name) const { return find(name) != nullptr; }
  bool says_null(FieldName name) const;  // it is there, as null: none, where its absence means a default

  // In 1..most; it must be there. One value per layer is fine where all agree.
  int count(FieldName name, std::int64_t most = 1 << 20) const;
  // In low..most.
  std::int64_t integer_or(FieldName name, std::int64_t otherwise, std::int64_t low = 0,
                          std::int64_t most = ConfigLimits::positions) const;
  int count_or(FieldName name, int otherwise, std::int64_t most = 1 << 20) const {
    return static_cast<int>(integer_or(name, otherwise, 0, most));
  }
  // One value for all layers, or a list with one for each.
  int count_of(FieldName name, int layer, int otherwise, std::int64_t most = 1 << 20) const;
  double number_or(FieldName name, double otherwise, NumberRange range = {}) const;
  double number_of(FieldName name, int layer, double otherwise, NumberRange range = {}) const;
  bool flag_or(FieldName name, bool otherwise) const;
  bool flag_of(FieldName name, int layer, bool otherwise) const;
  std::string word_or(FieldName name, std::string_view otherwise) const;
  std::string word_of(FieldName name, int layer, std::string_view otherwise) const;
  std::vector<double> numbers(FieldName name, std::size_t most = 4096) const;  // empty when absent
  std::vector<std::int64_t> integers(FieldName name, std::size_t most = 4096) const;
  // The two ends of a range, either of which may be infinite (transformers writes {"__float__": "Infinity"}).
  std::pair<double, double> ends_or(FieldName name, std::pair<double, double> otherwise) const;
  bool lists(FieldName name, std::int64_t value) const;  // whether a list of integers has it
  // The fields of an object within; problems are kept here. Empty when absent.
  Fields at(FieldName name) const;

  // The same of a layer's object in a list of them.
  Fields at_layer(FieldName name, int layer) const;

  // Whether anybody has asked for a field of this name.
  bool was_asked(std::string_view name) const { return asked_->contains(name); }

  void refuse(Error error) const;  // keeps the first
  void refuse(FieldName name, std::string sentence) const;
  const std::optional<Error>& problem() const { return *problem_; }

 private:
  const Json* element(FieldName name, int layer) const;
  Fields within(FieldName name, const Json* value, const std::string& at) const;
  template <class T>
  T taken(Result<T> result, T otherwise) const;

  Json object_;
  Naming naming_;
  std::string prefix_;
  std::shared_ptr<std::optional<Error>> problem_;
  std::shared_ptr<std::set<std::string, std::less<>>> asked_;
};

}  // namespace espalier
