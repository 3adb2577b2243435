#include "server/admission/key_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

namespace espalier::server {
namespace {

constexpr double kMinute = 60;
constexpr std::int64_t kMostAMinute = 1'000'000'000'000;
constexpr std::size_t kMostNameBytes = 64;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<std::int64_t> rate(std::string_view name, std::string_view value) {
  const auto number = whole_number(value);
  if (number && *number >= 1 && *number <= kMostAMinute) return *number;
  return bad_request(
      fmt::format("{}={} must be a whole number from 1 to {}; leave it out for no limit", name, value, kMostAMinute),
      std::string(name));
}

Result<> read_word(KeyTerms& terms, std::string_view word) {
  const auto equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (name == "name") {
    if (value.empty() || value.size() > kMostNameBytes || !net::printable_id(value))
      return bad_request(fmt::format("name= must be 1 to {} printable characters", kMostNameBytes), "name");
    terms.name = value;
    return success();
  }
  if (name == "rpm" || name == "tpm") {
    ESP_TRY((name == "rpm" ? terms.requests_a_minute : terms.tokens_a_minute), rate(name, value));
    return success();
  }
  if (name == "expires") {
    terms.expires = parse_utc_time(value);
    if (terms.expires) return success();
    return bad_request(
        fmt::format("expires={} must be a day (2027-01-31) or a time in UTC (2027-01-31T18:00:00Z)", value), "expires");
  }
  return bad_request("behind a key only name=, rpm=, tpm= and expires= may stand");  // it may be half a key: not shown
}

// "6m0s", "250ms": as OpenAI writes durations.
std::string duration(double seconds) {
  const auto ms = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds) * 1000));
  if (ms < 1000) return fmt::format("{}ms", ms);
  const std::int64_t whole = (ms + 999) / 1000;
  return whole < 60 ? fmt::format("{}s", whole) : fmt::format("{}m{}s", whole / 60, whole % 60);
}

void tell_bucket(const RateBucket& bucket, std::string_view what, net::Headers& headers, double now) {
  if (!bucket.limited()) return;
  const auto left = static_cast<std::int64_t>(std::floor(std::max(0.0, bucket.left(now))));
  headers.set(fmt::format("x-ratelimit-limit-{}", what), std::to_string(bucket.limit()));
  headers.set(fmt::format("x-ratelimit-remaining-{}", what), std::to_string(left));
  headers.set(fmt::format("x-ratelimit-reset-{}", what),
              duration(bucket.seconds_until(static_cast<double>(bucket.limit()), now)));
}

Error over_limit(std::string_view what, std::int64_t limit, double seconds) {
  return {Error::Kind::busy,
          fmt::format("this key may use {} {} a minute, and they are used up; try again in {}", limit, what,
                      duration(seconds)),
          {},
          "rate_limit_exceeded"};
}

}  // namespace

std::optional<std::int64_t> parse_utc_time(std::string_view text) {
  const bool day_only = text.size() == 10;
  if (!day_only && (text.size() != 20 || text[10] != 'T' || text[13] != ':' || text[16] != ':' || text[19] != 'Z'))
    return std::nullopt;
  if (text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto part = [&](std::size_t at, std::size_t size) {
    const std::string_view digits = text.substr(at, size);
    const bool plain = digits.find_first_not_of("0123456789") == std::string_view::npos;
    return plain ? static_cast<int>(*whole_number(digits)) : -1;
  };
  const int year = part(0, 4), month = part(5, 2), day = part(8, 2);
  const int hour = day_only ? 0 : part(11, 2), minute = day_only ? 0 : part(14, 2), second = day_only ? 0 : part(17, 2);
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 59)
    return std::nullopt;
  std::tm parts{};
  parts.tm_year = year - 1900, parts.tm_mon = month - 1, parts.tm_mday = day;
  parts.tm_hour = hour, parts.tm_min = minute, parts.tm_sec = second;
  const std::int64_t seconds = ::timegm(&parts);
  return parts.tm_mday == day ? std::optional(seconds) : std::nullopt;  // the 31st of a short month is no day
}

