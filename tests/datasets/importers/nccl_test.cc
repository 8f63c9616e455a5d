#include "datasets/importers/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <sstream>
#include <string>

#include "datasets/importers/registry.h"
#include "sim/formats/cluster_yaml.h"
#include "tests/testing/errors.h"
#include "tests/testing/reference.h"

namespace emplace {
namespace nccl_test {

using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

datasets::Imported Import(const std::string& text, int nodes = 1, const std::string& nvlink = "") {
  const datasets::ImportSource source("topo.xml", text);
  return datasets::Import(datasets::FindImporter("", source.head(), "topo.xml"), {&source, 1},
                          {.nodes = nodes, .nvlink = nvlink});
}

// A GPU on a PCIe switch of its own with a network card; NVLink to two switches.
std::string Branch(int dev, int sm = 90) {
  return fmt::format(R"(
    <pci busid="0000:{0}0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:{0}1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="{0}" sm="{1}" rank="{0}" gdr="1">
          <nvlink target="0000:f0:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:f1:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:{0}2:00.0" class="0x020700" link_speed="16 GT/s" link_width="8">
        <nic><net name="mlx5_{0}" dev="{0}" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>)",
                     dev, sm);
}

std::string TwoSockets() {
  return R"(<?xml version="1.0"?>
<system version="1">
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" modelid="143">)" +
         Branch(2) + R"(</cpu>
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="143">)" +
         Branch(0) + Branch(1) + R"(</cpu>
</system>)";
}

const Link& LinkOf(const Cluster& cluster, const char* from, const char* to) {
  return cluster.link(*cluster.FindDevice(from), *cluster.FindDevice(to));
}

std::vector<std::string> NamesOf(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Device& device : cluster.devices()) names.push_back(device.name + " " + device.kind);
  return names;
}

TEST(NcclTest, WhatTheFileDoesNotSayIsNamed) {
  std::string text = TwoSockets();
  const auto change = [&text](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  change("count=\"10\" ", "");
  change(" speed=\"400000\"", "");
  change("link_speed=\"16 GT/s\"", "link_speed=\"Unknown speed\"");
  change("dev=\"1\" sm", "dev=\"7\" sm");
  const datasets::Imported imported = Import(text, 2);
  EXPECT_THAT(imported.notes,
              ::testing::IsSupersetOf({"1 link of a GPU without a count: taken as one each",
                                       "1 PCIe link without a known link_speed: taken as generation 3, 8 GT/s",
                                       "1 network port without a speed: taken as 10 Gbit/s",
                                       "GPUs are numbered without holes: gpu:1 is dev 2, gpu:2 is dev 7"}));
  EXPECT_THAT(Import(TwoSockets(), 2).notes, ::testing::SizeIs(2));
  text += "<system version=\"1\"><cpu numaid=\"0\"/></system>";
  EXPECT_EQ(ErrorOf([&] { Import(text); }), "topo.xml: has several <system> (one node; --nodes repeats it)");
}

TEST(NcclTest, ANodeHasItsDevicesByNumberAndItsLinksByGeneration) {
  const datasets::Imported imported = Import(TwoSockets());
  const Cluster& cluster = *imported.cluster;
  EXPECT_EQ(imported.graph.num_ops(), 0U);
  EXPECT_THAT(NamesOf(cluster),
              ElementsAre("cpu:0 cpu-core", "cpu:1 cpu-core", "gpu:0 h100", "gpu:1 h100", "gpu:2 h100"));
  // 18 links of 20.6 GB/s through the switches, which are one.
  EXPECT_NEAR(LinkOf(cluster, "gpu:0", "gpu:2").bandwidth_gb_per_s, 18 * 20.6, 1e-9);
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "gpu:2").latency_micros, 2.5);
  // 16 lanes of generation 5 carry 48 GB/s.
  EXPECT_EQ(LinkOf(cluster, "cpu:0", "gpu:0"), (Link{.bandwidth_gb_per_s = 48, .latency_micros = 8}));
  // The sockets are joined by less.
  EXPECT_EQ(LinkOf(cluster, "cpu:0", "gpu:2").bandwidth_gb_per_s, 22);
  EXPECT_THAT(imported.notes, ElementsAre(HasSubstr("GPUs are taken as h100"), HasSubstr("latencies are estimates")));
}

