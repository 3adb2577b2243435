#include "store/hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <vector>

namespace espalier::store {

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Digest::Digest(DigestKind kind, std::uint64_t bytes) : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context.get(), kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1(), nullptr);
  if (kind == DigestKind::git_blob) {
    const std::string header = fmt::format("blob {}", bytes);
    update({header.c_str(), header.size() + 1});
  }
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;

void Digest::update(std::string_view piece) {
  EVP_DigestUpdate(state_->context.get(), piece.data(), piece.size());
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context.get(), bytes.data(), &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

Result<std::string> hash_file(const std::filesystem::path& path, DigestKind kind, std::stop_token stop,
                              const std::function<void(std::uint64_t)>& on_bytes) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  std::ifstream in(path, std::ios::binary);
  if (code || !in)
    return Error{
        Error::Kind::not_found, fmt::format("cannot read {}: does it exist, and may you?", path.string()), {}, {}};
  Digest digest(kind, bytes);
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
    const auto got = static_cast<std::size_t>(in.gcount());
    digest.update({buffer.data(), got});
    done += got;
    if (stop.stop_requested()) return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    if (on_bytes) on_bytes(done);
  }
  if (in.bad() || done != bytes) return internal_error(fmt::format("reading {} failed half-way", path.string()));
  return digest.finish();
}

}  // namespace espalier::store
