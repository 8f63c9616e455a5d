#include "sim/profile.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/errors.h"

namespace emplace {
namespace profile_test {

using ::emplace::testing::ErrorOf;
using ::emplace::testing::Replaced;
using ::testing::HasSubstr;

Profile Read(const std::string& text) {
  std::istringstream in(text);
  return ReadProfile(in, "p.json");
}

constexpr const char* kGood =
    R"json({"schema": "emplace.profile", "version": 1, "created": "2026-11-21T10:00:00Z",
 "host": {"cpu": "Xeon", "cuda": "12.4"},
 "devices": [
  {"kind": "h200", "backend": "cupti", "op_gap_us": 4.1, "probe_us": 20.25, "contention": {"elementwise": 1.25}}],
 "ops": [
  {"signature": "conv2d(f32[32,3,299,299],f32[32,3,3,3]){stride=[2,2],padding=valid}", "device": "h200", "samples": 20, "median_us": 61.2, "p10_us": 60.9, "p90_us": 63, "kernels": 2, "temp_bytes": 4194304},
  {"signature": "relu(f32[2])", "device": "h200", "median_us": 3, "mean_us": 3.25, "contention": 1.5, "host_us": 3, "device_us": 1.75}],
 "links": [
  {"from": "h200", "to": "cpu-core", "latency_us": 8.2, "bandwidth_gb_per_s": 52.1, "samples": 36, "largest_residual": 0.04},
  {"from": "h200", "to": "h200", "from_device": "cuda:0", "to_device": "cuda:1", "latency_us": 5, "bandwidth_gb_per_s": 90, "knee_bytes": 65536, "beyond_gb_per_s": 150.5}]}
)json";

TEST(ProfileTest, ReadsEveryField) {
  const Profile profile = Read(kGood);
  EXPECT_EQ(profile.created, "2026-11-21T10:00:00Z");
  EXPECT_EQ(profile.host.at("cuda"), "12.4");
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].kind, "h200");
  EXPECT_EQ(profile.devices[0].backend, "cupti");
  EXPECT_EQ(profile.devices[0].op_gap_micros, 4.1);
  ASSERT_EQ(profile.ops.size(), 2U);
  const Profile::OpEntry& op = profile.ops[0];
  EXPECT_THAT(op.signature, ::testing::StartsWith("conv2d("));
  EXPECT_EQ(op.device, "h200");
  EXPECT_EQ(op.samples, 20);
  EXPECT_EQ(op.median_micros, 61.2);
  EXPECT_FALSE(op.mean_micros.has_value());
  EXPECT_EQ(profile.ops[1].mean_micros, 3.25);
  EXPECT_EQ(op.p10_micros, 60.9);
  EXPECT_EQ(op.p90_micros, 63.0);
  EXPECT_EQ(op.kernels, 2);
  EXPECT_EQ(op.temp.count, 4194304);
  EXPECT_FALSE(profile.ops[1].p10_micros.has_value());
  EXPECT_FALSE(profile.ops[1].kernels.has_value());
  ASSERT_EQ(profile.links.size(), 2U);
  EXPECT_EQ(profile.links[0].from_device, "");
  EXPECT_EQ(profile.links[0].knee, Bytes{0});
  EXPECT_EQ(profile.links[1].from_device, "cuda:0");
  EXPECT_EQ(profile.links[1].to_device, "cuda:1");
  EXPECT_EQ(profile.links[1].knee, Bytes{65536});
  EXPECT_EQ(profile.links[1].beyond_gb_per_s, 150.5);
  EXPECT_EQ(profile.links[0].from, "h200");
  EXPECT_EQ(profile.links[0].to, "cpu-core");
  EXPECT_EQ(profile.links[0].latency_micros, 8.2);
  EXPECT_EQ(profile.links[0].bandwidth_gb_per_s, 52.1);
  EXPECT_EQ(profile.links[0].samples, 36);
  EXPECT_EQ(profile.links[0].largest_residual, 0.04);
  EXPECT_EQ(profile.devices[0].contention.at("elementwise"), 1.25);
  EXPECT_FALSE(profile.ops[0].contention.has_value());
  EXPECT_EQ(profile.ops[1].contention, 1.5);
  EXPECT_FALSE(profile.ops[0].host_micros.has_value());
  EXPECT_EQ(profile.ops[1].host_micros, 3);
  EXPECT_EQ(profile.ops[1].device_micros, 1.75);
}

TEST(ProfileTest, WritesWhatItReadToTheByte) {
  std::ostringstream out;
  WriteProfile(out, Read(kGood));
  EXPECT_EQ(out.str(), kGood);
  std::ostringstream empty;
  WriteProfile(empty, Read(R"({"schema": "emplace.profile", "version": 1})"));
  EXPECT_EQ(empty.str(), R"({"schema": "emplace.profile", "version": 1, "created": "",
 "host": {},
 "devices": [],
 "ops": [],
 "links": []}
)");
}

