// The makers of what is appended to a state.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "espalier/program.h"
#include "lang/backends/media_type.h"
#include "lang/gen_options.h"

namespace espalier {
namespace {

void or_throw(const Result<>& result) {
  if (!result.ok()) throw ProgramError(result.error());
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad())
    throw ProgramError(
        {Error::Kind::not_found, fmt::format("{} cannot be read: {}", path, std::strerror(errno)), "path", {}});
  return bytes;
}

Expr media(Picture picture) {
  return Expr(Node(node::Media{std::make_shared<const Picture>(std::move(picture))}));
}

Expr turn(std::string role, Expr content) {
  Expr all = role_begin(role);
  all += std::move(content);
  all += role_end(std::move(role));
  return all;
}

}  // namespace

Expr& Expr::operator+=(Expr more) {
  if (nodes_.empty()) {
    nodes_ = std::move(more.nodes_);
    return *this;
  }
  nodes_.insert(nodes_.end(), std::make_move_iterator(more.nodes_.begin()), std::make_move_iterator(more.nodes_.end()));
  return *this;
}

Expr gen(std::string name, GenOptions options) {
  or_throw(lang::check(options));
  if (!options.choices.is_set()) return Expr(Node(node::Gen{std::move(name), std::move(options)}));
  return select(std::move(name), options.choices.list(), options.temperature.value_or(0), options.choices_method);
}

Expr gen_int(std::string name, GenOptions options) {
  options.type = ValueType::integer;
  return gen(std::move(name), std::move(options));
}

Expr gen_string(std::string name, GenOptions options) {
  options.type = ValueType::string;
  return gen(std::move(name), std::move(options));
}

Expr select(std::string name, std::vector<std::string> choices, double temperature,
            std::shared_ptr<const ChoicesMethod> method) {
  if (choices.empty()) throw ProgramError(bad_request("choices is empty; it needs at least one entry", "choices"));
  if (!method) method = token_length_normalized();
  return Expr(Node(node::Select{std::move(name), std::move(choices), temperature, std::move(method)}));
}

Expr system(Expr content) {
  return turn("system", std::move(content));
}
Expr user(Expr content) {
  return turn("user", std::move(content));
}
Expr assistant(Expr content) {
  return turn("assistant", std::move(content));
}
Expr role_begin(std::string role) {
  return Expr(Node(node::RoleBegin{std::move(role)}));
}
Expr role_end(std::string role) {
  return Expr(Node(node::RoleEnd{std::move(role)}));
}

Expr image(const std::string& path) {
  return image_bytes(file_bytes(path));
}

Expr image_bytes(std::string bytes) {
  const std::string_view type = lang::media_type_of(bytes);
  if (type.empty()) throw ProgramError(bad_request("the picture is no PNG, JPEG, WebP, GIF or BMP file", "image"));
  return media({Picture::Kind::image, std::move(bytes), std::string(type), 0});
}

Expr video(const std::string& path, int frames) {
  if (frames < 1) throw ProgramError(bad_request("num_frames must be at least 1", "num_frames"));
  return media({Picture::Kind::video, file_bytes(path), "video/mp4", frames});
}

Expr separate_reasoning(Expr content, std::string model_type) {
  return Expr(Node(node::Reasoning{std::make_shared<const Expr>(std::move(content)), std::move(model_type)}));
}

Expr movable(Expr piece) {
  for (const Node& one : piece.nodes())
    if (!std::holds_alternative<node::Text>(one) && !std::holds_alternative<node::Argument>(one))
      throw ProgramError(bad_request("movable() takes text and arguments: what is generated has its place", "movable"));
  return Expr(Node(node::MovableBegin())) + std::move(piece) + Expr(Node(node::MovableEnd()));
}

}  // namespace espalier
