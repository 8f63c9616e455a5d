#include "datasets/importers/nccl.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/network/topology.h"

namespace emplace::datasets {
namespace {

constexpr int kMostNested = static_cast<int>(LimitsOf(InputKind::kNccl).levels);
constexpr std::size_t kMostDevices = 1024;
constexpr std::size_t kMostSwitches = std::size_t{1} << 16;  // the limit of cluster.yaml
constexpr std::size_t kMostLinks = std::size_t{1} << 20;
constexpr double kLocal = 5000;      // GB/s: a CPU and its memory
constexpr double kGpuMicros = 1.25;  // latency at each GPU and at each network port
constexpr double kCpuMicros = 6.75;
constexpr double kMostMbit = 10'000'000;  // the most of a network port: no card is as fast

constexpr double kUnknownLane = 60;  // that of generation 3

// The rate of a PCIe lane, in units of 100 Mbit/s after coding and overhead, by its generation's speed; none: not
// known.
std::optional<double> LaneRate(std::string_view speed) {
  constexpr std::pair<std::string_view, double> kRates[] = {{"2.5", 15}, {"5", 30},   {"8", 60},
                                                            {"16", 120}, {"32", 240}, {"64", 480}};
  std::string_view number = speed.substr(0, speed.find(' '));
  if (number.ends_with(".0")) number.remove_suffix(2);
  for (const auto& [name, rate] : kRates) {
    if (number == name) return rate;
  }
  return std::nullopt;
}

// A node of the file, with its place for messages.
class Element {
 public:
  Element(pugi::xml_node node, const std::string& file) : node_(node), file_(file) {}

  pugi::xml_node node() const { return node_; }
  std::string Text(const char* name) const {
    std::string text = node_.attribute(name).value();
    if (!IsValidUtf8(text)) Refuse(name, "is not valid UTF-8");
    return text;
  }

  // An integer of `low` to `high`, or `otherwise` where it is not given.
  std::int64_t Integer(const char* name, std::int64_t low, std::int64_t high, std::int64_t otherwise) const {
    const std::string text = Text(name);
    if (text.empty()) return otherwise;
    const bool is_hex = text.starts_with("0x");
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + (is_hex ? 2 : 0), end, value, is_hex ? 16 : 10);
    if (error != std::errc() || rest != end || value < low || value > high) {
      Refuse(name, fmt::format("is {} (an integer from {} to {})", Quoted(text), low, high));
    }
    return value;
  }
  [[noreturn]] void Refuse(const char* name, const std::string& what) const {
    throw InputError(fmt::format("{}: offset {}: <{}> {}", file_, node_.offset_debug(), node_.name(), name), what);
  }

