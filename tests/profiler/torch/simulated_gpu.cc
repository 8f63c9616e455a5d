#include "tests/profiler/torch/simulated_gpu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace emplace::testing {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr std::size_t kDevices = 2;
constexpr std::size_t kStreams = 6;  // streams of a device; 0 is its default
constexpr int kPoison = 0xff;        // bytes of a NaN

std::atomic<std::uint64_t> wrong_reads{0};
std::atomic<std::uint64_t> work_done{0};
std::atomic<std::uint32_t> most_delay_micros{200};

// Does what it is given in order.
class Queue {
 public:
  explicit Queue(std::uint64_t seed) : random_(seed), thread_([this] { Loop(); }) {}

  void Give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++given_;
    changed_.notify_all();
  }
  void Synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, until = given_] { return done_ >= until; });
  }
  bool IsIdle() {
    const std::lock_guard lock(mutex_);
    return done_ == given_;
  }

 private:
  void Loop() {
    at::set_num_threads(1);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !work_.empty(); });
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      const std::uint32_t most = most_delay_micros;
      if (most > 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % most));
      work();
      ++work_done;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t given_ = 0;
  std::uint64_t done_ = 0;
  std::mt19937_64 random_;
  std::thread thread_;
};

// Stays for good: streams are never given back.
Queue& QueueOf(const c10::Stream& stream) {
  static auto* const queues = [] {
    auto* const made = new std::array<std::array<std::unique_ptr<Queue>, kStreams>, kDevices>;
    for (std::size_t d = 0; d < kDevices; ++d) {
      for (std::size_t s = 0; s < kStreams; ++s) (*made)[d][s] = std::make_unique<Queue>(100 * d + s);
    }
    return made;
  }();
  return *(*queues)[static_cast<std::size_t>(stream.device_index())][static_cast<std::size_t>(stream.id())];
}

c10::Stream StreamAt(c10::DeviceIndex device, std::size_t number) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), static_cast<c10::StreamId>(number));
}

struct Current {
  c10::DeviceIndex device = 0;
  std::array<std::size_t, kDevices> stream{};
};
thread_local Current current;

// A point in a stream; recorded again, another one.
class Point {
 public:
  void Record(const c10::Stream& stream, const std::shared_ptr<Point>& self) {
    std::uint64_t version = 0;
    {
      const std::lock_guard lock(mutex_);
      version = ++recorded_;
    }
    QueueOf(stream).Give([self, version] { self->Pass(version); });
  }
  void Block(const c10::Stream& stream, const std::shared_ptr<Point>& self) {
    std::uint64_t version = 0;
    {
      const std::lock_guard lock(mutex_);
      version = recorded_;
    }
    QueueOf(stream).Give([self, version] { self->WaitFor(version); });
  }
  bool IsPassed() {
    const std::lock_guard lock(mutex_);
    return passed_ == recorded_;
  }
  double Micros() {
    const std::lock_guard lock(mutex_);
    return micros_;
  }

 private:
  void Pass(std::uint64_t version) {
    const std::lock_guard lock(mutex_);
    passed_ = std::max(passed_, version);
    micros_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
    changed_.notify_all();
  }
  void WaitFor(std::uint64_t version) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_ >= version; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t passed_ = 0;
  double micros_ = 0;
};

std::shared_ptr<Point>& PointOf(void* event) { return *static_cast<std::shared_ptr<Point>*>(event); }

struct Block {
  void* memory = nullptr;
  std::size_t size = 0;
  c10::Stream home;
  std::mutex mutex;
  std::set<std::size_t> others;  // streams of its device that use it too
};

// The memory itself stays, so that whoever reads it too late finds NaN there.
void Free(void* context) {
  auto* const block = static_cast<Block*>(context);
  for (const std::size_t other : block->others) {
    const auto point = std::make_shared<Point>();
    point->Record(StreamAt(block->home.device_index(), other), point);
    point->Block(block->home, point);
  }
  QueueOf(block->home).Give([block] { std::memset(block->memory, kPoison, block->size); });
  static std::mutex mutex;
  static auto* const freed = new std::vector<Block*>;
  const std::lock_guard lock(mutex);
  freed->push_back(block);
}

class Memory final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t size) override { return Allocate(size); }
  void copy_data(void* to, const void* from, std::size_t size) const override { std::memcpy(to, from, size); }
