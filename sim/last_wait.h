#ifndef EMPLACE_SIM_LAST_WAIT_H_
#define EMPLACE_SIM_LAST_WAIT_H_

#include <optional>

namespace emplace {

// What something waited for, as every critical chain follows it: of all that it waited for, what was over last, and of
// several at that time, what was considered first. Chains consider inputs before what only held a device or a channel.
template <typename What, typename Time = double>
class LastWait {
 public:
  void Consider(const What& what, const Time& over) {
    if (what_ && over <= over_) return;
    what_ = what;
    over_ = over;
  }
  const std::optional<What>& what() const { return what_; }  // none: nothing was considered
  const Time& over() const { return over_; }                 // when it was over; Time() without any

 private:
  std::optional<What> what_;
  Time over_{};
};

}  // namespace emplace

#endif  // EMPLACE_SIM_LAST_WAIT_H_
