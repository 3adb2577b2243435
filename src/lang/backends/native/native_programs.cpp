#include "lang/backends/native/native_programs.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/error_kind.h"
#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/reply_reader.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/execute/waiting.h"

namespace espalier::lang::native {
namespace {

constexpr std::string_view kServer = "native";

Error read_error(const Json& told) {
  return {kind_named(text_or_empty(told, "kind")).value_or(Error::Kind::network), text_or_empty(told, "message"),
          text_or_empty(told, "field"), text_or_empty(told, "code")};
}

Value read_value(const Json& told) {
  if (is_numbers(told)) return Value::of_numbers(told);
  if (!told.is_array()) return Value(told.is_string() ? told.get<std::string>() : told.dump());
  Value::List list;
  for (const Json& one : told) list.push_back(read_value(one));
  return Value(std::move(list));
}

class Runs final : public ServedRuns, public std::enable_shared_from_this<Runs> {
 public:
  Runs(std::shared_ptr<RequestQueue> queue, std::size_t runs) : queue_(std::move(queue)), runs_(runs) {}

  void send(const Json& body) {
    Outgoing outgoing;
    outgoing.request = queue_->request("/v1/programs", wire_text(body));
    outgoing.request.idle_timeout = queue_->endpoint().connection.timeout;  // it pings; all runs may take longer
    outgoing.request.total_timeout = std::chrono::milliseconds(0);
    outgoing.request.stop = stop_.get_token();
    outgoing.counted = false;  // the server tells how many calls it was
    outgoing.on_event = [self = shared_from_this()](std::string_view data) { return self->event(data); };
    outgoing.on_end = [self = shared_from_this()](Result<std::string> answer) { self->end(std::move(answer)); };
    queue_->send(std::move(outgoing));
  }

  Result<> accepted() override {
    std::unique_lock lock(mutex_);
    wait_for(changed_, lock, [&] { return accepted_ || over_.has_value(); });
    return accepted_ ? success() : Result<>(*over_);
  }

  std::unique_ptr<Call> attach(std::size_t run, std::function<void(Result<ServedResult>)> then) override;

  void close() override {
    {
      const std::lock_guard lock(mutex_);
      for (Run& one : runs_) one.left = one.left || !one.attached;
    }
    give_up_unwanted();
  }

 private:
  struct Run {
    std::function<void(Result<ServedResult>)> then;
    std::optional<Result<ServedResult>> result;
    bool attached = false, left = false;  // left: nobody wants it
  };
  class Attached;

  Result<> event(std::string_view data) {
    if (data == "[DONE]") return success();
    ESP_TRY(const Json told, read_reply_json(kServer, data));
    if (const Json* error = find_field(told, "error"); error != nullptr && find_field(told, "type") == nullptr)
      return Error{Error::Kind::network, text_or_empty(*error, "message"), {}, text_or_empty(*error, "code")};
    const std::string type = text_or_empty(told, "type");
    if (type == "program") accept();
    if (type == "end") count(told);
    if (type != "run_end") return success();
    const std::int64_t run = integer_or_zero(told, "run");
    if (run < 0 || static_cast<std::size_t>(run) >= runs_.size())
      return bad_reply(kServer, "the end of a run that is none");
    tell(static_cast<std::size_t>(run), read_run_end(told));
    return success();
  }

  void accept() {
    const std::lock_guard lock(mutex_);
    accepted_ = true;
    changed_.notify_all();
  }

  void count(const Json& told) {
    const Json* usage = find_field(told, "usage");
    if (usage == nullptr) return;
    BackendUsage more;
    more.calls = integer_or_zero(*usage, "calls");
    more.prompt_tokens = integer_or_zero(*usage, "prompt_tokens");
    more.completion_tokens = integer_or_zero(*usage, "completion_tokens");
    queue_->counters().add(more);
  }

  void tell(std::size_t run, Result<ServedResult> result) {
    std::function<void(Result<ServedResult>)> then;
    {
      const std::lock_guard lock(mutex_);
      Run& one = runs_[run];
      if (one.result || one.left) return;
      then = std::move(one.then);
      one.result = then ? Result<ServedResult>(ServedResult()) : result;
    }
    if (then) then(std::move(result));
  }