Result<KeyTerms> parse_key_terms(std::string_view words) {
  KeyTerms terms;
  for (std::size_t at = 0;;) {
    at = words.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) return terms;
    const std::size_t end = std::min(words.find_first_of(" \t\r", at), words.size());
    ESP_CHECK(read_word(terms, words.substr(at, end - at)));
    at = end;
  }
}

// ---- a bucket -----------------------------------------------------------------------------------------------------

void RateBucket::set_limit(std::int64_t a_minute, double now) {
  used_ = limited() ? static_cast<double>(limit_) - left(now) : 0;
  at_ = now;
  limit_ = a_minute;
}

double RateBucket::left(double now) const {
  const double limit = static_cast<double>(limit_);
  return limit - std::max(0.0, used_ - std::max(0.0, now - at_) * limit / kMinute);
}

void RateBucket::take(double amount, double now) {
  if (!limited()) return;
  used_ = static_cast<double>(limit_) - left(now) + amount;
  at_ = now;
}

void RateBucket::give_back(double amount, double now) {
  if (!limited()) return;
  used_ = std::max(0.0, static_cast<double>(limit_) - left(now) - amount);
  at_ = now;
}

double RateBucket::seconds_until(double amount, double now) const {
  return limited() ? std::max(0.0, amount - left(now)) * kMinute / static_cast<double>(limit_) : 0;
}

// ---- an account ---------------------------------------------------------------------------------------------------

void KeyAccount::set_terms(KeyTerms terms, double now) {
  const std::scoped_lock lock(mutex_);
  requests_.set_limit(terms.requests_a_minute, now);
  tokens_.set_limit(terms.tokens_a_minute, now);
  refused_until_ = 0;
  terms_ = std::move(terms);
}

KeyTerms KeyAccount::terms() const {
  const std::scoped_lock lock(mutex_);
  return terms_;
}

bool KeyAccount::expired(std::int64_t seconds_since_1970) const {
  const std::scoped_lock lock(mutex_);
  return terms_.expires && seconds_since_1970 >= *terms_.expires;
}

bool KeyAccount::limited() const {
  const std::scoped_lock lock(mutex_);
  return requests_.limited() || tokens_.limited();
}

Result<> KeyAccount::take_request(double now) {
  const std::scoped_lock lock(mutex_);
  if (requests_.limited() && requests_.left(now) < 1)
    return over_limit("requests", requests_.limit(), requests_.seconds_until(1, now));
  if (tokens_.limited() && tokens_.left(now) < 1)  // before a byte of the body is read
    return over_limit("tokens", tokens_.limit(), tokens_.seconds_until(1, now));
  requests_.take(1, now);
  return success();
}

Result<> KeyAccount::take_prompt(std::int64_t tokens, double now) {
  const std::scoped_lock lock(mutex_);
  if (!tokens_.limited()) return success();
  const auto wanted = static_cast<double>(std::min(tokens, tokens_.limit()));
  if (tokens_.left(now) < wanted) {
    const double wait = tokens_.seconds_until(wanted, now);
    refused_until_ = now + wait;
    return over_limit("tokens", tokens_.limit(), wait);
  }
  refused_until_ = 0;
  tokens_.take(static_cast<double>(tokens), now);
  return success();
}

void KeyAccount::give_back_prompt(std::int64_t tokens, double now) {
  const std::scoped_lock lock(mutex_);
  tokens_.give_back(static_cast<double>(tokens), now);
}

void KeyAccount::take_output(std::int64_t tokens, double now) {
  const std::scoped_lock lock(mutex_);
  tokens_.take(static_cast<double>(tokens), now);
}

void KeyAccount::tell(int status, net::Headers& headers, double now) const {
  const std::scoped_lock lock(mutex_);
  tell_bucket(requests_, "requests", headers, now);
  tell_bucket(tokens_, "tokens", headers, now);
  if (status != 429) return;
  const double wait = std::max({requests_.seconds_until(1, now), tokens_.seconds_until(1, now), refused_until_ - now});
  if (wait > 0) headers.set("Retry-After", std::to_string(static_cast<std::int64_t>(std::ceil(wait))));
}

}  // namespace espalier::server
