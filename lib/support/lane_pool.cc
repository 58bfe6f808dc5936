#include "lib/support/lane_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lib/support/pinning.h"
#include "lib/support/places.h"
#include "lib/support/spin.h"
#include "lib/support/status.h"

namespace infer {

/// Where one thread sleeps until another opens. Who wants to sleep closes it, looks once more
/// whether there is something to do, and waits; whoever brings something opens it afterwards.
class Team::Door {
 public:
  void Close() { closed_ = 1; }
  /// By the sleeper, who found something.
  void Reopen() { closed_ = 0; }
  /// Until it is open; or for kNap, or without a reason.
  void Wait(bool nap) {
    const timespec time{0, kNapNs};
    CountRunnable(-1);
    ::syscall(SYS_futex, &closed_, FUTEX_WAIT_PRIVATE, 1, nap ? &time : nullptr, nullptr, 0);
    CountRunnable(1);
    Reopen();
  }
  void Open() {
    if (closed_ != 0 && closed_.exchange(0) != 0)
      ::syscall(SYS_futex, &closed_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  static constexpr int64_t kNapNs = 50'000'000;
  std::atomic<int> closed_{0};
  static_assert(sizeof(closed_) == sizeof(int));
};

/// What a team does, on the caller's stack.
struct Team::Job {
  FunctionRef<void(int)> part;
  Team::Members* members;  // nullptr: it has one part, and nobody waits for it
};

/// A standing thread. Its mailbox holds a part that is given out and not begun: whoever takes it
/// out, by exchange, runs it.
struct alignas(64) Team::Lane {
  std::atomic<Job*> mailbox{nullptr};
  int part = 0;  // of the job in the mailbox
  Door door;
  int number = 0;  // in the pool, from 1
  pthread_t thread{};
  CpuMask mask;  // empty: nobody has pinned it

  std::atomic<bool> in_team{false};

  void Post(Job* job, int index, bool wake) {
    part = index;
    mailbox = job;
    if (wake) door.Open();
  }
  /// By the team that took it. nullptr: where it would run if nobody had pinned it.
  void PinTo(const CpuMask* where);
  Job* Await(SpinTime& spin_time);
  void Work();
};

struct Team::Members {
  alignas(64) std::atomic<int> left{0};  // parts that are given out and have not ended
  Door caller;
  std::vector<Lane*> lanes;

  /// The index of a part that no lane has begun, and that is the calling thread's now; 0: none.
  int TakeFrom(Job* job);
  void RunFrom(Job* job, int index);
  void End(int parts) {
    if (left.fetch_sub(parts) == parts) caller.Open();
  }
  void AwaitLanes();
};

namespace {

class Pool {
 public:
  /// One that is pinned to `where` already, if there is such a one. nullptr: the system has no
  /// thread.
  Team::Lane* Take(const CpuMask* where) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto found = where ? std::find_if(idle_.rbegin(), idle_.rend(),
                                          [&](const Team::Lane* l) { return l->mask == *where; })
                           : idle_.rbegin();
        if (found == idle_.rend()) found = idle_.rbegin();
        Team::Lane* lane = *found;
        idle_.erase(std::next(found).base());
        lane->in_team = true;
        lane->door.Open();  // from now on it naps
        return lane;
      }
    }
    return Make();
  }
  void GiveBack(Team::Lane* lane) {
    const std::lock_guard lock(mutex_);
    lane->in_team = false;
    idle_.push_back(lane);
  }

  Team::Members* TakeMembers();
  void GiveBack(Team::Members* members);

  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }
  void Forget() {
    idle_.clear();
    mutex_.unlock();
  }

 private:
  Team::Lane* Make();

  std::mutex mutex_;
  std::vector<Team::Lane*> idle_;       // the last one ran last
  std::vector<Team::Members*> unused_;  // never freed: lanes look at them on their way out
  size_t made_ = 0, teams_ = 0;
};

/// Never destroyed: its threads run until the process ends.
Pool& ThePool() {
  static auto& pool = *new Pool;
  return pool;
}

/// Signals are for the threads that the program made.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (int faults : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, faults);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

Team::Lane* Pool::Make() {
  auto lane = std::make_unique<Team::Lane>();
  lane->in_team = true;
  {
    const std::lock_guard lock(mutex_);
    // Room for all that were made: giving one back allocates nothing.
    idle_.reserve(made_ + 1);
    lane->number = static_cast<int>(++made_);
  }
  const SignalsBlocked blocked;
  try {
    std::thread thread([lane = lane.get()] { lane->Work(); });
    lane->thread = thread.native_handle();  // it never ends
    // A thread begins where the one runs that makes it.
    if (const CpuMask* pinned = MaskOfLane(0)) lane->mask = *pinned;
    thread.detach();
  } catch (const std::system_error&) {
    return nullptr;
  }
  return lane.release();
}

