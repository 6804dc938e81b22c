// SpoolReader: what is in its chunks.

#include <algorithm>
#include <utility>

#include "tracer/spool/spool_payload.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::tracer {

bool SpoolReader::Take(const ChunkHeader& header, Payload* payload) {
  switch (static_cast<ChunkKind>(header.kind)) {
    case ChunkKind::kFacts:
      return TakeFacts(payload);
    case ChunkKind::kNames:
      return TakeNames(payload);
    case ChunkKind::kSites:
      return TakeSites(payload);
    case ChunkKind::kStacks:
      return TakeStacks(payload);
    case ChunkKind::kModules:
      return TakeModules(payload);
    case ChunkKind::kAddresses:
      return TakeAddresses(payload);
    case ChunkKind::kCounters:
      return TakeCounters(payload);
    case ChunkKind::kThread:
      return TakeThread(payload);
    case ChunkKind::kRecords:
      return TakeRecords(payload);
    case ChunkKind::kActivities:
      return TakeActivities(payload, header.pass_ns);
    case ChunkKind::kThreadEnd:
      return TakeThreadEnd(payload);
    case ChunkKind::kEnd:
      return TakeEnd(payload, /*last=*/true);
    case ChunkKind::kStopped:
      return TakeEnd(payload, /*last=*/false);
    case ChunkKind::kSection:
      return TakeSection(payload);
    case ChunkKind::kGivenUp:
      return TakeGivenUp(payload);
  }
  return false;
}

bool SpoolReader::TakeFacts(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    std::string key;
    std::string value;
    if (!payload->Get(&key) || !payload->Get(&value)) return false;
    facts_[std::move(key)] = std::move(value);
  }
  return true;
}

bool SpoolReader::TakeNames(Payload* payload) {
  uint32_t table = 0;
  uint32_t count = 0;
  if (!payload->Get(&table) || !payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    std::string name;
    if (!payload->Get(&number) || !payload->Get(&name)) return false;
    names_[KeyOf(static_cast<NameTable>(table), number)] = std::move(name);
  }
  return true;
}

bool SpoolReader::TakeSites(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolSite site;
    if (!payload->Get(&number) || !payload->Get(&site.line) || !payload->Get(&site.file) ||
        !payload->Get(&site.function)) {
      return false;
    }
    sites_[number] = std::move(site);
  }
  return true;
}

// Whoever follows parents comes to an end: a number is there once, and its parent was there before. A parent that was
// in a chunk that is missing is not known, as where a stack was too deep.
bool SpoolReader::TakeStacks(Payload* payload) {
  const bool may_be_lost = end_.missing_chunks != 0;
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolStack stack;
    if (!payload->Get(&number) || !payload->Get(&stack.parent) || !payload->Get(&stack.site) ||
        number < kFirstSpoolStack) {
      return false;
    }
    const bool is_both = stack.site < kNativeSpoolSite && stack.site >= kBothSpoolStacks;
    // Numbers grow outwards to inwards: whoever goes from one to its parent comes to an end.
    if (stack.parent >= kFirstSpoolStack && stack.parent >= number) return false;
    if (is_both && stack.site - kBothSpoolStacks >= number) return false;
    if (is_both) {
      // Both of the two were there before, and are of one kind each. One alone would pass for all there is.
      if (!IsStackOf(stack.site - kBothSpoolStacks, /*native=*/false) || !IsStackOf(stack.parent, /*native=*/true)) {
        if (!may_be_lost) return false;
        continue;
      }
    } else if (stack.parent >= kFirstSpoolStack && stacks_.count(stack.parent) == 0) {
      if (!may_be_lost) return false;
      stack.parent = kCutSpoolStack;
    }
    // Once more at the beginning of a section: the first one stands.
    if (!stacks_.try_emplace(number, stack).second && !seen_section_) return false;
  }
  return true;
}

bool SpoolReader::IsStackOf(uint32_t stack, bool native) const {
  const SpoolStack* const frame = StackOf(stack);
  if (frame == nullptr) return false;
  return native ? frame->site >= kNativeSpoolSite : frame->site < kBothSpoolStacks;
}

bool SpoolReader::TakeModules(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolModule module;
    if (!payload->Get(&number) || !payload->Get(&module.start) || !payload->Get(&module.end) ||
        !payload->Get(&module.path) || !payload->Get(&module.build_id) || number == 0) {
      return false;
    }
    modules_[number] = std::move(module);
  }
  return true;
}