#else
  c10::DataPtr allocate(std::size_t size) const override { return Allocate(size); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  static c10::DataPtr Allocate(std::size_t size) {
    const c10::Device device(kType, current.device);
    if (size == 0) return {nullptr, device};
    auto* const block = new Block{.memory = std::malloc(size),
                                  .size = size,
                                  .home = StreamAt(current.device, current.stream[device.index()]),
                                  .mutex = {},
                                  .others = {}};
    std::memset(block->memory, kPoison, size);
    return {block->memory, block, &Free, device};
  }
};

Memory* TheMemory() {
  static auto* const memory = new Memory;
  return memory;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, std::exchange(current.device, device.index())};
  }
  c10::Device getDevice() const override { return {kType, current.device}; }
  void setDevice(c10::Device device) const override { current.device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current.device = device.index(); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    const c10::DeviceIndex index = device.has_index() ? device.index() : current.device;
    return StreamAt(index, current.stream[static_cast<std::size_t>(index)]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return StreamAt(device.index(), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<std::size_t> next{0};
    return StreamAt(device.index(), 1 + next++ % (kStreams - 1));
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::Stream before = getStream(stream.device());
    current.stream[static_cast<std::size_t>(stream.device_index())] = static_cast<std::size_t>(stream.id());
    return before;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<std::shared_ptr<Point>*>(event);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new std::shared_ptr<Point>(std::make_shared<Point>());
    PointOf(*event)->Record(stream, PointOf(*event));
  }
  void block(void* event, const c10::Stream& stream) const override { PointOf(event)->Block(stream, PointOf(event)); }
  bool queryEvent(void* event) const override { return PointOf(event)->IsPassed(); }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    return (PointOf(second)->Micros() - PointOf(first)->Micros()) / 1000;
  }
#endif
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& stream) const override { return QueueOf(stream).IsIdle(); }
  void synchronizeStream(const c10::Stream& stream) const override { QueueOf(stream).Synchronize(); }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    auto* const block = static_cast<Block*>(pointer.get_context());
    if (block == nullptr || stream == block->home) return;
    const std::lock_guard lock(block->mutex);
    block->others.insert(static_cast<std::size_t>(stream.id()));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

bool IsOnGpu(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

// The same memory as a tensor on the CPU. Does not keep it.
at::Tensor Alias(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

// LibTorch's own accesses are not seen by the thread sanitizer; these are.
void Read(const at::Tensor& alias) {
  if (alias.scalar_type() != at::kFloat) return;
  const at::Tensor flat = alias.is_contiguous() ? alias : alias.contiguous();
  const auto* const values = flat.data_ptr<float>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (values[i] == values[i]) continue;
    ++wrong_reads;
    return;
  }
}
void Written(const at::Tensor& alias) {
  if (alias.scalar_type() != at::kFloat || !alias.is_contiguous()) return;
  auto* const values = alias.data_ptr<float>();
  for (std::int64_t i = 0; i < alias.numel(); ++i) const_cast<volatile float&>(values[i]) = values[i];
}

c10::Stream StreamOf(const at::Tensor& tensor) { return Guard().getStream(tensor.device()); }

void Wait(const c10::Stream& stream, const c10::Stream& until) {
  const auto point = std::make_shared<Point>();
  point->Record(until, point);
  point->Block(stream, point);
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto copy = [](const at::Tensor& source, const at::Tensor& target) {
    Read(source);
    const at::NoGradGuard no_gradients;
    at::Tensor writable = target;
    writable.copy_(source);
    Written(target);
  };
  if (!IsOnGpu(from)) {  // pageable memory is read before the call returns
    QueueOf(StreamOf(to)).Give([copy, source = from.clone(), target = Alias(to)] { copy(source, target); });
    if (!non_blocking) QueueOf(StreamOf(to)).Synchronize();
    return to;
  }
  if (!IsOnGpu(to)) {
    if (to.is_contiguous()) std::memset(to.data_ptr(), kPoison, to.nbytes());
    QueueOf(StreamOf(from)).Give([copy, source = Alias(from), target = Alias(to)] { copy(source, target); });
    if (!non_blocking) QueueOf(StreamOf(from)).Synchronize();
    return to;
  }
  // As CUDA's copies are: on the source's current stream, after the target's; which then waits for it.
  const c10::Stream stream = StreamOf(from);
  const bool is_between = from.device() != to.device();
  if (is_between) Wait(stream, StreamOf(to));
  QueueOf(stream).Give([copy, source = Alias(from), target = Alias(to)] { copy(source, target); });
  if (is_between) Wait(StreamOf(to), stream);
  if (!non_blocking) QueueOf(StreamOf(to)).Synchronize();
  return to;
}

class OnDevice {
 public:
  explicit OnDevice(std::optional<c10::Device> device) : before_(current.device) {
    if (device && device->has_index()) current.device = device->index();
  }
  ~OnDevice() { current.device = before_; }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  c10::DeviceIndex before_;
};

std::optional<c10::Device> Given(const c10::optional<c10::Device>& device) {
  return device.has_value() ? std::optional(*device) : std::nullopt;
}

at::Tensor Empty(at::IntArrayRef size, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<c10::Device> device, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  const OnDevice scope(Given(device));
  return at::Tensor(at::detail::empty_generic(size, TheMemory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              type.value_or(at::kFloat), format));
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef strides, c10::optional<at::ScalarType> type,
                        c10::optional<at::Layout>, c10::optional<c10::Device> device, c10::optional<bool>) {
  const OnDevice scope(Given(device));
  return at::Tensor(at::detail::empty_strided_generic(
      size, strides, TheMemory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat)));
}

