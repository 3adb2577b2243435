// The methods of select(): the library's for Python, and Python's for the library.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "held_method.h"
#include "python_json.h"
#include "values.h"

namespace espalier::python {
namespace {

nb::list entries_of(const std::vector<TokenScore>& tokens) {
  nb::list list;
  for (const TokenScore& token : tokens) list.append(nb::make_tuple(token.logprob, token.id, text_of(token.text)));
  return list;
}

double mean_of(const std::vector<TokenScore>& tokens) {
  double sum = 0;
  for (const TokenScore& token : tokens) sum += token.logprob;
  return tokens.empty() ? 0 : sum / static_cast<double>(tokens.size());
}

// Null, which servers send for a token that nothing stands before, is 0.
std::vector<TokenScore> tokens_of(nb::handle entries) {
  std::vector<TokenScore> tokens;
  for (const nb::handle entry : nb::iter(entries)) {
    TokenScore token;
    if (!entry[0].is_none()) token.logprob = nb::cast<double>(entry[0]);
    token.id = nb::cast<TokenId>(entry[1]);
    if (!entry[2].is_none()) token.text = nb::cast<std::string>(entry[2]);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<ChoiceScore> scores_of(const std::vector<std::string>& choices, nb::list tokens, nb::object alone) {
  if (tokens.size() != choices.size()) throw nb::value_error("there must be one list of tokens for each choice");
  std::vector<ChoiceScore> scores(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    scores[i].text = choices[i];
    scores[i].tokens = tokens_of(tokens[i]);
    if (!alone.is_none()) scores[i].unconditional = tokens_of(alone[i]);
  }
  return scores;
}

nb::tuple decide(PythonMethod& method, const std::vector<std::string>& choices, nb::list tokens, nb::object alone) {
  const auto scores = scores_of(choices, std::move(tokens), std::move(alone));
  const ChoiceDecision decision = value_of((*method)->decide(scores));
  return nb::make_tuple(text_of(choices[decision.choice]), python_of(decision.meta));
}

// A method that is a Python object.
class PythonChoices final : public ChoicesMethod {
 public:
  PythonChoices(nb::object method, bool unconditional) : kept_(std::move(method)), unconditional_(unconditional) {}
  std::string_view name() const override { return "a method of the program's own"; }
  bool needs_unconditional() const override { return unconditional_; }
  Result<ChoiceDecision> decide(const std::vector<ChoiceScore>& choices) const override {
    if (running_functions().closed()) return Error{Error::Kind::cancelled, "the program ends", {}, {}};
    const nb::gil_scoped_acquire gil;
    try {
      return read(choices, call(choices));
    } catch (const std::exception& failure) {  // what Python raised, or what it gave is no decision
      return bad_request(std::string("choices_method failed: ") + failure.what(), "choices_method");
    }
  }

 private:
  nb::object call(const std::vector<ChoiceScore>& choices) const {
    nb::list texts, means, tokens, outputs, alone;
    for (const ChoiceScore& choice : choices) {
      texts.append(text_of(choice.text));
      means.append(mean_of(choice.tokens));
      tokens.append(entries_of(choice.tokens));
      outputs.append(nb::list());
      alone.append(entries_of(choice.unconditional));
    }
    return kept_.get()(nb::arg("choices") = texts, nb::arg("normalized_prompt_logprobs") = means,
                       nb::arg("input_token_logprobs") = tokens, nb::arg("output_token_logprobs") = outputs,
                       nb::arg("unconditional_token_logprobs") = unconditional_ ? nb::object(alone) : nb::none());
  }

  // ChoicesDecision, or a tuple of the same two.
  static ChoiceDecision read(const std::vector<ChoiceScore>& choices, const nb::object& told) {
    const bool pair = nb::isinstance<nb::tuple>(told);
    const nb::object decision = pair ? nb::object(told[0]) : nb::object(told.attr("decision"));
    const nb::object meta = pair ? nb::object(told[1]) : nb::getattr(told, "meta_info", nb::none());
    ChoiceDecision made;
    if (!meta.is_none()) made.meta = Json::parse(nb::cast<std::string>(json_text()(meta)));
    if (nb::isinstance<nb::int_>(decision)) {
      made.choice = nb::cast<std::size_t>(decision);
      if (made.choice < choices.size()) return made;
    }
    const std::string text = string_of(nb::str(decision));
    for (made.choice = 0; made.choice < choices.size(); ++made.choice)
      if (choices[made.choice].text == text) return made;
    throw nb::value_error(("it chose " + text + ", which is none of the choices").c_str());
  }

  static nb::object json_text() { return nb::module_::import_("espalier.lang.choices").attr("meta_text"); }

  KeptObject kept_;
  bool unconditional_;
};

std::unique_ptr<PythonMethod> held(std::shared_ptr<const ChoicesMethod> method) {
  return std::make_unique<PythonMethod>(std::move(method));
}

std::unique_ptr<PythonMethod> method_of(nb::object method) {
  const bool unconditional = nb::cast<bool>(nb::getattr(method, "requires_unconditional_logprobs", nb::bool_(false)));
  return held(std::make_shared<PythonChoices>(std::move(method), unconditional));
}

}  // namespace

void bind_choices(nb::module_& m) {
  nb::class_<PythonMethod>(m, "ChoicesMethod")
      .def_prop_ro("name", [](PythonMethod& self) { return std::string((*self)->name()); })
      .def_prop_ro("needs_unconditional", [](PythonMethod& self) { return (*self)->needs_unconditional(); })
      .def("decide", &decide, nb::arg("choices"), nb::arg("tokens"), nb::arg("unconditional").none());
  m.def("token_length_normalized", [] { return held(token_length_normalized()); });
  m.def("greedy_token_selection", [] { return held(greedy_token_selection()); });
  m.def("unconditional_likelihood_normalized", [] { return held(unconditional_likelihood_normalized()); });
  m.def("choices_method_named", [](const std::string& name) { return held(value_of(choices_method_named(name))); });
  m.def("choices_method_of", &method_of);
}

}  // namespace espalier::python
