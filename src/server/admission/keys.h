// keys.h: who may call: API keys and the admin key, kept as SHA-256 digests, and what each key may use.
//
// A line of the key file is a key, and behind it, after white space, what it is called and may use
// (key_account.h): "sk-abc name=alice rpm=60 tpm=100000 expires=2027-01-31". '#' begins a comment line.
// A presented key is hashed and compared with every digest in constant time, so neither its length nor how much of it
// is right can be measured; a wrong key and an unknown one look the same.
// Threads: all calls from any thread; reload() replaces the keys at once. A key that stays keeps what it has used.
// Fails:   load: bad_request for an empty key, not_found or bad_request for a key file that cannot be read, holds no
//          key, one twice, or terms that are none; the old keys stay.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "net/http/http_types.h"
#include "server/admission/key_account.h"

namespace espalier::server {

using KeyDigest = std::array<unsigned char, 32>;
KeyDigest sha256(std::string_view text);

// Who a presented key belongs to; `expired`: to a user, until a time that has passed.
enum class Caller { nobody, expired, user, admin };

// The digests of all keys that are accepted, from options and from a file that can be read again.
class KeyRing {
 public:
  static Result<std::unique_ptr<KeyRing>> load(std::vector<std::string> keys, std::string file,
                                               std::string_view admin_key);

  Result<> reload();  // reads the file again

  bool wants_key() const;
  bool wants_admin_key() const { return has_admin_; }
  // By "Authorization: Bearer KEY" or "x-api-key: KEY"; by "Basic" too, the key as password, when `basic` is set (for
  // the page and what it calls, where a browser asks for the key).
  Caller caller(const net::Headers& headers, bool basic = false) const;
  // Whether whoever sent this may see what others have asked: with the admin key; where there is none, with the only key
  // that there is, or where no key is asked for. (Several keys are several tenants.)
  bool may_read_all(const net::Headers& headers) const;
  // A short name of the presented key for separating tenants; "" without a key. Tells nothing about the key.
  static std::string tenant(const net::Headers& headers);
  static std::string tenant(const net::HttpRequest& http);  // also of what the server does by itself
  // Whose a stored thing is: the presented key's name; "" for everybody where no key is asked for.
  std::string owner(const net::HttpRequest& http) const;
  // What the presented key has left, also of what the server does later for its owner; null for a key without limits
  // and name, for the admin key, without one, and for a call of a program, whose own request pays for the whole.
  std::shared_ptr<KeyAccount> account(const net::HttpRequest& http) const;

 private:
  // One accepted key.
  struct Known {
    KeyDigest digest;
    std::string tenant;                   // as tenant() names it
    std::shared_ptr<KeyAccount> account;  // null: it has no terms
  };

  KeyRing() = default;
  static std::string presented(const net::Headers& headers, bool basic);
  Result<std::vector<Known>> read_keys() const;
  Result<> read_file(std::vector<Known>& known) const;
  static Result<Known> read_line(std::string_view line);
  void keep_accounts(std::vector<Known>& known) const;

  std::vector<std::string> given_;
  std::string file_;
  KeyDigest admin_{};
  bool has_admin_ = false;
  std::atomic<bool> has_accounts_{false};  // among known_
  mutable std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace espalier::server
