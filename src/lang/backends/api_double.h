// api_double.h: for tests: a server that answers as it is told and checks every request against the schema of a public
// interface; and a program's end of a call.
//
// A schema is written in a part of JSON Schema: type, properties (no others are allowed), required, items, enum, anyOf,
// minimum, maximum. A request that does not fit it, or goes to a path that is not the interface's, is a complaint.
// Threads: the handler runs on many; set the double up before the first request.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "espalier/backends.h"
#include "espalier/compiler.h"
#include "testing/http_double.h"

namespace espalier::lang {

using testing::HttpDouble;
using testing::HttpDoubleReply;
using testing::HttpDoubleRequest;

inline bool has_type(const Json& value, std::string_view type) {
  if (type == "number") return value.is_number();
  return type_name(value) == type;
}

// Why `value` does not fit; empty: it does.
inline std::string misfit(const Json& value, const Json& schema, const std::string& place = "body") {
  if (const Json* any = find_field(schema, "anyOf")) {
    std::string why;
    for (const Json& one : *any) {
      const std::string misfit_here = misfit(value, one, place);
      if (misfit_here.empty()) return {};
      why += misfit_here + "; ";
    }
    return why;
  }
  if (const Json* type = find_field(schema, "type"); type && !has_type(value, type->get<std::string>()))
    return place + " is " + std::string(type_name(value)) + ", not " + type->get<std::string>();
  if (const Json* known = find_field(schema, "enum");
      known && std::find(known->begin(), known->end(), value) == known->end())
    return place + " is " + value.dump();
  if (const Json* low = find_field(schema, "minimum"); low && value < *low) return place + " is too small";
  if (const Json* high = find_field(schema, "maximum"); high && value > *high) return place + " is too large";
  if (const Json* required = find_field(schema, "required"))
    for (const Json& name : *required)
      if (!value.contains(name.get<std::string>())) return place + " has no " + name.get<std::string>();
  if (const Json* items = find_field(schema, "items"))
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto why = misfit(value[i], *items, place + "[" + std::to_string(i) + "]"); !why.empty()) return why;
  if (const Json* properties = find_field(schema, "properties"))
    for (const auto& [name, inner] : value.get_ref<const Json::object_t&>()) {
      const Json* wanted = find_field(*properties, name);
      if (!wanted) return place + "." + name + " is no field of the interface";
      if (auto why = misfit(inner, *wanted, place + "." + name); !why.empty()) return why;
    }
  return {};
}

// A fake server: checks requests against schemas and answers with what the test queued.
class ApiDouble {
 public:
  struct Route {
    std::string method, target;  // as they come
    Json schema;                 // of the body; null: there is none
  };
  using Answer = std::function<HttpDoubleReply(const HttpDoubleRequest&)>;

  explicit ApiDouble(std::vector<Route> routes)
      : routes_(std::move(routes)), server_([this](const auto& request) { return serve(request); }) {}
  ~ApiDouble() { EXPECT_EQ(complaints(), std::vector<std::string>()); }

  // The next answer; the last one is given again and again.
  void next(HttpDoubleReply reply) {
    next([reply](const auto&) { return reply; });
  }
  void next(Answer answer) {
    const std::scoped_lock lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  // From now on this one.
  void only(HttpDoubleReply reply) {
    {
      const std::scoped_lock lock(mutex_);
      answers_.clear();
    }
    next(std::move(reply));
  }
  void always(std::string target, HttpDoubleReply reply) { fixed_[std::move(target)] = std::move(reply); }
  void want_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }

  static HttpDoubleReply json(const Json& body, int status = 200) {
    HttpDoubleReply reply;
    reply.status = status;
    reply.headers = {{"Content-Type", "application/json"}};
    reply.body = body.dump();
    return reply;
  }
  // `named`: with event lines, as Anthropic writes them.
  static HttpDoubleReply events(const std::vector<std::string>& data, bool named = false) {
    HttpDoubleReply reply;
    reply.headers = {{"Content-Type", "text/event-stream; charset=utf-8"}};
    for (const std::string& one : data)
      reply.body +=
          (named ? "event: " + Json::parse(one)["type"].get<std::string>() + "\n" : "") + "data: " + one + "\n\n";
    return reply;
  }

  std::string url(const std::string& path = "") const { return server_.url(path); }
  std::vector<HttpDoubleRequest> requests() const { return server_.requests(); }
  Json body(std::size_t i) const { return Json::parse(server_.requests().at(i).body); }
  Json last_body() const { return body(server_.requests().size() - 1); }
  int connections() const { return server_.connections(); }
  std::vector<std::string> complaints() const {
    const std::scoped_lock lock(mutex_);
    return complaints_;
  }

 private:
  HttpDoubleReply serve(const HttpDoubleRequest& request) {
    Answer answer;
    {
      const std::scoped_lock lock(mutex_);
      check(request);
      if (const auto fixed = fixed_.find(request.target); fixed != fixed_.end()) return fixed->second;
      if (answers_.empty()) return json({{"error", {{"message", "no answer is set"}}}}, 400);
      answer = answers_.front();
      if (answers_.size() > 1) answers_.pop_front();
    }
    return answer(request);
  }
  void check(const HttpDoubleRequest& request) {
    const auto complain = [&](const std::string& why) {
      complaints_.push_back(request.method + " " + request.target + ": " + why);
    };
    for (const auto& [name, value] : headers_)
      if (request.header(name) != value) complain(name + " is '" + request.header(name) + "'");
    for (const Route& route : routes_) {
      if (route.method != request.method || route.target != request.target) continue;
      if (route.schema.is_null()) return request.body.empty() ? void() : complain("has a body");
      const auto body = parse_json(request.body);
      if (!body.ok()) return complain(body.error().message);
      if (request.header("content-type") != "application/json") complain("content type");
      const std::string why = misfit(*body, route.schema);
      return why.empty() ? void() : complain(why);
    }
    complain("is no route of the interface");
  }

