#include <fmt/format.h>

#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "datasets/shipped_clusters.h"
#include "experiments/plan/problem.h"
#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::python {
namespace {

PlacedCluster Keep(PlacedCluster whole, const std::vector<std::string>& devices, std::optional<std::size_t> gpus,
                   bool unlimited_memory) {
  experiments::ClusterChoice choice;
  choice.devices = devices;
  choice.gpus = gpus;
  choice.unlimited_memory = unlimited_memory;
  return {experiments::KeepChosen(std::move(whole.cluster), choice), std::move(whole.place)};
}

PlacedCluster LoadNamedCluster(const std::string& name, std::size_t nodes, const std::vector<std::string>& devices,
                               std::optional<std::size_t> gpus, bool unlimited_memory) {
  const Cluster node = datasets::LoadCluster(name);
  return Keep({WithLocation("nodes", [&] { return node.Repeat(nodes); }), name}, devices, gpus, unlimited_memory);
}

PlacedCluster ReadClusterText(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  return {ReadCluster(in, name), name};
}

std::string ClusterText(const PlacedCluster& self) {
  std::ostringstream out;
  WriteCluster(out, self.cluster);
  return std::move(out).str();
}

template <typename Text>
std::vector<std::string> DeviceTexts(const PlacedCluster& self, Text text) {
  std::vector<std::string> texts;
  for (const Device& device : self.cluster.devices()) texts.push_back(text(device));
  return texts;
}

// -1: no limit.
py::array_t<std::int64_t> MemoryBytes(const PlacedCluster& self) {
  auto memory = NewArray<std::int64_t>(self.cluster.num_devices());
  for (std::size_t d = 0; d < self.cluster.num_devices(); ++d) {
    const auto& limit = self.cluster.devices()[d].memory;
    memory.mutable_at(d) = limit ? limit->count : -1;
  }
  return memory;
}

py::array_t<bool> IsCpu(const PlacedCluster& self) {
  auto cpus = NewArray<bool>(self.cluster.num_devices());
  for (std::size_t d = 0; d < self.cluster.num_devices(); ++d) cpus.mutable_at(d) = self.cluster.devices()[d].is_cpu;
  return cpus;
}

// A number of each ordered pair of devices, [from, to]; 0 on the diagonal.
template <typename Number>
py::array_t<double> LinkNumbers(const PlacedCluster& self, Number number) {
  const auto devices = static_cast<py::ssize_t>(self.cluster.num_devices());
  auto numbers = NewArray<double>({devices, devices});
  for (py::ssize_t from = 0; from < devices; ++from) {
    for (py::ssize_t to = 0; to < devices; ++to) {
      const Link& link = self.cluster.link(MakeId<DeviceId>(static_cast<std::size_t>(from)),
                                           MakeId<DeviceId>(static_cast<std::size_t>(to)));
      numbers.mutable_at(from, to) = from == to ? 0 : number(link);
    }
  }
  return numbers;
}

NamedCosts MakeNamedCosts(const PlacedGraph& graph, const PlacedCluster& cluster, const std::string& model,
                          const std::string& profile, const std::string& tf32, const std::string& runtime) {
  const experiments::CostsChoice asked = {.model = model, .profile = profile, .tf32 = tf32, .runtime = runtime};
  const experiments::CostsChoice choice = experiments::ResolvedCosts(asked, graph.graph, cluster.cluster);
  return {experiments::MakeCosts(graph.graph, cluster.cluster, experiments::LoadCostModels(choice, "costs"),
                                 graph.place, cluster.place),
          experiments::CostsText(choice), experiments::CostsDetail(asked, choice, graph.graph, cluster.cluster)};
}

py::array_t<double> MicrosOfOps(const NamedCosts& self, const PlacedCluster& cluster) {
  const std::size_t devices = cluster.cluster.num_devices();
  auto micros = NewArray<double>({static_cast<py::ssize_t>(self.table.num_ops()), static_cast<py::ssize_t>(devices)});
  double* next = micros.mutable_data();
  for (std::size_t op = 0; op < self.table.num_ops(); ++op) {
    for (std::size_t d = 0; d < devices; ++d) *next++ = self.table.Micros(MakeId<OpId>(op), MakeId<DeviceId>(d));
  }
  return micros;
}

}  // namespace

void BindCluster(py::module_& module) {
  py::class_<PlacedCluster>(module, "Cluster")
      .def(py::init(&LoadNamedCluster), py::arg("name"), py::kw_only(), py::arg("nodes") = 1,
           py::arg("devices") = std::vector<std::string>(), py::arg("gpus") = py::none(),
           py::arg("unlimited_memory") = false)
      .def_static("from_yaml", &ReadClusterText, py::arg("text"), py::arg("name") = "text")
      .def("keep", &Keep, py::kw_only(), py::arg("devices") = std::vector<std::string>(), py::arg("gpus") = py::none(),
           py::arg("unlimited_memory") = false)
      .def("to_yaml", &ClusterText)
      .def(
          "save",
          [](const PlacedCluster& self, const std::string& path) {
            WriteFile(path, [&](std::ostream& out) { WriteCluster(out, self.cluster); });
          },
          py::arg("path"))
      .def_property_readonly("name", [](const PlacedCluster& self) { return self.cluster.name(); })
      .def_property_readonly("num_devices", [](const PlacedCluster& self) { return self.cluster.num_devices(); })
      .def_property_readonly(
          "device_names", [](const PlacedCluster& self) { return DeviceTexts(self, [](auto& d) { return d.name; }); })
      .def_property_readonly(
          "device_kinds", [](const PlacedCluster& self) { return DeviceTexts(self, [](auto& d) { return d.kind; }); })
      .def_property_readonly("memory_bytes", &MemoryBytes)
      .def_property_readonly("is_cpu", &IsCpu)
      .def_property_readonly("bandwidth_gb_per_s",
                             [](const PlacedCluster& self) {
                               return LinkNumbers(self, [](const Link& link) { return link.bandwidth_gb_per_s; });
                             })
      .def_property_readonly("latency_us", [](const PlacedCluster& self) {
        return LinkNumbers(self, [](const Link& link) { return link.latency_micros; });
      });
  py::class_<NamedCosts>(module, "Costs")
      .def(py::init(&MakeNamedCosts), py::arg("graph"), py::arg("cluster"), py::arg("model") = "", py::kw_only(),
           py::arg("profile") = "", py::arg("tf32") = "", py::arg("runtime") = "",
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("text", [](const NamedCosts& self) { return self.text; })
      .def_property_readonly("detail", [](const NamedCosts& self) { return self.detail; })
      .def_property_readonly("num_ops", [](const NamedCosts& self) { return self.table.num_ops(); })
      .def_property_readonly("fallback_ops", [](const NamedCosts& self) { return self.table.fallback_ops(); })
      .def("micros", &MicrosOfOps, py::arg("cluster"));
}

}  // namespace emplace::python