bool SpoolReader::TakeAddresses(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolAddress address;
    if (!payload->Get(&number) || !payload->Get(&address.module) || !payload->Get(&address.offset)) return false;
    // In a module that is lost, an offset would pass for an address of the process.
    if (end_.missing_chunks != 0 && address.module != 0 && modules_.count(address.module) == 0) continue;
    addresses_[number] = address;
  }
  return true;
}

bool SpoolReader::TakeCounters(Payload* payload) {
  uint32_t table = 0;
  uint32_t count = 0;
  if (!payload->Get(&table) || !payload->Get(&count) || payload->left() / sizeof(CountersEntry) < count) return false;
  std::vector<CountersEntry> entries(count);
  for (CountersEntry& entry : entries) payload->Get(&entry);
  return counters_.emplace(table, std::move(entries)).second;
}

bool SpoolReader::TakeThread(Payload* payload) {
  uint32_t number = 0;
  SpoolThread thread;
  if (!payload->Get(&number) || !payload->Get(&thread.id) || !payload->Get(&thread.name) || number == 0) return false;
  // How many records came before: those of older files, and of what was given up, are not missing.
  uint64_t before = 0;
  const bool has_before = payload->Get(&before);
  // One that made nothing in the section behind the gap is told of in a later one. What it made before is in the gap,
  // unless it is in a part that is damaged.
  const bool is_first = seen_gap_ && threads_.count(number) == 0 && end_.missing_chunks == 0;
  if (has_before && (in_section_behind_gap_ || is_first)) {
    Progress& progress = progress_[number];
    // A thread that was read before the gap has one in its records.
    if (progress.next != 0 && before > progress.next) progress.missing += before - progress.next;
    progress.next = std::max(progress.next, before);
  }
  const auto [known, is_new] = threads_.try_emplace(number, thread);
  if (is_new) return true;
  if ((known->second.id & kLostThread) != 0) {
    known->second.id = thread.id;
    known->second.name = std::move(thread.name);
  }
  return seen_section_;
}

bool SpoolReader::TakeSection(Payload* payload) {
  SpoolSection section;
  if (!payload->Get(&section)) return false;
  seen_section_ = true;
  if (!in_section_behind_gap_) return true;
  const uint64_t accounted = read_records_ + end_.missing_records + end_.given_up_records + gap_.records;
  gap_.records += section.records > accounted ? section.records - accounted : 0;
  end_.kept_from_ns = section.made_ns;
  Progress& own = progress_[0];
  if (own.next != 0 && section.own_records > own.next) own.missing += section.own_records - own.next;
  own.next = std::max(own.next, section.own_records);
  SettleGap(/*is_last=*/false);
  return true;
}

bool SpoolReader::TakeGivenUp(Payload* payload) {
  GivenUp given_up;
  if (!payload->Get(&given_up)) return false;
  given_up_before_ = std::max(given_up_before_, given_up.before_chunk);
  SettleGap(/*is_last=*/false);
  return true;
}

// What a chunk has spoken of was given up. If none does up to the end, it is damage.
void SpoolReader::SettleGap(bool is_last) {
  if (gap_.chunks == 0) return;
  if (given_up_before_ >= gap_.section) {
    end_.given_up_chunks += gap_.chunks;
    end_.given_up_bytes += gap_.bytes;
    end_.given_up_records += gap_.records;
  } else if (is_last) {
    end_.missing_chunks += gap_.chunks;
    end_.damaged_bytes += gap_.bytes;
    end_.missing_records += gap_.records;
    if (end_.given_up_chunks == 0) end_.kept_from_ns = 0;
  } else {
    return;
  }
  gap_ = {};
}

// The end of threads_: there is none. Whose own chunk may be missing is made up.
std::map<uint32_t, SpoolThread>::iterator SpoolReader::ThreadOf(uint32_t number) {
  const auto known = threads_.find(number);
  if (known != threads_.end() || number == 0 || end_.missing_chunks == 0) return known;
  SpoolThread lost;
  lost.id = kLostThread | (number & (kLostThread - 1));
  return threads_.emplace(number, std::move(lost)).first;
}

// Of records and of activities.
bool SpoolReader::GetHead(Payload* payload, size_t least_bytes, RecordsHead* head) {
  return payload->Get(head) && head->record_bytes >= least_bytes && head->count != 0 &&
         payload->left() / head->record_bytes >= head->count;
}

// Where they stand among those of their thread. False: before one that was read already.
bool SpoolReader::GoOn(const RecordsHead& head) {
  Progress& progress = progress_[head.thread];
  if (head.first < progress.next) return false;
  end_.missing_records += head.first - progress.next;
  progress.missing += head.first - progress.next;
  progress.next = head.first + head.count;
  read_records_ += head.count;
  return true;
}

