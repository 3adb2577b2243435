#include "server/admission/keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <set>

#include "base/steady_seconds.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostKeyFileBytes = 1 << 20;
constexpr std::size_t kMostKeyBytes = 4096;

bool equal(const KeyDigest& a, const KeyDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// What follows "SCHEME " in an Authorization field; "" for another scheme.
std::string_view credentials(std::string_view field, std::string_view scheme) {
  if (field.size() <= scheme.size() || field[scheme.size()] != ' ') return {};
  if (!net::same_ignoring_case(field.substr(0, scheme.size()), scheme)) return {};
  return trimmed(field.substr(scheme.size() + 1));
}

std::string password_of(std::string_view base64) {
  if (base64.size() > kMostKeyBytes || base64.size() % 4 != 0) return {};
  std::string plain(base64.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(plain.data()),
                      reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
  if (length < 0) return {};
  plain.resize(static_cast<std::size_t>(length));
  while (!plain.empty() && plain.back() == '\0') plain.pop_back();  // the padding's
  const auto colon = plain.find(':');
  return colon == std::string::npos ? std::string() : plain.substr(colon + 1);
}

std::string tenant_name(std::string_view key) {
  const KeyDigest full = sha256(std::string("tenant:").append(key));
  std::string name;
  for (std::size_t i = 0; i < 16; ++i) name += fmt::format("{:02x}", full[i]);
  return name;
}

}  // namespace

KeyDigest sha256(std::string_view text) {
  KeyDigest out{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha256(), nullptr);
  return out;
}

Result<std::unique_ptr<KeyRing>> KeyRing::load(std::vector<std::string> keys, std::string file,
                                               std::string_view admin_key) {
  std::unique_ptr<KeyRing> ring(new KeyRing());  // the constructor is private
  ring->given_ = std::move(keys);
  for (const auto& key : ring->given_) {
    if (trimmed(key).empty()) {
      return bad_request("an API key is empty, which would leave the server open to everybody", "api-key");
    }
  }
  ring->file_ = std::move(file);
  ring->has_admin_ = !admin_key.empty();
  ring->admin_ = sha256(admin_key);
  ESP_CHECK(ring->reload());
  return ring;
}

Result<> KeyRing::reload() {
  ESP_TRY(auto known, read_keys());
  const std::scoped_lock lock(mutex_);
  keep_accounts(known);
  has_accounts_ = std::ranges::any_of(known, [](const Known& each) { return each.account != nullptr; });
  known_ = std::move(known);
  return success();
}

// Whoever has used up a minute's tokens does not get them again by a SIGHUP.
void KeyRing::keep_accounts(std::vector<Known>& known) const {
  std::map<KeyDigest, std::shared_ptr<KeyAccount>> kept;
  for (const Known& before : known_)
    if (before.account) kept.emplace(before.digest, before.account);
  for (Known& now : known) {
    const auto before = now.account ? kept.find(now.digest) : kept.end();
    if (before == kept.end()) continue;
    before->second->set_terms(now.account->terms(), steady_seconds());
    now.account = before->second;
  }
}

Result<std::vector<KeyRing::Known>> KeyRing::read_keys() const {
  std::vector<Known> known;
  for (const auto& key : given_) known.push_back({sha256(key), tenant_name(key), nullptr});
  if (!file_.empty()) ESP_CHECK(read_file(known));
  return known;
}

Result<KeyRing::Known> KeyRing::read_line(std::string_view line) {
  const std::string_view key = line.substr(0, line.find_first_of(" \t"));
  ESP_TRY(KeyTerms terms, parse_key_terms(line.substr(key.size())));
  auto account = key.size() == line.size() ? nullptr : std::make_shared<KeyAccount>(std::move(terms));
  return Known{sha256(key), tenant_name(key), std::move(account)};
}

Result<> KeyRing::read_file(std::vector<Known>& known) const {
  const Error unreadable{
      Error::Kind::not_found, fmt::format("the key file {} cannot be read", file_), "api-key-file", {}};
  struct stat status{};
  if (::stat(file_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return unreadable;
  if (static_cast<std::size_t>(status.st_size) > kMostKeyFileBytes) {
    return bad_request(fmt::format("the key file {} has more than {} bytes", file_, kMostKeyFileBytes), "api-key-file");
  }
  std::ifstream in(file_);
  if (!in) return unreadable;
  std::size_t found = 0;
  int number = 0;
  std::set<KeyDigest> seen;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    auto read = read_line(text);
    if (read.ok() && !seen.insert(read->digest).second) read = bad_request("this key stands in the file twice");
    if (!read.ok())
      return bad_request(fmt::format("{}, line {}: {}", file_, number, read.error().message), "api-key-file");
    known.push_back(std::move(read).value());
    ++found;
  }
  // An empty file would quietly open the server to everybody.
  if (found == 0) return bad_request(fmt::format("the key file {} holds no key", file_), "api-key-file");
  return success();
}

bool KeyRing::wants_key() const {
  const std::scoped_lock lock(mutex_);
  return !known_.empty();
}

std::string KeyRing::presented(const net::Headers& headers, bool basic) {
  const std::string_view authorization = headers.get("authorization");
  if (auto key = credentials(authorization, "Bearer"); !key.empty()) return std::string(key);
  if (auto key = trimmed(headers.get("x-api-key")); !key.empty() || !basic) return std::string(key);
  return password_of(credentials(authorization, "Basic"));
}

Caller KeyRing::caller(const net::Headers& headers, bool basic) const {
  const std::string key = presented(headers, basic);
  const KeyDigest shown = sha256(key);
  const bool admin = has_admin_ & equal(shown, admin_);
  const Known* found = nullptr;
  const std::scoped_lock lock(mutex_);
  for (const Known& known : known_) found = equal(shown, known.digest) ? &known : found;
  if (key.empty()) return Caller::nobody;
  if (admin) return Caller::admin;
  if (found == nullptr) return Caller::nobody;
  return found->account && found->account->expired(std::time(nullptr)) ? Caller::expired : Caller::user;
}

std::shared_ptr<KeyAccount> KeyRing::account(const net::HttpRequest& http) const {
  if (!has_accounts_) return nullptr;
  if (http.own_work && !http.own_work->later) return nullptr;  // whoever asked for it is charged for the whole
  const std::string key = http.own_work ? std::string() : presented(http.headers, true);
  const KeyDigest shown = sha256(key);
  const std::scoped_lock lock(mutex_);
  for (const Known& known : known_) {
    if (!known.account) continue;
    if (http.own_work ? known.tenant == http.own_work->tenant : equal(shown, known.digest)) return known.account;
  }
  return nullptr;
}

bool KeyRing::may_read_all(const net::Headers& headers) const {
  const Caller who = caller(headers, true);
  if (has_admin_) return who == Caller::admin;
  const std::scoped_lock lock(mutex_);
  return known_.empty() || (known_.size() == 1 && who == Caller::user);
}

std::string KeyRing::tenant(const net::HttpRequest& http) {
  return http.own_work ? http.own_work->tenant : tenant(http.headers);
}

std::string KeyRing::owner(const net::HttpRequest& http) const {
  return wants_key() ? tenant(http) : std::string();
}

std::string KeyRing::tenant(const net::Headers& headers) {
  const std::string key = presented(headers, true);
  return key.empty() ? std::string() : tenant_name(key);
}

}  // namespace espalier::server
