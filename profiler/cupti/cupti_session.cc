// CUPTI's part of cupti_session.h, in a library of its own.

#include "profiler/cupti/cupti_session.h"

#include <cupti.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

// Records grow at their end from one version of CUPTI to the next; the fields read here are in the part that all
// versions have. CUDA 13.0: Kernel10, 12.0: Kernel9, 11.8: Kernel8. The other types are those of CUDA 11.6, which later
// versions extend.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#elif CUPTI_API_VERSION >= 19
using KernelRecord = CUpti_ActivityKernel9;
#elif CUPTI_API_VERSION >= 18
using KernelRecord = CUpti_ActivityKernel8;
#else
#error "CUPTI of CUDA 11.8 or later is needed"
#endif
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using SetRecord = CUpti_ActivityMemset4;
using CallRecord = CUpti_ActivityAPI;

#if CUPTI_API_VERSION >= 130000
// Checks that the fields that are read have the same offset in all versions. From CUDA 13 on, the headers also declare
// the older ones.
template <typename A, typename B>
constexpr bool kLieAlike = offsetof(A, start) == offsetof(B, start) && offsetof(A, end) == offsetof(B, end) &&
                           offsetof(A, deviceId) == offsetof(B, deviceId) &&
                           offsetof(A, streamId) == offsetof(B, streamId) &&
                           offsetof(A, correlationId) == offsetof(B, correlationId);
static_assert(kLieAlike<CUpti_ActivityKernel10, CUpti_ActivityKernel9> &&
              kLieAlike<CUpti_ActivityKernel10, CUpti_ActivityKernel8> &&
              offsetof(CUpti_ActivityKernel10, name) == offsetof(CUpti_ActivityKernel9, name) &&
              offsetof(CUpti_ActivityKernel10, name) == offsetof(CUpti_ActivityKernel8, name));
static_assert(kLieAlike<CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5> &&
              offsetof(CUpti_ActivityMemcpy6, bytes) == offsetof(CUpti_ActivityMemcpy5, bytes) &&
              offsetof(CUpti_ActivityMemcpy6, copyKind) == offsetof(CUpti_ActivityMemcpy5, copyKind));
#endif

constexpr std::size_t kBufferBytes = 8 << 20;  // CUPTI advises 1 to 10 MB
constexpr std::size_t kBufferAlignment = ACTIVITY_RECORD_ALIGNMENT;
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
                               CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_DRIVER};

void Check(CUptiResult result, const std::string& call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "an unknown error";
  std::string problem = call + " failed: " + text;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    problem += " (another profiler is at work in this process)";
  throw ActivityError(problem);
}

#ifndef EMPLACE_CUDA_DRIVER  // a test has another
#define EMPLACE_CUDA_DRIVER "libcuda.so.1"
#endif

// CUPTI itself says CUPTI_ERROR_UNKNOWN where there is no driver.
void CheckDriver() {
  void* const driver = dlopen(EMPLACE_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) throw ActivityError("there is no NVIDIA driver (libcuda.so.1 cannot be loaded)");
  const auto init = reinterpret_cast<decltype(&cuInit)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (init == nullptr || count == nullptr || init(0) != CUDA_SUCCESS || count(&devices) != CUDA_SUCCESS ||
      devices == 0) {
    throw ActivityError("the NVIDIA driver finds no GPU");
  }
}

// Buffers that CUPTI fills in threads of its own.
struct Buffer {
  struct Free {
    void operator()(std::uint8_t* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::uint8_t, Free> bytes;
  std::size_t valid = 0;
};

struct Filled {
  std::mutex mutex;
  std::vector<Buffer> buffers;  // guarded by `mutex`
};
Filled& FilledBuffers() {
  static Filled* const filled = new Filled;  // CUPTI may call until the very end of the process
  return *filled;
}

std::uint8_t* NewBuffer() { return static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes)); }

// For when there is no memory: older CUPTI may crash on a buffer that is null. Made before anything is recorded.
std::atomic<std::uint8_t*> spare_buffer = nullptr;

void CUPTIAPI BufferRequested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = NewBuffer();
  if (*buffer == nullptr) *buffer = spare_buffer.exchange(nullptr);
  // Without the spare one too there is none, and CUPTI counts the records as dropped.
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // no limit
}

