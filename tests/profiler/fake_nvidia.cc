// A CUDA driver and an NVML of two made-up GPUs, in one library: what cuda_driver.cc and gpu_clocks.cc look up by name.
// Device 0 has 80 GiB, of which another program has 30, and is held back; device 1 fails.

#include <cstddef>
#include <cstring>

namespace {
constexpr int kFailed = 999;
int contexts = 0;  // retained
int pushed = 0;
char gpu = 0;
}  // namespace

extern "C" {
int cuInit(unsigned flags) { return flags == 0 ? 0 : kFailed; }
int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  if (device != 0) return kFailed;
  std::strncpy(name, "NVIDIA H100 80GB HBM3", static_cast<std::size_t>(size) - 1);
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  if (device != 0) return kFailed;
  std::strncpy(id, "0000:19:00.0", static_cast<std::size_t>(size) - 1);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 0) return kFailed;
  ++contexts;
  *context = &gpu;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  ++pushed;
  return context == &gpu ? 0 : kFailed;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (pushed != 1 || contexts != 1) return kFailed;
  *total = std::size_t{80} << 30;
  *free = std::size_t{50} << 30;
  return 0;
}
int cuCtxPopCurrent_v2(void**) { return --pushed == 0 ? 0 : kFailed; }
int cuDevicePrimaryCtxRelease_v2(int) { return --contexts == 0 ? 0 : kFailed; }

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  if (std::strcmp(id, "0000:19:00.0") != 0) return kFailed;
  *device = &gpu;
  return 0;
}
// 5 ns more at its power limit each time; no sum for the others.
int nvmlDeviceGetViolationStatus(void* device, int policy, unsigned long long* times) {
  static unsigned long long sum = 1000;
  if (device != &gpu || policy != 0) return kFailed;
  times[0] = 1;
  times[1] = sum += 5;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  if (device != &gpu || clock != 1) return kFailed;
  *mhz = 1410;
  return 0;
}
// Idle, at its power limit, and hot.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (device != &gpu) return kFailed;
  *reasons = 0x1 | 0x4 | 0x40;
  return 0;
}
}
