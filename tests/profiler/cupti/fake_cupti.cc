// A fake CUPTI and CUDA driver without a GPU: the functions that profiler/cupti/cupti_session.cc calls, reporting
// made-up work. Linked with that file into a library for its test. Records have the newest layout of the installed
// headers, and are walked by the real CUPTI, which also names the calls: neither needs a driver. Like it, this one
// delivers buffers from a thread of its own.

#include "tests/profiler/cupti/fake_cupti.h"

#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>

namespace emplace::testing {
namespace {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
#if CUPTI_API_VERSION >= 19
using KernelRecord = CUpti_ActivityKernel9;
#else
using KernelRecord = CUpti_ActivityKernel8;
#endif
using CopyRecord = CUpti_ActivityMemcpy5;
#endif

// A function of the real CUPTI; null if the library cannot be loaded.
template <typename Function>
Function* Real(const char* name) {
  static void* const library = dlopen(EMPLACE_REAL_CUPTI, RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

struct State {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> kinds;
  bool has_reported = false;  // all records since recording began
};
State state;

// Records are read in the order in which they were written.
class Writer {
 public:
  explicit Writer(FakeCuptiControls* controls) {
    std::size_t most = 1;
    state.request(&buffer_, &size_, &most);
    ++controls->buffer_requests;
    if (reinterpret_cast<std::uintptr_t>(buffer_) % ACTIVITY_RECORD_ALIGNMENT != 0 || size_ < (1 << 20) || most != 0) {
      ++controls->wrong_buffers;
    }
  }
  template <typename Record>
  void Put(const Record& record) {
    if (!state.kinds.contains(record.kind)) return;
    std::memcpy(buffer_ + used_, &record, sizeof(record));
    used_ += sizeof(record);
  }
  void Finish() { state.complete(nullptr, 0, buffer_, size_, used_); }

 private:
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

template <typename Record>
Record Made(CUpti_ActivityKind kind, std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
  Record record{};
  record.kind = kind;
  record.correlationId = correlation;
  record.start = start;
  record.end = end;
  return record;
}

CUpti_ActivityAPI MadeCall(CUpti_ActivityKind kind, CUpti_CallbackId cbid, std::uint32_t correlation) {
  auto call = Made<CUpti_ActivityAPI>(kind, correlation, std::uint64_t{correlation} * 100,
                                      std::uint64_t{correlation} * 100 + 50);
  call.cbid = cbid;
  call.threadId = 4242;
  return call;
}

// Kernels K = 1 .. N are launched from 100 K to 100 K + 50, and run from 100000 K to 100000 K + 700 on device 2, stream
// 9.
void WriteKernels(const FakeCuptiControls& controls, Writer* writer) {
  for (std::uint32_t i = 1; i <= controls.kernels; ++i) {
    const std::uint64_t begin = std::uint64_t{i} * 100000;
    const std::uint64_t end = controls.lacks_last_end && i == controls.kernels ? 0 : begin + 700;
    auto kernel = Made<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, i, begin, end);
    kernel.deviceId = 2;
    kernel.streamId = 9;
    kernel.name = "gemm";
    writer->Put(kernel);
    writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, i));
  }
}

// A copy from the host (501), a copy from device 2 to 3 (502), a set (503); a launch of the driver that fails (504) and
// a call without work for a device (505). A launch with the driver's call inside it, of the same id, which starts two
// kernels (506).
void WriteOthers(Writer* writer) {
  auto copy = Made<CopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY, 501, 60000, 60400);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.bytes = 4096;
  copy.deviceId = 2;
  writer->Put(copy);
  writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, 501));
  auto peer = Made<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, 502, 61000, 61400);
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 8192;
  peer.deviceId = peer.srcDeviceId = 2;
  peer.dstDeviceId = 3;
  writer->Put(peer);
  writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync, 502));
  auto set = Made<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 503, 62000, 62100);
  set.bytes = 512;
  set.deviceId = 2;
  writer->Put(set);
  writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, 503));
  auto failed = MadeCall(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 504);
  failed.returnValue = 1;
  writer->Put(failed);
  writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, 505));
  auto inside = MadeCall(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, 506);
  inside.start += 10;
  inside.end -= 10;
  writer->Put(inside);
  writer->Put(MadeCall(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060, 506));
  for (const std::uint64_t start : {63000U, 63200U}) {
    auto kernel = Made<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 506, start, start + 100);
    kernel.deviceId = 2;
    kernel.name = "cluster";
    writer->Put(kernel);
  }
}

