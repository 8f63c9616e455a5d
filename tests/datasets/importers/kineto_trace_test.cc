#include "datasets/importers/kineto_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/datasets/importers/samples.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

TEST(NanosFromMicrosTest, DecimalsAreExact) {
  EXPECT_EQ(datasets::NanosFromMicros("0"), 0);
  EXPECT_EQ(datasets::NanosFromMicros("12"), 12'000);
  EXPECT_EQ(datasets::NanosFromMicros("1.5"), 1'500);
  // A double of that size holds quarters only.
  EXPECT_EQ(datasets::NanosFromMicros("1712166698012345.678"), 1'712'166'698'012'345'678);
  EXPECT_EQ(datasets::NanosFromMicros("0.0004"), 0);
  EXPECT_EQ(datasets::NanosFromMicros("0.0005"), 1);
  EXPECT_EQ(datasets::NanosFromMicros("-2.25"), -2'250);
  EXPECT_EQ(datasets::NanosFromMicros("2.5e3"), 2'500'000);
  EXPECT_EQ(datasets::NanosFromMicros("1.718000000123464e+15"), 1'718'000'000'123'464'000);
  EXPECT_EQ(datasets::NanosFromMicros("1718000000123464e0"), 1'718'000'000'123'464'000);
  EXPECT_EQ(datasets::NanosFromMicros("2.000003E7"), 20'000'030'000);
  EXPECT_EQ(datasets::NanosFromMicros("9.5367431640625e-07"), 0);
  EXPECT_EQ(datasets::NanosFromMicros("1.00049"), 1'000);
  EXPECT_EQ(datasets::NanosFromMicros("-1.0005e0"), -1'001);
}

TEST(NanosFromMicrosTest, WhatIsNoTimeHasNone) {
  for (const char* const text : {"", "-", "x", "1x", "1.2.3", "null", "true", "9999999999999999", "1e300", "1e",
                                 "1000030.0001abc", "1000030.0001.5", "1.5e3x", "."}) {
    EXPECT_EQ(datasets::NanosFromMicros(text), std::nullopt) << text;
  }
}

TEST(KinetoTraceTest, ABeginAndItsEndAreOneEvent) {
  const datasets::KinetoTrace trace = ReadTrace(R"({"traceEvents": [
    {"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 100},
    {"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 110},
    {"ph": "B", "cat": "cpu_op", "name": "other", "pid": 1, "tid": 2, "ts": 112},
    {"ph": "E", "pid": 1, "tid": 1, "ts": 120}, {"ph": "E", "pid": 1, "tid": 1, "ts": 140},
    {"ph": "E", "pid": 1, "tid": 3, "ts": 150}]})");
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.text(trace.events[0].name), "outer");
  EXPECT_EQ(trace.events[0].end - trace.events[0].start, 40'000);
  EXPECT_EQ(trace.events[1].end - trace.events[1].start, 10'000);
  EXPECT_EQ(trace.endless, 2U);  // one has no end, one no begin
}

TEST(KinetoTraceTest, StepsOfOneNumberAreNumbered) {
  const auto mark = [](int thread, int start) {
    return fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": {}, "ts": {},
                          "dur": 10}},)",
        thread, start);
  };
  const std::string op = R"({"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 100, "dur": 1})";
  const datasets::KinetoTrace one = ReadTrace("{\"traceEvents\": [" + mark(1, 100) + mark(2, 101) + op + "]}");
  EXPECT_FALSE(one.has_repeated_steps);
  EXPECT_EQ(one.steps.at(1).number, 3);
  const datasets::KinetoTrace two = ReadTrace("{\"traceEvents\": [" + mark(1, 100) + mark(1, 110) + op + "]}");
  EXPECT_TRUE(two.has_repeated_steps);
  EXPECT_EQ(two.steps.at(0).number, 0);
  EXPECT_EQ(two.steps.at(1).number, 1);
}

TEST(KinetoTraceTest, IdsThatAreFloatsJoin) {
  const datasets::KinetoTrace trace = ReadTrace(R"({"traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
     "args": {"correlation": 7.0}},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 2,
     "args": {"correlation": "7.5", "device": 0.0}}]})");
  EXPECT_EQ(trace.events.at(0).correlation, 7);
  EXPECT_EQ(trace.events.at(1).correlation, -1);
}