// A value with every tensor on the GPU replaced.
c10::IValue Replaced(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (value.isTensor()) return IsOnGpu(value.toTensor()) ? replace(value.toTensor()) : value;
  if (value.isTensorList()) {
    std::vector<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(IsOnGpu(tensor) ? replace(tensor) : tensor);
    return list;
  }
  return value;
}

// Any op: computed by the CPU's kernel when the stream gets to it. What it makes is there at once, as NaN.
void Run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t num_arguments = schema.arguments().size();
  const bool only_writes = schema.name() == "aten::fill_" || schema.name() == "aten::zero_";
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(num_arguments);
  std::optional<c10::Device> device;
  torch::jit::Stack shapes;
  torch::jit::Stack aliases;
  std::vector<at::Tensor> read;
  for (std::size_t i = 0; i < num_arguments; ++i) {
    const c10::IValue& value = *(first + static_cast<std::ptrdiff_t>(i));
    const bool is_out = only_writes || schema.arguments()[i].name() == "out";
    shapes.push_back(Replaced(value, [&](const at::Tensor& tensor) {
      device = tensor.device();
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).fill_(1);
    }));
    aliases.push_back(Replaced(value, [&](const at::Tensor& tensor) {
      at::Tensor alias = Alias(tensor);
      if (!is_out) read.push_back(alias);
      return alias;
    }));
  }
  TORCH_CHECK(device, "simulated GPU: ", schema.name(), " has no tensor there");
  const OnDevice scope(device);
  op.callBoxed(&shapes);  // on ones: not every op tells its shapes without computing
  torch::jit::Stack results;
  std::vector<std::optional<at::Tensor>> made(schema.returns().size());
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    if (const c10::AliasInfo* const alias = schema.returns()[i].alias_info()) {
      TORCH_CHECK(alias->isWrite(), "simulated GPU: ", schema.name(), " makes a view");
      for (std::size_t a = 0; a < num_arguments; ++a) {
        const c10::AliasInfo* const of_argument = schema.arguments()[a].alias_info();
        if (of_argument == nullptr || !(of_argument->beforeSets() == alias->beforeSets())) continue;
        results.push_back(*(first + static_cast<std::ptrdiff_t>(a)));
      }
      continue;
    }
    const at::Tensor shape = shapes[i].toTensor();
    at::Tensor output = at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(*device));
    made[i] = Alias(output);
    results.emplace_back(std::move(output));
  }
  QueueOf(Guard().getStream(*device)).Give([op, aliases, read, made] {
    const at::NoGradGuard no_gradients;
    for (const at::Tensor& tensor : read) Read(tensor);
    torch::jit::Stack values = aliases;
    op.callBoxed(&values);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;
      at::Tensor target = *made[i];
      target.copy_(values[i].toTensor());
      Written(target);
    }
  });
  torch::jit::drop(*stack, num_arguments);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