 private:
  pugi::xml_node node_;
  const std::string& file_;
};

struct Cpu {
  std::string name;
  std::int64_t numa = 0;
  double between_sockets = 0;  // GB/s
};

struct Gpu {
  std::string name;
  std::string kind;
};

// Ends are names: those of devices and switches, and "bus BUSID" for what NVLink leads to.
struct CableEnds {
  std::string from;
  std::string to;
  double gb_per_s = 0;
  double micros = 0;
  bool both = true;
};

// Classes of PCI devices, as NCCL and RCCL tell them. AMD's accelerators are of class 0x1200.
bool IsGpuClass(const std::string& pci_class) { return pci_class.starts_with("0x03") || pci_class.starts_with("0x12"); }
bool IsInfiniBandClass(const std::string& pci_class) { return pci_class.starts_with("0x0207"); }
bool IsNetworkClass(const std::string& pci_class) { return pci_class.starts_with("0x02"); }

double BetweenSockets(const Element& cpu) {
  const std::string arch = cpu.Text("arch");
  const std::string vendor = cpu.Text("vendor");
  if (arch == "ppc64") return 32;
  if (vendor == "AuthenticAMD") return 16;
  if (vendor != "GenuineIntel") return 6;
  constexpr std::int64_t kSkylake = 85;
  constexpr std::int64_t kSapphireRapids = 143;
  constexpr std::int64_t kEmeraldRapids = 207;
  const std::int64_t model = cpu.Integer("modelid", 0, 1 << 16, 0);
  if (model >= kEmeraldRapids) return 40;
  if (model >= kSapphireRapids) return 22;
  return model >= kSkylake ? 10 : 6;
}

double NvLink(std::int64_t sm) {
  if (sm >= 100) return 40.1;
  if (sm >= 90) return 20.6;
  if (sm == 86) return 12;
  return sm < 70 && sm > 0 ? 18 : 20;
}

double Xgmi(const std::string& gcn) {
  if (gcn == "910" || gcn == "90a" || gcn == "gfx90a") return 36;
  return gcn.find("94") != std::string::npos ? 48 : 24;
}

// GPUs of which clouds ship templates: their NVLinks, and the compute capability that says how fast each is.
struct NvLinkKind {
  std::string_view kind;
  int links;
  int sm;
};
constexpr NvLinkKind kNvLinkKinds[] = {{"p100", 4, 60},  {"v100", 6, 70},  {"a100", 12, 80},
                                       {"h100", 18, 90}, {"h200", 18, 90}, {"b200", 18, 100}};

struct AddedNvLink {
  double gb_per_s = 0;
  std::string_view kind;  // the kind of the GPUs; "": not said
};

// The value of --nvlink: a kind, or GB/s of each GPU and direction.
AddedNvLink ParseNvLink(const std::string& text) {
  std::string known;
  for (const NvLinkKind& each : kNvLinkKinds) {
    if (each.kind == text) return {each.links * NvLink(each.sm), each.kind};
    known.append(known.empty() ? "" : ", ").append(each.kind);
  }
  constexpr double kMost = 1e6;
  double gb_per_s = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, gb_per_s);
  if (error != std::errc() || rest != end || !(gb_per_s > 0 && gb_per_s <= kMost)) {
    throw InputError("--nvlink", fmt::format("is {} (GB/s of each GPU and direction, above 0 to {:.0f}, or one of {})",
                                             Quoted(text), kMost, known));
  }
  return {gb_per_s, {}};
}