TEST(KinetoTraceTest, EventsComeByStartAndTheLongerFirst) {
  const datasets::KinetoTrace trace = ReadTrace(TraceText()
                                                    .Kernel("k", 130, 5, 1)
                                                    .Op("inner", 100, 10)
                                                    .Op("outer", 100, 40)
                                                    .Call("cudaLaunchKernel", 102.5, 6, 1)
                                                    .str());
  ASSERT_EQ(trace.events.size(), 4U);
  std::vector<std::string> names;
  for (const datasets::TraceEvent& event : trace.events) names.emplace_back(trace.text(event.name));
  EXPECT_EQ(names, (std::vector<std::string>{"outer", "inner", "cudaLaunchKernel", "k"}));
  EXPECT_EQ(trace.origin, 100'000);
  EXPECT_EQ(trace.events[0].start, 0);
  EXPECT_EQ(trace.events[0].end, 40'000);
  EXPECT_EQ(trace.events[2].start, 2'500);
  EXPECT_EQ(trace.events[2].correlation, 1);
  EXPECT_TRUE(datasets::IsActivity(trace.events[3].category));
  EXPECT_EQ(trace.threads.size(), 1U);
  ASSERT_EQ(trace.streams.size(), 1U);
  EXPECT_EQ(trace.streams[0].stream, 7);
  EXPECT_EQ(trace.gpus.at(0), "NVIDIA H100 80GB HBM3");
}

TEST(KinetoTraceTest, OldSpellingsAreTheSameCategories) {
  TraceText text;
  for (const char* const category :
       {"Operator", "Runtime", "Kernel", "Memcpy", "Memset", "hip_runtime", "cuda_driver"}) {
    text.Add(category, "e", "0", "\"stream 7\"", 1, 1, "");
  }
  EXPECT_EQ(ReadTrace(text.str()).events.size(), 7U);
}

TEST(KinetoTraceTest, RuntimesOfAllVendorsAreCalls) {
  TraceText text;
  for (const char* const category : {"xpu_runtime", "xpu_driver", "mtia_runtime", "hpu_op", "privateuse1_runtime",
                                     "privateuse1_driver", "npu_runtime"}) {
    text.Add(category, "urEnqueueKernelLaunch", "9", "1", 1, 1, "\"correlation\": 1");
  }
  text.Add("new_calls", "launch", "9", "1", 1, 1, "\"correlation\": 2");
  const datasets::KinetoTrace trace = ReadTrace(text.str());
  EXPECT_EQ(trace.events.size(), 7U);
  for (const datasets::TraceEvent& event : trace.events) EXPECT_EQ(event.category, datasets::TraceCategory::kCall);
  EXPECT_EQ(trace.like_calls.at("new_calls"), 1U);
}

TEST(KinetoTraceTest, EventsThatNoClockMeasuredAreLeftOutAndCounted) {
  const std::string text =
      TraceText()
          .Op("a", 1e12, 1)
          .Op("c", 1e12, 1)
          .Op("d", 1e12, 1)
          .Op("of another day", 9e12, 5)
          .Op("as long as a clock", 1e12, 1e12)
          .Op("endless", 1e12, -1)
          .Add("python_function", "f", "9", "1", 1e12, -3, "")
          .Kernel("placeholder", 0, 0, 1)
          .Op("placeholder too", 0, 5)
          .Raw(R"({"ph": "X", "cat": "cpu_op", "name": "b", "ts": 18446744073709551615, "dur": 1})")
          .str();
  const datasets::KinetoTrace trace = ReadTrace(text);
  EXPECT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.endless, 2U);
  EXPECT_EQ(trace.placeholders, 4U);
  EXPECT_EQ(trace.spoiled, 1U);
  // In a trace whose clock begins at 0 the first op is not a placeholder.
  EXPECT_EQ(ReadTrace(TraceText().Op("a", 0, 5).Op("b", 9, 1).str()).placeholders, 0U);
}

TEST(KinetoTraceTest, NumbersThatJsonLacksAreReadWhereTheyAreNotUsed) {
  const auto read = [](const std::string& bandwidth, const std::string& duration) {
    const std::string event =
        fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "inf \"nan", "ts": 1, "dur": {}, "args": {{"x": {}}}}})",
                    duration, bandwidth);
    return datasets::ReadKinetoTrace(datasets::ImportSource("t.json", "{\"traceEvents\": [" + event + "]}"));
  };
  for (const char* const number : {"inf", "-inf", "Infinity", "NaN", "nan", "-nan"}) {
    const datasets::KinetoTrace trace = read(number, "1");
    ASSERT_EQ(trace.events.size(), 1U) << number;
    EXPECT_EQ(trace.text(trace.events[0].name), "inf \"nan");
    EXPECT_EQ(read("1", number).spoiled, 1U) << number;
  }
  EXPECT_THAT(Refusal([&] { read("infinite", "1"); }), ::testing::HasSubstr("not valid JSON"));
}