TEST(NcclTest, NodesAreJoinedByTheirNetworkCards) {
  const Cluster cluster = *Import(TwoSockets(), 2).cluster;
  ASSERT_EQ(cluster.num_devices(), 10U);
  EXPECT_EQ(cluster.devices()[2].name, "cpu:2");
  EXPECT_EQ(cluster.devices()[9].name, "gpu:5");
  // A card on 8 lanes of generation 4: 12 GB/s, of the port's 50.
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "gpu:3"), (Link{.bandwidth_gb_per_s = 12, .latency_micros = 5}));
  EXPECT_NEAR(LinkOf(cluster, "gpu:3", "gpu:5").bandwidth_gb_per_s, 18 * 20.6, 1e-9);
  EXPECT_THAT(cluster.topology().switches(), ::testing::Contains("node1/nvswitch"));
  EXPECT_EQ(ErrorOf([] { Import("<system><cpu><pci busid=\"1\"><gpu/></pci></cpu></system>", 2); }),
            "topo.xml: has no network port (a <net>, or a PCI device of class 0x02), so that nodes cannot be joined");
  EXPECT_EQ(Import(TwoSockets(), 128).cluster->num_devices(), 640U);
}

TEST(NcclTest, LinksBetweenGpusLeadThereInOneDirectionEach) {
  const std::string text = R"(<system version="2"><cpu numaid="0" vendor="AuthenticAMD" arch="x86_64">
    <pci busid="0000:c1:00.0" class="0x038000" link_speed="" link_width="0"><gpu dev="0" gcn="908">
      <xgmi target="0000:c2:00.0" count="2" tclass="0x038000"/></gpu></pci>
    <pci busid="0000:c2:00.0" class="0x038000" link_speed="16 GT/s" link_width="16"><gpu dev="5" gcn="gfx942"/></pci>
    </cpu></system>)";
  const Cluster cluster = *Import(text).cluster;
  EXPECT_THAT(NamesOf(cluster), ElementsAre("cpu:0 cpu-core", "gpu:0 gfx908", "gpu:1 gfx942"));
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 48);  // two of 24
  EXPECT_EQ(LinkOf(cluster, "gpu:1", "gpu:0").bandwidth_gb_per_s, 12);  // over PCIe, of a speed that is not said
  EXPECT_EQ(LinkOf(cluster, "cpu:0", "gpu:1").bandwidth_gb_per_s, 24);
}

// Two levels of switches: between the sockets the way over the network has fewer links.
TEST(NcclTest, WithinANodeNothingGoesOverTheNetwork) {
  const auto socket = [](int n) {
    return fmt::format(R"(<cpu numaid="{0}" vendor="AuthenticAMD" arch="x86_64"><pci busid="r{0}" class="0x060400">
        <pci busid="s{0}" class="0x060400"><pci busid="g{0}" class="0x030200"><gpu dev="{0}" sm="80"/></pci>
        <pci busid="n{0}" class="0x020700"><nic><net name="m" speed="-1"/></nic></pci></pci></pci></cpu>)",
                       n);
  };
  const std::string text = "<system>" + socket(0) + socket(1) + "</system>";
  const Cluster one = *Import(text).cluster;
  EXPECT_EQ(LinkOf(one, "gpu:0", "gpu:1"), (Link{.bandwidth_gb_per_s = 12, .latency_micros = 2.5}));
  EXPECT_THAT(one.topology().switches(), ::testing::Not(::testing::Contains("net")));
  const Cluster two = *Import(text, 2).cluster;
  EXPECT_EQ(LinkOf(two, "gpu:2", "gpu:3"), (Link{.bandwidth_gb_per_s = 12, .latency_micros = 2.5}));
  EXPECT_EQ(LinkOf(two, "gpu:1", "gpu:2"), (Link{.bandwidth_gb_per_s = 1.25, .latency_micros = 5}));
}

TEST(NcclTest, LinksToACpuLeadToItsSocketAndThoseToOthersAreLeftOut) {
  const datasets::Imported imported = Import(R"(<system><cpu numaid="8" arch="ppc64"><pci busid="0004:04:00.0">
      <gpu dev="0" sm="70"><nvlink target="0004:00:01.0" count="3" tclass="0x068001"/>
      <nvlink target="0004:99:00.0" count="3" tclass="0x030200"/></gpu></pci>
      <pci busid="0004:05:00.0"><gpu dev="1" sm="90"><c2c bw="44712" count="5"/></gpu></pci></cpu></system>)");
  EXPECT_NEAR(LinkOf(*imported.cluster, "cpu:0", "gpu:0").bandwidth_gb_per_s, 60, 1e-9);
  EXPECT_NEAR(LinkOf(*imported.cluster, "cpu:0", "gpu:1").bandwidth_gb_per_s, 223.56, 1e-9);
  EXPECT_EQ(imported.notes.at(1), "1 links to GPUs that are not in the file are left out");
}

