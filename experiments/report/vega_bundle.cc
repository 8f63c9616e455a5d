#include "experiments/report/vega_bundle.h"

#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

// Plain pointers, as clang evaluates the length of each string_view at compile time and exceeds its limit.
struct Embedded {
  const char* name;
  const char* content;
};
// Defined in experiments/CMakeLists.txt: the files vega-NAME.min.js, and the package's copyright file.
constexpr Embedded kEmbedded[] = {
#include "vega_files.inc"
};

struct Module {
  std::string_view file;
  std::string_view name;  // name by which other modules require it
};
// Each module follows those that it requires.
constexpr Module kModules[] = {
    {"vega-util.min.js", "vega-util"},
    {"vega-time.min.js", "vega-time"},
    {"vega-format.min.js", "vega-format"},
    {"vega-loader.min.js", "vega-loader"},
    {"vega-dataflow.min.js", "vega-dataflow"},
    {"vega-statistics.min.js", "vega-statistics"},
    {"vega-transforms.min.js", "vega-transforms"},
    {"vega-canvas.min.js", "vega-canvas"},
    {"vega-scale.min.js", "vega-scale"},
    {"vega-scenegraph.min.js", "vega-scenegraph"},
    {"vega-view-transforms.min.js", "vega-view-transforms"},
    {"vega-encode.min.js", "vega-encode"},
    {"vega-expression.min.js", "vega-expression"},
    {"vega-selection.min.js", "vega-selections"},
    {"vega-functions.min.js", "vega-functions"},
    {"vega-event-selector.min.js", "vega-event-selector"},
    {"vega-parser.min.js", "vega-parser"},
    {"vega-runtime.min.js", "vega-runtime"},
    {"vega-view.min.js", "vega-view"},
    {"vega-interpreter.min.js", "vega-interpreter"},
};

std::string_view Content(std::string_view name) {
  for (const Embedded& file : kEmbedded) {
    if (file.name == name) return file.content;
  }
  EMPLACE_CHECK(false);
  return {};
}

// Removes the comment that names a source map, which a browser would try to load.
std::string_view WithoutSourceMap(std::string_view script) {
  return script.substr(0, script.rfind("//# sourceMapping"));
}

}  // namespace

std::string VegaScript() {
  std::string script = "const emplaceVega = (() => {\nconst loaded = {};\nconst require = (name) => loaded[name];\n";
  for (const Module& module : kModules) {
    script.append("((exports, module) => {\n").append(WithoutSourceMap(Content(module.file)));
    script.append("\n})(loaded[\"").append(module.name).append("\"] = {}, {});\n");
  }
  script +=
      "Object.assign(loaded[\"vega-dataflow\"].transforms, loaded[\"vega-transforms\"], "
      "loaded[\"vega-view-transforms\"], loaded[\"vega-encode\"]);\n"
      "return {parse: loaded[\"vega-parser\"].parse, View: loaded[\"vega-view\"].View, "
      "expressionInterpreter: loaded[\"vega-interpreter\"].expressionInterpreter};\n})();\n";
  EMPLACE_CHECK(script.find("</script") == std::string::npos);
  return script;
}

std::string_view VegaLicence() { return Content("copyright"); }

}  // namespace emplace::experiments