TEST(KinetoTraceTest, ExternalIdsJoinWhereThereAreNoCorrelations) {
  TraceText text;
  const auto add = [&](const char* category, const char* name, double start, int id) {
    text.Add(category, name, "9", "1", start, 1, fmt::format("\"External id\": {}", id));
  };
  add("cuda_runtime", "hipLaunchKernel", 1, 5);
  add("cuda_runtime", "hipGetDevice", 2, 5);
  add("kernel", "a", 3, 5);
  // As many launches as kernels: in their order.
  add("cuda_runtime", "hipLaunchKernel", 4, 6);
  add("cuda_runtime", "hipLaunchKernel", 5, 6);
  add("kernel", "c", 9, 6);
  add("kernel", "b", 8, 6);
  const datasets::KinetoTrace trace = ReadTrace(text.str());
  std::vector<std::int64_t> ids;
  for (const datasets::TraceEvent& event : trace.events) ids.push_back(event.correlation);
  EXPECT_THAT(ids, ::testing::ElementsAre(1, -1, 1, 2, 3, 2, 3));
}

// Two processes with the same ids; `host` and `gpu` as they call themselves, the second `later`.
TraceText Merged(const std::string& host, const std::string& gpu, double later, double queued = 5) {
  TraceText text;
  for (int rank = 0; rank < 2; ++rank) {
    for (int id = 1; id <= 3; ++id) {
      const double start = 100 * id + rank * later;
      text.Add("cuda_runtime", "cudaLaunchKernel", fmt::format(fmt::runtime(host), rank), "1", start, 2,
               fmt::format("\"correlation\": {}", id));
      text.Add("kernel", "k", fmt::format(fmt::runtime(gpu), rank), "7", start + queued, 50,
               fmt::format("\"device\": {}, \"stream\": 7, \"correlation\": {}", rank, id));
    }
  }
  return text;
}

TEST(SplitRanksTest, AnActivityBelongsToTheProcessWhoseCallsExplainIt) {
  const std::vector<datasets::KinetoTrace> ranks = datasets::SplitRanks(ReadTrace(Merged("10{}", "{}", 3000).str()));
  ASSERT_EQ(ranks.size(), 2U);
  for (const datasets::KinetoTrace& rank : ranks) {
    ASSERT_EQ(rank.events.size(), 6U);
    EXPECT_EQ(rank.events[1].start - rank.events[0].start, 5'000);
  }
}

TEST(SplitRanksTest, ProcessesWithOtherIdsAreRanksIfTheyHaveTheirOwnGpus) {
  const auto text = [](int device) {
    TraceText text;
    for (int rank = 0; rank < 2; ++rank) {
      text.Add("cuda_runtime", "cudaLaunchKernel", std::to_string(10 + rank), "1", 0, 1,
               fmt::format("\"correlation\": {}", rank + 1));
      text.Add("kernel", "k", "0", "7", 5, 5,
               fmt::format("\"device\": {}, \"stream\": 7, \"correlation\": {}", rank * device, rank + 1));
    }
    return text.str();
  };
  EXPECT_EQ(datasets::SplitRanks(ReadTrace(text(1))).size(), 2U);
  EXPECT_EQ(datasets::SplitRanks(ReadTrace(text(0))).size(), 1U);
}

TEST(SplitRanksTest, ALabelOfTheRankDecides) {
  // As mergers of profiles write them; the times alone do not tell the ranks apart.
  const std::string text = Merged("\"[TP0{}] 77\"", "\"[TP0{}] 0\"", 3, 40).str();
  const std::vector<datasets::KinetoTrace> ranks = datasets::SplitRanks(ReadTrace(text));
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].threads[ranks[0].events[0].track].process, "[TP00] 77");
  EXPECT_EQ(ranks[0].events.size(), 6U);
}

TEST(SplitRanksTest, WhatTheTimesDoNotTellApartIsRefused) {
  EXPECT_THAT(Refusal([] { datasets::SplitRanks(ReadTrace(Merged("10{}", "{}", 3, 40).str())); }),
              ::testing::HasSubstr("correlation 1 is that of calls in the processes \"100\" and \"101\""));
  // Both ranks' kernels are on one stream.
  EXPECT_THAT(
      Refusal([] {
        datasets::SplitRanks(ReadTrace(Edited(Merged("10{}", "0", 3000).str(), "\"device\": 1", "\"device\": 0")));
      }),
      ::testing::HasSubstr("correlation 1 is that of calls in the processes"));
  EXPECT_EQ(datasets::SplitRanks(ReadTrace(TraceText().Op("a", 1, 1).str())).size(), 1U);
}

