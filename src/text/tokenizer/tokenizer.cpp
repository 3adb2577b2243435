#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/system/memory_room.h"
#include "text/tokenizer/pair_template.h"
#include "text/tokenizer/tokenizer_impl.h"
#include "text/utf8.h"

namespace espalier {
namespace {

// The largest published files are under 40 MB.
constexpr std::size_t kLargestFile = std::size_t{256} << 20;

espalier_slice slice(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { espalier_buffer_free(buffer_); }

  espalier_buffer* place() { return &buffer_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(buffer_.data), buffer_.size}; }

 private:
  espalier_buffer buffer_{nullptr, 0};
};

class Ids {
 public:
  Ids() = default;
  Ids(const Ids&) = delete;
  Ids& operator=(const Ids&) = delete;
  ~Ids() { espalier_ids_free(ids_); }

  espalier_ids* place() { return &ids_; }
  // Ids are below the vocabulary's size, which fits a TokenId.
  std::vector<TokenId> take() const { return {ids_.data, ids_.data + ids_.size}; }

 private:
  espalier_ids ids_{nullptr, 0};
};

std::string listed_json(const std::vector<ListedToken>& listed) {
  Json all = Json::array();
  for (const ListedToken& token : listed) {
    all.push_back({{"content", token.text},
                   {"single_word", token.single_word},
                   {"lstrip", token.lstrip},
                   {"rstrip", token.rstrip},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  }
  return all.dump();
}

std::string_view entry(const std::uint8_t* block, const std::uint32_t* ends, TokenId id) {
  const std::size_t begin = id == 0 ? 0 : ends[id - 1];
  return {reinterpret_cast<const char*>(block) + begin, ends[id] - begin};
}

DecodeRules rules_of(const espalier_table& table) {
  constexpr DecodeRules::Kind kinds[] = {DecodeRules::Kind::bytes, DecodeRules::Kind::pieces,
                                         DecodeRules::Kind::library};
  return {kinds[std::min(table.decode_kind, 2u)], table.strip_start, table.strip_stop,
          table.first_token_drops_marks != 0};
}

// Text of the kind `pieces`, as the library puts it together.
class PieceText {
 public:
  PieceText(const Tokenizer& tokenizer, const DecodeRules& rules) : tokenizer_(tokenizer), rules_(rules) {}

  void add(TokenId id) {
    if (tokenizer_.is_byte(id)) {
      run_.append(tokenizer_.token_bytes(id));
    } else {
      end_run();
      if (first_ && rules_.first_token_drops_marks) {
        append_without_marks(tokenizer_.token_text(id));
      } else {
        text_.append(tokenizer_.token_bytes(id));
      }
    }
    first_ = false;
  }

  std::string finish() {
    end_run();
    std::size_t begin = 0, end = text_.size();
    while (begin < end && begin < rules_.strip_start && text_[begin] == ' ') ++begin;
    for (std::size_t n = 0; n < rules_.strip_stop && end > begin && text_[end - 1] == ' '; ++n) --end;
    return text_.substr(begin, end - begin);
  }

 private:
  void end_run() {
    if (is_utf8(run_)) {
      text_.append(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) text_.append(kReplacement);
    }
    run_.clear();
  }

  void append_without_marks(std::string_view token) {
    constexpr std::string_view mark = "▁";
    for (std::size_t at = 0; at < token.size();) {
      const std::size_t found = std::min(token.find(mark, at), token.size());
      text_.append(token.substr(at, found - at));
      at = found + mark.size();
    }
  }

  const Tokenizer& tokenizer_;
  const DecodeRules& rules_;
  std::string text_, run_;
  bool first_ = true;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Impl::make(std::string_view tokenizer_json, TokenizerConfig config,
                                                               MakeOptions options) {
  if (tokenizer_json.size() > kLargestFile) return bad_file("tokenizer.json is larger than the limit of 256 MiB");
  // The Rust library ends the process when it is refused memory: whether there is some is asked before.
  constexpr std::size_t kLeast = 4u << 20, kTimes = 16;  // of the file's bytes: what its tables take, about
  if (std::cmp_less(memory_room().least(), kLeast + kTimes * tokenizer_json.size())) {
    return Error{Error::Kind::out_of_memory, "not enough memory for the tokenizer", {}, {}};
  }
  auto impl = std::make_unique<Impl>();
  const std::string listed = listed_json(config.listed);
  Buffer error;
  std::uint32_t flags = 0;
  if (options.library_only) flags |= ESPALIER_LIBRARY_ONLY;
  if (options.literal_added) flags |= ESPALIER_LITERAL_ADDED;
  impl->core.reset(espalier_tokenizer_parse(slice(tokenizer_json), slice(listed), flags, error.place()));
  if (!impl->core) return bad_file("tokenizer.json: " + std::string(error.text()));
  impl->table = espalier_tokenizer_table(impl->core.get());
  impl->rules = rules_of(impl->table);
  impl->special = std::move(config.special);
  const auto id_of = [&](std::string_view name) -> std::optional<TokenId> {
    for (const auto& [key, text] : impl->special) {
      if (key != name) continue;
      if (const auto id = espalier_tokenizer_find(impl->core.get(), slice(text)); id >= 0)
        return static_cast<TokenId>(id);
    }
    return std::nullopt;
  };
  impl->bos = id_of("bos_token");
  impl->eos = id_of("eos_token");
  impl->pad = id_of("pad_token");
  impl->unk = id_of("unk_token");
  return std::make_shared<const Tokenizer>(std::move(impl));
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json, const Json& config) {
  ESP_TRY(TokenizerConfig parsed, TokenizerConfig::parse(config, nullptr, nullptr));
  return Impl::make(tokenizer_json, std::move(parsed));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  Ids ids;
  Buffer error;
  static_assert(sizeof(TextRange) == 2 * sizeof(std::size_t));
  const espalier_encoding encoding{options.add_special,
                                   options.parse_special,
                                   options.continues,
                                   options.own.has_value(),
                                   options.own ? reinterpret_cast<const std::size_t*>(options.own->data()) : nullptr,
                                   options.own ? options.own->size() : 0};
  if (!espalier_tokenizer_encode(impl_->core.get(), slice(text), &encoding, ids.place(), error.place()))
    return bad_request("cannot be encoded: " + std::string(error.text()), "text");
  return ids.take();
}

Result<EncodedPair> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                           EncodeOptions options) const {
  const espalier_slice ends = espalier_tokenizer_ends(impl_->core.get());
  ESP_TRY(const PairTemplate around, PairTemplate::parse({reinterpret_cast<const char*>(ends.data), ends.size}));
  options.add_special = false;
  EncodedPair made;
  for (const PairTemplate::Piece& piece : around.pieces) {
    const int at = static_cast<int>(made.ids.size());
    std::vector<TokenId> ids = piece.tokens;
    if (piece.kind != PairTemplate::Piece::Kind::tokens) {
      const bool is_first = piece.kind == PairTemplate::Piece::Kind::first;
      ESP_TRY(ids, encode(is_first ? first : second, options));
      if (!is_first) made.second_begin = made.ids.size(), made.second = ids.size();
    }
    if (piece.type > 0 && made.second_part < 0) made.second_part = at;
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
  }
  return made;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::vector<TokenId> kept;
  kept.reserve(ids.size());
  for (const TokenId id : ids)
    if (contains(id) && !is_left_out(id, options)) kept.push_back(id);

  if (impl_->rules.kind == DecodeRules::Kind::pieces) {
    PieceText text(*this, impl_->rules);
    for (const TokenId id : kept) text.add(id);
    return text.finish();
  }
  if (impl_->rules.kind == DecodeRules::Kind::library) {
    const std::vector<std::uint32_t> plain(kept.begin(), kept.end());
    Buffer text, error;
    if (espalier_tokenizer_decode(impl_->core.get(), plain.data(), plain.size(), false, text.place(), error.place()))
      return std::string(text.text());
  }
  std::string bytes, text;
  for (const TokenId id : kept) bytes.append(token_bytes(id));
  append_valid_utf8(text, bytes, true);
  return text;
}

std::size_t Tokenizer::min_tokens(std::size_t bytes) const {
  const std::size_t most = impl_->table.most_input_bytes;
  return most == 0 ? 0 : bytes / most + (bytes % most != 0);
}

std::size_t Tokenizer::min_tokens(std::string_view text) const {
  return espalier_tokenizer_min_tokens(impl_->core.get(), slice(text));
}

std::size_t Tokenizer::max_tokens_estimate(std::size_t bytes) const {
  return bytes + 8;
}

TokenId Tokenizer::size() const {
  return static_cast<TokenId>(impl_->table.tokens);
}
bool Tokenizer::contains(TokenId id) const {
  return (impl_->flags(id) & ESPALIER_TOKEN_PRESENT) != 0;
}
bool Tokenizer::is_special(TokenId id) const {
  return (impl_->flags(id) & ESPALIER_TOKEN_SPECIAL) != 0;
}
bool Tokenizer::is_byte(TokenId id) const {
  return (impl_->flags(id) & ESPALIER_TOKEN_BYTE) != 0;
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return contains(id) ? entry(impl_->table.text, impl_->table.text_ends, id) : std::string_view();
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return contains(id) ? entry(impl_->table.pieces, impl_->table.piece_ends, id) : std::string_view();
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const auto id = espalier_tokenizer_find(impl_->core.get(), slice(text));
  return id < 0 ? std::nullopt : std::optional(static_cast<TokenId>(id));
}

std::optional<TokenId> Tokenizer::bos() const {
  return impl_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->eos;
}
std::optional<TokenId> Tokenizer::pad() const {
  return impl_->pad;
}
std::optional<TokenId> Tokenizer::unk() const {
  return impl_->unk;
}
const SpecialTokens& Tokenizer::special_tokens() const {
  return impl_->special;
}
const DecodeRules& Tokenizer::decode_rules() const {
  return impl_->rules;
}

}  // namespace espalier
