#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_CLAIM_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_CLAIM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace emplace::experiments {

// A trial is run by one process at a time, of any machine that sees its folder. The claim is the file `lock` in the
// folder, created exclusively. While it is held its modification time is renewed: the lease. Ages are differences of
// modification times on the same file system, so that the clocks of machines do not matter. Who finds a lease that has
// expired, or whose process has ended on the same machine, takes the claim over.

// A lease must be longer than a network file system keeps attributes (60 s by NFS's default).
inline constexpr std::chrono::milliseconds kDefaultLease = std::chrono::seconds(180);

// The process that holds a claim.
struct ClaimHolder {
  std::string host = {};
  std::string boot = {};      // identifies a run of the host's kernel and the namespace of its processes; "": unknown
  std::int64_t process = 0;   // its ID there
  std::string started = {};   // start of the process in kernel ticks
  std::string instance = {};  // distinguishes all claims
  double lease_seconds = 0;
  double since_unix_s = 0;  // the file system's time of the claim

  bool operator==(const ClaimHolder&) const = default;
};
// This process; `instance` is new in every call.
ClaimHolder ThisProcess(std::chrono::milliseconds lease);
// Whether the holder is a process of this machine that has ended.
bool HasEnded(const ClaimHolder& holder);

// The claim in a folder.
struct ClaimSight {
  ClaimHolder holder;  // empty, with the default lease, if the file is not readable as a claim
  std::string text;    // content of the file
  double renewed_unix_s = 0;
};
// Opens the file, so that a network file system asks its server. nullopt if there is none.
std::optional<ClaimSight> SeeClaim(const std::string& trial_folder);

// The time of a folder's file system, from a file that is created there; at most `kept` old. nullopt if no file can be
// created.
std::optional<double> FileSystemSeconds(const std::string& folder, std::chrono::milliseconds kept = {});

// Renews the claim of a trial that is dated in the future of its file system, as if its holder had done so now: unless
// the holder renews it again, it expires after its lease. Its date alone would keep others waiting until then.
void RenewIfInFuture(const std::string& trial_folder);

// Whether a claim may be taken over at a time of its file system.
bool HasExpired(const ClaimSight& sight, std::optional<double> now_unix_s);

// Removes the claim of a process of this machine, for instance after killing it; also one that it had only begun.
void RemoveClaimOf(const std::string& trial_folder, std::int64_t process);

// Removes what processes of this machine left in a finished trial's folder that were killed before they released their
// claim, or while they took one over.
void RemoveLeftClaims(const std::string& finished_trial_folder);

class TrialClaim {
 public:
  // Takes the claim of a trial, if it is free; null otherwise. Throws WriteError.
  static std::unique_ptr<TrialClaim> Take(const std::string& trial_folder, std::chrono::milliseconds lease);
  ~TrialClaim();  // releases the claim, unless it was lost
  TrialClaim(const TrialClaim&) = delete;
  TrialClaim& operator=(const TrialClaim&) = delete;

  // Whether this process still holds the claim. Looks at the file if the last renewal is old, as it is in a process
  // that was stopped for a while.
  bool Held();
  // The holder whose claim was taken over.
  const std::optional<ClaimHolder>& taken_from() const { return taken_from_; }

 private:
  using Clock = std::chrono::steady_clock;
  TrialClaim(std::string path, std::string text, std::chrono::milliseconds lease);

  void KeepRenewing();
  // Renews the lease if the file is still this claim.
  void Renew();

  const std::string path_;
  const std::string text_;
  const std::chrono::milliseconds lease_;
  std::optional<ClaimHolder> taken_from_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool lost_ = false;
  Clock::time_point renewed_;
  std::thread thread_;
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_CLAIM_H_
