#include "profiler/execute/step_run.h"

#include <algorithm>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

// A thread that finds nothing to do looks again for so long before it sleeps: waking it costs tens of µs.
constexpr std::chrono::microseconds kPatience{50};

}  // namespace

StepRun::StepRun(const Graph& graph, const PlacedProgram& program, std::vector<PreparedOp>& ops,
                 const std::vector<HardwareDevice*>& devices, const std::vector<std::unique_ptr<DeviceWorker>>& workers,
                 bool watches)
    : graph_(graph), program_(program), ops_(ops), devices_(devices), workers_(workers), watches_(watches) {}

double StepRun::Run() {
  Reset();
  began_ = std::chrono::steady_clock::now();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    for (const OpId op : program_.roots[d]) workers_[d]->ops.Push(op);
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (Copies(d)) workers_[d]->copier->Start([this, d] { Copy(d); });
    if (program_.num_ops[d] > 0) workers_[d]->thread.Start([this, d] { Work(d); });
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (program_.num_ops[d] > 0) workers_[d]->thread.Wait();
    if (Copies(d)) workers_[d]->copier->Wait();
  }
  if (error_) {
    handles_.clear();
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  double last = 0;
  for (const double end : ends_) last = std::max(last, end);
  return last;
}

Timeline StepRun::RunTimed() {
  op_times_.assign(program_.steps.size(), {});
  origins_.assign(devices_.size(), {});
  is_timed_ = true;
  Run();
  is_timed_ = false;
  for (std::size_t n = 0; n < op_times_.size(); ++n) {
    const std::size_t d = Index(program_.steps[n].device);
    const auto& [first, last] = op_times_[n];
    if (first == nullptr || last == nullptr || origins_[d].event == nullptr) continue;
    const auto since_began = [&](const DeviceEvent& event) {
      return origins_[d].micros + devices_[d]->MicrosBetween(*origins_[d].event, event);
    };
    op_spans_[n] = {since_began(*first), since_began(*last)};
  }
  // A copy is on its way once its tensor is there, not while its copier waits for that.
  for (std::size_t c = 0; c < copy_spans_.size(); ++c) {
    const OpId producer = graph_.tensor(program_.slots[program_.copies[c].from].tensor).producer;
    Span& span = copy_spans_[c];
    span.start = std::clamp(op_spans_[Index(producer)].end, span.start, std::max(span.start, span.end));
  }
  op_times_.clear();
  origins_.clear();
  return CurrentTimeline();
}

Timeline StepRun::CurrentTimeline() const {
  Timeline timeline;
  for (std::size_t n = 0; n < op_spans_.size(); ++n) {
    timeline.ops.push_back({.op = MakeId<OpId>(n),
                            .device = program_.steps[n].device,
                            .start_micros = op_spans_[n].start,
                            .end_micros = op_spans_[n].end});
  }
  for (std::size_t c = 0; c < copy_spans_.size(); ++c) {
    const PlacedProgram::Slot& from = program_.slots[program_.copies[c].from];
    timeline.transfers.push_back({.tensor = from.tensor,
                                  .from = from.device,
                                  .to = program_.slots[program_.copies[c].to].device,
                                  .start_micros = copy_spans_[c].start,
                                  .arrival_micros = copy_spans_[c].end});
  }
  const auto sooner = [](const auto& a, const auto& b) { return a.start_micros < b.start_micros; };
  std::stable_sort(timeline.ops.begin(), timeline.ops.end(), sooner);
  std::stable_sort(timeline.transfers.begin(), timeline.transfers.end(), sooner);
  for (std::size_t d = 0; d < workers_.size(); ++d) {
    std::vector<std::pair<double, Bytes>> samples = workers_[d]->ledger.samples();
    std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [micros, bytes] : samples) timeline.memory.push_back({MakeId<DeviceId>(d), micros, bytes});
  }
  return timeline;
}

void StepRun::Reset() {
  const std::size_t num_ops = program_.steps.size();
  if (waits_.size() != num_ops) waits_ = std::vector<std::atomic<std::uint32_t>>(num_ops);
  if (uses_.size() != program_.slots.size()) uses_ = std::vector<std::atomic<std::uint32_t>>(program_.slots.size());
  for (std::size_t n = 0; n < num_ops; ++n) waits_[n] = program_.steps[n].waits;
  for (std::size_t s = 0; s < uses_.size(); ++s) uses_[s] = program_.slots[s].uses;
  handles_.assign(program_.slots.size(), nullptr);
  events_.assign(num_ops, nullptr);
  op_spans_.assign(num_ops, {});
  copy_spans_.assign(program_.copies.size(), {});
  ends_.assign(devices_.size(), 0);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    DeviceWorker& worker = *workers_[d];
    worker.ops.Reset();
    worker.copies.Reset();
    worker.ledger.Reset(worker.persistent);
    if (program_.num_ops[d] > 0) worker.probe.BeginStep();
  }
}

