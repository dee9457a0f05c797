#include "runtime/tools/event_counters.h"

#include <array>
#include <charconv>

#include "runtime/backends/own_folders.h"

namespace aipu::tools {

Result<CountedEvent> CountedEvent::parse(const std::string& text) {
  const size_t star = text.rfind('*');
  CountedEvent event = {text.substr(0, star)};
  if (event.name.empty()) return invalid_argument(str_cat("'", text, "' has no name of an event"));
  if (star == std::string::npos) return event;
  const char* const begin = text.data() + star + 1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(begin, end, event.bytes_of_one);
  if (error != std::errc() || at != end || !(event.bytes_of_one > 0))
    return invalid_argument(str_cat("'", text, "': behind the * comes how many bytes each is, as in cache-misses*64"));
  return event;
}

Result<EventCounters> EventCounters::open(const std::vector<CountedEvent>& events) {
  if (events.size() > runtime::ProfileCounters::kMost)
    return invalid_argument(str_cat(events.size(), " events are more than the ", runtime::ProfileCounters::kMost,
                                    " that can be counted in one run"));
  AIPU_ASSIGN_OR_RETURN(void* const symbol,
                        runtime::own_function("libaipu_counters.so", AIPU_COUNTERS_SYMBOL, "counters of events"));
  const aipu_counters_library* const library = reinterpret_cast<aipu_counters_function>(symbol)();
  if (library == nullptr || library->api_version != AIPU_COUNTERS_API_VERSION)
    return unsupported("libaipu_counters.so is not the library of counters of this version");
  std::vector<const char*> texts;
  for (const CountedEvent& event : events) texts.push_back(event.name.c_str());
  std::array<char, 512> message = {};
  void* const counters = library->open(texts.data(), texts.size(), message.data(), message.size());
  if (counters == nullptr) return unsupported(message.data());
  return EventCounters({counters, Close{library}}, events.size());
}

runtime::ProfileCounters EventCounters::for_profile() const {
  const aipu_counters_library* const library = counters_.get_deleter().library;
  return {static_cast<uint32_t>(count_), counters_.get(), library->read};
}

}  // namespace aipu::tools
