# What a portable build lacks. Everything else runs on any system with a compiler like GCC or Clang.

# Floors that measure, place and count on a Linux host.
set(absent pmu scan runtime)

# Sources of other floors that need those, or Linux. FLOOR/*.cpp beside this file stand in for some.
set(PMOSS_NOT_PORTABLE
  bindings/co_tenants.cpp bindings/host.cpp bindings/index_views.cpp bindings/live_threads.cpp
  bindings/plugins.cpp bindings/pmu.cpp bindings/recording.cpp bindings/runtime.cpp bindings/scan.cpp
  index/chunk_memory.cpp index/kernel_barrier.cpp
  kinds/check_plugin.cpp kinds/driven_plugin.cpp kinds/plugin.cpp kinds/plugin_index.cpp kinds/plugin_library.cpp
  kinds/sampled_answers.cpp kinds/serve.cpp kinds/served_keys.cpp kinds/served_plugin.cpp kinds/served_rtree.cpp
  numa/affinity.cpp numa/facts.cpp numa/huge_memory.cpp numa/memory_calls.cpp
  recording/access_list.cpp recording/access_trace.cpp threads/key_value_load.cpp)
set(PMOSS_STAND_INS ${CMAKE_CURRENT_LIST_DIR})

# What Windows lacks beyond that.
option(PMOSS_WITHOUT_POSIX "Leave out fork() and mapped files as well" ${WIN32})
if(PMOSS_WITHOUT_POSIX)
  list(APPEND PMOSS_NOT_PORTABLE index/at_fork.cpp workload/file_words.cpp)
  list(APPEND PMOSS_STAND_INS ${CMAKE_CURRENT_LIST_DIR}/windows)
endif()
