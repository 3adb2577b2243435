#include "model/config/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/json/json.h"
#include "base/log.h"
#include "model/arch/parts.h"
#include "model/arch/table.h"
#include "model/config/generation_limits.h"
#include "model/fields/rope.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMostValues = 65'536;  // of one field that is a list

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file), metadata_(file.metadata()) {}

  Result<ModelConfig> read() {
    ESP_TRY(const auto named, metadata_.get_string("general.architecture"));
    const Architecture* architecture = architecture_in_gguf(named);
    if (architecture == nullptr) return unsupported_architecture(file_.name(), "general.architecture", named);
    prefix_ = named;
    ESP_TRY(Json object, object_of_fields());
    ESP_TRY(object["vocab_size"], vocabulary());
    const Fields fields(std::move(object), Naming::gguf, prefix_ + ".");
    made_.architecture = architecture->name;
    made_.class_name = std::string(architecture->classes.substr(0, architecture->classes.find('|'))) + "ForCausalLM";
    made_.spec = architecture->declare(fields);
    made_.context_length = context_length_of(fields, made_.spec.longest);
    if (fields.problem()) return in_file(*fields.problem(), file_.name());
    made_.vocabulary = made_.spec.vocabulary;
    choose_output(fields);
    ESP_CHECK(read_tokens());
    const Tensor* first = file_.find("blk.0.attn_q.weight");
    if (first == nullptr) first = file_.find("token_embd.weight");
    if (first != nullptr) made_.stored_type = first->dtype;
    return std::move(made_);
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  Error bad(const std::string& field, std::string_view sentence) const {
    return bad_file(fmt::format("{}: {}", file_.name(), sentence), field);
  }

  // The architecture's own keys as one object.
  Result<Json> object_of_fields() const {
    Json object = Json::object();
    for (const GgufValue& value : metadata_.entries()) {
      const bool own = value.key.starts_with(prefix_ + ".");
      if (!own && !value.key.starts_with("xielu.")) continue;  // Apertus' stand beside them
      const std::string name(own ? value.key.substr(prefix_.size() + 1) : value.key);
      ESP_TRY(object[name], json_of(value));
    }
    return object;
  }

  Result<Json> json_of(const GgufValue& value) const {
    switch (value.type) {
      case GgufType::string: {
        ESP_TRY(const auto text, metadata_.get_string(value.key));
        return Json(text);
      }
      case GgufType::boolean: {
        ESP_TRY(const auto flag, metadata_.get_boolean(value.key));
        return Json(flag);
      }
      case GgufType::f32:
      case GgufType::f64: {
        ESP_TRY(const auto number, metadata_.get_number(value.key));
        return Json(number);
      }
      case GgufType::array:
        return list_of(value);
      default: {
        ESP_TRY(const auto integer, metadata_.get_integer(value.key));
        return Json(integer);
      }
    }
  }

  Result<Json> list_of(const GgufValue& value) const {
    Json list = Json::array();
    if (value.count > kMostValues)
      return bad(std::string(value.key),
                 fmt::format("{} has {} values, more than {}", value.key, value.count, kMostValues));
    if (value.element == GgufType::string) {
      ESP_TRY(const auto strings, metadata_.get_strings(value.key));
      for (const auto text : strings) list.push_back(text);
    } else if (value.element == GgufType::f32 || value.element == GgufType::f64) {
      ESP_TRY(const auto numbers, metadata_.get_floats(value.key));
      for (const float number : numbers) list.push_back(number);
    } else if (value.element == GgufType::boolean) {
      for (const std::byte flag : value.bytes) list.push_back(flag != std::byte{0});
    } else {
      ESP_TRY(const auto integers, metadata_.get_integers(value.key));
      for (const std::int64_t integer : integers) list.push_back(integer);
    }
    return list;
  }

  // The embedding's rows decide; the metadata, where it speaks of the same number, must agree.
  Result<std::int64_t> vocabulary() const {
    ESP_TRY(const auto told, metadata_.find_integer(key("vocab_size"), {1, ConfigLimits::vocabulary}));
    const Tensor* table = file_.find("token_embd.weight");
    std::int64_t rows = 0;
    if (table != nullptr) {
      rows = table->rows();
    } else if (told) {
      rows = *told;
    } else {
      ESP_TRY(const auto count, metadata_.get_count("tokenizer.ggml.tokens"));
      rows = static_cast<std::int64_t>(count);
    }
    if (told && *told != rows)
      return bad(key("vocab_size"),
                 fmt::format("{} is {}, but token_embd.weight has {} rows", key("vocab_size"), *told, rows));
    if (rows < 1 || rows > ConfigLimits::vocabulary)
      return bad("token_embd.weight",
                 fmt::format("a vocabulary of {} tokens is outside 1..{}", rows, ConfigLimits::vocabulary));
    return rows;
  }

  Result<std::optional<TokenId>> token(std::string_view name) const {
    ESP_TRY(const auto id, metadata_.find_integer(name, {-1, UINT32_MAX}));
    if (!id || *id == UINT32_MAX || *id < 0) return std::optional<TokenId>();  // all ones stands for "none"
    if (*id >= made_.vocabulary)
      return bad(std::string(name),
                 fmt::format("{} is {}, but the vocabulary has {} tokens", name, *id, made_.vocabulary));
    return std::optional<TokenId>(static_cast<TokenId>(*id));
  }

  // What a model that is not there to generate gives: by its kind of pooling, or since it sees both ways.
  void choose_output(const Fields& fields) {
    constexpr FieldName kPooling{"", "pooling_type"};
    constexpr std::int64_t kScores = 4;
    constexpr Pooling kPoolings[] = {Pooling::each, Pooling::mean, Pooling::first, Pooling::last};
    ModelSpec& spec = made_.spec;
    const std::int64_t told = fields.integer_or(kPooling, -1, -1, kScores);
    const Tensor* classes = file_.find("cls.output.weight");
    if (told < 0 && !spec.both_ways) return;
    const bool scores = told == kScores || (spec.both_ways && classes != nullptr);
    made_.head = scores ? Head::classification : Head::none;
    made_.class_name = made_.class_name.substr(0, made_.class_name.size() - std::string_view("ForCausalLM").size()) +
                       (scores ? "ForSequenceClassification" : "Model");
    if (scores) {
      if (auto names = metadata_.get_strings(key("classifier.output_labels")); names.ok())
        made_.label_names.assign(names->begin(), names->end());
      made_.labels = classes == nullptr ? 1 : static_cast<int>(std::clamp<std::int64_t>(classes->rows(), 1, 1 << 16));
      if (std::cmp_not_equal(made_.label_names.size(), made_.labels)) made_.label_names.clear();
      spec.pooled = scores_of(spec, made_.labels);
      return;
    }
    spec.pooled = PooledOutput{told < 0 ? spec.usual_pooling : kPoolings[told], dense_layers};
  }

  // EmbeddingGemma's, where the file has them.
  static Rows dense_layers(Builder& b, Rows x) {
    for (const char* const role : {"dense_2", "dense_3"})
      if (b.has(role)) x = b.matmul(x, {b.matrix(role, b.outputs_of(role, x.width), x.width)});
    return x;
  }

  Result<> read_tokens() {
    ESP_TRY(made_.bos, token("tokenizer.ggml.bos_token_id"));
    ESP_TRY(made_.pad, token("tokenizer.ggml.padding_token_id"));
    for (const char* name :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      ESP_TRY(const auto id, token(name));
      if (id && std::find(made_.eos.begin(), made_.eos.end(), *id) == made_.eos.end()) made_.eos.push_back(*id);
    }
    return success();
  }

  const GgufFile& file_;
  const GgufMetadata& metadata_;
  std::string prefix_;
  ModelConfig made_;
};

