#include "sim/draw/graph_dot.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using testing::MakeOp;

TEST(GraphDotTest, WritesOpsTensorsAndControlEdges) {
  GraphBuilder builder("tiny");
  OpSpec a = MakeOp("a", 1, {}, {12});
  a.pass = Pass::kForward;
  builder.Add(a);
  OpSpec b = MakeOp("say \"b\"", 1, {"a"}, {});
  b.control_inputs = {"a"};
  builder.Add(b);
  std::ostringstream text;
  WriteDot(text, builder.Build());
  EXPECT_EQ(text.str(),
            "digraph \"tiny\" {\n"
            "  node [shape=box, style=filled];\n"
            "  n0 [label=\"a\", tooltip=\"test\", fillcolor=lightblue];\n"
            "  n1 [label=\"say \\\"b\\\"\", tooltip=\"test\", fillcolor=white];\n"
            "  n0 -> n1 [label=\"12 B\"];\n"
            "  n0 -> n1 [style=dashed];\n"
            "}\n");
}

TEST(GraphDotTest, NamesAreTextWhateverTheyHold) {
  std::ostringstream text;
  WriteDot(text, testing::Build({MakeOp("a\"];\\n\n<b>", 1)}));
  EXPECT_NE(text.str().find("[label=\"a\\\"];\\\\n?<b>\", "), std::string::npos) << text.str();
}

}  // namespace
}  // namespace emplace
