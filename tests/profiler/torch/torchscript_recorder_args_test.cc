// The recorded arguments of calls, tested with the graphs of small modules (tests/testing/make_torchscript.py).

#include <gtest/gtest.h>

#include "tests/profiler/recorded_graphs.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using testing::AttrsOf;
using testing::ErrorOf;
using testing::ModuleFile;
using testing::Recorded;

TEST(TorchScriptRecorderArgsTest, EveryTypeOfArgumentIsWritten) {
  const Graph graph = Recorded("arguments", {"2x3", "bool:2x3", "i64:4:6"});
  // masked_fill(x, mask, -inf): JSON has no infinity.
  EXPECT_EQ(AttrsOf(graph, "masked_fill"), R"({"args":["%0","%1",{"float":"-inf"}]})");
  // cat([x, filled], dim)
  EXPECT_EQ(AttrsOf(graph, "cat"), R"({"args":[["%0","%1"],1]})");
  // gelu(x, approximate)
  EXPECT_EQ(AttrsOf(graph, "gelu"), R"({"args":["%0",{"str":"tanh"}]})");
  // index(x, [None, rows])
  EXPECT_EQ(AttrsOf(graph, "index"), R"({"args":["%0",[null,"%1"]]})");
  // sum(x, dim, keepdim, dtype)
  EXPECT_EQ(AttrsOf(graph, "sum"), R"({"args":["%0",[0,1],false,{"dtype":"f64"}]})");
  // zeros(size, dtype, layout, device, pin_memory)
  EXPECT_EQ(AttrsOf(graph, "zeros"), R"({"args":[[2],{"dtype":"i32"},null,{"device":true},null]})");
}

TEST(TorchScriptRecorderArgsTest, AFloatThatIsWholeStaysAFloat) {
  const Graph graph = Recorded("words", {"i64:5:50"});
  EXPECT_EQ(AttrsOf(graph, "table/mul"), R"({"args":["%0",1.0]})");
  EXPECT_EQ(AttrsOf(graph, "table/embedding"), R"({"args":["%0","%1",-1,false,false]})");
}

TEST(TorchScriptRecorderArgsTest, ATypeThatOursHaveNotIsAnError) {
  EXPECT_EQ(ErrorOf([] { Recorded("spectrum", {"4"}); }),
            ModuleFile("spectrum") +
                ": aten::_fft_r2c: a tensor is of type ComplexFloat (bool, i8, u8, i16, i32, i64, "
                "f16, bf16, f32 and f64 are known)");
}

}  // namespace
}  // namespace emplace
