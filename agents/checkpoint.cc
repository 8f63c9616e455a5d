#include "agents/checkpoint.h"

#include <istream>
#include <ostream>
#include <sstream>
#include <utility>

#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// What follows the first line. No text in it is longer than `most`.
void BodyFields(auto& state, const std::string& spec, auto& search, auto& agent, auto& rng, std::size_t most) {
  std::string saved_spec = spec;  // NOLINT(performance-unnecessary-copy-initialization): reading changes it
  state.Text(saved_spec, most);
  if (saved_spec != spec) throw InputError("checkpoint", "belongs to another search; remove it, or name another file");
  state.Text(search.part, most);
  state.Lines(search.graphs);
  state(search.times);
  state.NewLine();
  state(rng, agent);
  state.NewLine();
  state.Word("end", '\n');
}

}  // namespace

void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng) {
  std::ostringstream body;
  StateWriter writer(body);
  BodyFields(writer, spec, state, agent, rng, 0);
  WriteSealed(out, "emplace.checkpoint 7", std::move(body).str());
}

SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng) {
  ExpectHead(in, "emplace.checkpoint", "7");
  const std::string text = ReadSealed(in);
  std::istringstream body(text);
  StateReader reader(body);
  SearchState state;
  BodyFields(reader, spec, state, agent, rng, text.size());
  return state;
}

}  // namespace emplace::agents