void CUPTIAPI BufferCompleted(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Buffer filled{std::unique_ptr<std::uint8_t, Buffer::Free>(buffer), valid};
  if (valid == 0) return;
  Filled& all = FilledBuffers();
  const std::lock_guard lock(all.mutex);
  all.buffers.push_back(std::move(filled));
}

CopyKind KindOf(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return CopyKind::kHostToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return CopyKind::kDeviceToHost;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return CopyKind::kWithinDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return CopyKind::kBetweenDevices;
    default:
      return CopyKind::kOther;
  }
}

// Fields that all records of work on a device share.
template <typename Activity, typename Record>
Activity Common(const Record& record) {
  Activity activity;
  activity.correlation = record.correlationId;
  activity.device = static_cast<int>(record.deviceId);
  activity.stream = record.streamId;
  activity.start = static_cast<std::int64_t>(record.start);
  activity.end = static_cast<std::int64_t>(record.end);
  return activity;
}

MemcpyActivity Copy(const CopyRecord& record) {
  auto copy = Common<MemcpyActivity>(record);
  copy.kind = KindOf(record.copyKind);
  copy.size = Bytes{static_cast<std::int64_t>(record.bytes)};
  copy.from_device = copy.kind == CopyKind::kHostToDevice ? kHostMemory : copy.device;
  copy.to_device = copy.kind == CopyKind::kDeviceToHost ? kHostMemory : copy.device;
  return copy;
}

MemcpyActivity PeerCopy(const PeerCopyRecord& record) {
  auto copy = Common<MemcpyActivity>(record);
  copy.kind = CopyKind::kBetweenDevices;
  copy.size = Bytes{static_cast<std::int64_t>(record.bytes)};
  copy.from_device = static_cast<int>(record.srcDeviceId);
  copy.to_device = static_cast<int>(record.dstDeviceId);
  return copy;
}

RuntimeCall Call(const CallRecord& record) {
  const bool is_runtime = record.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
  const char* name = nullptr;
  const auto domain = is_runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (cuptiGetCallbackName(domain, record.cbid, &name) != CUPTI_SUCCESS || name == nullptr) name = "an unknown call";
  const std::string_view text = name;
  // cudaLaunchKernel_v7000, cudaLaunchCooperativeKernel, cuLaunchKernelEx, __cudaLaunchKernel, ...
  const bool launches = text.find("Launch") != text.npos && text.find("Kernel") != text.npos;
  return {.name = name,
          .correlation = record.correlationId,
          .thread = record.threadId,
          .start = static_cast<std::int64_t>(record.start),
          .end = static_cast<std::int64_t>(record.end),
          .launches_kernel = launches && record.returnValue == 0};
}

template <typename Record>
const Record& As(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

void Add(const CUpti_Activity* record, ActivityTrace* trace) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = As<KernelRecord>(record);
      trace->kernels.push_back(Common<KernelActivity>(kernel));
      trace->kernels.back().name = kernel.name == nullptr ? "" : kernel.name;
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      trace->copies.push_back(Copy(As<CopyRecord>(record)));
      return;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      trace->copies.push_back(PeerCopy(As<PeerCopyRecord>(record)));
      return;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      trace->sets.push_back(Common<MemsetActivity>(As<SetRecord>(record)));
      trace->sets.back().size = Bytes{static_cast<std::int64_t>(As<SetRecord>(record).bytes)};
      return;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      trace->calls.push_back(Call(As<CallRecord>(record)));
      return;
    default:
      return;  // not asked for: CUPTI's own business
  }
}

void AddAll(const Buffer& buffer, ActivityTrace* trace) {
  CUpti_Activity* record = nullptr;
  for (;;) {
    const CUptiResult result = cuptiActivityGetNextRecord(buffer.bytes.get(), buffer.valid, &record);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;  // the end of the buffer
    Check(result, "cuptiActivityGetNextRecord");
    Add(record, trace);
  }
}

// Writes the buffers into the folder EMPLACE_CUPTI_BUFFERS, if it is set (by tools/gpu_check): what a GPU really
// records, for tests without one. Kernel names are pointers, and so they are lost.
void Save(const Buffer& buffer) {
  const char* const folder = std::getenv("EMPLACE_CUPTI_BUFFERS");
  constexpr int kMost = 20;
  static int saved = 0;
  if (folder == nullptr || saved == kMost) return;
  std::ofstream out(std::string(folder) + "/" + std::to_string(saved++) + ".bin", std::ios::binary);
  out.write(reinterpret_cast<const char*>(buffer.bytes.get()), static_cast<std::streamsize>(buffer.valid));
}

