#include "experiments/validation/measured_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>

#include "datasets/importers/registry.h"
#include "sim/cost/cost_models.h"
#include "tests/testing/errors.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using experiments::MeasuredShapes;

MeasuredShapes ReadCsv(const std::string& text) {
  std::istringstream in(text);
  return experiments::ReadKernelsCsv(in, "k.csv");
}

TEST(MeasuredShapesTest, ATableOfKernelsHasOneRowForEach) {
  const MeasuredShapes measured = ReadCsv(
      "time_us, kind,type,m,n,k,batch,sequence,heads,key_heads,head_dim,causal,bytes,columns\r\n"
      "12.5,product,bf16,64,128,256,,,,,,,,\r\n"
      "\n"
      "40,attention,f16,,,,2,1024,32,8,128,true,,\n"
      "7,decoding,bf16,,,,4,2048,32,,64,,,\n"
      "3,softmax,,,,,,,,,,,4096,512\n"
      "2,elementwise,,,,,,,,,,,8192,\n"
      "9,convolution,tf32,100,16,27,,,,,,,5000,\n");
  ASSERT_EQ(measured.rows.size(), 6U);
  EXPECT_EQ(measured.rows[0].micros, 12.5);
  EXPECT_EQ(measured.rows[0].question.precision, Precision::kBf16);
  const auto& product = std::get<ProductShape>(measured.rows[0].question.shape);
  EXPECT_EQ(product.batch, 1);
  EXPECT_EQ(product.m, 64);
  EXPECT_EQ(product.k, 256);
  EXPECT_EQ(product.moved_bytes, 0);
  const auto& attention = std::get<AttentionShape>(measured.rows[1].question.shape);
  EXPECT_EQ(attention.keys, 1024);
  EXPECT_EQ(attention.key_heads, 8);
  EXPECT_TRUE(attention.causal);
  const auto& decoding = std::get<AttentionShape>(measured.rows[2].question.shape);
  EXPECT_EQ(decoding.queries, 1);
  EXPECT_EQ(decoding.keys, 2048);
  EXPECT_EQ(decoding.key_heads, 32);
  EXPECT_TRUE(IsDecoding(decoding));
  EXPECT_TRUE(std::get<RowsShape>(measured.rows[3].question.shape).is_softmax);
  EXPECT_EQ(measured.rows[4].question.bytes, 8192);
  EXPECT_EQ(std::get<ProductShape>(measured.rows[5].question.shape).moved_bytes, 5000);
}

TEST(MeasuredShapesTest, ABadTableIsRefusedWithItsLine) {
  const std::string head = "kind,type,m,n,k,time_us\n";
  EXPECT_EQ(ErrorOf([] { ReadCsv("\n"); }), "k.csv: is empty (a header with kind, type, time_us, m, n, k, ..)");
  EXPECT_THAT(ErrorOf([] { ReadCsv("kind,m\n"); }), ::testing::StartsWith("k.csv: has no column time_us (a header"));
  EXPECT_THAT(ErrorOf([] { ReadCsv("kind,time_us,speed\n"); }),
              ::testing::StartsWith("k.csv: has a column \"speed\" (kind, type, time_us, batch,"));
  EXPECT_EQ(ErrorOf([] { ReadCsv("kind,time_us,kind\n"); }), "k.csv: has the column kind twice");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,bf16,1,2,3\n"); }), "k.csv: line 2: has 5 cells (6 are expected)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,bf16,1,2,3,-4\n"); }),
            "k.csv: line 2: time_us: is \"-4\" (a time above 0 is expected)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,bf16,1,2,3,0\n"); }),
            "k.csv: line 2: time_us: is 0 (a time above 0 is expected)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,bf16,1,2,3,4\nproduct,bf16,0,2,3,4\n"); }),
            "k.csv: line 3: m: is \"0\" (a number of at least 1 is expected)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,bf16,1,2,,4\n"); }),
            "k.csv: line 2: k: is missing (rows of product need type, m, n, k)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "product,i8,1,2,3,4\n"); }),
            "k.csv: line 2: type: is \"i8\" (f32, tf32, bf16 or f16)");
  EXPECT_EQ(ErrorOf([&] { ReadCsv(head + "gemm,bf16,1,2,3,4\n"); }),
            "k.csv: line 2: kind: is \"gemm\" (product, convolution, attention, decoding, normalisation, softmax, "
            "elementwise)");
}

// A product of two kernels, one of TF32, and a sum.
TEST(MeasuredShapesTest, KernelsOfOneCallCountTogether) {
  TraceText text;
  text.Op("aten::mm", 0, 20, 1, R"("Input Dims": [[1000, 500], [500, 2000]], "Input type": ["float", "float"])");
  text.Call("cudaLaunchKernel", 1, 2, 1).Call("cudaLaunchKernel", 4, 2, 2);
  text.Op("aten::add", 30, 10, 1, R"("Input Dims": [[1000], [1000]], "Input type": ["float", "float"])");
  text.Call("cudaLaunchKernel", 31, 2, 3);
  text.Op("mine::op", 50, 10, 1).Call("cudaLaunchKernel", 51, 2, 4);
  text.Kernel("cutlass_80_tensorop_s1688gemm_128x128", 10, 40, 1).Kernel("splitKreduce_kernel", 51, 20, 2);
  text.Kernel("c", 80, 4, 3).Kernel("d", 90, 8, 4).Call("cudaDeviceSynchronize", 70, 50, 6);
  const datasets::ImportSource source("t.json", text.str());
  const Graph graph =
      datasets::Import(datasets::FindImporter("kineto", "", ""), {&source, 1}, {.min_attributed_percent = 0}).graph;
  EXPECT_EQ(experiments::FindDominantKind(graph), "h100");
  std::size_t of_host = 0;
  std::size_t of_several = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    of_host += experiments::IsOfHost(graph.op(MakeId<OpId>(i)));
    of_several += !experiments::CallIdOf(graph.op(MakeId<OpId>(i))).empty();
  }
  EXPECT_GT(of_host, 0U);
  EXPECT_EQ(of_several, 2U);
  MeasuredShapes measured = experiments::ShapesOfGraph(graph, *MakeMeasuredCostModel(), "h100", {});
  ASSERT_EQ(measured.rows.size(), 2U);
  EXPECT_EQ(measured.unknown, 1U);
  const bool product_is_first = std::holds_alternative<ProductShape>(measured.rows[0].question.shape);
  const auto& product = measured.rows[product_is_first ? 0 : 1];
  const auto& sum = measured.rows[product_is_first ? 1 : 0];
  EXPECT_EQ(product.micros, 60);
  EXPECT_EQ(product.question.precision, Precision::kTf32);
  EXPECT_EQ(std::get<ProductShape>(product.question.shape).n, 2000);
  EXPECT_EQ(sum.micros, 4);
  EXPECT_EQ(sum.question.bytes, 12000);
  measured.Add(measured);
  EXPECT_EQ(measured.rows.size(), 4U);
  EXPECT_EQ(measured.unknown, 2U);
}

}  // namespace
}  // namespace emplace::testing