// Attention by CUDA's kernels: checks what they expect of their arguments, and is computed by the CPU's before it
// returns.
void RunAttention(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  torch::jit::Stack values = torch::jit::pop(*stack, schema.arguments().size());
  schema.checkAndNormalizeInputs(values);
  std::map<std::string, c10::IValue> given;
  for (std::size_t i = 0; i < values.size(); ++i) given[schema.arguments()[i].name()] = values[i];
  const bool backward = given.contains("out");
  const bool efficient = given.contains("attn_bias");
  const c10::Device device = given["query"].toTensor().device();
  QueueOf(StreamOf(given["query"].toTensor())).Synchronize();
  const auto input = [&given](const char* name) {
    const at::Tensor alias = Alias(given[name].toTensor());
    Read(alias);
    TORCH_CHECK(alias.stride(-1) == 1, name, " is not contiguous in its last dimension");
    return alias;
  };
  const at::Tensor query = input("query");
  const at::Tensor key = input("key");
  const at::Tensor value = input("value");
  const std::int64_t rows = query.size(2);
  const std::int64_t columns = key.size(2);
  TORCH_CHECK(key.size(1) == query.size(1) && value.size(1) == query.size(1), "heads differ");
  TORCH_CHECK(efficient || query.scalar_type() != at::kFloat, "the flash kernel takes half precision only");
  c10::IValue mask;
  if (efficient && given["attn_bias"].isTensor() && given["attn_bias"].toTensor().defined()) {
    const at::Tensor bias = input("attn_bias");
    TORCH_CHECK(bias.sizes() == at::IntArrayRef({query.size(0), query.size(1), rows, columns}), "bias ", bias.sizes());
    TORCH_CHECK(bias.stride(2) % 16 == 0, "bias ", bias.strides());
    mask = bias;
  }
  torch::jit::Stack call;
  if (backward) {
    const auto flash = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_flash_attention", "");
    const bool on_gpu = !efficient && flash.schema().returns()[6].name() == "rng_state";
    for (const char* const name : {"philox_seed", "philox_offset"}) {
      const at::Tensor state = given[name].toTensor();
      TORCH_CHECK(IsOnGpu(state) == on_gpu && state.numel() == (on_gpu ? 2 : 1), name);
      TORCH_CHECK(std::string(c10::toString(state.scalar_type())) == (on_gpu ? "UInt64" : "Long"), name);
    }
    if (!efficient) TORCH_CHECK(given["max_q"].toInt() == rows && given["max_k"].toInt() == columns, "lengths");
    const at::Tensor sums = input("logsumexp");
    TORCH_CHECK(sums.size(2) == (efficient ? (rows + 31) / 32 * 32 : rows), "logsumexp ", sums.sizes());
    call = {input(efficient ? "grad_out_" : "grad_out"), query, key, value, input("out"), sums.slice(2, 0, rows)};
  } else {
    TORCH_CHECK(!efficient || given["compute_log_sumexp"].toBool(), "no sums");
    call = {query, key, value};
  }
  call.insert(call.end(), {0.0, given["is_causal"], mask, given["scale"]});
  const std::string kernel = "aten::_scaled_dot_product_flash_attention_for_cpu";
  c10::Dispatcher::singleton().findSchemaOrThrow((kernel + (backward ? "_backward" : "")).c_str(), "").callBoxed(&call);
  if (efficient && !backward) call[1] = at::constant_pad_nd(call[1].toTensor(), {0, (32 - rows % 32) % 32});
  const OnDevice scope(device);
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const bool is_tensor = schema.returns()[i].type()->kind() == c10::TypeKind::TensorType;
    if (i < call.size())
      stack->emplace_back(call[i].toTensor().to(device));
    else
      stack->push_back(is_tensor ? c10::IValue(at::Tensor()) : c10::IValue(0));
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const char* const attention :
       {"_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward"}) {
    library.impl(attention, torch::CppFunction::makeFromBoxedFunction<&RunAttention>());
  }
  library.impl("empty.memory_format", TORCH_FN(Empty));
  library.impl("empty_strided", TORCH_FN(EmptyStrided));
  library.impl("_copy_from", TORCH_FN(CopyFrom));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&Run>()); }

}  // namespace
}  // namespace emplace::testing

extern "C" __attribute__((visibility("default"))) const emplace::testing::SimulatedGpuExports emplace_simulated_gpu;
const emplace::testing::SimulatedGpuExports emplace_simulated_gpu = {
    [] { return emplace::testing::wrong_reads.exchange(0); },
    [] { return emplace::testing::work_done.load(); },
    [](std::uint32_t most_micros) { emplace::testing::most_delay_micros = most_micros; },
};