TEST(NcclTest, WithoutGpusDisplayDevicesAreThem) {
  const Cluster cluster = *Import(R"(<system version="1"><cpu numaid="-1"><pci busid="a" class="0x060400">
      <pci busid="b" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="a" class="0x060400"><pci busid="c" class="0x030200"/></pci>
      <pci busid="d" class="0x020700"/></pci></cpu></system>)")
                               .cluster;
  EXPECT_THAT(NamesOf(cluster), ElementsAre("cpu:0 cpu-core", "gpu:0 gpu", "gpu:1 gpu"));
  EXPECT_EQ(LinkOf(cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 12);
}

TEST(NcclTest, LinksToOneGpuAreAdded) {
  const auto between = [](const std::string& links) {
    const auto gpu = [&](int i, const std::string& to) {
      return fmt::format(R"(<pci busid="{0}"><gpu dev="{0}" sm="90">{1}</gpu></pci>)", i,
                         fmt::format(fmt::runtime(links), to));
    };
    return LinkOf(*Import("<system><cpu numaid=\"0\">" + gpu(0, "1") + gpu(1, "0") + "</cpu></system>").cluster,
                  "gpu:0", "gpu:1");
  };
  const std::string two = R"(<nvlink target="{0}" count="2" tclass="0x030200"/>)";
  EXPECT_EQ(between(two + two), between(R"(<nvlink target="{0}" count="4" tclass="0x030200"/>)"));
}

TEST(NcclTest, ALinkOfAGpuToItselfIsLeftOut) {
  const datasets::Imported imported = Import(R"(<system><cpu numaid="0"><pci busid="000A:00:00.0"><gpu dev="0" sm="80">
      <nvlink target="000a:00:00.0" count="12" tclass="0x030200"/></gpu></pci><pci busid="b"><gpu dev="1" sm="80"/></pci>
      </cpu></system>)");
  for (const Topology::Link& link : imported.cluster->topology().links()) EXPECT_NE(link.from, link.to);
  EXPECT_THAT(imported.notes, ::testing::Contains("1 links of GPUs to themselves are left out"));
  EXPECT_THAT(imported.notes, ::testing::Contains(HasSubstr("there is no NVLink between GPUs in the file: copies")));
}

// As clouds ship them: PCI devices alone.
std::string Template() {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 2; ++i) {
    text += fmt::format(R"(<pci busid="s{0}" class="0x060400" link_speed="32 GT/s" link_width="16">
        <pci busid="g{0}" class="0x030200" link_speed="32 GT/s" link_width="16"/>
        <pci busid="n{0}" class="0x020700" link_speed="32 GT/s" link_width="16"/></pci>
        <pci busid="e{0}" class="0x020000" link_speed="2.5 GT/s" link_width="1"/>)",
                        i);
  }
  return text + "</cpu></system>";
}

