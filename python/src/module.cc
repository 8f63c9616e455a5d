#include <pybind11/pybind11.h>

#include <fmt/format.h>

#include "python/src/bindings.h"
#include "sim/base/check.h"

namespace emplace::python {

py::array CheckedOutput(const py::object& out, const py::dtype& dtype, const std::vector<py::ssize_t>& shape,
                        const char* name) {
  std::string wanted = fmt::format("a writable C-contiguous array of {} and shape (",
                                   py::str(static_cast<py::handle>(dtype)).cast<std::string>());
  for (const py::ssize_t extent : shape) wanted += fmt::format("{}{}", wanted.back() == '(' ? "" : ", ", extent);
  wanted += shape.size() == 1 ? ",)" : ")";
  const bool is_array = py::isinstance<py::array>(out);
  if (!is_array) throw InputError(name, "is not an array (" + wanted + ")");
  auto array = py::reinterpret_borrow<py::array>(out);
  bool fits = array.dtype().is(dtype) && array.writeable() && (array.flags() & py::array::c_style) != 0 &&
              static_cast<std::size_t>(array.ndim()) == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = array.shape(static_cast<py::ssize_t>(i)) == shape[i];
  if (!fits) throw InputError(name, "is another array (" + wanted + ")");
  return array;
}

}  // namespace emplace::python

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  module.doc() = "The part of the package emplace that is written in C++.";
  py::register_exception<emplace::InputError>(module, "InputError", PyExc_ValueError).attr("__module__") = "emplace";
  emplace::python::BindGraph(module);
  emplace::python::BindCluster(module);
  emplace::python::BindSimulator(module);
  emplace::python::BindSearch(module);
  emplace::python::BindDatasets(module);
  emplace::python::BindExporting(module);
  emplace::python::BindPlanning(module);
  emplace::python::BindVectorEnv(module);
}
