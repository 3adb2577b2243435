// GET /v1/cache/tree: the prefix tree as it stands, for the page's view of it.
//
// The texts in it are other people's prompts: KeyRing::may_read_all() says who may see them. Everybody else who may ask
// gets its shape alone.
#include <fmt/format.h>

#include <algorithm>

#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/store/page_query.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

constexpr int kMostNodes = 5000, kMostTokensOfNode = 2048;
// A search looks at this much of the tree, the upper nodes first.
constexpr CacheOutlineLimits kSearched{.nodes = 20'000, .tokens_of_node = 1 << 15, .tokens = 1 << 20};
constexpr std::size_t kMostSearched = 200, kSnippet = 160;  // bytes

struct TreeQuery {
  CacheOutlineLimits limits;
  std::string search;
};

Result<TreeQuery> read_tree_query(const net::HttpRequest& http) {
  TreeQuery query;
  ESP_TRY(query.limits.nodes, read_query_integer(http, "limit", query.limits.nodes, 1, kMostNodes));
  ESP_TRY(query.limits.depth, read_query_integer(http, "depth", query.limits.depth, 1, query.limits.depth));
  ESP_TRY(query.limits.tokens_of_node,
          read_query_integer(http, "tokens", query.limits.tokens_of_node, 1, kMostTokensOfNode));
  if (const std::string* text = http.query_value("search")) query.search = *text;
  if (query.search.size() > kMostSearched)
    return bad_request(fmt::format("search has {} bytes, but may have {} at most", query.search.size(), kMostSearched),
                       "search");
  return query;
}

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// What the tokens say; a run of ids that stand for a picture is one sign.
std::string text_in_tree(const Tokenizer* tokenizer, std::span<const TokenId> tokens) {
  std::string text;
  bool picture = false;
  for (const TokenId token : tokens) {
    const bool known = tokenizer != nullptr && tokenizer->contains(token);
    if (known) text += tokenizer->is_special(token) ? tokenizer->token_text(token) : tokenizer->token_bytes(token);
    if (!known && !picture) text += tokenizer == nullptr ? "" : "▣";
    picture = !known;
  }
  return text;
}

// One answer: the outline, and what of it is told.
class TreeAnswer {
 public:
  // shown_tokens: of each node, of which there may be more; 0: its text is not shown.
  TreeAnswer(const ServedModel& model, CacheOutline outline, int shown_tokens)
      : model_(model), outline_(std::move(outline)), shown_tokens_(shown_tokens), told_(outline_.nodes.size(), true) {}

  // Leaves the nodes in which the text ends, and those before them. A match may begin in a node before.
  void keep_only(const std::string& searched, std::size_t most) {
    const std::string wanted = in_small_letters(searched);
    std::vector<std::string> tails(outline_.nodes.size());  // what a match may begin with
    snippets_.resize(outline_.nodes.size());
    told_.assign(outline_.nodes.size(), false);
    for (std::size_t i = 0; i < outline_.nodes.size(); ++i) {
      const int parent = outline_.nodes[i].parent;
      const std::string before = parent < 0 ? std::string() : tails[static_cast<std::size_t>(parent)];
      const std::string text = before + text_of(i, outline_.nodes[i].tokens);
      if (const auto at = in_small_letters(text).find(wanted); at != std::string::npos && found_ < most)
        found(i, text, at);
      tails[i] = text.substr(text.size() - std::min(text.size(), wanted.size() - 1));
    }
  }

  std::string write() const {
    std::string out;
    JsonWriter json(out);
    json.open('{').field("object", "cache.tree").field("model", model_.name()).field("texts", shown_tokens_ > 0);
    write_totals(json);
    if (!snippets_.empty()) json.field("found", found_);
    json.key("nodes").open('[');
    for (std::size_t i = 0; i < outline_.nodes.size(); ++i)
      if (told_[i]) write_node(json, i);
    json.close(']').close('}');
    return out;
  }

 private:
  std::string text_of(std::size_t i, int tokens) const {
    const CacheOutline::Node& node = outline_.nodes[i];
    const std::span<const TokenId> all = outline_.tokens;
    return text_in_tree(model_.tokenizer(), all.subspan(static_cast<std::size_t>(node.first_token),
                                                        static_cast<std::size_t>(std::min(tokens, node.tokens))));
  }

  void found(std::size_t i, const std::string& text, std::size_t at) {
    ++found_;
    const std::size_t begin = at - std::min(at, kSnippet / 4);
    snippets_[i] = text.substr(begin, kSnippet);
    for (int n = static_cast<int>(i); n >= 0 && !told_[static_cast<std::size_t>(n)];
         n = outline_.nodes[static_cast<std::size_t>(n)].parent)
      told_[static_cast<std::size_t>(n)] = true;
  }

  static std::string id_of(const CacheOutline::Node& node) { return fmt::format("{}.{}", node.index, node.generation); }

  void write_totals(JsonWriter& json) const {
    json.field("more", outline_.more).field("clock", outline_.clock);
    json.field("held_nodes", outline_.held_nodes).field("held_tokens", outline_.held_tokens);
    json.field("pinned_tokens", outline_.pinned_tokens).field("scopes", outline_.held_scopes);
    json.field("pool_tokens", model_.limits().pool_tokens);
    json.field("asked_tokens", outline_.asked_tokens).field("hit_tokens", outline_.hit_tokens);
    json.field("inserted_tokens", outline_.inserted_tokens).field("evicted_tokens", outline_.evicted_tokens);
  }

  // Of a search `text` begins where the node begins, as ever; `snippet` is what was found.
  void write_node(JsonWriter& json, std::size_t i) const {
    const CacheOutline::Node& node = outline_.nodes[i];
    json.open('{').field("id", id_of(node)).key("parent");
    if (node.parent < 0)
      json.null();
    else
      json.value(id_of(outline_.nodes[static_cast<std::size_t>(node.parent)]));
    json.field("scope", node.scope).field("begin", node.begin).field("end", node.end).field("hits", node.hits);
    json.field("last_use", node.last_use).field("pinned", node.pinned).field("leaf", node.leaf);
    json.field("more", node.more);
    if (shown_tokens_ > 0)
      json.field("text", text_of(i, shown_tokens_)).field("text_tokens", std::min(node.tokens, shown_tokens_));
    if (!snippets_.empty() && !snippets_[i].empty()) json.field("snippet", snippets_[i]);
    json.close('}');
  }

  const ServedModel& model_;
  const CacheOutline outline_;
  const int shown_tokens_;
  std::vector<bool> told_;             // by node
  std::vector<std::string> snippets_;  // by node; empty: nobody searched
  std::size_t found_ = 0;
};

// The query's model, or the default one, as it is: looking neither loads it nor counts as a use.
Result<std::shared_ptr<ServedModel>> looked_at(const Call& call) {
  const std::string* name = call.http.query_value("model");
  ESP_TRY(const int place, call.service.models.place_of(name != nullptr ? *name : std::string()));
  if (auto model = call.service.models.look(place)) return model;
  return Error{Error::Kind::unavailable, "this model is not in memory now; it is loaded when it is asked something",
               "model", "model_not_loaded"};
}

// ?limit=NODES&depth=NODES&tokens=OF_EACH_NODE&search=TEXT; of a search `limit` is how many are found
Result<net::HttpResponse> show_tree(Call& call) {
  ESP_TRY(TreeQuery query, read_tree_query(call.http));
  ESP_TRY(const auto model, looked_at(call));
  const KeyRing& keys = *call.service.keys;
  const bool reachable = call.service.loopback() || keys.wants_key();
  const bool texts = reachable && keys.may_read_all(call.http.headers);
  if (!query.search.empty() && !texts)
    return Error{Error::Kind::forbidden, "to search the texts of all requests needs the admin key", "search",
                 "forbidden"};
  ESP_TRY(const auto charge, call.service.views.charge(1, "too many look at the cache; try again later"));
  if (!texts) query.limits.tokens_of_node = 0;  // nothing is copied that is not shown
  const CacheOutlineLimits& limits = query.search.empty() ? query.limits : kSearched;
  TreeAnswer answer(*model, model->engine->cache_outline(limits), query.limits.tokens_of_node);
  if (!query.search.empty()) answer.keep_only(query.search, static_cast<std::size_t>(query.limits.nodes));
  return net::HttpResponse::json(200, answer.write());
}

}  // namespace

Result<> add_tree_routes(net::Router& router, Service& service) {
  return router.add(net::Method::get, "/v1/cache/tree", keeping_any(service, Dialect::openai, show_tree));
}

}  // namespace espalier::server