TEST(NcclTest, NvLinkIsAddedToATemplate) {
  const datasets::Imported without = Import(Template());
  EXPECT_EQ(LinkOf(*without.cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 48);
  EXPECT_THAT(without.notes, ::testing::Contains(HasSubstr("because NCCL adds it when it runs: copies between them")));
  const datasets::Imported h100 = Import(Template(), 1, "h100");
  EXPECT_NEAR(LinkOf(*h100.cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 18 * 20.6, 1e-9);
  EXPECT_EQ(h100.cluster->devices()[1].kind, "h100");
  EXPECT_THAT(h100.notes, ::testing::Contains("NVLink of h100 is added to each GPU, 370.8 GB/s"));
  const datasets::Imported number = Import(Template(), 1, "300");
  EXPECT_EQ(LinkOf(*number.cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 300);
  EXPECT_EQ(number.cluster->devices()[1].kind, "gpu");
  for (const char* const wrong : {"0", "-1", "nan", "inf", "x", "300 ", "1e7"}) {
    EXPECT_THAT(ErrorOf([&] { Import(Template(), 1, wrong); }),
                HasSubstr("(GB/s of each GPU and direction, above 0 to 1000000, or one of p100, v100"));
  }
  EXPECT_EQ(ErrorOf([] { Import(TwoSockets(), 1, "h100"); }),
            "--nvlink: cannot be used (the file has links between its GPUs)");
}

TEST(NcclTest, CardsOfATemplateAreItsPorts) {
  const datasets::Imported imported = Import(Template(), 2);
  // InfiniBand, and not the Ethernet beside it.
  EXPECT_EQ(LinkOf(*imported.cluster, "gpu:0", "gpu:2"), (Link{.bandwidth_gb_per_s = 48, .latency_micros = 5}));
  EXPECT_THAT(imported.notes, ::testing::Contains(HasSubstr("2 network cards have no port with a speed")));
  std::string ethernet = Template();
  for (std::size_t at = 0; (at = ethernet.find("0x020700")) != std::string::npos;) ethernet.replace(at, 8, "0x020000");
  EXPECT_THAT(Import(ethernet, 2).notes, ::testing::Contains(HasSubstr("4 network cards have no port with a speed")));
}

TEST(NcclTest, NumbersOfRcclsFilesAreRead) {
  const datasets::Imported imported = Import(R"(<system version="2"><cpu numaid="0" vendor="AuthenticAMD">
      <pci busid="a" class="0x120000" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="b" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="cxi0" dev="0" speed="200000000" port="1"/></nic></pci></cpu></system>)",
                                             2);
  EXPECT_EQ(LinkOf(*imported.cluster, "gpu:0", "gpu:1").bandwidth_gb_per_s, 24);
  EXPECT_THAT(imported.notes, ::testing::Contains(HasSubstr("1 network ports say more than 10 Tbit/s")));
}

TEST(NcclTest, NamesWhatIsWrong) {
  const auto error = [](const std::string& text) { return ErrorOf([&] { Import(text); }); };
  EXPECT_THAT(error("<system><cpu>"), HasSubstr("topo.xml: offset 12: not valid XML: "));
  EXPECT_EQ(error("<systems/>"), "topo.xml: has no <system> (a topology of NCCL's)");
  EXPECT_EQ(error("<system/>"), "topo.xml: has no <cpu> in its <system> (at least one)");
  EXPECT_EQ(error("<system><cpu/></system>"), "topo.xml: has no GPU (a <gpu>, or a PCI device of class 0x03 or 0x12)");
  EXPECT_EQ(error("<system><cpu/><cpu/></system>"),
            "topo.xml: offset 15: <cpu> numaid: is that of another CPU (each once)");
  const auto gpu = [](const std::string& inside) { return "<system><cpu>" + inside + "</cpu></system>"; };
  EXPECT_EQ(error(gpu("<pci><gpu/></pci>")), "topo.xml: offset 14: <pci> busid: is missing (such as 0000:07:00.0)");
  EXPECT_EQ(error(gpu("<pci busid=\"1\"><gpu dev=\"x\"/></pci>")),
            "topo.xml: offset 29: <gpu> dev: is \"x\" (an integer from 0 to 65536)");
  EXPECT_EQ(error(gpu("<pci busid=\"1\"><gpu/></pci><pci busid=\"1\"><gpu/></pci>")),
            "topo.xml: offset 41: <pci> busid: is that of another GPU (each once)");
  EXPECT_EQ(error(gpu("<pci busid=\"\xff\"/>")), "topo.xml: offset 14: <pci> busid: is not valid UTF-8");
  std::string many;
  for (int i = 0; i < 1025; ++i) many += fmt::format("<cpu numaid=\"{}\"/>", i);
  EXPECT_EQ(error("<system>" + many + "<cpu numaid=\"9999\"><pci busid=\"1\"><gpu/></pci></cpu></system>"),
            "topo.xml: has 1027 CPUs and GPUs (at most 1024)");
  std::string deep = "<gpu/>";
  for (int i = 0; i < 40; ++i) deep = fmt::format("<pci busid=\"{}\">{}</pci>", i, deep);
  EXPECT_THAT(error(gpu(deep)), HasSubstr("is nested too deeply (at most 32 levels)"));
}

TEST(NcclTest, TopologiesOfAzureMakeClustersThatAreRead) {
  const std::string folder = ::emplace::testing::ReferenceFolder("Azure+azhpc-images");
  if (folder.empty()) GTEST_SKIP() << "no Azure+azhpc-images in EMPLACE_REFERENCE_DATA";
  for (const std::string name : {"ncv4", "ndv2", "ndv4", "ndv5"}) {
    const datasets::ImportSource source(folder + "/" + name + "-topo.xml");
    for (const int nodes : {1, 2}) {
      const datasets::Imported imported =
          datasets::Import(datasets::FindImporter("", source.head(), source.name()), {&source, 1}, {.nodes = nodes});
      std::ostringstream out;
      WriteCluster(out, *imported.cluster);
      std::istringstream in(out.str());
      EXPECT_EQ(ReadCluster(in, name).num_devices(), imported.cluster->num_devices()) << name;
    }
  }
  // 8 GPUs with all their NVLinks: as fast as the shipped node of such GPUs, 2.8 ms for 1 GB.
  const datasets::ImportSource ndv5(folder + "/ndv5-topo.xml");
  const Cluster cluster =
      *datasets::Import(datasets::FindImporter("", ndv5.head(), ""), {&ndv5, 1}, {.nvlink = "h100"}).cluster;
  EXPECT_NEAR(1e6 / LinkOf(cluster, "gpu:0", "gpu:7").bandwidth_gb_per_s, 2.75e3, 60);
}

}  // namespace nccl_test
}  // namespace emplace
