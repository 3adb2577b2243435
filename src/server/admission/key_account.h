// key_account.h: what one API key may do: its name, when it ends, how many requests and tokens a minute, and what of
// that is used.
//
// Each limit is a bucket that holds a minute's worth and fills evenly, as OpenAI's do: a key that was silent may use a
// whole minute's at once. A request is paid when its head is read, its prompt when it is submitted (a prompt larger
// than a whole bucket needs a full one; what the engine then does not take is given back), and generated tokens when they
// were made: the bucket may then lie below nothing, and further requests wait until it is filled again, so that the mean
// keeps to the limit.
// Units:   requests and tokens a minute, 0 = no limit; `now` in steady_seconds(), times of day in seconds since 1970.
// Threads: any.
// Fails:   parse: bad_request naming the word of the line; taking: busy, code "rate_limit_exceeded".
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/http/http_types.h"

namespace espalier::server {

// What stands behind a key in the key file: "name=alice rpm=60 tpm=100000 expires=2027-01-31".
struct KeyTerms {
  std::string name;  // for logs; no secret
  std::int64_t requests_a_minute = 0, tokens_a_minute = 0;
  std::optional<std::int64_t> expires;  // from then on the key is refused
};
Result<KeyTerms> parse_key_terms(std::string_view words);
// "2027-01-31" (its first second) or "2027-01-31T18:00:00Z", both UTC, as seconds since 1970; none for another text.
std::optional<std::int64_t> parse_utc_time(std::string_view text);

// One limit and what is left of it.
class RateBucket {
 public:
  void set_limit(std::int64_t a_minute, double now);  // what is used stays used
  bool limited() const { return limit_ > 0; }
  std::int64_t limit() const { return limit_; }
  double left(double now) const;  // may be below 0
  void take(double amount, double now);
  void give_back(double amount, double now);
  double seconds_until(double amount, double now) const;  // there is so much

 private:
  std::int64_t limit_ = 0;
  double used_ = 0, at_ = 0;  // at that time
};

// A key's terms with what it has used.
class KeyAccount {
 public:
  explicit KeyAccount(KeyTerms terms) { set_terms(std::move(terms), 0); }

  void set_terms(KeyTerms terms, double now);
  KeyTerms terms() const;
  bool expired(std::int64_t seconds_since_1970) const;
  bool limited() const;

  Result<> take_request(double now);
  Result<> take_prompt(std::int64_t tokens, double now);
  void give_back_prompt(std::int64_t tokens, double now);  // what take_prompt() took and the engine did not
  void take_output(std::int64_t tokens, double now);

  // x-ratelimit-{limit,remaining,reset}-{requests,tokens}, and Retry-After of a 429 that is this key's.
  void tell(int status, net::Headers& headers, double now) const;

 private:
  mutable std::mutex mutex_;
  KeyTerms terms_;
  RateBucket requests_, tokens_;
  double refused_until_ = 0;  // when the prompt that was refused last may come; 0: one came since
};

}  // namespace espalier::server
