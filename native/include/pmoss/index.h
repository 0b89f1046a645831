/* An index of yours behind the runtime of pmoss: a shared library that exports
 * pmoss_index_get_api().
 *
 * Build it with `cc -shared -fPIC`, check it with `pmoss index check ./libmine.so`, and run it with
 * `pmoss measure --index plugin:./libmine.so`. Nothing of pmoss is linked.
 *
 * Keys are 64-bit numbers. So are values, unless the index can hold larger ones (see open_words). A
 * slice is a key range; the index need not know slices. Every function but those that open and
 * close may be called by several threads at the same time, on the same keys. Of several inserts of
 * a new key one gives 1. Once an update has ended, no lookup gives an older value. Every number is
 * a key, 0 and 2^64 - 1 as well. A call must not fork, and must not change signals or the CPUs of
 * its thread, and writes nothing to the standard output. `pmoss index check` holds a library
 * against all of that.
 */
#ifndef PMOSS_INDEX_H
#define PMOSS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In C++ members that are left out are null. */
#ifdef __cplusplus
#define PMOSS_UNLESS_GIVEN = nullptr
#else
#define PMOSS_UNLESS_GIVEN
#endif

/* Changes when a library that was built before can no longer be used. */
#define PMOSS_INDEX_ABI 1u
/* Grows with each member that comes at the end. Libraries of all minor versions can be used. */
#define PMOSS_INDEX_ABI_MINOR 2u

/* What open() returns: whatever the library wants. */
typedef struct pmoss_index pmoss_index;

struct pmoss_index_options {
  uint32_t slices;           /* key ranges of equal width; for libraries that want to partition */
  uint64_t expected_records; /* about so many will be loaded */
};

/* visit_memory() calls it for each piece of memory. */
typedef void (*pmoss_visit)(void* context, const void* address, size_t bytes);

/* Functions that return int give 1 (yes), 0 (no) or a negative number for a failure, which ends the
 * measurement. The library keeps the struct; pmoss reads it once. */
struct pmoss_index_api {
  uint32_t abi;         /* PMOSS_INDEX_ABI */
  uint32_t struct_size; /* sizeof(struct pmoss_index_api): later members may be missing */
  const char* name;     /* for people, such as "ART with OLC" */

  /* An empty index, or NULL if there cannot be one. */
  pmoss_index* (*open)(const struct pmoss_index_options* options);
  void (*close)(pmoss_index* index);

  /* Adds records; 1, or negative. Each thread loads slices of its own, one after the other, whose
   * records have no order. */
  int (*load)(pmoss_index* index, const uint64_t* keys, const uint64_t* values, size_t count);
  /* 1 and the value, or 0. */
  int (*lookup)(pmoss_index* index, uint64_t key, uint64_t* value);
  /* 1 if the key is new, 0 if it was there and has the new value now. */
  int (*insert)(pmoss_index* index, uint64_t key, uint64_t value);
  /* 1, or 0 if there is no such key, which is not added. */
  int (*update)(pmoss_index* index, uint64_t key, uint64_t value);
  /* Writes the records from the first key that is not below `first` on, in the order of their keys,
   * at most `limit`. The number of them, or negative. NULL: the index has no order; workloads with
   * scans are refused. */
  int64_t (*scan)(pmoss_index* index, uint64_t first, size_t limit, uint64_t* keys,
                  uint64_t* values) PMOSS_UNLESS_GIVEN;
  /* The number of records. */
  uint64_t (*size)(pmoss_index* index);

  /* --- each of the following may be NULL --- */

  /* found[i] is 1 or 0, values[i] is written where it is 1. 1, or negative. */
  int (*lookup_batch)(pmoss_index* index, const uint64_t* keys, size_t count, uint64_t* values,
                      uint8_t* found) PMOSS_UNLESS_GIVEN;
  /* Tells of all memory that records with first <= key <= last lie in, nodes above them as well if
   * they serve no other keys. Pieces may repeat and overlap. The memory must stay mapped until the
   * call returns. 1, or negative. With it, pmoss moves the pages of a slice to another NUMA node,
   * and asks the kernel where they lie. */
  int (*visit_memory)(pmoss_index* index, uint64_t first, uint64_t last, pmoss_visit visit,
                      void* context) PMOSS_UNLESS_GIVEN;
  /* Each thread calls these itself, before its first operation and after its last one. 1, or
   * negative. */
  int (*attach_thread)(pmoss_index* index) PMOSS_UNLESS_GIVEN;
  void (*detach_thread)(pmoss_index* index) PMOSS_UNLESS_GIVEN;
  /* Memory that a record takes, for the check before loading; NULL means 64 bytes. */
  double (*bytes_per_record)(pmoss_index* index) PMOSS_UNLESS_GIVEN;
  /* With it, load() is not called for a slice that is empty: all its records come at once, in the
   * ascending order of their keys, and first <= key <= last. An index often builds that faster and
   * denser. Other threads load other slices meanwhile. 1, or negative. */
  int (*load_sorted)(pmoss_index* index, uint64_t first, uint64_t last, const uint64_t* keys,
                     const uint64_t* values, size_t count) PMOSS_UNLESS_GIVEN;
  /* From minor version 1 on. 1 if the key was there and is gone now, or 0. Of several calls for one
   * key one gives 1, and no update brings it back. */
  int (*erase)(pmoss_index* index, uint64_t key) PMOSS_UNLESS_GIVEN;
  /* From minor version 2 on, for values of more than 8 bytes: a multiple of 8, at most 1024. All
   * three are there or none. They are called in place of open, insert and update. In the other
   * functions each value then has `value_bytes`, and `values` holds one after the other.
   * load_sorted is not called. No lookup and no scan gives a part of one value with a part of
   * another. */
  pmoss_index* (*open_words)(const struct pmoss_index_options* options,
                             uint32_t value_bytes)PMOSS_UNLESS_GIVEN;
  int (*insert_words)(pmoss_index* index, uint64_t key, const uint64_t* value) PMOSS_UNLESS_GIVEN;
  int (*update_words)(pmoss_index* index, uint64_t key, const uint64_t* value) PMOSS_UNLESS_GIVEN;
};

/* What the library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct pmoss_index_api* pmoss_index_get_api(void);

#ifdef __cplusplus
}
#endif

#endif