  void end(Result<std::string> answer) {
    const Error why = answer.ok() ? cut_off(kServer) : answer.error();
    {
      const std::lock_guard lock(mutex_);
      over_ = why;
      changed_.notify_all();
    }
    for (std::size_t run = 0; run < runs_.size(); ++run) tell(run, why);
  }

  // Its call was dropped. Nobody listens behind that.
  void leave(std::size_t run) {
    std::function<void(Result<ServedResult>)> unwanted;  // ends without the lock
    {
      const std::lock_guard lock(mutex_);
      runs_[run].left = true;
      unwanted = std::move(runs_[run].then);
    }
    give_up_unwanted();
  }

  void give_up_unwanted() {
    {
      const std::lock_guard lock(mutex_);
      if (over_ || std::ranges::any_of(runs_, [](const Run& one) { return !one.left && !one.result; })) return;
      // When all have ended the last event is still to come.
      if (std::ranges::all_of(runs_, [](const Run& one) { return one.result.has_value(); })) return;
    }
    stop_.request_stop();
    queue_->forget();
  }

  const std::shared_ptr<RequestQueue> queue_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Run> runs_;
  bool accepted_ = false;
  std::optional<Error> over_;
};

class Runs::Attached final : public Call {
 public:
  Attached(std::shared_ptr<Runs> runs, std::size_t number) : runs_(std::move(runs)), number_(number) {}
  ~Attached() override { runs_->leave(number_); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  std::shared_ptr<Runs> runs_;
  std::size_t number_;
};

std::unique_ptr<Call> Runs::attach(std::size_t run, std::function<void(Result<ServedResult>)> then) {
  auto attached = std::make_unique<Attached>(shared_from_this(), run);
  const std::lock_guard lock(mutex_);
  runs_[run].attached = true;
  if (runs_[run].result)  // it ended before it was asked for
    queue_->driver().post([then = std::move(then), result = *runs_[run].result] { then(result); });
  else
    runs_[run].then = std::move(then);
  return attached;
}

class NativePrograms final : public ProgramServer {
 public:
  explicit NativePrograms(std::shared_ptr<RequestQueue> queue) : queue_(std::move(queue)) {}

  std::shared_ptr<ServedRuns> begin(Json body, std::size_t runs) override {
    body["stream"] = true;
    body["nodes"] = false;
    auto begun = std::make_shared<Runs>(queue_, runs);
    begun->send(body);
    return begun;
  }

 private:
  const std::shared_ptr<RequestQueue> queue_;
};

}  // namespace

std::shared_ptr<ProgramServer> program_server(std::shared_ptr<RequestQueue> queue) {
  return std::make_shared<NativePrograms>(std::move(queue));
}

Result<ServedResult> read_run_end(const Json& event) {
  ServedResult result;
  const Json* variables = find_field(event, "variables");
  const Json* messages = find_field(event, "messages");
  const Json* meta = find_field(event, "meta");
  if (variables == nullptr || !variables->is_object() || messages == nullptr || !messages->is_array())
    return bad_reply(kServer, "the end of a run without variables and messages");
  for (const auto& [name, value] : variables->get_ref<const Json::object_t&>()) {
    const Json* told = meta != nullptr && meta->is_object() ? find_field(*meta, name) : nullptr;
    result.variables.emplace(name, ServedResult::Variable{read_value(value), told != nullptr ? *told : Json()});
  }
  if (const Json* errors = find_field(event, "errors"); errors != nullptr && errors->is_object())
    for (const auto& [name, error] : errors->get_ref<const Json::object_t&>())
      result.variables.insert_or_assign(name, ServedResult::Variable{read_error(error), Json()});
  result.text = text_or_empty(event, "text");
  for (const Json& one : *messages)
    result.messages.push_back({text_or_empty(one, "role"), text_or_empty(one, "content"), {}});
  if (const Json* error = find_field(event, "error"); error != nullptr && error->is_object())
    result.error = read_error(*error);
  return result;
}

}  // namespace espalier::lang::native