void StepRun::Fail() {
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
  for (auto& worker : workers_) {
    worker->ops.Close();
    worker->copies.Close();
  }
}

void StepRun::Work(std::size_t d) {
  try {
    if (Times(d)) {
      devices_[d]->Synchronize();
      origins_[d] = {devices_[d]->RecordTime(), Now()};
    }
    for (std::size_t done = 0; done < program_.num_ops[d]; ++done) {
      const std::optional<OpId> op = workers_[d]->ops.Pop(kPatience);
      if (!op) return;
      Execute(*op);
      if (watches_) workers_[d]->probe.ProbeWithin(*devices_[d], Now());
    }
    if (!devices_[d]->is_cpu()) {
      devices_[d]->Synchronize();
      ends_[d] = Now();
    }
  } catch (...) {
    Fail();
  }
}

void StepRun::Execute(OpId id) {
  const PlacedProgram::Step& step = program_.steps[Index(id)];
  PreparedOp& op = ops_[Index(id)];
  DeviceWorker& worker = WorkerOf(step.device);
  Span& span = op_spans_[Index(id)];
  std::vector<TensorHandle> inputs;
  for (const std::uint32_t slot : step.inputs) inputs.push_back(handles_[slot]);
  std::vector<TensorHandle> outputs = op.data;
  span.start = Now();
  for (const std::uint32_t slot : step.outputs) worker.ledger.Allocate(program_.slots[slot].size, span.start);
  const Bytes temp = graph_.op(id).temp;
  if (temp.count > 0) worker.ledger.Allocate(temp, span.start);
  HardwareDevice& device = *devices_[Index(step.device)];
  const bool is_timed = Times(Index(step.device));
  if (is_timed) op_times_[Index(id)].first = device.RecordTime();
  if (op.kernel) op.kernel->Run(inputs, &outputs);
  if (is_timed) op_times_[Index(id)].second = device.RecordTime();
  span.end = Now();
  inputs.clear();
  ends_[Index(step.device)] = span.end;
  if (temp.count > 0) worker.ledger.Free(temp, span.end);
  Finish(id, std::move(outputs));
}

void StepRun::Finish(OpId id, std::vector<TensorHandle> outputs) {
  const PlacedProgram::Step& step = program_.steps[Index(id)];
  DeviceWorker& worker = WorkerOf(step.device);
  HardwareDevice& device = *devices_[Index(step.device)];
  const Span& span = op_spans_[Index(id)];
  EMPLACE_CHECK_EQ(outputs.size(), step.outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    // A tensor without readers is freed at once.
    if (program_.slots[step.outputs[o]].uses == 0) {
      worker.ledger.Free(program_.slots[step.outputs[o]].size, span.end);
    } else {
      handles_[step.outputs[o]] = std::move(outputs[o]);
    }
  }
  if (!step.copies.empty()) events_[Index(id)] = device.Record();
  if (worker.copier) {
    for (const std::uint32_t copy : step.copies) worker.copies.Push(copy);
  }
  for (const OpId next : step.next_here) Signal(next);
  // An op for which another device waits without reading its output is not finished when it is enqueued here.
  if (!step.next_elsewhere.empty()) device.Synchronize();
  for (const OpId next : step.next_elsewhere) Signal(next);
  if (!worker.copier) {
    for (const std::uint32_t copy : step.copies) Send(copy);
  }
  for (const std::uint32_t slot : step.frees) Used(slot);
}

void StepRun::Signal(OpId op) {
  if (waits_[Index(op)].fetch_sub(1, std::memory_order_acq_rel) == 1) {
    WorkerOf(program_.steps[Index(op)].device).ops.Push(op);
  }
}

void StepRun::Used(std::uint32_t slot) {
  if (uses_[slot].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  handles_[slot] = nullptr;
  WorkerOf(program_.slots[slot].device).ledger.Free(program_.slots[slot].size, Now());
}

void StepRun::Copy(std::size_t d) {
  try {
    for (std::size_t done = 0; done < program_.num_copies[d]; ++done) {
      const std::optional<std::uint32_t> copy = workers_[d]->copies.Pop({});
      if (!copy) return;
      Send(*copy);
    }
  } catch (...) {
    Fail();
  }
}

void StepRun::Send(std::uint32_t id) {
  const PlacedProgram::Copy& copy = program_.copies[id];
  const PlacedProgram::Slot& from = program_.slots[copy.from];
  const PlacedProgram::Slot& to = program_.slots[copy.to];
  Span& span = copy_spans_[id];
  span.start = Now();
  WorkerOf(to.device).ledger.Allocate(to.size, span.start);
  const OpId producer = graph_.tensor(from.tensor).producer;
  handles_[copy.to] = devices_[Index(to.device)]->Receive(handles_[copy.from], *devices_[Index(from.device)],
                                                          events_[Index(producer)].get());
  span.end = Now();
  for (const OpId reader : copy.readers) Signal(reader);
  Used(copy.from);
}

}  // namespace emplace::profiler