// Most calls ask for something, or wait: only those that gave work to a device are kept.
void KeepCallsThatWork(ActivityTrace* trace) {
  std::unordered_set<std::uint32_t> ids;
  const auto add = [&](const auto& activities) {
    for (const auto& activity : activities) ids.insert(activity.correlation);
  };
  add(trace->kernels);
  add(trace->copies);
  add(trace->sets);
  std::erase_if(trace->calls,
                [&](const RuntimeCall& call) { return !call.launches_kernel && !ids.contains(call.correlation); });
}

std::size_t DroppedSinceLastCall() {
  std::size_t dropped = 0;
  Check(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords");
  return dropped;
}

class Session : public ActivitySession {
 public:
  void Start() override {
    EMPLACE_CHECK(!is_running_);
    SetUp();
    FlushAll();
    Take();
    static_cast<void>(DroppedSinceLastCall());
    is_running_ = true;
    try {
      for (const CUpti_ActivityKind kind : kKinds) {
        Check(cuptiActivityEnable(kind), "cuptiActivityEnable(" + std::to_string(kind) + ")");
      }
    } catch (const ActivityError&) {
      Disable();
      throw;
    }
  }

  ActivityTrace Stop() override {
    EMPLACE_CHECK(is_running_);
    // First what is complete, in its order; then what is left, whose missing times are for the caller to find.
    Check(cuptiActivityFlushAll(0), "cuptiActivityFlushAll(0)");
    FlushAll();
    Disable();
    ActivityTrace trace;
    for (const Buffer& buffer : Take()) {
      Save(buffer);
      AddAll(buffer, &trace);
    }
    KeepCallsThatWork(&trace);
    trace.dropped = DroppedSinceLastCall();
    return trace;
  }

  std::int64_t NowNs() override {
    std::uint64_t now = 0;
    Check(cuptiGetTimestamp(&now), "cuptiGetTimestamp");
    return static_cast<std::int64_t>(now);
  }

  std::uint64_t ThreadId() override { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

 private:
  void SetUp() {
    if (is_set_up_) return;
    CheckDriver();
    CheckVersion();
    if (spare_buffer == nullptr) spare_buffer = NewBuffer();
    Check(cuptiSubscribe(&subscriber_, &IgnoreCallback, nullptr), "cuptiSubscribe");
    try {
      Check(cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "cuptiSetThreadIdType");
      Check(cuptiActivityRegisterCallbacks(BufferRequested, BufferCompleted), "cuptiActivityRegisterCallbacks");
    } catch (const ActivityError&) {
      // The next attempt would find the place taken, by this one.
      static_cast<void>(cuptiUnsubscribe(subscriber_));
      throw;
    }
    is_set_up_ = true;
  }

  // Records of an older library lack fields at their end that are read here.
  static void CheckVersion() {
    std::uint32_t version = 0;
    Check(cuptiGetVersion(&version), "cuptiGetVersion");
    if (version >= CUPTI_API_VERSION) return;
    throw ActivityError("the CUPTI library has version " + std::to_string(version) + ", older than the " +
                        std::to_string(CUPTI_API_VERSION) + " that this build was made with");
  }

  // No callbacks are asked for: the subscription says that the profiler's place in this process is taken.
  static void CUPTIAPI IgnoreCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

  static void FlushAll() { Check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"); }

  static std::vector<Buffer> Take() {
    Filled& filled = FilledBuffers();
    const std::lock_guard lock(filled.mutex);
    return std::exchange(filled.buffers, {});
  }

  void Disable() {
    is_running_ = false;
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(cuptiActivityDisable(kind));
  }

  bool is_set_up_ = false;
  bool is_running_ = false;
  CUpti_SubscriberHandle subscriber_ = nullptr;
};

ActivitySession* TheSession() {
  static Session* const session = new Session;  // never destroyed
  return session;
}

}  // namespace
}  // namespace emplace::profiler

extern "C" {
// Named after the library, as kCuptiName says.
// NOLINTNEXTLINE(readability-identifier-naming)
extern const emplace::profiler::CuptiExports emplace_cupti;
// NOLINTNEXTLINE(readability-identifier-naming)
const emplace::profiler::CuptiExports emplace_cupti = {&emplace::profiler::TheSession};
}