TEST(KinetoTraceTest, WhatIsNotKeptIsCounted) {
  const datasets::KinetoTrace trace =
      ReadTrace(TraceText()
                    .Op("a", 1, 1)
                    .Add("python_function", "f", "9", "1", 1, 1, "")
                    .Add("python_function", "g", "9", "1", 1, 1, "")
                    .Raw(R"({"ph": "i", "cat": "cpu_op", "name": "instant", "ts": 3})")
                    .Raw(R"({"ph": "X", "cat": "cpu_op", "name": "endless", "pid": 9, "tid": 1, "ts": 3})")
                    .str());
  EXPECT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.left_out.at("python_function"), 2U);
  EXPECT_EQ(trace.spoiled, 1U);
}

TEST(KinetoTraceTest, ArgumentsAreKept) {
  const datasets::KinetoTrace trace = ReadTrace(
      TraceText()
          .Op("aten::mm", 1, 9, 1, R"("Input Dims": [[2, 3], [], [3, 4]], "Input type": ["float", "", "float"])")
          .Copy(20, 5, 3)
          .Kernel("ncclKernel_AllReduce", 30, 5, 4, 8,
                  R"("Collective name": "allreduce", "Process Group Name": "0", "In msg nelems": 77,
                          "Process Group Ranks": [0, 1], "dtype": "Float")")
          .Sync("Stream Wait Event", 40, 1, 5, 8, R"("wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 12)")
          .str());
  ASSERT_EQ(trace.events.size(), 4U);
  const datasets::TraceDetails& op = trace.details_of(trace.events[0]);
  EXPECT_EQ(trace.text(op.shapes), "[[2,3],[],[3,4]]");
  EXPECT_EQ(trace.text(op.types), R"(["float","","float"])");
  EXPECT_EQ(trace.details_of(trace.events[1]).bytes, 4096);
  const datasets::TraceDetails& collective = trace.details_of(trace.events[2]);
  EXPECT_EQ(trace.text(collective.collective), "allreduce");
  EXPECT_EQ(trace.text(collective.group), "0");
  EXPECT_EQ(trace.text(collective.ranks), "[0,1]");
  EXPECT_EQ(trace.text(collective.dtype), "Float");
  EXPECT_EQ(collective.elements, 77);
  const datasets::TraceDetails& sync = trace.details_of(trace.events[3]);
  EXPECT_EQ(sync.waited_stream, 7);
  EXPECT_EQ(sync.record, 12);
}

TEST(KinetoTraceTest, AListOfEventsIsATraceToo) {
  const datasets::KinetoTrace trace =
      ReadTrace(R"([{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": "x", "ts": "5", "dur": "2"}])");
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.threads[0].thread, "x");
  EXPECT_EQ(trace.events[0].end, 2'000);
}

TEST(KinetoTraceTest, RanksAndBaseTimesAreRead) {
  const datasets::KinetoTrace trace =
      ReadTrace(TraceText()
                    .Head(R"("distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8})")
                    .Head("\"baseTimeNanoseconds\": 1000")
                    .Op("a", 7, 1)
                    .str());
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.origin, 8'000);
}

TEST(KinetoTraceTest, FaultsNameTheirPlace) {
  EXPECT_EQ(Refusal([] { ReadTrace("{}"); }), "traceEvents: is missing (a list of trace events)");
  for (const char* const other : {"3", "{}", "null"}) {
    EXPECT_EQ(Refusal([&] { ReadTrace(fmt::format(R"({{"traceEvents": {}}})", other)); }),
              "traceEvents: is not a list of trace events");
  }
  EXPECT_EQ(Refusal([] { ReadTrace("3"); }), "is not a trace (an object with a list traceEvents)");
  EXPECT_EQ(Refusal([] { ReadTrace(R"({"traceEvents": [{}, 3]})"); }),
            "traceEvents[1]: is not a trace event (an object)");
  EXPECT_EQ(Refusal([] { ReadTrace(R"({"traceEvents": [[]]})"); }), "traceEvents[0]: is not a trace event (an object)");
  EXPECT_EQ(Refusal([] { ReadTrace(R"({"traceEvents": [{"ts": "soon"}]})"); }),
            "traceEvents[0].ts: is \"soon\" (a number of us)");
  EXPECT_THAT(Refusal([] { ReadTrace(R"({"traceEvents": [{"ts": 1)"); }), ::testing::HasSubstr("not valid JSON"));
  const std::string deep = R"({"traceEvents": [{"args": )" + std::string(100, '[');
  EXPECT_THAT(Refusal([&] { ReadTrace(deep); }), ::testing::HasSubstr("is nested too deeply (at most 64 levels)"));
}

}  // namespace
}  // namespace emplace::testing