TEST(ProfileTest, NamesThePlaceOfEveryFault) {
  const auto error = [](const std::string& from, const std::string& to) {
    return ErrorOf([&] { Read(Replaced(kGood, from, to)); });
  };
  EXPECT_EQ(error("emplace.profile", "emplace.graph"),
            "p.json: schema: is the text \"emplace.graph\" (\"emplace.profile\")");
  EXPECT_EQ(error("\"version\": 1, ", ""), "p.json: version: is missing (1)");
  EXPECT_EQ(error("\"2026-11-21T10:00:00Z\"", "2026"), "p.json: created: is the number 2026 (a string)");
  EXPECT_EQ(error("\"created\"", "\"made\""),
            "p.json: made: unknown key (schema, version, created, host, devices, ops, links)");
  EXPECT_EQ(error("\"12.4\"", "12.4"), "p.json: host.cuda: is the number 12.4 (a string)");
  EXPECT_EQ(error("{\"cpu\": \"Xeon\", \"cuda\": \"12.4\"}", "[]"),
            "p.json: host: is a list of 0 elements (an object of strings)");
  EXPECT_EQ(error("\"kind\": \"h200\", ", ""), "p.json: devices[0].kind: is missing (a device kind)");
  EXPECT_EQ(error("\"cupti\"", "1"), "p.json: devices[0].backend: is the number 1 (a string)");
  EXPECT_EQ(error("4.1", "-4.1"), "p.json: devices[0].op_gap_us: is the number -4.1 (a number from 0 to 1e+12)");
  EXPECT_EQ(error("1.25}}", "1.25}}, {\"kind\": \"h200\"}"),
            "p.json: devices[1].kind: duplicate kind \"h200\" (each kind once)");
  EXPECT_EQ(error("\"signature\": \"relu(f32[2])\", ", ""),
            "p.json: ops[1].signature: is missing (the signature of an op)");
  EXPECT_EQ(error("relu(f32[2])", ""), "p.json: ops[1].signature: is the text \"\" (a string that is not empty)");
  EXPECT_EQ(error(", \"device\": \"h200\", \"median_us\": 3", ", \"median_us\": 3"),
            "p.json: ops[1].device: is missing (a device kind)");
  EXPECT_EQ(error(", \"median_us\": 3,", ","), "p.json: ops[1].median_us: is missing (a number of us)");
  EXPECT_EQ(error("\"median_us\": 3,", "\"median_us\": \"3\","),
            "p.json: ops[1].median_us: is the text \"3\" (a number from 0 to 1e+12)");
  EXPECT_EQ(error("\"samples\": 20", "\"samples\": 0"),
            "p.json: ops[0].samples: is the number 0 (an integer from 1 to 4611686018427387903)");
  EXPECT_EQ(error("60.9", "61.3"), "p.json: ops[0].p10_us: is the number 61.3 (a number from 0 to 61.2)");
  EXPECT_EQ(error("\"p90_us\": 63", "\"p90_us\": 61"),
            "p.json: ops[0].p90_us: is the number 61 (a number from 61.2 to 1e+12)");
  EXPECT_EQ(error("\"kernels\": 2", "\"kernels\": 2.5"),
            "p.json: ops[0].kernels: is the number 2.5 (an integer from 0 to 4611686018427387903, written without a "
            "point or an exponent)");
  EXPECT_EQ(error("4194304", "-1"),
            "p.json: ops[0].temp_bytes: is the number -1 (an integer from 0 to 4611686018427387903)");
  EXPECT_EQ(
      error("\"kernels\"", "\"launches\""),
      "p.json: ops[0].launches: unknown key (signature, device, samples, median_us, mean_us, p10_us, p90_us, kernels, "
      "temp_bytes, contention, host_us, device_us)");
  EXPECT_EQ(error("1.75}", "-1}"), "p.json: ops[1].device_us: is the number -1 (a number from 0 to 1e+12)");
  EXPECT_EQ(error("1.5,", "-1,"), "p.json: ops[1].contention: is the number -1 (a number from 0 to 1000)");
  EXPECT_EQ(error("52.1", "0"),
            "p.json: links[0].bandwidth_gb_per_s: is the number 0 (a number above 0, at most 1e+09)");
  EXPECT_EQ(error("8.2", "-8.2"), "p.json: links[0].latency_us: is the number -8.2 (a number from 0 to 1e+12)");
  EXPECT_EQ(error("\"to\": \"cpu-core\", ", ""), "p.json: links[0].to: is missing (a device kind)");
  EXPECT_EQ(error("0.04}", "0.04}, {\"from\": \"h200\", \"to\": \"cpu-core\", \"bandwidth_gb_per_s\": 1}"),
            "p.json: links[1]: duplicate link from \"h200\" to \"cpu-core\" (each pair once)");
}

TEST(ProfileTest, RefusesTwoTimesForOneSignatureWhateverTheOrderOfAttrs) {
  const std::string twice =
      Replaced(kGood, "relu(f32[2])", "conv2d(f32[32,3,299,299],f32[32,3,3,3]){padding=valid,stride=[2,2]}");
  EXPECT_THAT(ErrorOf([&] { Read(twice); }),
              ::testing::AllOf(HasSubstr("p.json: ops[1].signature: duplicate signature"),
                               HasSubstr("for device \"h200\" (each once for a device)")));
}

