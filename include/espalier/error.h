// error.h: the one error type, and Result<T>, a value or an Error.
//
// An Error is a kind, a sentence that says what would work, and the field at fault. The kind alone decides the HTTP
// status, the exit code and the Python exception; nothing in the library prints or exits.
// Threads: values, copy them freely. Fails: reading the value of a failed Result is a bug and throws std::logic_error.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace espalier {

// Why something was refused or failed: kind, sentence, field and code.
struct Error {
  enum class Kind {
    bad_request,    // 400, exit 2: the caller's value is wrong
    unauthorized,   // 401
    forbidden,      // 403
    not_found,      // 404, exit 3: no such model, route or file
    timeout,        // 408
    too_large,      // 413: more than a stated limit
    unsupported,    // 422, exit 2: valid, but not something this build can honour
    busy,           // 429: a bounded queue is full; trying later works
    cancelled,      // 499: the caller went away
    internal,       // 500, exit 1: our bug
    unavailable,    // 503: loading or draining; trying later works
    bad_file,       // exit 3 (500 from a server): a checkpoint or other file is malformed
    out_of_memory,  // exit 4 (503 from a server): does not fit
    cannot_bind,    // exit 5
    network,        // exit 6 (502 from a server): an outgoing connection failed
  };

  Kind kind = Kind::internal;
  std::string message;  // "max_tokens is 9000, but the prompt leaves room for 512 of 4096"
  std::string field;    // "max_tokens"; empty when no field is at fault
  std::string code;     // OpenAI's machine-readable code, e.g. "context_length_exceeded"; empty = the kind's default

  int http_status() const;
  int exit_code() const;
};

inline Error bad_request(std::string message, std::string field = {}, std::string code = {}) {
  return {Error::Kind::bad_request, std::move(message), std::move(field), std::move(code)};
}
inline Error bad_file(std::string message, std::string field = {}) {
  return {Error::Kind::bad_file, std::move(message), std::move(field), {}};
}
inline Error internal_error(std::string message) {
  return {Error::Kind::internal, std::move(message), {}, {}};
}

struct Unit {};  // the value of a Result that only says whether it worked

// A value, or the Error that says why there is none.
template <class T = Unit>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }

 private:
  T& checked() {
    if (!ok()) throw std::logic_error("value of a failed Result: " + std::get<1>(state_).message);
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

inline Result<> success() {
  return Unit{};
}

}  // namespace espalier

// ESP_TRY(auto x, f());    x = value of f(), or return its Error from this function.
// ESP_CHECK(f());          the same when the value is not wanted.
#define ESP_CONCAT_(a, b) a##b
#define ESP_CONCAT(a, b) ESP_CONCAT_(a, b)
#define ESP_TRY_(tmp, declaration, expression)  \
  auto tmp = (expression);                      \
  if (!tmp.ok()) return std::move(tmp).error(); \
  declaration = std::move(tmp).value()
#define ESP_TRY(declaration, expression) ESP_TRY_(ESP_CONCAT(esp_try_, __LINE__), declaration, expression)
#define ESP_CHECK(expression)                                                                   \
  do {                                                                                          \
    if (auto esp_check_ = (expression); !esp_check_.ok()) return std::move(esp_check_).error(); \
  } while (false)