// Every call of runtime and driver with Launch in its name, ids from 1000.
void WriteLaunches(Writer* writer) {
  const auto name_of = Real<decltype(cuptiGetCallbackName)>("cuptiGetCallbackName");
  std::uint32_t correlation = 1000;
  for (const auto& [domain, kind] : {std::pair{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_ACTIVITY_KIND_RUNTIME},
                                     std::pair{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_ACTIVITY_KIND_DRIVER}}) {
    constexpr CUpti_CallbackId kPastAll = 5000;
    for (CUpti_CallbackId cbid = 1; cbid < kPastAll; ++cbid) {
      const char* name = nullptr;
      if (name_of == nullptr || name_of(domain, cbid, &name) != CUPTI_SUCCESS || name == nullptr) continue;
      if (std::string_view(name).find("Launch") == std::string_view::npos) continue;
      writer->Put(MadeCall(kind, cbid, correlation));
      // Work for a device, which is reported whether or not it launches kernels.
      auto set = Made<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, correlation, 1, 2);
      writer->Put(set);
      ++correlation;
    }
  }
}

}  // namespace
}  // namespace emplace::testing

using emplace::testing::state;

extern "C" {

extern emplace::testing::FakeCuptiControls emplace_fake_cupti;
emplace::testing::FakeCuptiControls emplace_fake_cupti;

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = CUPTI_API_VERSION - (emplace_fake_cupti.is_old ? 1 : 0);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  if (emplace_fake_cupti.is_taken || emplace_fake_cupti.subscriptions > 0) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  ++emplace_fake_cupti.subscriptions;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  --emplace_fake_cupti.subscriptions;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) {
  return emplace_fake_cupti.refuses_threads ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  *timestamp = 77;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE" : "CUPTI_ERROR_OF_THE_FAKE";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t cbid, const char** name) {
  const auto real = emplace::testing::Real<decltype(cuptiGetCallbackName)>("cuptiGetCallbackName");
  return real == nullptr ? CUPTI_ERROR_UNKNOWN : real(domain, cbid, name);
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  state.request = request;
  state.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (emplace_fake_cupti.refuses_calls && kind == CUPTI_ACTIVITY_KIND_RUNTIME) return CUPTI_ERROR_NOT_COMPATIBLE;
  state.kinds.insert(kind);
  state.has_reported = false;
  emplace_fake_cupti.kinds_enabled = state.kinds.size();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  state.kinds.erase(kind);
  emplace_fake_cupti.kinds_enabled = state.kinds.size();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  if (state.request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  if (state.kinds.empty() || state.has_reported) return CUPTI_SUCCESS;
  state.has_reported = true;
  std::thread([] {
    emplace::testing::Writer kernels(&emplace_fake_cupti);
    WriteKernels(emplace_fake_cupti, &kernels);
    kernels.Finish();
    emplace::testing::Writer others(&emplace_fake_cupti);
    WriteOthers(&others);
    if (emplace_fake_cupti.tells_launches) WriteLaunches(&others);
    others.Finish();
  }).join();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  // Reports drops only after records were delivered.
  *dropped = state.has_reported ? emplace_fake_cupti.dropped : 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  const auto real = emplace::testing::Real<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  return real == nullptr ? CUPTI_ERROR_UNKNOWN : real(buffer, valid, record);
}

}  // extern "C"
