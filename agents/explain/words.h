#ifndef EMPLACE_AGENTS_EXPLAIN_WORDS_H_
#define EMPLACE_AGENTS_EXPLAIN_WORDS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agents/explain/moves.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/step_explanation.h"

namespace emplace::agents {

// Words for people about parts of a step. Not escaped.

// A name of at most `most` bytes: of a longer one the begin and the end, with "..." between. Cuts no UTF-8 sequence.
std::string ShortName(std::string_view name, std::size_t most = 56);

// "a", "a and 3 more", or where they share a layer "a and 3 more of layer x"; shortened.
// Requires: at least one op.
std::string OpsText(const Graph& graph, std::span<const OpId> ops);
// "op a", "colocated a and 1 more", "piece of the chain: a and 2 more", "layer x, 12 ops".
std::string MoveText(const Graph& graph, const Move& move);

// The description of a part of the chain, without its kind: "a"; "a:1", a tensor; "c waits for a"; "c waits while a:1
// is sent", of a device without a copy engine; "after a".
std::string PartText(const Graph& graph, const ChainPart& part);
// Where: "gpu:0", or "gpu:0 to gpu:1".
std::string PlaceText(const Cluster& cluster, const ChainItem& item);

// One line for each kind of part: what it means.
std::string_view Meaning(ChainKind kind);
// "compute", "transfer", "device queue", "channel queue", "gap".
std::string_view Words(ChainKind kind);

// The chain's time by layer, or by kind of op where an op has no layer: largest first.
struct ChainShare {
  std::string name;   // "layer x" or "kind y"
  Duration needed{};  // compute and transfers
  Duration other{};   // queues and gaps
  Duration sum() const { return needed + other; }
};
std::vector<ChainShare> SharesOf(const Graph& graph, const StepExplanation& explained);

// How many of a chain's longest parts texts show.
constexpr std::size_t kShownParts = 10;

// The longest parts of the chain, longest first; ties in the order of the chain.
std::vector<ChainPart> LongestParts(const StepExplanation& explained, std::size_t most);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_EXPLAIN_WORDS_H_
