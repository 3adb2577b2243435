#include "server/answer/chat_turn.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/answer/answer_plan.h"
#include "server/answer/call_constraint.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

// A template that knows no tools leaves them out: the answer says so, for it looks like one that was given them.
void note_dropped_tools(const Call& call, const ChatPrompt& prompt, net::Headers& headers) {
  if (prompt.tools.shown.is_null()) return;
  const auto chat_template = call.model->need_template("messages");
  if (!chat_template.ok() || (*chat_template)->mentions("tools")) return;
  headers.set("warning", "199 espalier \"the model's chat template knows no tools: they were left out\"");
  if (!call.service.told_tools.exchange(true)) {
    log::warning("the chat template of {} knows no tools: those of requests are left out; this is said once",
                 call.model->name());
  }
}

// In which format an answer calls tools, and whether all of it has a form.
struct CallForms {
  const CallFormat* format = nullptr;
  bool whole = false;
  bool constrained = false;  // the constraint is on the calls
};

// Text around calls may have what the model's formats read.
void let_free_text_have_marks(const ServedModel& model, Constraint& constraint) {
  AnswerOptions reading;
  reading.calls = model.call_format;
  reading.thinking = model.thinking_format;
  if (const auto marks = marks_that_are_special(reading, model)) constraint.special_in_free_text = *marks;
}

// Adds the constraint that calls need to the body's own.
Result<CallForms> call_forms(const ServedModel& model, const ToolFields& tools, ConstraintFields& constraint) {
  const bool asked = constraint.constraint.kind != Constraint::Kind::none;
  if (!tools.offers()) return CallForms{nullptr, asked, false};
  if (tools.choice == ToolFields::Choice::required) {
    if (asked)
      return bad_request(fmt::format("tool_choice forces a call, which does not go with {}", constraint.place),
                         "tool_choice");
    CallConstraint calls = required_calls(tools, model.call_format);
    constraint.constraint = std::move(calls.constraint);
    constraint.place = "tools";
    return CallForms{calls.format, true, true};
  }
  auto calls = asked ? std::nullopt : free_calls(tools, model.call_format);
  if (calls) {
    constraint.constraint = std::move(calls->constraint);
    constraint.place = "tools";
    let_free_text_have_marks(model, constraint.constraint);
  }
  return CallForms{model.call_format, asked, calls.has_value()};
}

// How long the model may think: what the body says, else its effort where the template reads none, else the server.
std::optional<int> budget_of(const Call& call, const ThinkingFields& asked) {
  if (asked.budget) return asked.budget;
  const auto chat_template = call.model->need_template("messages");
  const bool reads_effort = chat_template.ok() && (*chat_template)->mentions("reasoning_effort");
  if (!asked.effort.empty() && (!reads_effort || asked.effort == "none")) return budget_of_effort(asked.effort);
  const int most = call.service.options.max_reasoning_tokens;
  return most >= 0 && asked.effort.empty() ? std::optional(most) : std::nullopt;
}

// What may open a call ends the thinking, and the constraint on calls reads it. Of channels that is a header.
void let_calls_end(const Tokenizer& tokenizer, const CallFormat& calls, bool channels, Thinking& thinking) {
  const auto ids = [&](std::string_view text) {
    auto encoded = tokenizer.encode(text, {.add_special = false});
    return encoded.ok() ? std::move(encoded).value() : std::vector<TokenId>();
  };
  if (channels) {
    thinking = {.begins = {"<|channel|>analysis<|message|>"}, .ends = {"<|start|>assistant"}};
    thinking.begin = ids(thinking.begins.front());
    thinking.close = ids("<|end|><|start|>assistant");
    return;
  }
  const std::vector<TokenId> opening = ids(calls.wire.begin);
  const auto is_first = [&](const std::string& mark) {
    return !opening.empty() && mark == tokenizer.token_bytes(opening.front());
  };
  if (std::erase_if(thinking.leaves, is_first) > 0) thinking.opens = {opening.front()};
}

// The header of a channel stands before the thinking: it is no part of the budget. Without any, the answer's comes first.
void leave_header(const Tokenizer& tokenizer, Thinking& thinking) {
  constexpr int kHeader = 3;
  if (!thinking.begins.empty()) return;  // it is their last mark
  if (*thinking.budget > 0) {
    *thinking.budget += kHeader;
  } else if (auto last = tokenizer.encode(thinking.ends.front(), {.add_special = false}); last.ok()) {
    thinking.close = std::move(last).value();
  }
}

void limit_thinking(const Call& call, const ThinkingFields& asked, Thinking& thinking) {
  thinking.budget = budget_of(call, asked);
  if (thinking.close.empty()) thinking.budget.reset();
  if (thinking.budget && call.model->thinking_format->harmony) leave_header(*call.model->tokenizer(), thinking);
}

}  // namespace

Result<ChatReading> begin_chat_turn(const Call& call, ChatTurn& turn, ConstraintFields& constraint,
                                    RequestFields& fields) {
  const ToolFields& tools = turn.prompt.tools;
  ChatReading reading;
  ESP_TRY(const CallForms forms, call_forms(*call.model, tools, constraint));
  ESP_CHECK(constrain(call, constraint, fields));
  const bool thinks = call.model->thinking_format != nullptr;
  AnswerBefore before;
  ChatTokens tokens;
  if (turn.has_ids) {
    fields.prompt = std::move(turn.input_ids);
    before.prompt = fields.prompt;
  } else {
    ESP_TRY(tokens, encode_chat_turn(call, turn.prompt, thinks, turn.known));
    fields.prompt = std::move(tokens.ids);
    fields.pictures = std::move(tokens.pictures);
    before.opening = tokens.opening;
    note_dropped_tools(call, turn.prompt, reading.headers);
  }
  AnswerPlan plan = plan_answer(call, before, forms.whole, forms.format, &tools);
  if (plan.thinking) {
    if (forms.constrained)
      let_calls_end(*call.model->tokenizer(), *forms.format, call.model->thinking_format->harmony, *plan.thinking);
    limit_thinking(call, turn.prompt.thinking, *plan.thinking);
    if (fields.grammar ? plan.leaves_thinking : plan.thinking->budget.has_value())
      fields.thinking = std::move(plan.thinking);
  }
  fields.shown_special = plan.shown_special;
  if (!turn.separate_thinking && plan.reading.thinking != nullptr && !plan.reading.thinking->harmony)
    plan.reading.thinking = nullptr;
  reading.options = std::move(plan.reading);
  reading.only_calls = tools.offers() && tools.choice == ToolFields::Choice::required;
  reading.thinks = turn.separate_thinking && thinks;
  return reading;
}

}  // namespace espalier::server
