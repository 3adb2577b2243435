#include "text/vocabulary/sentencepiece_file.h"

#include <cmath>
#include <string>

#include "text/utf8.h"
#include "text/vocabulary/protobuf_reader.h"

namespace espalier {
namespace {

constexpr std::size_t kMostPieces = std::size_t{1} << 22;

using Wire = ProtobufField::Wire;

Error broken(const std::string& what) {
  return bad_file("not a SentencePiece model: " + what, "tokenizer.model");
}

Result<> read_piece(SentencePieceFile& file, std::string_view message) {
  const std::string place = "piece " + std::to_string(file.pieces.size());
  if (file.pieces.size() == kMostPieces) return broken("it has more than " + std::to_string(kMostPieces) + " pieces");
  std::string_view text;
  float score = 0;
  std::int64_t type = 1;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1 && field->wire == Wire::bytes) text = field->bytes;
    if (field->number == 2 && field->wire == Wire::fixed32) score = field->real();
    if (field->number == 3 && field->wire == Wire::varint) type = field->integer();
  }
  if (reader.broken()) return broken(place + " cannot be read");
  if (!is_utf8(text)) return broken(place + " is not UTF-8");
  if (!std::isfinite(score)) return broken("the score of " + place + " is no finite number");
  if (type < 1 || type > 6) return broken(place + " is of the unknown type " + std::to_string(type));
  file.pieces.push_back(text);
  file.scores.push_back(score);
  file.types.push_back(static_cast<std::int32_t>(type));
  return success();
}

int id_of(const ProtobufField& field) {
  const std::int64_t id = field.integer();
  return id < 0 || id >= static_cast<std::int64_t>(kMostPieces) ? -1 : static_cast<int>(id);
}

Result<> read_trainer(SentencePieceFile& file, std::string_view message) {
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->wire != Wire::varint) continue;
    switch (field->number) {
      case 3:
        if (field->value < 1 || field->value > 4) return broken("model type " + std::to_string(field->value));
        file.kind = static_cast<SentencePieceFile::Kind>(field->value);
        break;
      case 24:
        file.whitespace_as_suffix = field->boolean();
        break;
      case 35:
        file.byte_fallback = field->boolean();
        break;
      case 40:
        file.unk = id_of(*field);
        break;
      case 41:
        file.bos = id_of(*field);
        break;
      case 42:
        file.eos = id_of(*field);
        break;
      case 43:
        file.pad = id_of(*field);
        break;
      default:
        break;
    }
  }
  return reader.broken() ? Result<>(broken("its trainer_spec cannot be read")) : success();
}

Result<> read_normalizer(SentencePieceFile& file, std::string_view message) {
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 2 && field->wire == Wire::bytes) file.charsmap = field->bytes;
    if (field->wire != Wire::varint) continue;
    if (field->number == 3) file.add_dummy_prefix = field->boolean();
    if (field->number == 4) file.remove_extra_whitespaces = field->boolean();
    if (field->number == 5) file.escape_whitespaces = field->boolean();
  }
  return reader.broken() ? Result<>(broken("its normalizer_spec cannot be read")) : success();
}

}  // namespace

Result<SentencePieceFile> read_sentencepiece(std::string_view bytes) {
  SentencePieceFile file;
  ProtobufReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->wire != Wire::bytes) continue;
    if (field->number == 1) ESP_CHECK(read_piece(file, field->bytes));
    if (field->number == 2) ESP_CHECK(read_trainer(file, field->bytes));
    if (field->number == 3) ESP_CHECK(read_normalizer(file, field->bytes));
  }
  if (reader.broken()) return broken("the bytes make no message");
  if (file.pieces.empty()) return broken("it has no pieces");
  const auto size = static_cast<int>(file.pieces.size());
  for (int* id : {&file.unk, &file.bos, &file.eos, &file.pad})
    if (*id >= size) *id = -1;
  return file;
}

}  // namespace espalier