void SpoolReader::Enqueue(Waiting* waiting, uint64_t key_ns) {
  Progress& progress = progress_[waiting->thread];
  if (progress.missing != 0) {
    waiting->missing = std::exchange(progress.missing, 0);
    waiting->missing_from_ns = progress.key;
  }
  progress.key = std::max(progress.key, key_ns);
  waiting->key = progress.key;
  waiting_.push_back(*waiting);
}

bool SpoolReader::TakeRecords(Payload* payload) {
  RecordsHead head;
  if (!GetHead(payload, sizeof(TraceRecord), &head)) return false;
  const auto thread = ThreadOf(head.thread);
  if (thread == threads_.end() && head.thread != 0) return false;
  if (!GoOn(head)) return false;
  if (head.version != kRecordVersion) {
    end_.skipped_records += head.count;
    return true;
  }
  const uint32_t id = thread != threads_.end() ? thread->second.id : 0;
  for (uint32_t i = 0; i < head.count; ++i) {
    Waiting waiting;
    waiting.thread = head.thread;
    waiting.tid = id;
    waiting.number = head.first + i;
    TraceRecord& record = waiting.record;
    payload->Get(&record);
    payload->Skip(head.record_bytes - sizeof(TraceRecord));
    const auto kind = static_cast<uint8_t>(record.kind);
    if (kind == 0 || kind > kLastRecordKind) {
      ++end_.skipped_records;
      continue;
    }
    if (record.kind == RecordKind::kDrop) {
      uint64_t& dropped = thread != threads_.end() ? thread->second.dropped : dropped_without_ring_;
      const uint64_t before = dropped;
      dropped = std::max(dropped, DroppedUpTo(record));
      end_.dropped += dropped - before;
    }
    if (thread != threads_.end()) ++thread->second.records;
    Enqueue(&waiting, record.end_ns);
  }
  return true;
}

// What a device did is told long after it happened: it comes in the order in which it was written, by the time of that.
bool SpoolReader::TakeActivities(Payload* payload, uint64_t pass_ns) {
  RecordsHead head;
  if (!GetHead(payload, sizeof(ActivityRecord), &head) || head.thread != 0 || !GoOn(head)) return false;
  if (head.version != kActivityVersion) {
    end_.skipped_records += head.count;
    return true;
  }
  for (uint32_t i = 0; i < head.count; ++i) {
    ActivityRecord activity;
    payload->Get(&activity);
    payload->Skip(head.record_bytes - sizeof(ActivityRecord));
    const auto kind = static_cast<uint8_t>(activity.kind);
    if (kind == 0 || kind > kLastActivityKind) {
      ++end_.skipped_records;
      continue;
    }
    activities_.push_back(activity);
    Waiting waiting;
    waiting.record = {.start_ns = activity.start_ns, .end_ns = activity.end_ns, .kind = RecordKind::kActivity};
    waiting.number = head.first + i;
    Enqueue(&waiting, pass_ns);
  }
  return true;
}

bool SpoolReader::TakeThreadEnd(Payload* payload) {
  ThreadEnd end;
  if (!payload->Get(&end)) return false;
  const auto thread = ThreadOf(end.thread);
  if (thread == threads_.end() || thread->second.ended) return false;
  thread->second.ended = true;
  if (end.dropped > thread->second.dropped) {
    end_.dropped += end.dropped - thread->second.dropped;
    thread->second.dropped = end.dropped;
  }
  const uint64_t read = progress_[end.thread].next;
  if (end.records > read) end_.missing_records += end.records - read;
  return true;
}

// Behind the one that is not the last nothing more comes but that: a file may end there.
bool SpoolReader::TakeEnd(Payload* payload, bool last) {
  SpoolEnd end;
  const bool knows_later = last && payload->left() >= sizeof(end);
  if (!payload->GetSome(&end, kLeastEndPayload)) return false;
  end_.complete = true;
  seen_stop_ = true;
  seen_end_ = last;
  end_.later_calls = knows_later ? end.later_calls : 0;
  end_.later_calls_known = knows_later;
  end_.reason = static_cast<EndReason>(end.reason);
  end_.error = end.error;
  end_.dropped = std::max(end_.dropped, end.dropped);
  // Of threads behind whose last chunk nothing says how many records they made.
  if (end_.missing_chunks != 0 && end.records > read_records_) {
    end_.missing_records = std::max(end_.missing_records, end.records - read_records_);
  }
  return true;
}

}  // namespace slipstream::tracer