  const std::vector<Route> routes_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::map<std::string, HttpDoubleReply> fixed_;
  mutable std::mutex mutex_;
  std::deque<Answer> answers_;
  std::vector<std::string> complaints_;
  HttpDouble server_;  // last: its threads use the others
};

// One call, waited for.
template <class Output>
class Waited {
 public:
  void end(Result<Output> result) {
    const std::scoped_lock lock(mutex_);
    EXPECT_FALSE(result_) << "a call ended twice";
    result_.emplace(std::move(result));
    changed_.notify_all();
  }
  void add(Piece piece) {
    const std::scoped_lock lock(mutex_);
    EXPECT_FALSE(result_) << "a piece behind the end";
    pieces.push_back(std::move(piece));
    changed_.notify_all();
  }
  Result<Output> wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(50), [&] { return result_.has_value(); }))
      return Error{Error::Kind::timeout, "the test has waited long enough", {}, {}};
    return *result_;
  }
  bool wait_for_pieces(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(50), [&] { return pieces.size() >= count; });
  }
  bool ended() const {
    const std::scoped_lock lock(mutex_);
    return result_.has_value();
  }
  std::vector<Piece> pieces;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Output>> result_;
};

inline GenSink sink_to(const std::shared_ptr<Waited<GenOutput>>& waited) {
  return {[waited](Piece piece) { waited->add(std::move(piece)); },
          [waited](Result<GenOutput> result) { waited->end(std::move(result)); }};
}

inline Result<GenOutput> generate(Backend& backend, const Document& document, GenCall call,
                                  std::vector<Piece>* pieces = nullptr) {
  auto context = backend.context();
  auto waited = std::make_shared<Waited<GenOutput>>();
  call.stream = pieces != nullptr;
  const auto under_way = context->generate(document, std::move(call), sink_to(waited));
  auto result = waited->wait();
  if (pieces) *pieces = waited->pieces;
  return result;
}

inline Result<SelectOutput> select(Backend& backend, const Document& document, SelectCall call) {
  auto context = backend.context();
  auto waited = std::make_shared<Waited<SelectOutput>>();
  const auto under_way = context->select(document, std::move(call),
                                         [waited](Result<SelectOutput> result) { waited->end(std::move(result)); });
  return waited->wait();
}

inline Result<std::vector<GenOutput>> chain(Backend& backend, const Document& document, ChainCall call) {
  auto context = backend.context();
  auto waited = std::make_shared<Waited<std::vector<GenOutput>>>();
  const auto under_way = context->chain(
      document, std::move(call), [waited](Result<std::vector<GenOutput>> result) { waited->end(std::move(result)); });
  return waited->wait();
}

// A compiled run of a program whose branches begin with the same generation, here or in a turn of the assistant's:
// three samples under "a".
inline State three_samples(const std::shared_ptr<Backend>& backend) {
  const Function f("f", {}, [chat = backend->traits().chat](State& s, const Arguments&) {
    s += chat ? user("Say hi.") : Expr("Say hi:");
    auto forks = s.fork(3);
    forks += chat ? assistant(gen("a", {.max_tokens = 16})) : gen("a", {.max_tokens = 16});
    forks.join();
  });
  auto program = compile(f, {.backend = backend, .defaults = {.temperature = 0.8}});
  EXPECT_TRUE(program.ok()) << program.error().message;
  State s = program->run();
  s.sync();
  return s;
}

inline std::vector<std::string> texts_of(State& s, std::string_view variable) {
  const Value::List list = s[std::string(variable)].list();
  std::vector<std::string> texts;
  for (const Value& one : list) texts.push_back(one.text());
  return texts;
}

inline std::string joined(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

// "Say hi." to the opening of the assistant's turn, behind a system turn.
inline Document chat_document() {
  Document document;
  document.messages = {{"system", "Be brief.", {}}, {"user", "Say hi.", {}}};
  document.text = "SYSTEM:Be brief.\nUSER:Say hi.\nASSISTANT:";
  document.open_role = "assistant";
  document.open_begin = document.text.size();
  return document;
}

inline Document text_document(std::string text) {
  Document document;
  document.text = std::move(text);
  return document;
}

inline std::shared_ptr<const Picture> small_picture() {
  return std::make_shared<Picture>(Picture{Picture::Kind::image, "\x89PNG\r\n\x1a\nbytes", "image/png", 0});
}
inline constexpr char kSmallPictureBase64[] = "iVBORw0KGgpieXRlcw==";

inline GenCall short_call() {
  GenCall call;
  call.sampling.max_new_tokens = 16;
  return call;
}

// Short pauses, so that tests need not wait.
inline ConnectionOptions quick_connection() {
  ConnectionOptions connection;
  connection.retry = {3, std::chrono::milliseconds(5), std::chrono::milliseconds(2000)};
  connection.timeout = std::chrono::milliseconds(30'000);
  return connection;
}

}  // namespace espalier::lang