// The value where it is there and in range.
template <class T>
std::optional<T> usable(const Result<std::optional<T>>& value) {
  if (value.ok()) return *value;
  log::warning("{}; it is not used", value.error().message);
  return std::nullopt;
}

// The number that was written: 0.95, not 0.949999988, which is the float nearest to it.
std::optional<double> shortest(std::optional<double> value) {
  if (!value) return value;
  const std::string text = fmt::format("{}", static_cast<float>(*value));
  std::from_chars(text.data(), text.data() + text.size(), *value);
  return value;
}

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufFile& file) {
  return Reader(file).read();
}

GenerationDefaults read_gguf_generation(const GgufFile& file) {
  const auto number = [&](std::string_view key, NumberRange range) {
    return shortest(usable(file.metadata().find_number(key, range)));
  };
  GenerationDefaults made;
  made.temperature = number("general.sampling.temp", GenerationLimits::temperature);
  made.top_p = number("general.sampling.top_p", GenerationLimits::share);
  made.min_p = number("general.sampling.min_p", GenerationLimits::share);
  made.repetition_penalty = number("general.sampling.penalty_repeat", GenerationLimits::repetition_penalty);
  made.top_k = usable(file.metadata().find_integer("general.sampling.top_k", GenerationLimits::top_k));
  return made;
}

}  // namespace espalier
