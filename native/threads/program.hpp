// What the threads of a program do, and the slow memory that their data lie on.
#pragma once

namespace pmoss::threads {

/// What persistent memory does beyond ordinary memory; the rest is in Machine, whose nodes without
/// cores are the slow ones. Sources are in the machine description.
struct SlowMemory {
  double read_ns = 0;             ///< a line of a sequential read, from the own socket
  double write_ns = 0;            ///< a line written past the caches, from the own socket
  double remote_read_ratio = 1;   ///< latency from another socket / from the own
  double remote_write_ratio = 1;  ///< the same of a written line
  double remote_read_share = 1;   ///< bandwidth from another socket / from the own
  double remote_write_share = 1;
  /// Remote writers at once without a slowdown. Every further one adds `remote_writer_cost` to the
  /// time that a remote write occupies the memory, in times of a local one. `remote_mixed_cost` is
  /// added by the share of reads among them.
  double remote_writers = 0;
  double remote_writer_cost = 0;
  double remote_mixed_cost = 0;
  double granule_bytes = 64;  ///< what the memory moves at least
};

/// What every thread of a program does, request by request.
struct Program {
  double write_share = 0;
  double value_bytes = 0;
  double read_cycles = 0;  ///< of the processor, in user mode, without waiting for memory
  double write_cycles = 0;
  double read_faults = 0;  ///< minor page faults
  double write_faults = 0;
  double fault_ns = 0;  ///< in the kernel, each, at the base clock
  /// Random lines of the store's index, which lies on the same memory as the values.
  double index_lines = 0;
  double ordinary_lines = 0;  ///< lines of ordinary memory of the thread's own node
  /// Pages of the store that the program touches for the first time: major faults, all in all.
  double first_touches = 0;
};

/// What the kernel's scheduler does.
struct Kernel {
  double slice_s = 0.003;        ///< a turn of a thread where several share a CPU
  double node_imbalance = 1.25;  ///< load per CPU of the busiest / idlest node before it acts
  double turbo_ghz = 0;          ///< clock of a core that only waits; 0: the base clock
  double move_lines = 0;         ///< lines that a moved thread must fetch again
};

}  // namespace pmoss::threads
