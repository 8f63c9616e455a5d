#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/vector_env.h"
#include "sim/base/check.h"
#include "sim/base/worker_pool.h"

namespace emplace::python {
namespace {

using Actions = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

Autoreset AutoresetFromName(const std::string& name) {
  if (name == "next_step") return Autoreset::kNextStep;
  if (name == "same_step") return Autoreset::kSameStep;
  if (name == "disabled") return Autoreset::kDisabled;
  throw InputError("autoreset_mode", "is \"" + name + "\" (next_step, same_step or disabled)");
}

Start StartFromName(const std::string& name) {
  if (name == "single_device") return Start::kSingleDevice;
  if (name == "random") return Start::kRandom;
  if (name == "best") return Start::kBest;
  throw InputError("start", "is \"" + name + "\" (single_device, random or best)");
}

std::unique_ptr<VectorEnv> MakeVectorEnv(const py::object& simulator, const Grouping& grouping, std::size_t num_envs,
                                         bool whole, const std::string& observation, const std::string& start,
                                         const std::string& reward, double memory_penalty, const std::string& autoreset,
                                         std::size_t threads) {
  if (num_envs == 0) throw InputError("num_envs", "is 0 (at least 1)");
  if (observation != "graph" && observation != "group") {
    throw InputError("observation", "is \"" + observation + "\" (group or graph)");
  }
  if (whole && observation != "graph") {
    throw InputError("observation", "is \"group\", and whole placements have no next group (graph)");
  }
  const Start begin = StartFromName(start);
  if (reward != "improvement" && reward != "final") {
    throw InputError("reward", "is \"" + reward + "\" (improvement or final)");
  }
  std::shared_ptr<const BatchEvaluator> evaluator = EvaluatorOf(simulator);
  if (grouping.num_ops() != evaluator->graph().num_ops()) {
    throw InputError("grouping", "is of another graph (a grouping of the simulator's)");
  }
  const py::gil_scoped_release released;
  return std::make_unique<VectorEnv>(std::move(evaluator), grouping,
                                     VectorEnvOptions{.num_envs = num_envs,
                                                      .whole = whole,
                                                      .graph = observation == "graph",
                                                      .start = begin,
                                                      .final_reward = reward == "final",
                                                      .memory_penalty = memory_penalty,
                                                      .autoreset = AutoresetFromName(autoreset),
                                                      .threads = NumThreads(threads)});
}

// A read-only view of a vector of the environments, which keeps them alive.
template <typename T>
py::array Shaped(const py::object& owner, const T* data, const std::vector<py::ssize_t>& shape) {
  py::array_t<T> array(shape, data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

// An array of `shape` whose first dimension has the same content everywhere.
template <typename T>
py::array Repeated(const py::object& owner, const T* data, const std::vector<py::ssize_t>& shape) {
  std::vector<py::ssize_t> strides(shape.size(), 0);
  py::ssize_t stride = sizeof(T);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  py::array array(py::dtype::of<T>(), shape, strides, data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

// The arrays of an observation, by name; those of the episodes that ended last, with `final`.
py::dict Observation(const py::object& self, bool final) {
  const auto& env = self.cast<const VectorEnv&>();
  const auto size = [](std::size_t value) { return static_cast<py::ssize_t>(value); };
  const py::ssize_t envs = size(env.num_envs());
  const py::ssize_t groups = size(env.num_groups());
  const py::ssize_t devices = size(env.num_devices());
  const float* const observed = (final ? env.final_observed() : env.observed()).data();
  py::dict arrays;
  if (!env.options().graph) {
    arrays["group"] = Shaped(self, observed, {envs, size(env.num_group_features())});
    arrays["action_mask"] = Shaped(self, (final ? env.final_masks() : env.masks()).data(), {envs, devices});
    return arrays;
  }
  arrays["nodes"] = Shaped(self, observed, {envs, groups, size(env.num_features())});
  arrays["edge_index"] = Repeated(self, env.edges().data(), {envs, 2, size(env.edges().size() / 2)});
  arrays["action_mask"] = env.options().whole
                              ? Repeated(self, env.allowed().data(), {envs, groups, devices})
                              : Shaped(self, (final ? env.final_masks() : env.masks()).data(), {envs, devices});
  return arrays;
}

void Step(VectorEnv& self, const Actions& actions) {
  const std::size_t width = self.options().whole ? self.num_groups() : 1;
  const std::vector<std::size_t> wanted =
      self.options().whole ? std::vector{self.num_envs(), width} : std::vector{self.num_envs()};
  bool fits = static_cast<std::size_t>(actions.ndim()) == wanted.size();
  for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
    fits = static_cast<std::size_t>(actions.shape(static_cast<py::ssize_t>(i))) == wanted[i];
  }
  if (!fits) {
    throw InputError("actions", self.options().whole ? "has another shape ((num_envs, num_groups))"
                                                     : "has another shape ((num_envs,))");
  }
  // A copy: another thread of Python may write to the array meanwhile.
  const std::vector<std::int64_t> values(actions.data(), actions.data() + self.num_envs() * width);
  const py::gil_scoped_release released;
  self.Step(values);
}

void Reset(VectorEnv& self, const std::vector<std::int64_t>& seeds, const std::vector<std::uint8_t>& mask) {
  if (!seeds.empty() && seeds.size() != self.num_envs()) {
    throw InputError("seed", "has another length (one for each environment)");
  }
  if (!mask.empty() && mask.size() != self.num_envs()) {
    throw InputError("reset_mask", "has another length (one for each environment)");
  }
  const py::gil_scoped_release released;
  self.Reset(seeds, mask);
}

std::size_t Checked(const VectorEnv& self, std::size_t env) {
  if (env >= self.num_envs()) throw py::index_error("no such environment");
  return env;
}

}  // namespace

void BindVectorEnv(py::module_& module) {
  const auto each = [](const auto& member) {
    return [member](const py::object& self) {
      const auto& env = self.cast<const VectorEnv&>();
      return Shaped(self, (env.*member)().data(), {static_cast<py::ssize_t>(env.num_envs())});
    };
  };
  py::class_<VectorEnv>(module, "VectorEnv")
      .def(py::init(&MakeVectorEnv), py::arg("simulator"), py::arg("grouping"), py::kw_only(), py::arg("num_envs"),
           py::arg("whole"), py::arg("observation"), py::arg("start"), py::arg("reward"), py::arg("memory_penalty"),
           py::arg("autoreset_mode"), py::arg("threads"))
      .def("reset", &Reset, py::arg("seeds"), py::arg("mask"))
      .def("step", &Step, py::arg("actions"))
      .def("observation", &Observation, py::arg("final") = false)
      .def_property_readonly("rewards", each(&VectorEnv::rewards))
      .def_property_readonly("ended", each(&VectorEnv::ended))
      .def_property_readonly("step_ns", each(&VectorEnv::step_ns))
      .def_property_readonly("fits", each(&VectorEnv::fits))
      .def_property_readonly(
          "placements",
          [](const py::object& self) {
            const auto& env = self.cast<const VectorEnv&>();
            return Shaped(self, env.placements().data(),
                          {static_cast<py::ssize_t>(env.num_envs()), static_cast<py::ssize_t>(env.num_groups())});
          })
      .def_property_readonly("best",
                             [](const py::object& self) {
                               const std::vector<std::int16_t>& best = self.cast<const VectorEnv&>().best();
                               return Shaped(self, best.data(), {static_cast<py::ssize_t>(best.size())});
                             })
      .def("snapshot",
           [](const VectorEnv& self, std::size_t env) { return py::bytes(self.Snapshot(Checked(self, env))); })
      .def("restore", [](VectorEnv& self, std::size_t env,
                         const std::string& snapshot) { self.Restore(Checked(self, env), snapshot); })
      .def_property_readonly("num_envs", &VectorEnv::num_envs)
      .def_property_readonly("num_groups", &VectorEnv::num_groups)
      .def_property_readonly("num_devices", &VectorEnv::num_devices)
      .def_property_readonly("num_features", &VectorEnv::num_features)
      .def_property_readonly("num_group_features", &VectorEnv::num_group_features)
      .def_property_readonly("num_edges", [](const VectorEnv& self) { return self.edges().size() / 2; })
      .def_property_readonly("baseline_us", &VectorEnv::baseline_micros)
      .def_property_readonly("simulations", &VectorEnv::simulations);
}

}  // namespace emplace::python