TEST(ProfileTest, EveryTruncationIsRefused) {
  const std::string text = kGood;
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_THAT(ErrorOf([&] { Read(text.substr(0, length)); }), HasSubstr("not valid JSON")) << length;
  }
}

OpSpec Spec(std::string name, std::string kind, std::vector<std::string> inputs, std::vector<OutputSpec> outputs,
            std::string attrs) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.kind = std::move(kind);
  spec.inputs = std::move(inputs);
  spec.outputs = std::move(outputs);
  spec.attrs = std::move(attrs);
  return spec;
}

// The signature of an op with these attrs that reads an f32[2,3], a scalar i64 and 4096 bytes of unknown shape.
std::string SignatureWith(const std::string& attrs) {
  GraphBuilder builder("g");
  builder.Add(Spec("a", "k", {},
                   {{.size = std::nullopt, .dtype = DType::kF32, .shape = {2, 3}},
                    {.size = std::nullopt, .dtype = DType::kI64, .shape = {}},
                    {.size = Bytes{4096}, .dtype = DType::kNone, .shape = {}},
                    {.size = Bytes{40}, .dtype = DType::kF32, .shape = {}}},
                   ""));
  builder.Add(Spec("b", "my_op", {"a:0", "a:1", "a:2", "a:3"}, {}, attrs));
  const Graph graph = builder.Build();
  return Signature(graph, *graph.FindOp("b"));
}

TEST(SignatureTest, TellsKindInputsAndAttrs) {
  EXPECT_EQ(SignatureWith(""), "my_op(f32[2,3],i64[],4096B,40B)");
  EXPECT_EQ(SignatureWith("{}"), "my_op(f32[2,3],i64[],4096B,40B)");
  EXPECT_EQ(SignatureWith(R"({"stride":[2,2],"padding":"valid","rate":0.5,"on":true,"none":null,"sub":{"x":[]}})"),
            "my_op(f32[2,3],i64[],4096B,40B){stride=[2,2],padding=valid,rate=0.5,on=true,none=null,sub={x=[]}}");
}

TEST(SignatureTest, QuotesWhatIsNoWord) {
  EXPECT_EQ(SignatureWith(R"({"a b":"x,y","c":"true","d":"1","e":"","f":"x-1.y"})"),
            R"(my_op(f32[2,3],i64[],4096B,40B){"a b"="x,y",c="true",d="1",e="",f=x-1.y})");
}

TEST(SignatureTest, AnOpWithoutInputsHasEmptyParentheses) {
  GraphBuilder builder("g");
  builder.Add(Spec("a", "variable", {}, {}, ""));
  EXPECT_EQ(Signature(builder.Build(), OpId{0}), "variable()");
}

TEST(SignatureTest, TheCanonicalOneHasItsAttrsSorted) {
  EXPECT_EQ(CanonicalSignature("k(f32[2,3]){z=[2,1],a={q=1,p=2},m=\"x,y}\"}"),
            "k(f32[2,3]){a={q=1,p=2},m=\"x,y}\",z=[2,1]}");
  for (const std::string same : {"", "k()", "k(f32[2])", "k(){a=1}", "no signature, at all", "k(){", "k(){a=1",
                                 "k(){b=[,a=1}", "k(){b=],a=1}", "k(){b=\",a=1}", "k(){b=\"\\\",a=1}"}) {
    EXPECT_EQ(CanonicalSignature(same), same);
  }
}

TEST(SignatureTest, OutputsAreToldWhereInputsAndAttrsDoNotDetermineThem) {
  const auto typed = [](std::string name, std::string kind, std::vector<std::string> inputs,
                        std::vector<std::int64_t> shape) {
    OpSpec op;
    op.name = std::move(name);
    op.kind = std::move(kind);
    op.inputs = std::move(inputs);
    op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = std::move(shape)}};
    return op;
  };
  GraphBuilder builder("g");
  builder.Add(typed("x", "input", {}, {8, 4, 6, 6}));
  builder.Add(typed("dw", "conv2d_grad_filter", {"x", "x"}, {4, 4, 5, 5}));
  builder.Add(typed("y", "relu", {"x"}, {8, 4, 6, 6}));
  const Graph graph = builder.Build();
  EXPECT_EQ(FullSignature(graph, *graph.FindOp("dw")), "conv2d_grad_filter(f32[8,4,6,6],f32[8,4,6,6])->f32[4,4,5,5]");
  EXPECT_EQ(FullSignature(graph, *graph.FindOp("y")), Signature(graph, *graph.FindOp("y")));
}

TEST(SignatureTest, TheCanonicalOneKeepsItsOutputs) {
  EXPECT_EQ(CanonicalSignature("k(f32[2]){b=1,a=2}->f32[3],f32[4]"), "k(f32[2]){a=2,b=1}->f32[3],f32[4]");
  EXPECT_EQ(CanonicalSignature("k(f32[2])->f32[3]"), "k(f32[2])->f32[3]");
}

}  // namespace profile_test
}  // namespace emplace