std::string InLowerCase(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

constexpr std::string_view kUnknownGpu = "gpu";

std::string KindOf(std::int64_t sm, const std::string& gcn) {
  if (!gcn.empty()) return gcn.starts_with("gfx") ? gcn : "gfx" + gcn;
  constexpr std::pair<std::int64_t, std::string_view> kKinds[] = {
      {60, "p100"}, {70, "v100"}, {80, "a100"}, {90, "h100"}, {100, "b200"}};
  for (const auto& [capability, kind] : kKinds) {
    if (capability == sm) return std::string(kind);
  }
  return sm == 0 ? std::string(kUnknownGpu) : fmt::format("sm{}", sm);
}

// One node.
class SystemReader {
 public:
  explicit SystemReader(const std::string& file) : file_(file) {}

  void Read(const std::string& content) {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(content.data(), content.size());
    if (!parsed)
      throw InputError(fmt::format("{}: offset {}", file_, parsed.offset),
                       "not valid XML: " + std::string(parsed.description()));
    const pugi::xml_node system = document.child("system");
    if (!system) throw InputError(file_, "has no <system> (a topology of NCCL's)");
    if (system.next_sibling("system")) throw InputError(file_, "has several <system> (one node; --nodes repeats it)");
    has_gpus = !system.select_node(".//gpu").node().empty();
    has_ports_ = !system.select_node(".//net").node().empty();
    for (const pugi::xml_node cpu : system.children("cpu")) ReadCpu(Element(cpu, file_));
    if (cpus.empty()) throw InputError(file_, "has no <cpu> in its <system> (at least one)");
    if (gpus.empty()) throw InputError(file_, "has no GPU (a <gpu>, or a PCI device of class 0x03 or 0x12)");
    if (cpus.size() + gpus.size() > kMostDevices) {
      throw InputError(file_,
                       fmt::format("has {} CPUs and GPUs (at most {})", cpus.size() + gpus.size(), kMostDevices));
    }
    for (std::size_t a = 0; a < cpus.size(); ++a) {
      for (std::size_t b = a + 1; b < cpus.size(); ++b) {
        const double rate = std::min(cpus[a].between_sockets, cpus[b].between_sockets);
        joins.push_back({NumaOf(cpus[a]), NumaOf(cpus[b]), rate, 0});
      }
    }
    ResolveBuses();
    if (!has_ports_) AddCardsAsPorts();
  }

  // Joins each GPU to an NVLink switch.
  void AddNvSwitch(double gb_per_s) {
    switches.emplace_back("nvswitch");
    for (const Gpu& gpu : gpus) joins.push_back({gpu.name, "nvswitch", gb_per_s, kGpuMicros});
  }

  std::vector<Cpu> cpus;
  std::vector<Gpu> gpus;
  std::vector<std::string> switches;
  std::vector<CableEnds> joins;
  bool has_gpus = false;  // <gpu>, not only PCI devices of their class
  bool has_net = false;
  bool has_fabric = false;         // a link of NVLink's or XGMI's between GPUs
  std::size_t left_out = 0;        // links to GPUs that are not in the file
  std::size_t to_themselves = 0;   // links of GPUs to themselves
  std::size_t cards_as_ports = 0;  // network cards without a <net>
  std::size_t too_fast = 0;        // ports that say more than kMostMbit
  std::size_t without_speed = 0;   // ports
  std::size_t without_count = 0;   // links of NVLink's or XGMI's that do not say how many they are
  std::size_t unknown_lanes = 0;   // PCIe links without a speed that is known

 private:
  static std::string NumaOf(const Cpu& cpu) { return fmt::format("numa:{}", cpu.numa); }

  void ReadCpu(const Element& cpu) {
    Cpu read;
    read.numa = cpu.Integer("numaid", -1, 1 << 16, 0);
    read.numa = std::max<std::int64_t>(read.numa, 0);
    read.name = fmt::format("cpu:{}", read.numa);
    read.between_sockets = BetweenSockets(cpu);
    if (!names_.insert(read.name).second) cpu.Refuse("numaid", "is that of another CPU (each once)");
    cpus.push_back(read);
    const std::string numa = NumaOf(read);
    switches.push_back(numa);
    numa_ = numa;
    joins.push_back({read.name, numa, kLocal, kCpuMicros});
    ReadChildren(cpu, numa, 0);
  }

  void ReadChildren(const Element& parent, const std::string& above, int depth) {
    if (depth > kMostNested) parent.Refuse("", fmt::format("is nested too deeply (at most {} levels)", kMostNested));
    for (const pugi::xml_node child : parent.node().children()) {
      const std::string_view name = child.name();
      if (name == "pci") ReadPci(Element(child, file_), above, depth);
      if (name == "nic") ReadNic(Element(child, file_), above);
    }
  }

  void ReadPci(const Element& pci, const std::string& above, int depth) {
    // Unknown: 0, or 255 as Linux has it.
    const std::int64_t given_width = pci.Integer("link_width", 0, 255, 0);
    const double width = given_width == 0 || given_width > 32 ? 16 : static_cast<double>(given_width);
    const std::optional<double> lane = LaneRate(pci.Text("link_speed"));
    unknown_lanes += lane ? 0 : 1;
    const double rate = width * lane.value_or(kUnknownLane) / 80;
    const std::string bus = pci.Text("busid");
    if (bus.empty()) pci.Refuse("busid", "is missing (such as 0000:07:00.0)");
    const pugi::xml_node gpu = pci.node().child("gpu");
    const std::string pci_class = pci.Text("class");
    if (gpu || (!has_gpus && IsGpuClass(pci_class))) {
      ReadGpu(Element(gpu, file_), pci, bus, above, rate);
      return;
    }
    // Bridges of one busid occur: their parts have the same number.
    const std::size_t copy = ++copies_[bus];
    const std::string name = copy == 1 ? "pci:" + bus : fmt::format("pci:{}#{}", bus, copy);
    if (!names_.insert(name).second) pci.Refuse("busid", "is the name of another one's copy (each once)");
    switches.push_back(name);
    joins.push_back({name, above, rate, 0});
    if (IsNetworkClass(pci_class)) cards_.push_back({name, IsInfiniBandClass(pci_class), rate});
    ReadChildren(pci, name, depth + 1);
  }

  // A template has cards without ports: NCCL adds those when it runs. Beside InfiniBand, Ethernet is for management.
  void AddCardsAsPorts() {
    const bool any_infini_band =
        std::any_of(cards_.begin(), cards_.end(), [](const Card& card) { return card.is_infini_band; });
    for (const Card& card : cards_) {
      if (any_infini_band && !card.is_infini_band) continue;
      has_net = true;
      ++cards_as_ports;
      joins.push_back({card.name, "net", card.gb_per_s, kGpuMicros});
    }
  }

  void ReadGpu(const Element& gpu, const Element& pci, const std::string& bus, const std::string& above, double rate) {
    const auto next = static_cast<std::int64_t>(gpus.size());
    const std::int64_t dev = gpu.node() ? gpu.Integer("dev", 0, 1 << 16, next) : next;
    const std::int64_t sm = gpu.node() ? gpu.Integer("sm", 0, 1 << 16, 0) : 0;
    const std::string gcn = gpu.node() ? gpu.Text("gcn") : "";
    const std::string name = fmt::format("gpu:{}", dev);
    if (!names_.insert(name).second) gpu.Refuse("dev", "is that of another GPU (each once)");
    if (!gpu_of_bus_.emplace(InLowerCase(bus), name).second) pci.Refuse("busid", "is that of another GPU (each once)");
    gpus.push_back({name, KindOf(sm, gcn)});
    joins.push_back({name, above, rate, kGpuMicros});
    for (const pugi::xml_node child : gpu.node().children()) {
      const Element link(child, file_);
      if (std::string_view(child.name()) == "c2c") {
        const auto mb_per_s =
            static_cast<double>(link.Integer("bw", 1, 10'000'000, 1) * link.Integer("count", 1, 1024, 1));
        joins.push_back({name, numa_, mb_per_s / 1000, kGpuMicros});
        continue;
      }
      const bool is_nvlink = std::string_view(child.name()) == "nvlink";
      if (!is_nvlink && std::string_view(child.name()) != "xgmi") continue;
      const auto count = static_cast<double>(link.Integer("count", 1, 1024, 1));
      without_count += link.Text("count").empty() ? 1 : 0;
      const std::string target = link.Text("target");
      if (target.empty()) link.Refuse("target", "is missing (a bus id)");
      // Class 0x068000 is a switch of NVLink's, 0x068001 the GPU's CPU.
      const std::string link_class = link.Text("tclass");
      if (link_class == "0x068001") {
        joins.push_back({name, numa_, count * NvLink(sm), kGpuMicros});
        continue;
      }
      const bool is_switch = link_class.starts_with("0x0680");
      joins.push_back({name, is_switch ? "nvswitch" : "bus " + target, count * (is_nvlink ? NvLink(sm) : Xgmi(gcn)),
                       is_switch ? kGpuMicros : 2 * kGpuMicros, is_switch});
    }
  }

  void ReadNic(const Element& nic, const std::string& above) {
    for (const pugi::xml_node port : nic.node().children("net")) {
      const Element net(port, file_);
      // A card that does not know its speed says 0 or -1: taken as 10 Gbit/s.
      const std::int64_t given = net.Integer("speed", -1, std::numeric_limits<std::int32_t>::max(), 0);
      const double mbit = given <= 0 ? 10'000 : static_cast<double>(given);
      without_speed += given <= 0 ? 1 : 0;
      too_fast += mbit > kMostMbit ? 1 : 0;
      has_net = true;
      joins.push_back({above, "net", mbit / 8000, kGpuMicros});
    }
  }

  // Merges several links of a GPU to switches into one link to `nvswitch`, and several links to one GPU into one. A
  // link to a bus id leads to the GPU with that id.
  void ResolveBuses() {
    std::vector<CableEnds> resolved;
    std::map<std::pair<std::string, std::string>, std::size_t> known;
    bool has_switch = false;
    for (CableEnds& join : joins) {
      bool is_one_of_several = join.to == "nvswitch";
      has_switch = has_switch || is_one_of_several;
      if (join.to.starts_with("bus ")) {
        const auto found = gpu_of_bus_.find(InLowerCase(join.to.substr(4)));
        if (found == gpu_of_bus_.end()) {
          ++left_out;
          continue;
        }
        join.to = found->second;
        if (join.to == join.from) {
          ++to_themselves;
          continue;
        }
        has_fabric = true;
        is_one_of_several = true;
      }
      if (is_one_of_several) {
        const auto [at, is_new] = known.emplace(std::pair(join.from, join.to), resolved.size());
        if (!is_new) {
          resolved[at->second].gb_per_s += join.gb_per_s;
          continue;
        }
      }
      resolved.push_back(std::move(join));
    }
    joins = std::move(resolved);
    if (!has_switch) return;
    has_fabric = true;
    switches.emplace_back("nvswitch");
  }

  struct Card {
    std::string name;
    bool is_infini_band = false;
    double gb_per_s = 0;  // rate of its PCIe link
  };

  const std::string& file_;
  bool has_ports_ = false;
  std::vector<Card> cards_;
  std::set<std::string> names_;
  std::map<std::string, std::string> gpu_of_bus_;
  std::map<std::string, std::size_t> copies_;  // number of times that a switch's bus id occurs
  std::string numa_;                           // the CPU that is being read
};

// The node of each device.
std::vector<int> NodeOf(const SystemReader& node, int nodes) {
  std::vector<int> node_of;
  for (const std::size_t each : {node.cpus.size(), node.gpus.size()}) {
    for (int index = 0; index < nodes; ++index) node_of.insert(node_of.end(), each, index);
  }
  return node_of;
}

// The node's own routes between pairs that the network would join by fewer links.
std::vector<Topology::GivenRoute> RoutesWithin(const Topology& topology, Topology::Vertex net,
                                               const std::vector<int>& node_of) {
  std::vector<Topology::Link> without;
  for (const Topology::Link& link : topology.links()) {
    if (link.from != net && link.to != net) without.push_back(link);
  }
  const Topology inside(topology.num_devices(), topology.switches(), without);
  std::vector<Topology::GivenRoute> given;
  for (std::size_t from = 0; from < node_of.size(); ++from) {
    for (std::size_t to = 0; to < node_of.size(); ++to) {
      const auto found = topology.Route(from, to);
      const auto own = inside.Route(from, to);
      const auto passes = [&](std::uint32_t link) { return topology.links()[link].to == net; };
      if (node_of[from] != node_of[to] || own.empty() || std::none_of(found.begin(), found.end(), passes)) continue;
      Topology::GivenRoute& route = given.emplace_back();
      route.push_back(static_cast<Topology::Vertex>(from));
      for (const std::uint32_t link : own) route.push_back(inside.links()[link].to);
    }
  }
  return given;
}

// Device "gpu:N" of one node is gpu:N + first of the cluster.
Cluster MakeCluster(const SystemReader& node, const std::string& file, int nodes) {
  std::vector<Device> devices;
  std::vector<std::string> switches;
  std::map<std::string, Topology::Vertex> vertex_of;  // "node INDEX NAME"
  const auto key = [](int index, const std::string& name) { return fmt::format("{} {}", index, name); };
  const std::size_t per_node = node.cpus.size() + node.gpus.size();
  if (per_node * static_cast<std::size_t>(nodes) > kMostDevices) {
    throw InputError(file,
                     fmt::format("has {} devices on {} nodes (at most {} in all)", per_node, nodes, kMostDevices));
  }
  for (int index = 0; index < nodes; ++index) {
    for (const Cpu& cpu : node.cpus) {
      vertex_of[key(index, cpu.name)] = static_cast<Topology::Vertex>(devices.size());
      devices.push_back(
          {.name = fmt::format("cpu:{}", devices.size()), .kind = "cpu-core", .memory = {}, .is_cpu = true});
    }
  }
  const std::size_t first_gpu = devices.size();
  for (int index = 0; index < nodes; ++index) {
    for (const Gpu& gpu : node.gpus) {
      vertex_of[key(index, gpu.name)] = static_cast<Topology::Vertex>(devices.size());
      devices.push_back({.name = fmt::format("gpu:{}", devices.size() - first_gpu), .kind = gpu.kind, .memory = {}});
    }
  }
  const auto add_switch = [&](int index, const std::string& name, const std::string& shown) {
    vertex_of[key(index, name)] = static_cast<Topology::Vertex>(devices.size() + switches.size());
    switches.push_back(shown);
  };
  const bool has_net = node.has_net && nodes > 1;
  if (has_net) add_switch(0, "net", "net");
  for (int index = 0; index < nodes; ++index) {
    for (const std::string& name : node.switches) {
      add_switch(index, name, index == 0 ? name : fmt::format("node{}/{}", index, name));
    }
  }
  std::vector<Topology::Link> links;
  for (int index = 0; index < nodes; ++index) {
    for (const CableEnds& join : node.joins) {
      if (join.to == "net" && !has_net) continue;
      Topology::Link link{vertex_of.at(key(index, join.from)), vertex_of.at(key(join.to == "net" ? 0 : index, join.to)),
                          join.gb_per_s, join.micros};
      links.push_back(link);
      if (!join.both) continue;
      std::swap(link.from, link.to);
      links.push_back(link);
    }
  }
  if (switches.size() > kMostSwitches || links.size() > kMostLinks) {
    throw InputError(file, fmt::format("makes {} switches and {} links on {} nodes (at most {} and {})",
                                       switches.size(), links.size(), nodes, kMostSwitches, kMostLinks));
  }
  const std::size_t num_devices = devices.size();
  Topology topology(num_devices, switches, links);
  if (has_net) {
    std::vector<Topology::GivenRoute> given = RoutesWithin(topology, vertex_of.at(key(0, "net")), NodeOf(node, nodes));
    if (!given.empty()) topology = Topology(num_devices, switches, links, std::move(given));
  }
  return Cluster(nodes == 1 ? "node" : fmt::format("{} nodes", nodes),
                 "a topology file of NCCL's; bandwidths as NCCL takes them, latencies estimated", std::move(devices),
                 std::move(topology), Channels::kPerPair);
}

}  // namespace