Team::Members* Pool::TakeMembers() {
  const std::lock_guard lock(mutex_);
  if (unused_.empty()) {
    unused_.reserve(++teams_);  // giving one back allocates nothing
    return new Team::Members;
  }
  Team::Members* members = unused_.back();
  unused_.pop_back();
  return members;
}

void Pool::GiveBack(Team::Members* members) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(members);
}

}  // namespace

void Team::Lane::PinTo(const CpuMask* where) {
  if (where ? mask == *where : mask.empty()) return;
  const CpuMask& to = where ? *where : UnpinnedMask();
  if (pthread_setaffinity_np(thread, sizeof(cpu_set_t), &to.set()) == 0)
    mask = where ? *where : CpuMask();
}

Team::Job* Team::Lane::Await(SpinTime& spin_time) {
  for (Spin spin(spin_time.limit_ns()); !mailbox.load(std::memory_order_relaxed);)
    if (!spin.Again()) {
      door.Close();
      if (mailbox) {
        door.Reopen();
        break;
      }
      door.Wait(in_team);
      spin_time.Learn(spin.Elapsed());
    }
  return mailbox.exchange(nullptr);
}

void Team::Lane::Work() {
  BindToPlace(number);
  CountRunnable(1);
  for (SpinTime spin_time;;)
    if (Job* job = Await(spin_time))
      job->members ? job->members->RunFrom(job, part) : job->part(part);
}

int Team::Members::TakeFrom(Job* job) {
  for (Lane* lane : lanes) {
    Job* expected = job;
    if (lane->mailbox.load(std::memory_order_relaxed) == job &&
        lane->mailbox.compare_exchange_strong(expected, nullptr))
      return lane->part;
  }
  return 0;
}

void Team::Members::RunFrom(Job* job, int index) {
  int ended = 0;
  for (; index > 0; index = TakeFrom(job), ++ended) job->part(index);
  // The job is the caller's, who may be gone with it after this.
  if (ended > 0) End(ended);
}

void Team::Members::AwaitLanes() {
  for (Spin spin(SpinTime::kMostNs); left > 0;)
    if (!spin.Again()) {
      caller.Close();
      if (left > 0)
        caller.Wait(false);
      else
        caller.Reopen();
    }
}

Team& Team::OfThisThread() {
  // A thread_local with a destructor ends the process where there is no memory to note it (glibc).
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    INFER_CHECK(pthread_key_create(&made, [](void* team) { delete static_cast<Team*>(team); }) ==
                0);
    return made;
  }();
  thread_local Team* team = nullptr;
  if (!team) {
    std::unique_ptr<Team> made(new Team);
    if (pthread_setspecific(key, made.get()) != 0) throw std::bad_alloc();
    team = made.release();
  }
  return *team;
}

Team::Team() : members_(ThePool().TakeMembers()) {}

Team::~Team() {
  ShrinkTo(1);
  ThePool().GiveBack(members_);
}

int Team::size() const { return 1 + static_cast<int>(members_->lanes.size()); }

void Team::GrowTo(int size) {
  while (this->size() < size) {
    members_->lanes.reserve(members_->lanes.size() + 1);
    const CpuMask* where = MaskOfLane(this->size());
    Lane* lane = ThePool().Take(where);
    if (!lane) return;
    lane->PinTo(where);
    members_->lanes.push_back(lane);
  }
}

void Team::ShrinkTo(int size) {
  while (this->size() > size) {
    ThePool().GiveBack(members_->lanes.back());
    members_->lanes.pop_back();
  }
}

void Team::ForgetLanes() { members_->lanes.clear(); }

void Team::Run(int count, FunctionRef<void(int)> part, int awake) {
  Job job{part, members_};
  const int given = std::min(count, size()) - 1;
  members_->left = given;
  for (int i = 1; i <= given; ++i)
    members_->lanes[static_cast<size_t>(i) - 1]->Post(&job, i, i < awake);
  part(0);
  for (int i = given + 1; i < count; ++i) part(i);
  members_->RunFrom(&job, members_->TakeFrom(&job));
  members_->AwaitLanes();
}

void RunAside(std::function<void()> work) {
  struct Aside {
    explicit Aside(std::function<void()> w) : work(std::move(w)) {}
    std::function<void()> work;
    Team::Lane* lane = nullptr;
    std::function<void(int)> all = [this](int) {
      const std::unique_ptr<Aside> self(this);
      CountRunnable(-1);  // as a lane; what it runs counts by its lease
      work();
      CountRunnable(1);
      ThePool().GiveBack(lane);
    };
    Team::Job job{all, nullptr};
  };
  auto aside = std::make_unique<Aside>(std::move(work));
  aside->lane = ThePool().Take(nullptr);
  if (!aside->lane)
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "no thread for a run");
  aside->lane->PinTo(nullptr);
  Team::Job* job = &aside->job;
  aside.release()->lane->Post(job, 0, true);
}

void LockPool() { ThePool().Lock(); }
void UnlockPool() { ThePool().Unlock(); }
void ForgetPool() { ThePool().Forget(); }

}  // namespace infer
