#ifndef EMPLACE_TESTS_TESTING_TRACE_TEXT_H_
#define EMPLACE_TESTS_TESTING_TRACE_TEXT_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace emplace::testing {

// Puts a trace of PyTorch's profiler together. Times in µs.
class TraceText {
 public:
  TraceText& Op(const std::string& name, double start, double duration, int thread = 1, const std::string& args = "") {
    return Add("cpu_op", name, "9", std::to_string(thread), start, duration, args);
  }
  TraceText& Call(const std::string& name, double start, double duration, int correlation, int thread = 1) {
    return Add("cuda_runtime", name, "9", std::to_string(thread), start, duration,
               fmt::format("\"correlation\": {}", correlation));
  }
  TraceText& Kernel(const std::string& name, double start, double duration, int correlation, int stream = 7,
                    const std::string& args = "") {
    return Activity("kernel", name, start, duration, correlation, stream, args);
  }
  TraceText& Copy(double start, double duration, int correlation, int stream = 7) {
    return Activity("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", start, duration, correlation, stream,
                    "\"bytes\": 4096");
  }
  // A record of a wait: of `stream`, or of a host that waits for it.
  TraceText& Sync(const std::string& name, double start, double duration, int correlation, int stream,
                  const std::string& args = "") {
    return Activity("cuda_sync", name, start, duration, correlation, stream, args);
  }
  TraceText& Add(const std::string& category, const std::string& name, const std::string& process,
                 const std::string& thread, double start, double duration, const std::string& args) {
    return Raw(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        category, name, process, thread, start, duration, args));
  }
  TraceText& Raw(const std::string& event) {
    events_ += (events_.empty() ? "\n  " : ",\n  ") + event;
    return *this;
  }
  // Additional members next to the events, as `"key": value`.
  TraceText& Head(const std::string& member) {
    head_ += member + ", ";
    return *this;
  }

  std::string str() const {
    return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\"}], " + head_ +
           "\"traceEvents\": [" + events_ + "]}\n";
  }

 private:
  TraceText& Activity(const std::string& category, const std::string& name, double start, double duration,
                      int correlation, int stream, const std::string& args) {
    return Add(category, name, "0", std::to_string(stream), start, duration,
               fmt::format("\"device\": 0, \"stream\": {}, \"correlation\": {}{}", stream, correlation,
                           args.empty() ? "" : ", " + args));
  }

  std::string head_;
  std::string events_;
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_TRACE_TEXT_H_