bool LooksLikeNccl(std::string_view head) {
  const std::size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return start != std::string_view::npos && head[start] == '<' && head.find("<system") != std::string_view::npos;
}

namespace {

// Returns a note.
std::string AddNvLink(const AddedNvLink& nvlink, SystemReader* node) {
  if (node->has_fabric) throw InputError("--nvlink", "cannot be used (the file has links between its GPUs)");
  node->AddNvSwitch(nvlink.gb_per_s);
  if (nvlink.kind.empty()) return fmt::format("NVLink of {:g} GB/s is added to each GPU", nvlink.gb_per_s);
  for (Gpu& gpu : node->gpus) {
    if (gpu.kind == kUnknownGpu) gpu.kind = nvlink.kind;
  }
  return fmt::format("NVLink of {} is added to each GPU, {:g} GB/s", nvlink.kind, nvlink.gb_per_s);
}

void AddNcclNotes(const SystemReader& node, const ImportOptions& options, const std::string& added,
                  std::vector<std::string>* notes) {
  if (node.left_out > 0) {
    notes->push_back(fmt::format("{} links to GPUs that are not in the file are left out", node.left_out));
  }
  if (node.to_themselves > 0) {
    notes->push_back(fmt::format("{} links of GPUs to themselves are left out", node.to_themselves));
  }
  if (!added.empty()) notes->push_back(added);
  if (added.empty() && !node.has_fabric && node.gpus.size() > 1 && (!node.has_gpus || node.to_themselves > 0)) {
    notes->push_back(
        fmt::format("there is no NVLink between GPUs in the file{}: copies between them go over PCIe (--nvlink KIND, "
                    "such as h100, or --nvlink GB_PER_S adds it)",
                    node.has_gpus ? "" : ", because NCCL adds it when it runs"));
  }
  if (node.cards_as_ports > 0 && options.nodes > 1) {
    notes->push_back(fmt::format("{} network cards have no port with a speed: taken to be as fast as their PCIe links",
                                 node.cards_as_ports));
  }
  if (node.without_count > 0) {
    notes->push_back(
        fmt::format("{} of a GPU without a count: taken as one each", Counted(node.without_count, "link")));
  }
  if (node.unknown_lanes > 0) {
    notes->push_back(fmt::format("{} without a known link_speed: taken as generation 3, 8 GT/s",
                                 Counted(node.unknown_lanes, "PCIe link")));
  }
  if (node.without_speed > 0 && options.nodes > 1) {
    notes->push_back(
        fmt::format("{} without a speed: taken as 10 Gbit/s", Counted(node.without_speed, "network port")));
  }
  if (node.too_fast > 0 && options.nodes > 1) {
    notes->push_back(
        fmt::format("{} network ports say more than 10 Tbit/s: only their PCIe links limit them", node.too_fast));
  }
}

}  // namespace

