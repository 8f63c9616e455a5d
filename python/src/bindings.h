#ifndef EMPLACE_PYTHON_SRC_BINDINGS_H_
#define EMPLACE_PYTHON_SRC_BINDINGS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

// The module emplace._core. What users see of it, with its documentation, is in python/emplace.
namespace emplace::python {

namespace py = pybind11;

// A graph, and where errors about it are said to be: its file, else "graph NAME".
struct PlacedGraph {
  Graph graph;
  std::string place;
};

// The same for a cluster: its file or shipped name, else "cluster NAME".
struct PlacedCluster {
  Cluster cluster;
  std::string place;
};

// Op times, and their source in words, as in results.
struct NamedCosts {
  CostTable table;
  std::string text;
  std::string detail = {};
};

using PlacementArray = py::array_t<std::int16_t, py::array::c_style>;

// A new array of one dimension. pybind11 before 2.12 misreads the item size in numpy 2's descriptors, so arrays whose
// strides pybind11 takes from there, as array_t<T>(size) does, have strides of 0 with numpy 2. Those of a shape are
// right.
template <typename T>
py::array_t<T> NewArray(std::size_t size) {
  return py::array_t<T>(std::vector<py::ssize_t>{static_cast<py::ssize_t>(size)});
}

// A read-only array over memory that `owner` keeps alive. `stride` in bytes.
template <typename T>
py::array View(const py::object& owner, const T* data, std::size_t size, std::size_t stride = sizeof(T)) {
  py::array array(py::dtype::of<T>(), {size}, {stride}, data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

// An array with strides of its own. pybind11 before 2.12 computes those of other arrays from a field of dtypes that
// numpy 2 has moved: they would be 0.
template <typename T>
py::array_t<T> NewArray(std::vector<py::ssize_t> shape) {
  return py::array_t<T>(std::move(shape));
}

// What the caller passed as `out`, if it is a writable, C-contiguous array of that shape and type; throws InputError
// otherwise. A new array if it is None.
template <typename T>
py::array_t<T> OutputArray(const py::object& out, const std::vector<py::ssize_t>& shape, const char* name);
// The same for any type: `dtype` is the one wanted.
py::array CheckedOutput(const py::object& out, const py::dtype& dtype, const std::vector<py::ssize_t>& shape,
                        const char* name);

template <typename T>
py::array_t<T> OutputArray(const py::object& out, const std::vector<py::ssize_t>& shape, const char* name) {
  if (out.is_none()) return NewArray<T>(shape);
  return py::array_t<T>(CheckedOutput(out, py::dtype::of<T>(), shape, name));
}

// Asks Python now and then whether Ctrl-C was pressed.
class InterruptCheck {
 public:
  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (interrupted_ || now < next_) return interrupted_;
    next_ = now + std::chrono::milliseconds(50);
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) {
      interrupted_ = true;  // the exception stays set
    }
    return interrupted_;
  }
  bool interrupted() const { return interrupted_; }

 private:
  std::chrono::steady_clock::time_point next_;
  bool interrupted_ = false;
};

class BatchEvaluator;

py::array_t<std::int16_t> PlacementToArray(const Placement& placement);
// The evaluator of an emplace._core.Simulator.
std::shared_ptr<const BatchEvaluator> EvaluatorOf(const py::handle& simulator);

void BindGraph(py::module_& module);
void BindCluster(py::module_& module);
void BindSimulator(py::module_& module);
void BindSearch(py::module_& module);
void BindDatasets(py::module_& module);
void BindExporting(py::module_& module);
void BindPlanning(py::module_& module);
void BindVectorEnv(py::module_& module);

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_BINDINGS_H_