Imported ImportNccl(std::span<const ImportSource> sources, const ImportOptions& options) {
  const std::string& file = sources.front().name();
  SystemReader node(file);
  node.Read(sources.front().Content(InputKind::kNccl));
  if (options.nodes > 1 && !node.has_net) {
    throw InputError(file,
                     "has no network port (a <net>, or a PCI device of class 0x02), so that nodes cannot be joined");
  }
  std::string added;
  if (!options.nvlink.empty()) added = AddNvLink(ParseNvLink(options.nvlink), &node);
  // Numbers in a file may have holes, and come in any order.
  std::sort(node.cpus.begin(), node.cpus.end(), [](const Cpu& a, const Cpu& b) { return a.numa < b.numa; });
  std::stable_sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) {
    return std::stoll(a.name.substr(4)) < std::stoll(b.name.substr(4));
  });
  Imported imported{
      .graph = GraphBuilder("nccl").Build(), .cluster = MakeCluster(node, file, options.nodes), .notes = {}};
  std::set<std::string> kinds;
  for (const Gpu& gpu : node.gpus) kinds.insert(gpu.kind);
  imported.notes.push_back(fmt::format("GPUs are taken as {}, CPUs as cpu-core", fmt::join(kinds, " and ")));
  AddNcclNotes(node, options, added, &imported.notes);
  std::string renumbered;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    if (node.gpus[i].name != fmt::format("gpu:{}", i)) {
      renumbered += fmt::format("{}gpu:{} is dev {}", renumbered.empty() ? "" : ", ", i, node.gpus[i].name.substr(4));
    }
  }
  if (!renumbered.empty()) imported.notes.push_back("GPUs are numbered without holes: " + renumbered);
  imported.notes.push_back(
      "memory sizes and op gaps are not in such a file (memory_gib, op_gap_us); latencies are estimates");
  return imported;
}

}  // namespace emplace::datasets
